//! Statements about the session, which are handled here and never reach the engine.

use crate::copy_statement::CopyStatement;
use crate::cursor_statements::{self, CursorDeclaration, CursorFetch};
use crate::error::PgError;
use crate::settings::SettingScope;
use crate::split::words;

/// A statement, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    /// A query for the engine, with the tag of its result.
    Query(&'static str),
    Empty,
    Begin,
    Commit(NextTransaction),
    Rollback(NextTransaction),
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    /// Accepted without effect, with its tag.
    NoOp(&'static str),
    Set {
        scope: SettingScope,
        name: String,
        value: String,
    },
    /// `None` for all settings.
    Reset(Option<String>),
    DiscardAll,
    /// `discard plans`, `discard temp`, `discard sequences`: there are none.
    Discard(&'static str),
    Show(String),
    Deallocate(Option<String>),
    Prepare {
        name: String,
        types: Vec<String>,
        sql: String,
    },
    Execute(ExecuteStatement),
    Declare(CursorDeclaration),
    Fetch(CursorFetch),
    /// Name of the cursor; `None` for all.
    Close(Option<String>),
    Copy(CopyStatement),
    Unsupported(PgError),
}

/// Whether a transaction follows another at once (`and chain`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTransaction {
    None,
    Chained,
}

/// `EXECUTE name (values)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecuteStatement {
    pub(crate) name: String,
    /// List of constants in SQL; may be empty.
    pub(crate) values: String,
}

impl Statement {
    /// Classifies a statement by its first words.
    pub(crate) fn of(sql: &str) -> Self {
        let mut rest = words(sql);
        let Some(first) = rest.next() else { return Self::Empty };
        let rest: Vec<&str> = rest.collect();
        let first = first.to_ascii_uppercase();
        match first.as_str() {
            "BEGIN" | "START" => Self::Begin,
            "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE" => {
                transaction(&first, &rest).unwrap_or_else(malformed)
            }
            "SET" => set(&rest),
            "RESET" => reset(&rest).unwrap_or_else(malformed),
            "DISCARD" => discard(&rest).unwrap_or_else(malformed),
            "SHOW" => Self::Show(show(&rest)),
            "DEALLOCATE" => deallocate(&rest),
            "PREPARE" => prepare(sql, &rest).unwrap_or_else(malformed),
            "EXECUTE" => execute(sql, &rest).unwrap_or_else(malformed),
            "EXPLAIN" => Self::Query("EXPLAIN"),
            "DECLARE" => {
                cursor_statements::declare(sql, &rest).map_or_else(malformed, Self::Declare)
            }
            "FETCH" | "MOVE" => {
                cursor_statements::fetch(&rest, first == "MOVE").map_or_else(malformed, Self::Fetch)
            }
            "CLOSE" => match rest.as_slice() {
                [name] if name.eq_ignore_ascii_case("all") => Self::Close(None),
                [name] => Self::Close(Some(identifier(name))),
                _ => malformed(),
            },
            "COPY" => match CopyStatement::parse(sql, &rest) {
                Ok(copy) => Self::Copy(copy),
                Err(error) => Self::Unsupported(error),
            },
            word @ ("LISTEN" | "NOTIFY" | "LOCK") => {
                Self::Unsupported(PgError::unsupported(format!("`{word}` is not supported")))
            }
            "UNLISTEN" => Self::NoOp("UNLISTEN"),
            _ => Self::Query("SELECT"),
        }
    }
}

/// `COMMIT [AND [NO] CHAIN]`, `ROLLBACK [TO [SAVEPOINT] name]`, `SAVEPOINT name`, `RELEASE
/// [SAVEPOINT] name`
fn transaction(first: &str, rest: &[&str]) -> Option<Statement> {
    let rest = match rest {
        [word, rest @ ..] if is_one_of(word, &["work", "transaction"]) => rest,
        all => all,
    };
    let is_commit = matches!(first, "COMMIT" | "END");
    Some(match (first, rest) {
        ("SAVEPOINT", [name]) => Statement::Savepoint(identifier(name)),
        ("RELEASE", [.., name]) if is_named(&rest[..rest.len() - 1]) => {
            Statement::Release(identifier(name))
        }
        ("SAVEPOINT" | "RELEASE", _) => return None,
        (_, [to, between @ .., name])
            if !is_commit && is_one_of(to, &["to"]) && is_named(between) =>
        {
            Statement::RollbackTo(identifier(name))
        }
        (_, rest) => {
            let lower: Vec<String> = rest.iter().map(|word| word.to_lowercase()).collect();
            let next = match lower.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                [] | ["and", "no", "chain"] => NextTransaction::None,
                ["and", "chain"] => NextTransaction::Chained,
                _ => return None,
            };
            if is_commit { Statement::Commit(next) } else { Statement::Rollback(next) }
        }
    })
}

