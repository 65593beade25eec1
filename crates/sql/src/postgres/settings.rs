//! Settings of a client's session, as far as they change answers: the time zone, the search path, and
//! the values of `current_setting`. Sessions store what a client sets.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArguments, Value};

use super::fragments::{expression, name_parts};
use crate::tables::{FUTURE_SCHEMA, SCHEMA};

/// Name and value where the session says nothing.
pub(super) const SETTINGS: [(&str, &str); 10] = [
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("integer_datetimes", "on"),
    ("max_identifier_length", "63"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
    ("standard_conforming_strings", "on"),
    ("TimeZone", "UTC"),
];

/// Names and values of a session's settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientSettings(pub(crate) Arc<[(String, String)]>);

impl ClientSettings {
    fn get(&self, name: &str) -> Option<&str> {
        let own = self.0.iter().map(|(own, value)| (own.as_str(), value.as_str()));
        let mut all = own.chain(SETTINGS);
        all.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Schema of tables without one: the first of the search path that there is. Without any, only
    /// the catalog is searched.
    pub(super) fn schema(&self) -> &'static str {
        let path = self.get("search_path").unwrap_or(SCHEMA);
        let mut names = path.split(',').map(|name| name.trim().trim_matches('"').to_lowercase());
        let known = [SCHEMA, FUTURE_SCHEMA, "information_schema"];
        let found = names.find_map(|name| known.into_iter().find(|known| **known == name));
        found.unwrap_or("pg_catalog")
    }

    /// Puts the settings into a query's session.
    pub(crate) fn apply(&self, state: &mut SessionState) {
        let options = state.config_mut().options_mut();
        options.catalog.default_schema = self.schema().to_owned();
        if let Some(zone) = self.get("TimeZone").filter(|zone| *zone != "UTC") {
            options.execution.time_zone = Some(zone.to_owned());
        }
    }

    /// A query with the columns of `pg_settings` and a row for each setting of the session.
    pub(super) fn relation(&self) -> String {
        let own = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let own = own.filter(|(name, _)| !name.contains('.') && *name != "pg_backend_pid");
        let defaults = SETTINGS.into_iter().filter(|_| self.0.is_empty());
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let rows = own
            .chain(defaults)
            .map(|(name, value)| format!("({}, {})", quoted(name), quoted(value)));
        let rows = rows.collect::<Vec<_>>().join(", ");
        format!("SELECT name, setting, {SETTING_COLUMNS} FROM (VALUES {rows}) AS s (name, setting)")
    }

    /// Value of a call that returns a setting of the session.
    pub(super) fn value_of_call(&self, function: &Function) -> Option<Expr> {
        let name = name_parts(&function.name).pop()?;
        match name.as_str() {
            "current_schema" => Some(text(self.schema())),
            "pg_backend_pid" => {
                let number = self.get(&name)?.parse::<i32>().ok()?;
                expression(&format!("CAST({number} AS INT)"))
            }
            "current_setting" => {
                let FunctionArguments::List(list) = &function.args else { return None };
                let setting = list.args.first()?.to_string();
                let setting = setting.strip_prefix('\'')?.strip_suffix('\'')?;
                self.get(setting).map(text)
            }
            _ => None,
        }
    }
}

/// Columns of `pg_settings` that are the same for each setting.
const SETTING_COLUMNS: &str = "CAST(NULL AS TEXT) AS unit, 'weir' AS category, CAST(NULL AS TEXT) AS short_desc, \
     CAST(NULL AS TEXT) AS extra_desc, 'user' AS context, 'string' AS vartype, 'default' AS source, \
     CAST(NULL AS TEXT) AS min_val, CAST(NULL AS TEXT) AS max_val, CAST(NULL AS TEXT[]) AS enumvals, \
     setting AS boot_val, setting AS reset_val, CAST(NULL AS TEXT) AS sourcefile, \
     CAST(NULL AS INT) AS sourceline, false AS pending_restart";

fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_owned()).into())
}

#[cfg(test)]
mod tests {
    use super::ClientSettings;

    #[test]
    fn the_first_schema_of_the_path_is_searched() {
        for (path, schema) in [
            ("\"$user\", public", "public"),
            ("future", "future"),
            ("nowhere, \"future\"", "future"),
            ("pg_catalog", "pg_catalog"),
            ("", "pg_catalog"),
        ] {
            let settings = [("search_path".to_owned(), path.to_owned())];
            assert_eq!(ClientSettings(settings.into()).schema(), schema, "{path}");
        }
        assert_eq!(ClientSettings::default().schema(), "public");
    }
}
