//! What an application says of itself when it is asked for its health: a digest of all its own checks.
//!
//! ```json
//! {"ok": false, "checks": [{"name": "stock feed", "ok": false, "value": 3, "threshold": 50, "age": 12}]}
//! ```
//!
//! `ok` (or `status`, as draft-inadarei-api-health-check and Spring's Actuator have it) decides; without it, each of the checks
//! does. What is no such object says nothing: the status of the answer is all there is.

use serde_json::{Map, Value};

/// Whether a digest says that all is well; if not, what it says.
pub(crate) fn judge(body: &[u8]) -> Result<(), String> {
    let Ok(Value::Object(digest)) = serde_json::from_slice(body) else { return Ok(()) };
    let checks = digest.get("checks").and_then(Value::as_array);
    let bad = checks.into_iter().flatten().filter_map(Value::as_object);
    let bad: Vec<String> =
        bad.filter(|check| is_well(check) == Some(false)).map(describe).collect();
    if is_well(&digest).unwrap_or(bad.is_empty()) {
        return Ok(());
    }
    let named = if bad.is_empty() { String::new() } else { format!(": {}", bad.join(", ")) };
    Err(format!("its digest says that it is not well{named}"))
}

fn is_well(object: &Map<String, Value>) -> Option<bool> {
    if let Some(ok) = object.get("ok").and_then(Value::as_bool) {
        return Some(ok);
    }
    let status = object.get("status").and_then(Value::as_str)?.to_ascii_lowercase();
    Some(!["fail", "error", "down", "out_of_service", "unhealthy"].contains(&status.as_str()))
}

/// `stock feed (3, threshold 50)`
fn describe(check: &Map<String, Value>) -> String {
    let name = check.get("name").and_then(Value::as_str).unwrap_or("a check without a name");
    match (check.get("value"), check.get("threshold")) {
        (Some(value), Some(threshold)) => format!("{name} ({value}, threshold {threshold})"),
        (Some(value), None) => format!("{name} ({value})"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::judge;

    #[test]
    fn a_digest_decides_and_anything_else_says_nothing() {
        for well in [
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
            assert_eq!(judge(well.as_bytes()), Ok(()), "{well}");
        }
        let why = |digest: &str| judge(digest.as_bytes()).unwrap_err();
        expect!["its digest says that it is not well"].assert_eq(&why(r#"{"status": "DOWN"}"#));
        let feed = r#"{"checks": [{"name": "feed", "ok": false, "value": 3, "threshold": 50},
            {"status": "fail"}, {"name": "disk", "ok": true}]}"#;
        expect![
            "its digest says that it is not well: feed (3, threshold 50), a check without a name"
        ]
        .assert_eq(&why(feed));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        arbtest::arbtest(|u| {
            let _verdict = judge(u.arbitrary::<&[u8]>()?);
            Ok(())
        });
    }
}
