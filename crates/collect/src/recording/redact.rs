//! Removes secrets from rows before they are recorded.
//!
//! A configuration directive whose name, or whose first argument, mentions a password, secret,
//! token, key or authorization keeps its row and loses its value. `auth_basic "Restricted"` is no
//! secret.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use weir_tables::Batch;

const REDACTED: &str = "[redacted]";
const SECRET_WORDS: [&str; 8] =
    ["password", "passwd", "secret", "token", "authorization", "api_key", "apikey", "credential"];

/// Replaces secrets in batches of `config_directive` with `[redacted]`.
pub(super) fn redact(batch: Batch) -> Batch {
    if batch.table.name != "config_directive" {
        return batch;
    }
    let Some(arguments) = redacted_arguments(&batch.rows) else { return batch };
    let schema = batch.rows.schema();
    let mut columns = batch.rows.columns().to_vec();
    let at = schema.index_of("arguments").expect("was found above");
    columns[at] = arguments;
    let rows = RecordBatch::try_new(schema, columns).expect("same types and lengths");
    Batch { rows, ..batch }
}

fn redacted_arguments(rows: &RecordBatch) -> Option<ArrayRef> {
    let directive = rows.column_by_name("directive")?.as_string_opt::<i32>()?;
    let arguments = rows.column_by_name("arguments")?.as_string_opt::<i32>()?;
    let values: StringArray = (0..arguments.len())
        .map(|row| Some(redacted(directive.value(row), arguments.value(row).split(' '))))
        .collect();
    Some(Arc::new(values))
}

fn redacted<'a>(directive: &str, arguments: impl Iterator<Item = &'a str>) -> String {
    if is_secret(directive) {
        return REDACTED.to_owned();
    }
    let mut shown = String::new();
    for argument in arguments {
        if !shown.is_empty() {
            shown.push(' ');
        }
        if is_secret(argument) {
            // The rest is the value: `proxy_set_header Authorization "Basic abc"`.
            shown.push_str(argument.split(['=', ':']).next().unwrap_or_default());
            shown.push(' ');
            shown.push_str(REDACTED);
            break;
        }
        shown.push_str(&without_user_info(argument));
    }
    shown
}

fn is_secret(word: &str) -> bool {
    let word = word.to_ascii_lowercase().replace('-', "_");
    SECRET_WORDS.iter().any(|secret| word.contains(secret))
}

/// `http://user:password@host/` without the part before `@`.
fn without_user_info(argument: &str) -> String {
    let Some((scheme, rest)) = argument.split_once("://") else { return argument.to_owned() };
    let authority = rest.split('/').next().unwrap_or(rest);
    match authority.rsplit_once('@') {
        Some((user, _)) => format!("{scheme}://{REDACTED}{}", &rest[user.len()..]),
        None => argument.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_configurations_are_removed_and_the_rest_stays() {
        for (directive, arguments, expected) in [
            ("listen", "80 backlog=511", "80 backlog=511"),
            ("proxy_set_header", "Authorization \"Basic abc\"", "Authorization [redacted]"),
            ("proxy_set_header", "Host $host", "Host $host"),
            ("set", "$api_token s3cret", "$api_token [redacted]"),
            ("ssl_password_file", "/etc/p", "[redacted]"),
            (
                "server",
                "web1 10.0.0.1:80 password=abc check",
                "web1 10.0.0.1:80 password [redacted]",
            ),
            ("proxy_pass", "http://u:p@h:1/x", "http://[redacted]@h:1/x"),
            ("auth_basic", "Restricted", "Restricted"),
        ] {
            assert_eq!(redacted(directive, arguments.split(' ')), expected);
        }
    }
}