/// Whether nothing or the word `savepoint` is before a name.
fn is_named(before: &[&str]) -> bool {
    match before {
        [] => true,
        [word] => is_one_of(word, &["savepoint"]),
        _ => false,
    }
}

pub(crate) fn is_one_of(word: &str, known: &[&str]) -> bool {
    known.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// `RESET { name | ALL | TIME ZONE | ROLE | SESSION AUTHORIZATION }`
fn reset(rest: &[&str]) -> Option<Statement> {
    let lower: Vec<String> = rest.iter().map(|word| word.to_lowercase()).collect();
    Some(match lower.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["all"] => Statement::Reset(None),
        ["time", "zone"] => Statement::Reset(Some("TimeZone".into())),
        ["transaction", "isolation", "level"] => {
            Statement::Reset(Some("transaction_isolation".into()))
        }
        ["role"] | ["session", "authorization"] => Statement::NoOp("RESET"),
        [_] => Statement::Reset(Some(identifier(rest[0]))),
        [_, ".", _] => Statement::Reset(Some(rest.concat().to_lowercase())),
        _ => return None,
    })
}

/// `DISCARD { ALL | PLANS | SEQUENCES | TEMPORARY | TEMP }`
fn discard(rest: &[&str]) -> Option<Statement> {
    let [what] = rest else { return None };
    Some(match what.to_ascii_uppercase().as_str() {
        "ALL" => Statement::DiscardAll,
        "PLANS" => Statement::Discard("DISCARD PLANS"),
        "SEQUENCES" => Statement::Discard("DISCARD SEQUENCES"),
        "TEMP" | "TEMPORARY" => Statement::Discard("DISCARD TEMP"),
        _ => return None,
    })
}

/// `DEALLOCATE [PREPARE] { name | ALL }`
fn deallocate(rest: &[&str]) -> Statement {
    let name = match rest {
        [prepare, name, ..] if prepare.eq_ignore_ascii_case("prepare") => Some(name),
        [prepare] if prepare.eq_ignore_ascii_case("prepare") => None,
        [name, ..] => Some(name),
        [] => None,
    };
    let name = name.filter(|name| !name.eq_ignore_ascii_case("all"));
    Statement::Deallocate(name.map(|name| unquoted(name)))
}

fn malformed() -> Statement {
    Statement::Unsupported(PgError::new("42601", "the statement is incomplete"))
}

/// `SET [SESSION | LOCAL] name { = | TO } value`, and the forms without `=`.
fn set(rest: &[&str]) -> Statement {
    let (scope, rest) = match rest {
        [first, second, others @ ..]
            if is_one_of(first, &["session", "local"])
                && !is_one_of(second, &["authorization", "characteristics", "=", "to"]) =>
        {
            let is_local = is_one_of(first, &["local"]);
            let scope = if is_local { SettingScope::Transaction } else { SettingScope::Session };
            (scope, &rest[rest.len() - others.len() - 1..])
        }
        all => (SettingScope::Session, all),
    };
    let upper: Vec<String> = rest.iter().map(|word| word.to_uppercase()).collect();
    let (name, value) = match upper.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["SESSION", "CHARACTERISTICS", ..] | ["TRANSACTION", ..] => return Statement::NoOp("SET"),
        ["SESSION", "AUTHORIZATION", "DEFAULT"] | ["ROLE", "NONE"] => {
            return Statement::NoOp("SET");
        }
        ["SESSION", "AUTHORIZATION", _] => ("session_authorization".to_owned(), value(&rest[2..])),
        ["ROLE", _] => ("role".to_owned(), value(&rest[1..])),
        ["TIME", "ZONE", _, ..] => ("TimeZone".to_owned(), value(&rest[2..])),
        ["NAMES", ..] => ("client_encoding".to_owned(), value(&rest[1..])),
        ["SCHEMA", _] => ("search_path".to_owned(), value(&rest[1..])),
        [_, "=" | "TO", _, ..] => (identifier(rest[0]), value(&rest[2..])),
        [_, ".", _, "=" | "TO", _, ..] => (rest[..3].concat().to_lowercase(), value(&rest[4..])),
        _ => return malformed(),
    };
    Statement::Set { scope, name, value }
}

