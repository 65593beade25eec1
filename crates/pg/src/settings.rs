//! Settings of a session, as `show` shows and `set` changes them (PostgreSQL's manual, chapter "Server Configuration").

use std::time::Duration;

use crate::refusal::Refusal;

/// Told to every client at its start, and again when they change.
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

/// Cannot be anything else here; setting them to what they are is fine.
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

/// What clients set and nothing here depends on, with what it is at first.
const FREE: [(&str, &str); 13] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_min_messages", "notice"),
    ("default_transaction_isolation", "read committed"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("jit", "off"),
    ("lock_timeout", "0"),
    ("row_security", "on"),
    ("search_path", "public"),
    ("session_authorization", "weir"),
    ("statement_timeout", "0"),
    ("synchronize_seqscans", "on"),
];

/// What one session has set.
#[derive(Default)]
pub(crate) struct Settings(Vec<(&'static str, String)>);

impl Settings {
    /// Name as it is spelled, and value.
    ///
    /// # Errors
    /// `42704` for a name that is none.
    pub(crate) fn get(&self, name: &str) -> Result<(&'static str, &str), Refusal> {
        if let Some((own, value)) = self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)) {
            return Ok((own, value));
        }
        let known = FIXED.iter().chain(&FREE).find(|(own, _)| own.eq_ignore_ascii_case(name));
        known.copied().ok_or_else(|| Refusal::new("42704", format!("there is no setting `{name}`")))
    }

    /// Sets a value; gives the name when clients are told of it.
    ///
    /// # Errors
    /// `42704` for a name that is none, `0A000` for what cannot be changed.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<Option<&'static str>, Refusal> {
        let (own, now) = self.get(name)?;
        if FIXED.iter().any(|(fixed, _)| *fixed == own) {
            return if is_harmless(own, now, value) {
                Ok(None)
            } else {
                Err(Refusal::unsupported(format!(
                    "cannot set `{own}` to `{value}`: it is always `{now}`"
                )))
            };
        }
        self.0.retain(|(set, _)| *set != own);
        self.0.push((own, value.to_owned()));
        Ok(REPORTED.contains(&own).then_some(own))
    }

    /// Everything as it was at first.
    pub(crate) fn reset(&mut self) {
        self.0.clear();
    }

    /// All settings that clients are told of.
    pub(crate) fn reported(&self) -> Vec<(&'static str, String)> {
        let one = |name: &&'static str| {
            self.get(name).map_or((*name, String::new()), |(own, value)| (own, value.to_owned()))
        };
        REPORTED.iter().map(one).collect()
    }

    /// How long a statement may take, if the client has said so: milliseconds, or with a unit.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        let (_, text) = self.get("statement_timeout").ok()?;
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().ok()?;
        let millis = match text[digits..].trim() {
            "s" => number.saturating_mul(1000),
            "min" => number.saturating_mul(60_000),
            _ => number,
        };
        (millis > 0).then(|| Duration::from_millis(millis))
    }
}

/// Times are sent with their offset and dates in ISO's order whatever a client would like; who asks for another encoding
/// or for writing must know that it is not to be had.
fn is_harmless(name: &str, now: &str, value: &str) -> bool {
    let plain = |text: &str| text.replace(['-', ' '], "").to_lowercase();
    match name {
        "TimeZone" | "transaction_isolation" => true,
        "DateStyle" => plain(value).starts_with("iso"),
        "client_encoding" => ["utf8", "unicode"].contains(&plain(value).as_str()),
        _ => plain(now) == plain(value) || (now == "on" && plain(value) == "true"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_changed_refused_and_reset() {
        let mut settings = Settings::default();
        assert_eq!(settings.set("APPLICATION_NAME", "psql"), Ok(Some("application_name")));
        assert_eq!(settings.get("application_name"), Ok(("application_name", "psql")));
        assert_eq!(settings.set("client_encoding", "UTF-8"), Ok(None));
        assert_eq!(settings.set("client_encoding", "LATIN1").expect_err("no").state, "0A000");
        assert_eq!(
            settings.set("standard_conforming_strings", "off").expect_err("no").state,
            "0A000"
        );
        assert_eq!(settings.set("no_such", "1").expect_err("no").state, "42704");
        settings.set("statement_timeout", "2s").expect("it is one");
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(2)));
        settings.reset();
        assert_eq!(settings.statement_timeout(), None);
    }
}
