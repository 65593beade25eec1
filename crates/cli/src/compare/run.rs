//! `weir compare`: asks the running weir, and prints what may be compared and what may not.

use serde_json::{Value, json};
use weir_hub::compare::FEW_VALUES;
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::{Paint, say, say_json};
use weir_process::time_args::parse_instant;
use weir_tables::parse_whole_seconds;

use crate::show::aligned;

use super::args::{CompareArgs, CompareFormat};

/// Exit code when none of the requested times could be compared.
const EXIT_REFUSED: u8 = 3;

/// Runs the command.
pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (a, b) = sides(args)?;
    let body = json!({"a": a, "b": b, "measure": args.measure});
    let answer = args.weir.client()?.post_json("/api/compare", &body)?;
    match args.format {
        CompareFormat::Json => say_json(&answer.to_string()),
        CompareFormat::Table => say(&told(&answer, Paint::for_stdout())),
    }
    if list(&answer, "compared").is_empty() {
        let offered = list(&answer, "offered");
        let hint = match offered.last() {
            Some(one) => format!("--measure {}", word(one, "measure")),
            None => "compare what a beacon of the visitors measured (docs/edge.md), or a probe from outside".to_owned(),
        };
        return Err(Failure::new("cannot compare: the two were measured at different places")
            .hint(hint)
            .code(EXIT_REFUSED));
    }
    Ok(())
}

/// The two conditions.
fn sides(args: &CompareArgs) -> Result<(String, String), Failure> {
    let both = |first: String, second: String| {
        let within = |side: String| match &args.r#where {
            Some(condition) => format!("({side}\n) and ({condition}\n)"),
            None => side,
        };
        Ok((within(first), within(second)))
    };
    match (&args.around, args.sides.as_slice()) {
        (Some(time), []) => {
            let Ok(span) = parse_whole_seconds(&args.r#for) else {
                return usage(&format!("`{}` is not a duration such as 30m", args.r#for));
            };
            let Some(time) = sql_instant(time) else {
                return usage(&format!(
                    "`{time}` is not a time: write it as 2026-11-21T14:00:00Z, or as 20m for 20 minutes ago"
                ));
            };
            both(
                format!("ts >= {time} - interval '{span} seconds' and ts < {time}"),
                format!("ts >= {time} and ts < {time} + interval '{span} seconds'"),
            )
        }
        (None, [a, b]) => both(a.clone(), b.clone()),
        (Some(_), _) => usage("--around replaces A and B"),
        (None, _) => usage("two conditions are needed, or --around TIME"),
    }
}

fn usage<T>(what: &str) -> Result<T, Failure> {
    Err(Failure::new(format!("cannot compare: {what}"))
            .hint("weir compare --around 2026-11-21T14:00:00Z --for 1h, or weir compare \"host = 'web1'\" \"host = 'web2'\"")
            .code(EXIT_USAGE))
}

/// An instant in SQL: of a time as people write it, or of a span for so long ago.
fn sql_instant(text: &str) -> Option<String> {
    if let Ok(span) = parse_whole_seconds(text) {
        return Some(format!("(now() - interval '{span} seconds')"));
    }
    parse_instant(text).map(|time| format!("timestamp '{time}'"))
}

fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn told(answer: &Value, paint: Paint) -> String {
    let mut parts = Vec::new();
    for (name, head) in
        [("compared", "Measured at the same place:"), ("offered", "These can be compared instead:")]
    {
        let rows = list(answer, name);
        if !rows.is_empty() {
            parts.push((name, format!("{}\n{}", paint.bold(head), table(rows, paint))));
        }
    }
    let refusals = list(answer, "refused").iter().map(|refused| {
        format!(
            "{} of {}: {}",
            paint.bold("Not compared"),
            word(refused, "measure"),
            word(refused, "why")
        )
    });
    let refusals: Vec<String> = refusals.collect();
    let at = parts.iter().position(|(name, _)| *name == "offered").unwrap_or(parts.len());
    if !refusals.is_empty() {
        parts.insert(at, ("refused", refusals.join("\n")));
    }
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n\n")
}

fn table(rows: &[Value], paint: Paint) -> String {
    let head = ["tier", "measure", "", "A", "B", "change", "requests"].map(str::to_owned);
    let mut cells = vec![head];
    for row in rows {
        let (a, b) = (&row["a"], &row["b"]);
        for (at, quantile) in ["p50", "p95", "p99"].iter().enumerate() {
            let seconds = |side: &Value| side[format!("{quantile}_seconds")].as_f64();
            let few = if count(a).min(count(b)) < FEW_VALUES { " (few)" } else { "" };
            let first = |text: String| if at == 0 { text } else { String::new() };
            cells.push([
                first(word(row, "tier").to_owned()),
                first(word(row, "measure").to_owned()),
                (*quantile).to_owned(),
                shown(seconds(a)),
                shown(seconds(b)),
                change(seconds(a), seconds(b)),
                first(format!("{} and {}{few}", count(a), count(b))),
            ]);
        }
    }
    let rows = cells.iter().map(|row| row.each_ref().map(String::as_str));
    let text = aligned(rows, paint);
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn count(side: &Value) -> u64 {
    side["values"].as_u64().unwrap_or_default()
}

fn shown(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "–".to_owned(), |seconds| format!("{:.1} ms", seconds * 1e3))
}

fn change(a: Option<f64>, b: Option<f64>) -> String {
    match (a, b) {
        (Some(a), Some(b)) if a > 0.0 => format!("{:+.0} %", (b / a - 1.0) * 100.0),
        _ => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;
    use weir_process::terminal::Paint;

    use super::told;

    #[test]
    fn what_is_comparable_comes_first_and_then_why_the_rest_is_not() {
        let times = |p50: f64, values: u64| json!({"values": values, "p50_seconds": p50, "p95_seconds": 2.0 * p50, "p99_seconds": 0.0});
        let row = |tier: &str, measure: &str, a: f64, b: f64| json!({"tier": tier, "measure": measure, "a": times(a, 900), "b": times(b, 12)});
        let answer = json!({
            "compared": [row("client", "duration_seconds", 0.27, 0.212)],
            "refused": [{"measure": "duration_seconds", "why": "A is here; B is there"}],
            "offered": [row("proxy", "upstream_header_seconds", 0.02, 0.02)],
        });
        expect![[r#"
            Measured at the same place:
            tier    measure                A         B         change  requests
            client  duration_seconds  p50  270.0 ms  212.0 ms  -21 %   900 and 12 (few)
                                      p95  540.0 ms  424.0 ms  -21 %
                                      p99  0.0 ms    0.0 ms    –

            Not compared of duration_seconds: A is here; B is there

            These can be compared instead:
            tier   measure                       A        B        change  requests
            proxy  upstream_header_seconds  p50  20.0 ms  20.0 ms  +0 %    900 and 12 (few)
                                            p95  40.0 ms  40.0 ms  +0 %
                                            p99  0.0 ms   0.0 ms   –"#]]
        .assert_eq(&told(&answer, Paint::off()));
    }
}