fn show(rest: &[&str]) -> String {
    match rest {
        [_, ".", _] => rest.concat().to_lowercase(),
        [time, zone] if time.eq_ignore_ascii_case("time") && zone.eq_ignore_ascii_case("zone") => {
            "TimeZone".into()
        }
        [transaction, ..] if transaction.eq_ignore_ascii_case("transaction") => {
            "transaction_isolation".into()
        }
        [name, ..] => unquoted(name),
        [] => String::new(),
    }
}

/// `PREPARE name (types) AS statement`
fn prepare(sql: &str, rest: &[&str]) -> Option<Statement> {
    let at = rest.iter().position(|word| word.eq_ignore_ascii_case("as"))?;
    let name = rest[..at].first()?;
    let types = match rest.get(1..at)? {
        [] => Vec::new(),
        ["(", types @ .., ")"] => {
            types.split(|word| *word == ",").map(|one| one.join(" ")).collect()
        }
        _ => return None,
    };
    let statement = &sql[StatementText(sql).offset_of(rest.get(at + 1)?)..];
    Some(Statement::Prepare { name: unquoted(name), types, sql: statement.to_owned() })
}

/// `EXECUTE name (values)`
fn execute(sql: &str, rest: &[&str]) -> Option<Statement> {
    let name = unquoted(rest.first()?);
    let values = match &rest[1..] {
        [] => String::new(),
        ["(", .., last @ ")"] => {
            let start = StatementText(sql).offset_of(rest[1]) + 1;
            sql[start..StatementText(sql).offset_of(last)].trim().to_owned()
        }
        _ => return None,
    };
    Some(Statement::Execute(ExecuteStatement { name, values }))
}

/// The text that words are slices of.
#[derive(Clone, Copy)]
pub(crate) struct StatementText<'a>(pub(crate) &'a str);

impl StatementText<'_> {
    /// Offset of `word`, a slice of it.
    pub(crate) fn offset_of(self, word: &str) -> usize {
        (word.as_ptr() as usize).saturating_sub(self.0.as_ptr() as usize)
    }
}

/// Removes the quotes from a name or constant.
pub(crate) fn unquoted(word: &str) -> String {
    match word.as_bytes() {
        [b'"', inner @ .., b'"'] => String::from_utf8_lossy(inner).replace("\"\"", "\""),
        [b'\'', inner @ .., b'\''] => String::from_utf8_lossy(inner).replace("''", "'"),
        [b'e' | b'E', b'\'', inner @ .., b'\''] => unescaped(&String::from_utf8_lossy(inner)),
        _ => word.to_owned(),
    }
}

/// The text of an escape string.
fn unescaped(inner: &str) -> String {
    let mut out = String::new();
    let mut letters = inner.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.push(match letters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => break,
            }),
            '\'' => {
                letters.next_if_eq(&'\'');
                out.push('\'');
            }
            other => out.push(other),
        }
    }
    out
}

/// A name, in lower case without quotes.
pub(crate) fn identifier(word: &str) -> String {
    if word.starts_with('"') { unquoted(word) } else { word.to_lowercase() }
}

