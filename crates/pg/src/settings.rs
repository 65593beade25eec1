//! Settings of a session for `show` and `set` (PostgreSQL's manual, chapter "Server
//! Configuration").

use std::time::Duration;

use crate::error::PgError;

/// Settings reported to clients at the start and when they change.
const REPORTED: [&str; 11] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "server_encoding",
    "server_version",
    "standard_conforming_strings",
    "TimeZone",
];

/// Settings that cannot change; setting them to their own value is accepted.
const FIXED: [(&str, &str); 16] = [
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("default_transaction_read_only", "on"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("IntervalStyle", "postgres"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("max_identifier_length", "63"),
    ("server_encoding", "UTF8"),
    ("server_version", concat!("15.0 (weir ", env!("CARGO_PKG_VERSION"), ")")),
    ("server_version_num", "150000"),
    ("standard_conforming_strings", "on"),
    ("TimeZone", "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "on"),
];

/// Settings that clients may change without effect here, with their defaults.
const FREE: [(&str, &str); 14] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_min_messages", "notice"),
    ("default_transaction_isolation", "read committed"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("jit", "off"),
    ("lock_timeout", "0"),
    ("row_security", "on"),
    ("search_path", "public"),
    ("session_authorization", "weir"),
    ("statement_timeout", "0"),
    ("synchronize_seqscans", "on"),
];

/// A setting and its value.
pub(crate) struct Setting<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
}

/// Settings that a session has changed.
#[derive(Default)]
pub(crate) struct SessionSettings(Vec<(&'static str, String)>);

impl SessionSettings {
    /// Returns a setting's name in its own spelling, and its value.
    ///
    /// # Errors
    /// `42704` for an unknown name.
    pub(crate) fn get(&self, name: &str) -> Result<(&'static str, &str), PgError> {
        if let Some((own, value)) = self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)) {
            return Ok((own, value));
        }
        let known = FIXED.iter().chain(&FREE).find(|(own, _)| own.eq_ignore_ascii_case(name));
        known.copied().ok_or_else(|| PgError::new("42704", format!("unknown setting `{name}`")))
    }

    /// Changes a setting. Returns its name if the change must be reported.
    ///
    /// # Errors
    /// `42704` for an unknown name, `0A000` for a setting that cannot change.
    pub(crate) fn set(&mut self, setting: &Setting<'_>) -> Result<Option<&'static str>, PgError> {
        let Setting { name, value } = *setting;
        let (own, now) = self.get(name)?;
        if FIXED.iter().any(|(fixed, _)| *fixed == own) {
            return if is_harmless(&Setting { name: own, value: now }, value) {
                Ok(None)
            } else {
                Err(PgError::unsupported(format!(
                    "cannot set `{own}` to `{value}`: it is always `{now}`"
                )))
            };
        }
        self.0.retain(|(set, _)| *set != own);
        self.0.push((own, value.to_owned()));
        Ok(REPORTED.contains(&own).then_some(own))
    }

    /// Restores all defaults.
    pub(crate) fn reset(&mut self) {
        self.0.clear();
    }

    /// All settings that are reported to clients.
    pub(crate) fn reported(&self) -> Vec<(&'static str, String)> {
        let values = REPORTED.iter().map(|name| self.get(name).map_or("", |(_, value)| value));
        REPORTED.into_iter().zip(values.map(str::to_owned)).collect()
    }

    /// The client's `statement_timeout`.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.duration("statement_timeout")
    }

    /// The client's `idle_session_timeout`.
    pub(crate) fn idle_session_timeout(&self) -> Option<Duration> {
        self.duration("idle_session_timeout")
    }

    /// A duration in milliseconds or with a unit; `None` for 0.
    fn duration(&self, name: &str) -> Option<Duration> {
        let (_, text) = self.get(name).ok()?;
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().ok()?;
        let millis = match text[digits..].trim() {
            "s" => number.saturating_mul(1000),
            "min" => number.saturating_mul(60_000),
            "h" => number.saturating_mul(3_600_000),
            "d" => number.saturating_mul(86_400_000),
            _ => number,
        };
        (millis > 0).then(|| Duration::from_millis(millis))
    }
}

/// Whether a fixed setting may be "set" to `value`: times always have an offset and dates ISO's
/// order, but a client that wants another encoding, or to write, must get an error.
fn is_harmless(current: &Setting<'_>, value: &str) -> bool {
    match current.name {
        "TimeZone" | "transaction_isolation" => true,
        "DateStyle" => plain(value).starts_with("iso"),
        "client_encoding" => ["utf8", "unicode"].contains(&plain(value).as_str()),
        _ => {
            plain(current.value) == plain(value)
                || (current.value == "on" && plain(value) == "true")
        }
    }
}

fn plain(text: &str) -> String {
    text.replace(['-', ' '], "").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(
        settings: &mut SessionSettings,
        [name, value]: [&str; 2],
    ) -> Result<Option<&'static str>, PgError> {
        settings.set(&Setting { name, value })
    }

    #[test]
    fn settings_are_changed_refused_and_reset() {
        let mut settings = SessionSettings::default();
        assert_eq!(set(&mut settings, ["APPLICATION_NAME", "psql"]), Ok(Some("application_name")));
        assert_eq!(settings.get("application_name"), Ok(("application_name", "psql")));
        assert_eq!(set(&mut settings, ["client_encoding", "UTF-8"]), Ok(None));
        assert_eq!(
            set(&mut settings, ["client_encoding", "LATIN1"]).expect_err("no").state,
            "0A000"
        );
        assert_eq!(
            set(&mut settings, ["standard_conforming_strings", "off"]).expect_err("no").state,
            "0A000"
        );
        assert_eq!(set(&mut settings, ["no_such", "1"]).expect_err("no").state, "42704");
        set(&mut settings, ["statement_timeout", "2s"]).expect("it is one");
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(2)));
        settings.reset();
        assert_eq!(settings.statement_timeout(), None);
    }
}
