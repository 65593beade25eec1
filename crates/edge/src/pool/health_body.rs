//! The body of a health response: JSON that summarizes an application's own checks.
//!
//! ```json
//! {"ok": false, "checks": [{"name": "stock feed", "ok": false, "value": 3, "threshold": 50}]}
//! ```
//!
//! `ok` (or `status`, as in draft-inadarei-api-health-check and Spring's Actuator) decides; without
//! it, the single checks do. Any other body is ignored, and only the HTTP status counts.

use serde_json::{Map, Value};

/// Evaluates a body; the error names the failed checks.
pub(crate) fn check(body: &[u8]) -> Result<(), String> {
    let Ok(Value::Object(summary)) = serde_json::from_slice(body) else { return Ok(()) };
    let checks = summary.get("checks").and_then(Value::as_array);
    let checks = checks.into_iter().flatten().filter_map(Value::as_object);
    let failed: Vec<String> =
        checks.filter(|check| is_healthy(check) == Some(false)).map(describe).collect();
    if is_healthy(&summary).unwrap_or(failed.is_empty()) {
        return Ok(());
    }
    let named = if failed.is_empty() { String::new() } else { format!(": {}", failed.join(", ")) };
    Err(format!("its health response reports a failure{named}"))
}

fn is_healthy(object: &Map<String, Value>) -> Option<bool> {
    if let Some(ok) = object.get("ok").and_then(Value::as_bool) {
        return Some(ok);
    }
    let status = object.get("status").and_then(Value::as_str)?.to_ascii_lowercase();
    Some(!["fail", "error", "down", "out_of_service", "unhealthy"].contains(&status.as_str()))
}

/// `stock feed (3, threshold 50)`
fn describe(check: &Map<String, Value>) -> String {
    let name = check.get("name").and_then(Value::as_str).unwrap_or("an unnamed check");
    match (check.get("value"), check.get("threshold")) {
        (Some(value), Some(threshold)) => format!("{name} ({value}, threshold {threshold})"),
        (Some(value), None) => format!("{name} ({value})"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::check;

    fn failure(body: &str) -> String {
        check(body.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_summary_decides_and_any_other_body_is_ignored() {
        for healthy in [
            "",
            "OK",
            "[1]",
            "{}",
            r#"{"version": 3}"#,
            r#"{"ok": true, "checks": [{"name": "disk", "ok": false}]}"#,
            r#"{"status": "UP"}"#,
            r#"{"status": "warn"}"#,
            r#"{"checks": [{"name": "disk", "ok": true}, 7]}"#,
        ] {
            assert_eq!(check(healthy.as_bytes()), Ok(()), "{healthy}");
        }
        expect!["its health response reports a failure"]
            .assert_eq(&failure(r#"{"status": "DOWN"}"#));
        let feed = r#"{"checks": [{"name": "feed", "ok": false, "value": 3, "threshold": 50},
            {"status": "fail"}, {"name": "disk", "ok": true}]}"#;
        expect!["its health response reports a failure: feed (3, threshold 50), an unnamed check"]
            .assert_eq(&failure(feed));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        arbtest::arbtest(|u| {
            let _outcome = check(u.arbitrary::<&[u8]>()?);
            Ok(())
        });
    }
}