fn value(words: &[&str]) -> String {
    let mut out = String::new();
    for (at, word) in words.iter().enumerate() {
        let is_joined = matches!(*word, "," | "." | "-" | "+") && at > 0;
        let follows = at > 0 && matches!(words[at - 1], "." | "-" | "+");
        if at > 0 && !is_joined && !follows {
            out.push(' ');
        }
        out.push_str(&unquoted(word));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Statement::{self, *};
    use super::{ExecuteStatement, NextTransaction, SettingScope};

    fn set([name, value]: [&str; 2]) -> Statement {
        Set { scope: SettingScope::Session, name: name.into(), value: value.into() }
    }

    fn local([name, value]: [&str; 2]) -> Statement {
        Set { scope: SettingScope::Transaction, name: name.into(), value: value.into() }
    }

    #[test]
    fn session_statements_are_distinguished_from_queries() {
        let cases = [
            ("select 1", Query("SELECT")),
            ("/* a */ with x as (select 1) select * from x", Query("SELECT")),
            ("explain select 1", Query("EXPLAIN")),
            ("-- nothing", Empty),
            ("START TRANSACTION READ ONLY", Begin),
            ("show time zone", Show("TimeZone".into())),
            ("deallocate prepare \"a b\"", Deallocate(Some("a b".into()))),
            ("deallocate all", Deallocate(None)),
            ("close all", Close(None)),
            ("close \"A\"", Close(Some("A".into()))),
            (
                "prepare p (int, double precision) as select $1, $2",
                Prepare {
                    name: "p".into(),
                    types: vec!["int".into(), "double precision".into()],
                    sql: "select $1, $2".into(),
                },
            ),
            (
                "execute p(1, 'a)')",
                Execute(ExecuteStatement { name: "p".into(), values: "1, 'a)'".into() }),
            ),
        ];
        for (sql, expected) in cases {
            assert_eq!(Statement::of(sql), expected, "{sql}");
        }
        for sql in ["copy x from stdin", "prepare p", "set x", "execute", "reset"] {
            assert!(matches!(Statement::of(sql), Unsupported(_)), "{sql}");
        }
    }

    #[test]
    fn transactions_and_savepoints_are_recognized() {
        for (sql, expected) in [
            ("rollback to savepoint a", RollbackTo("a".into())),
            ("ROLLBACK WORK TO \"A b\"", RollbackTo("A b".into())),
            ("rollback transaction", Rollback(NextTransaction::None)),
            ("commit and chain", Commit(NextTransaction::Chained)),
            ("END", Commit(NextTransaction::None)),
            ("abort and no chain", Rollback(NextTransaction::None)),
            ("SAVEPOINT Sp_1", Savepoint("sp_1".into())),
            ("release savepoint sp_1", Release("sp_1".into())),
            ("release sp_1", Release("sp_1".into())),
        ] {
            assert_eq!(Statement::of(sql), expected, "{sql}");
        }
    }

    #[test]
    fn settings_are_set_for_a_session_or_a_transaction_and_reset_by_name() {
        for (sql, expected) in [
            ("SET extra_float_digits = 3", set(["extra_float_digits", "3"])),
            ("set local application_name to 'it''s'", local(["application_name", "it's"])),
            ("SET datestyle TO ISO, MDY", set(["datestyle", "ISO, MDY"])),
            ("SET TIME ZONE 'Europe/Berlin'", set(["TimeZone", "Europe/Berlin"])),
            ("SET SESSION TIMEZONE TO 'UTC'", set(["timezone", "UTC"])),
            ("set session time zone -5", set(["TimeZone", "-5"])),
            ("set local time zone 'UTC'", local(["TimeZone", "UTC"])),
            ("set search_path = \"$user\", public", set(["search_path", "$user, public"])),
            ("SET search_path TO pg_catalog", set(["search_path", "pg_catalog"])),
            ("set schema 'future'", set(["search_path", "future"])),
            ("SET myapp.user_id = '7'", set(["myapp.user_id", "7"])),
            ("set names 'UTF8'", set(["client_encoding", "UTF8"])),
            ("SET SESSION AUTHORIZATION DEFAULT", NoOp("SET")),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", NoOp("SET")),
            ("reset application_name", Reset(Some("application_name".into()))),
            ("RESET ALL", Reset(None)),
            ("reset time zone", Reset(Some("TimeZone".into()))),
            ("reset session authorization", NoOp("RESET")),
            ("discard all", DiscardAll),
            ("discard temporary", Discard("DISCARD TEMP")),
        ] {
            assert_eq!(Statement::of(sql), expected, "{sql}");
        }
    }
}
