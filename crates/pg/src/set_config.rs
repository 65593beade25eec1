//! Calls in a query that concern sessions, `set_config` and `pg_cancel_backend`: the engine returns their
//! value, and the session does the rest.

use arrow_array::ArrayRef;

use crate::encode::ColumnEncoder;
use crate::error::PgError;
use crate::session_statements::unquoted;
use crate::settings::SettingScope;
use crate::split::words;
use crate::types::PgType;

/// A change of a setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigChange {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) scope: SettingScope,
}

/// Finds `set_config(name, value, is_local)` in a query, whose arguments are constants or
/// parameters.
///
/// # Errors
/// `0A000` for other arguments: the change would be lost.
pub(crate) fn changes(sql: &str, parameters: &[ArrayRef]) -> Result<Vec<ConfigChange>, PgError> {
    if !sql.to_ascii_lowercase().contains("set_config") {
        return Ok(Vec::new());
    }
    let all: Vec<&str> = words(sql).collect();
    let calls = (0..all.len()).filter(|at| all[*at].eq_ignore_ascii_case("set_config"));
    let found: Vec<_> = calls.filter_map(|at| change(&all[at..], parameters)).collect();
    let count = all.iter().zip(all.iter().skip(1));
    let count =
        count.filter(|(name, open)| name.eq_ignore_ascii_case("set_config") && **open == "(");
    if count.count() == found.len() {
        return Ok(found);
    }
    Err(PgError::unsupported("`set_config` takes only constants and parameters")
        .hint("set application_name = 'x'"))
}

/// A change from the words `set_config ( name , value , flag )`.
fn change(call: &[&str], parameters: &[ArrayRef]) -> Option<ConfigChange> {
    // A parameter is two words: `$`, `1`.
    let tail: Vec<String> = joined(&call[1..call.len().min(10)]);
    let [open, name, comma, value, second, local, ..] = tail.as_slice() else { return None };
    if [open.as_str(), comma, second] != ["(", ",", ","] {
        return None;
    }
    let scope = match argument(local, parameters)?.to_ascii_lowercase().as_str() {
        "true" | "t" => SettingScope::Transaction,
        "false" | "f" => SettingScope::Session,
        _ => return None,
    };
    Some(ConfigChange {
        name: argument(name, parameters)?,
        value: argument(value, parameters)?,
        scope,
    })
}

/// Numbers in calls of `pg_cancel_backend(number)`, which are constants or parameters.
///
/// # Errors
/// `0A000` for other arguments.
pub(crate) fn cancelled(sql: &str, parameters: &[ArrayRef]) -> Result<Vec<i32>, PgError> {
    if !sql.to_ascii_lowercase().contains(CANCEL) {
        return Ok(Vec::new());
    }
    let all: Vec<&str> = words(sql).collect();
    let calls = (0..all.len())
        .filter(|at| all[*at].eq_ignore_ascii_case(CANCEL) && all.get(at + 1) == Some(&"("));
    let numbers = calls.map(|at| {
        let tail = joined(&all[at + 1..all.len().min(at + 5)]);
        let [open, number, close, ..] = tail.as_slice() else { return None };
        let is_call = open == "(" && (close == ")" || close == ":");
        let number = argument(number, parameters).unwrap_or_else(|| number.clone());
        number.parse().ok().filter(|_| is_call)
    });
    numbers.collect::<Option<_>>().ok_or_else(|| {
        PgError::unsupported("`pg_cancel_backend` takes only constants and parameters")
    })
}

/// Function that cancels the query of a connection.
const CANCEL: &str = "pg_cancel_backend";

/// Words with `$` and its number joined.
fn joined(words: &[&str]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in words {
        match out.last_mut() {
            Some(last) if last == "$" => last.push_str(word),
            _ => out.push((*word).to_owned()),
        }
    }
    out
}

fn argument(word: &str, parameters: &[ArrayRef]) -> Option<String> {
    if let Some(number) = word.strip_prefix('$') {
        let value = parameters.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
        let encoder = ColumnEncoder::new(value, PgType::from_arrow(value.data_type())).ok()?;
        return encoder.cell(0);
    }
    let is_constant = word.starts_with(['\'', 'e', 'E'])
        || word.eq_ignore_ascii_case("true")
        || word.eq_ignore_ascii_case("false");
    is_constant.then(|| unquoted(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::texts;

    #[test]
    fn numbers_of_cancelled_connections_are_found() {
        let parameter: ArrayRef = std::sync::Arc::new(arrow_array::Int32Array::from(vec![7]));
        let sql = "select pg_cancel_backend($1), pg_catalog.PG_CANCEL_BACKEND( 12 ) as done";
        assert_eq!(cancelled(sql, &[parameter]), Ok(vec![7, 12]));
        assert_eq!(cancelled("select 'pg_cancel_backend'", &[]), Ok(Vec::new()));
        let lost = "select pg_cancel_backend(pid) from pg_stat_activity";
        assert_eq!(cancelled(lost, &[]).expect_err(lost).state, "0A000");
    }

    #[test]
    fn calls_with_constants_and_parameters_are_found() {
        let sql = "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new, \
                   pg_catalog.set_config('search_path', $1, true)";
        let change = |name: &str, value: &str, scope| ConfigChange {
            name: name.into(),
            value: value.into(),
            scope,
        };
        assert_eq!(
            changes(sql, &[texts(["future"])]),
            Ok(vec![
                change("jit", "off", SettingScope::Session),
                change("search_path", "future", SettingScope::Transaction),
            ])
        );
        assert_eq!(changes("select 'set_config'", &[]), Ok(Vec::new()));
        for lost in
            ["select set_config(name, 'x', false) from t", "select set_config('a', 'b', $1)"]
        {
            assert_eq!(changes(lost, &[]).expect_err(lost).state, "0A000", "{lost}");
        }
    }
}
