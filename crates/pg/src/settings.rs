//! Settings of a session for `show` and `set` (PostgreSQL's manual, chapter "Server
//! Configuration").
//!
//! Each setting has its effect, or none in PostgreSQL on a reader's answers, or it is refused.

use std::time::Duration;

use crate::error::PgError;
use crate::interval::IntervalStyle;
use crate::setting_values::{check_search_path, duration, shown_duration, time_zone};

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
const FIXED: [(&str, &str); 26] = [
    ("array_nulls", "on"),
    ("block_size", "8192"),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("default_transaction_read_only", "on"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("max_connections", "100"),
    ("max_function_args", "100"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("role", "none"),
    ("server_encoding", "UTF8"),
    ("server_version", concat!("15.0 (weir ", env!("CARGO_PKG_VERSION"), ")")),
    ("server_version_num", "150000"),
    ("session_authorization", "weir"),
    ("session_replication_role", "origin"),
    ("standard_conforming_strings", "on"),
    ("transform_null_equals", "off"),
];

/// Settings that clients may change, with their defaults.
const FREE: [(&str, &str); 80] = [
    ("application_name", ""),
    ("backslash_quote", "safe_encoding"),
    ("check_function_bodies", "on"),
    ("client_min_messages", "notice"),
    ("constraint_exclusion", "partition"),
    ("cpu_index_tuple_cost", "0.005"),
    ("cpu_operator_cost", "0.0025"),
    ("cpu_tuple_cost", "0.01"),
    ("cursor_tuple_fraction", "0.1"),
    ("default_statistics_target", "100"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("default_text_search_config", "pg_catalog.simple"),
    ("default_toast_compression", "pglz"),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "read committed"),
    ("effective_cache_size", "4GB"),
    ("effective_io_concurrency", "1"),
    ("enable_async_append", "on"),
    ("enable_bitmapscan", "on"),
    ("enable_gathermerge", "on"),
    ("enable_hashagg", "on"),
    ("enable_hashjoin", "on"),
    ("enable_incremental_sort", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_indexscan", "on"),
    ("enable_material", "on"),
    ("enable_memoize", "on"),
    ("enable_mergejoin", "on"),
    ("enable_nestloop", "on"),
    ("enable_parallel_append", "on"),
    ("enable_parallel_hash", "on"),
    ("enable_partition_pruning", "on"),
    ("enable_partitionwise_aggregate", "off"),
    ("enable_partitionwise_join", "off"),
    ("enable_seqscan", "on"),
    ("enable_sort", "on"),
    ("enable_tidscan", "on"),
    ("escape_string_warning", "on"),
    ("extra_float_digits", "1"),
    ("from_collapse_limit", "8"),
    ("geqo", "on"),
    ("geqo_effort", "5"),
    ("geqo_threshold", "12"),
    ("hash_mem_multiplier", "2"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("IntervalStyle", "postgres"),
    ("jit", "off"),
    ("jit_above_cost", "100000"),
    ("jit_inline_above_cost", "500000"),
    ("jit_optimize_above_cost", "500000"),
    ("join_collapse_limit", "8"),
    ("lock_timeout", "0"),
    ("maintenance_work_mem", "64MB"),
    ("max_parallel_workers", "8"),
    ("max_parallel_workers_per_gather", "2"),
    ("min_parallel_index_scan_size", "512kB"),
    ("min_parallel_table_scan_size", "8MB"),
    ("parallel_leader_participation", "on"),
    ("parallel_setup_cost", "1000"),
    ("parallel_tuple_cost", "0.1"),
    ("password_encryption", "scram-sha-256"),
    ("plan_cache_mode", "auto"),
    ("quote_all_identifiers", "off"),
    ("random_page_cost", "4"),
    ("row_security", "on"),
    ("search_path", "\"$user\", public"),
    ("seq_page_cost", "1"),
    ("statement_timeout", "0"),
    ("synchronize_seqscans", "on"),
    ("synchronous_commit", "on"),
    ("temp_buffers", "8MB"),
    ("temp_tablespaces", ""),
    ("TimeZone", "UTC"),
    ("transaction_isolation", "read committed"),
    // pgJDBC takes "on" for a standby and refuses it with `targetServerType=primary`. Writes are
    // refused in either case.
    ("transaction_read_only", "off"),
    ("work_mem", "4MB"),
    ("xmlbinary", "base64"),
    ("xmloption", "content"),
];

/// Settings of [`FREE`] that are durations.
const DURATIONS: [&str; 4] = [
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "statement_timeout",
];

/// A setting and its value.
pub(crate) struct Setting<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
}

/// How long a change lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingScope {
    Session,
    /// Up to the end of the transaction.
    Transaction,
}

/// Values that differ from the defaults.
type ChangedValues = Vec<(String, String)>;

/// Limit of all changed values: each savepoint keeps them.
const CHANGED_BYTES_MAX: usize = 16 << 10;

/// Settings that a session has changed.
#[derive(Clone, Default)]
pub(crate) struct SessionSettings {
    /// Values at the start of the session, to which `reset` returns.
    start: ChangedValues,
    session: ChangedValues,
    /// Values up to the end of the transaction.
    transaction: ChangedValues,
}

impl SessionSettings {
    /// Returns a setting's name in its own spelling, and its value.
    ///
    /// # Errors
    /// `42704` for an unknown name.
    pub(crate) fn get(&self, name: &str) -> Result<(&str, &str), PgError> {
        let changed = [&self.transaction, &self.session, &self.start].into_iter().flatten();
        let mut changed = changed.map(|(own, value)| (own.as_str(), value.as_str()));
        if let Some(found) = changed.find(|(own, _)| own.eq_ignore_ascii_case(name)) {
            return Ok(found);
        }
        let known = FIXED.iter().chain(&FREE).find(|(own, _)| own.eq_ignore_ascii_case(name));
        known.copied().ok_or_else(|| PgError::new("42704", format!("unknown setting `{name}`")))
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// `42704` for an unknown name, `0A000` for a setting that cannot change, `22023` for a value
    /// that is none.
    pub(crate) fn set(
        &mut self,
        setting: &Setting<'_>,
        scope: SettingScope,
    ) -> Result<(), PgError> {
        let (own, now) = match self.get(setting.name) {
            // Settings with a point in their name belong to applications.
            Err(_) if is_custom(setting.name) => (setting.name, ""),
            found => found?,
        };
        let setting = Setting { name: own, value: setting.value };
        if FIXED.iter().any(|(fixed, _)| *fixed == own) {
            let is_own_role = own == "role" && self.is_user(setting.value);
            if is_own_role || is_harmless(&Setting { name: own, value: now }, setting.value) {
                return Ok(());
            }
            let text = format!("cannot set `{own}` to `{}`: it is always `{now}`", setting.value);
            return Err(PgError::unsupported(text));
        }
        if setting.value.eq_ignore_ascii_case("default") {
            let own = own.to_owned();
            return self.reset(&own);
        }
        let (own, value) = (own.to_owned(), checked(&setting)?);
        if self.changed_bytes() + own.len() + value.len() > CHANGED_BYTES_MAX {
            let text = format!("changed settings exceed {} KiB", CHANGED_BYTES_MAX >> 10);
            return Err(PgError::new("54000", text).hint("send `reset all`"));
        }
        self.transaction.retain(|(set, _)| *set != own);
        let values = match scope {
            SettingScope::Session => &mut self.session,
            SettingScope::Transaction => &mut self.transaction,
        };
        values.retain(|(set, _)| *set != own);
        values.push((own, value));
        Ok(())
    }

    /// Whether a name is that of the user, or that of the owner of all tables.
    fn is_user(&self, name: &str) -> bool {
        let user = self.get("session_authorization").map_or("", |(_, user)| user);
        name == user || name == "weir"
    }

    /// Makes the present values those to which `reset` returns.
    pub(crate) fn begin_session(&mut self) {
        let changed = std::mem::take(&mut self.session);
        self.start.retain(|(own, _)| changed.iter().all(|(other, _)| other != own));
        self.start.extend(changed);
    }

    /// Value of a fixed setting that differs by session: the user's name.
    pub(crate) fn set_user(&mut self, user: &str) {
        self.start.push(("session_authorization".to_owned(), user.to_owned()));
    }

    /// Restores the value at the start of the session.
    ///
    /// # Errors
    /// `42704` for an unknown name.
    pub(crate) fn reset(&mut self, name: &str) -> Result<(), PgError> {
        let own = match self.get(name) {
            Err(_) if is_custom(name) => return Ok(()),
            found => found?.0.to_owned(),
        };
        self.session.retain(|(set, _)| *set != own);
        self.transaction.retain(|(set, _)| *set != own);
        Ok(())
    }

    /// Restores all values at the start of the session.
    pub(crate) fn reset_all(&mut self) {
        self.session.clear();
        self.transaction.clear();
    }

    /// Ends the transaction: its own values are dropped.
    pub(crate) fn commit(&mut self) {
        self.transaction.clear();
    }

    /// All settings that are reported to clients.
    pub(crate) fn reported(&self) -> Vec<(&'static str, String)> {
        let values = REPORTED.iter().map(|name| self.get(name).map_or("", |(_, value)| value));
        REPORTED.into_iter().zip(values.map(str::to_owned)).collect()
    }

    /// All settings with their values, by name.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let known = FIXED.iter().chain(&FREE).map(|(name, _)| *name);
        let changed = [&self.transaction, &self.session, &self.start].into_iter().flatten();
        let custom = changed.map(|(name, _)| name.as_str()).filter(|name| is_custom(name));
        let mut all: Vec<_> = known.chain(custom).filter_map(|name| self.get(name).ok()).collect();
        all.sort_by_key(|(name, _)| name.to_ascii_lowercase());
        all.dedup();
        all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn changed_bytes(&self) -> usize {
        let changed = [&self.transaction, &self.session].into_iter().flatten();
        changed.map(|(name, value)| name.len() + value.len()).sum()
    }

    /// The client's `statement_timeout`.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.duration("statement_timeout")
    }

    /// The client's `idle_session_timeout`.
    pub(crate) fn idle_session_timeout(&self) -> Option<Duration> {
        self.duration("idle_session_timeout")
    }

    /// The client's `idle_in_transaction_session_timeout`.
    pub(crate) fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        self.duration("idle_in_transaction_session_timeout")
    }

    /// How the client reads intervals.
    pub(crate) fn interval_style(&self) -> IntervalStyle {
        match self.get("IntervalStyle") {
            Ok((_, "iso_8601")) => IntervalStyle::Iso8601,
            _ => IntervalStyle::Postgres,
        }
    }

    /// A duration; `None` for 0.
    fn duration(&self, name: &str) -> Option<Duration> {
        let (_, text) = self.get(name).ok()?;
        duration(text).filter(|duration| !duration.is_zero())
    }
}

/// Whether a name is `application.setting`.
fn is_custom(name: &str) -> bool {
    name.len() < 64 && name.contains('.') && name.split('.').all(is_word)
}

fn is_word(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The value as it is kept, if the setting can have it.
fn checked(setting: &Setting<'_>) -> Result<String, PgError> {
    let Setting { name, value } = *setting;
    if DURATIONS.contains(&name) {
        let parsed = duration(value).ok_or_else(|| {
            let text = format!("cannot set `{name}` to `{value}`: not a duration");
            PgError::new("22023", text).hint("units are us, ms, s, min, h and d")
        })?;
        return Ok(shown_duration(parsed));
    }
    match name {
        "TimeZone" if value.eq_ignore_ascii_case("local") => Ok("UTC".to_owned()),
        "TimeZone" => time_zone(value),
        "IntervalStyle" => match value.to_lowercase().as_str() {
            style @ ("postgres" | "iso_8601") => Ok(style.to_owned()),
            other => Err(PgError::unsupported(format!(
                "cannot set `IntervalStyle` to `{other}`: it is `postgres` or `iso_8601`"
            ))),
        },
        "search_path" => check_search_path(value).map(|()| value.to_owned()),
        "transaction_isolation" | "default_transaction_isolation" => {
            let levels = ["serializable", "repeatable read", "read committed", "read uncommitted"];
            let level = value.to_lowercase();
            if levels.contains(&level.as_str()) {
                return Ok(level);
            }
            Err(PgError::new("22023", format!("cannot set `{name}` to `{value}`: no such level")))
        }
        _ => Ok(value.to_owned()),
    }
}

/// Whether a fixed setting may be "set" to `value`: dates always have ISO's order, but a client that
/// asks for another encoding, or for writing, must get an error.
fn is_harmless(current: &Setting<'_>, value: &str) -> bool {
    if value.eq_ignore_ascii_case("default") {
        return true;
    }
    match current.name {
        "DateStyle" => plain(value).starts_with("iso"),
        "client_encoding" => ["utf8", "unicode"].contains(&plain(value).as_str()),
        _ => {
            let (own, new) = (plain(current.value), plain(value));
            own == new
                || (own == "on" && ["true", "yes", "1"].contains(&new.as_str()))
                || (own == "off" && ["false", "no", "0"].contains(&new.as_str()))
        }
    }
}

fn plain(text: &str) -> String {
    text.replace(['-', ' '], "").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &mut SessionSettings, [name, value]: [&str; 2]) -> Result<(), PgError> {
        settings.set(&Setting { name, value }, SettingScope::Session)
    }

    #[test]
    fn settings_are_changed_refused_and_reset() {
        let mut settings = SessionSettings::default();
        assert_eq!(set(&mut settings, ["APPLICATION_NAME", "psql"]), Ok(()));
        assert_eq!(settings.get("application_name"), Ok(("application_name", "psql")));
        assert_eq!(set(&mut settings, ["client_encoding", "UTF-8"]), Ok(()));
        for (name, value, state) in [
            ("client_encoding", "LATIN1", "0A000"),
            ("standard_conforming_strings", "off", "0A000"),
            ("bytea_output", "escape", "0A000"),
            ("IntervalStyle", "sql_standard", "0A000"),
            ("session_authorization", "bob", "0A000"),
            ("role", "bob", "0A000"),
            ("search_path", "future, public", "0A000"),
            ("statement_timeout", "soon", "22023"),
            ("TimeZone", "Mars/Olympus", "22023"),
            ("default_transaction_isolation", "chaos", "22023"),
            ("no_such", "1", "42704"),
        ] {
            assert_eq!(set(&mut settings, [name, value]).expect_err(name).state, state, "{name}");
        }
        set(&mut settings, ["statement_timeout", "2s"]).expect("it is one");
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(2)));
        settings.reset("statement_timeout").expect("it is known");
        assert_eq!(settings.statement_timeout(), None);
        assert_eq!(settings.get("application_name"), Ok(("application_name", "psql")));
        settings.reset_all();
        assert_eq!(settings.get("application_name"), Ok(("application_name", "")));
    }

    #[test]
    fn a_local_value_ends_with_the_transaction_and_a_reset_returns_to_the_start() {
        let mut settings = SessionSettings::default();
        set(&mut settings, ["TimeZone", "Asia/Tokyo"]).expect("a zone");
        settings.begin_session();
        let local = Setting { name: "timezone", value: "Europe/Berlin" };
        settings.set(&local, SettingScope::Transaction).expect("a zone");
        assert_eq!(settings.get("timezone"), Ok(("TimeZone", "Europe/Berlin")));
        settings.commit();
        assert_eq!(settings.get("timezone"), Ok(("TimeZone", "Asia/Tokyo")));
        set(&mut settings, ["TimeZone", "2"]).expect("a zone");
        assert_eq!(settings.get("timezone"), Ok(("TimeZone", "+02:00")));
        set(&mut settings, ["TimeZone", "default"]).expect("the start's");
        assert_eq!(settings.get("timezone"), Ok(("TimeZone", "Asia/Tokyo")));
    }

    #[test]
    fn settings_of_applications_are_kept_within_their_limit() {
        let mut settings = SessionSettings::default();
        set(&mut settings, ["myapp.user_id", "7"]).expect("any value");
        assert_eq!(settings.get("MyApp.user_id"), Ok(("myapp.user_id", "7")));
        assert!(settings.all().contains(&("myapp.user_id".to_owned(), "7".to_owned())));
        let large = "x".repeat(CHANGED_BYTES_MAX);
        assert_eq!(set(&mut settings, ["myapp.x", &large]).expect_err("large").state, "54000");
        settings.reset_all();
        assert_eq!(settings.get("myapp.user_id").expect_err("gone").state, "42704");
    }
}
