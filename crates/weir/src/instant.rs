//! Instants as people write them on the command line: `2026-11-21T14:00:00Z`, `2026-11-21 14:00`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// In UTC unless it says otherwise; a date alone is its midnight. `None` when it is no instant.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let utc = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
    text.parse().ok().or_else(|| utc().map(|zoned| zoned.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_utc_unless_they_say_otherwise() {
        for (text, expected) in [
            ("2026-11-21T14:00:00Z", "2026-11-21T14:00:00Z"),
            ("2026-11-21 14:00+02:00", "2026-11-21T12:00:00Z"),
            ("2026-11-21 14:00:00.5", "2026-11-21T14:00:00.5Z"),
            ("2026-11-21T14:00", "2026-11-21T14:00:00Z"),
            ("2026-11-21", "2026-11-21T00:00:00Z"),
        ] {
            assert_eq!(parse(text).map(|at| at.to_string()).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["", "yesterday", "14:00", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
