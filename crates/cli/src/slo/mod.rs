//! `weir slo`: what is left of the error budgets of SLOs.

pub(crate) mod args;

use std::time::Duration;

use serde_json::Value;
use weir_process::failure::Failure;
use weir_process::terminal::{say, say_json};

use crate::incidents::args::ListFormat;
use crate::slo::args::SloAction;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the command.
pub(crate) fn run(action: &SloAction) -> Result<(), Failure> {
    let SloAction::List { format, weir } = action;
    let mut answer = weir.client()?.get_json("/api/slos", TIMEOUT)?;
    let slos = answer["slos"].take();
    if *format == ListFormat::Json {
        say_json(&serde_json::to_string_pretty(&slos).expect("SLOs become JSON"));
        return Ok(());
    }
    let slos = slos.as_array().map_or(&[][..], Vec::as_slice);
    if slos.is_empty() {
        say("no SLO is configured ([[slos]], docs/slo.md)");
    }
    for slo in slos {
        say(&text(slo));
    }
    Ok(())
}

/// Two lines about an SLO.
fn text(slo: &Value) -> String {
    let word = |name: &str| slo[name].as_str().unwrap_or_default();
    let number = |name: &str| slo[name].as_f64().unwrap_or_default();
    let left = slo["budget_left_ratio"]
        .as_f64()
        .map_or_else(|| "unknown".to_owned(), |left| format!("{:.1} %", left * 100.0));
    let mut text = format!(
        "{:<20}  {:<14}  {} % over {} d; budget left {left} ({} of {} failed)",
        word("name"),
        word("state").replace('_', " "),
        trimmed(number("objective_percent")),
        slo["window_days"],
        slo["failed"],
        slo["total"],
    );
    if !word("certainty").is_empty() {
        text += &format!("; {}", word("certainty"));
    }
    let burn = slo["burn"].as_array().map_or(&[][..], Vec::as_slice);
    let rates: Vec<String> = burn.iter().map(rate).collect();
    format!("{text}\n  burn rate: {}", rates.join(", "))
}

/// `5 min 14.4×`, with the interval where that is wide.
fn rate(window: &Value) -> String {
    let number = |name: &str| window[name].as_f64().unwrap_or_default();
    let (burn, low, high) = (number("burn"), number("low"), number("high"));
    let mut text = format!("{} {burn:.1}×", window["window"].as_str().unwrap_or_default());
    if window["total"].as_u64() == Some(0) {
        text += " (none)";
    } else if high - low > 1.0 && high > 1.5 * burn {
        text += &format!(" ({low:.1} to {high:.1})");
    }
    text
}

/// `99.9`, without the noise of the last digits.
fn trimmed(percent: f64) -> String {
    let text = format!("{percent:.7}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn list_has_budget_rates_and_how_sure_they_are() {
        let slo = json!({
            "name": "shop", "state": "burning_fast", "objective_percent": 99.9, "window_days": 30,
            "budget_left_ratio": -0.25, "failed": 120, "total": 900, "certainty": "only 900 requests",
            "burn": [
                {"window": "5 min", "total": 20, "burn": 50.0, "low": 8.9, "high": 236.1},
                {"window": "1 h", "total": 0, "burn": 0.0},
            ],
        });
        expect![[r"
            shop                  burning fast    99.9 % over 30 d; budget left -25.0 % (120 of 900 failed); only 900 requests
              burn rate: 5 min 50.0× (8.9 to 236.1), 1 h 0.0× (none)"]]
        .assert_eq(&text(&slo));
    }
}
