//! Statements about the session, which are handled here and never reach the engine.

use crate::error::PgError;
use crate::split::words;

/// A statement, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    /// A query for the engine, with the tag of its result.
    Query(&'static str),
    Empty,
    Begin,
    Commit,
    Rollback,
    /// Accepted without effect, with its tag.
    NoOp(&'static str),
    Set {
        name: String,
        value: String,
    },
    Reset,
    Discard,
    Show(String),
    Deallocate(Option<String>),
    Prepare {
        name: String,
        types: Vec<String>,
        sql: String,
    },
    Execute(ExecuteStatement),
    Unsupported(PgError),
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
        match first.to_ascii_uppercase().as_str() {
            "BEGIN" | "START" => Self::Begin,
            "COMMIT" | "END" => Self::Commit,
            "ROLLBACK" | "ABORT" if rest.iter().any(|word| word.eq_ignore_ascii_case("to")) => {
                Self::NoOp("ROLLBACK")
            }
            "ROLLBACK" | "ABORT" => Self::Rollback,
            "SAVEPOINT" => Self::NoOp("SAVEPOINT"),
            "RELEASE" => Self::NoOp("RELEASE"),
            "SET" => set(&rest),
            "RESET" => Self::Reset,
            "DISCARD" => Self::Discard,
            "SHOW" => Self::Show(show(&rest)),
            "DEALLOCATE" => deallocate(&rest),
            "PREPARE" => prepare(sql, &rest).unwrap_or_else(malformed),
            "EXECUTE" => execute(sql, &rest).unwrap_or_else(malformed),
            "EXPLAIN" => Self::Query("EXPLAIN"),
            word @ ("COPY" | "DECLARE" | "FETCH" | "CLOSE" | "LISTEN" | "NOTIFY" | "LOCK") => {
                Self::Unsupported(
                    PgError::unsupported(format!("`{word}` is not supported"))
                        .hint("use `select`; for large results, set the driver's fetch size"),
                )
            }
            "UNLISTEN" => Self::NoOp("UNLISTEN"),
            _ => Self::Query("SELECT"),
        }
    }
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

fn set(rest: &[&str]) -> Statement {
    let scope = ["session", "local"];
    let rest = match rest {
        [first, others @ ..] if scope.contains(&first.to_lowercase().as_str()) => others,
        all => all,
    };
    let upper: Vec<String> = rest.iter().map(|word| word.to_uppercase()).collect();
    match upper.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["CHARACTERISTICS" | "TRANSACTION", ..] => Statement::NoOp("SET"),
        ["TIME", "ZONE", ..] => {
            Statement::Set { name: "TimeZone".into(), value: value(&rest[2..]) }
        }
        ["NAMES", ..] => {
            Statement::Set { name: "client_encoding".into(), value: value(&rest[1..]) }
        }
        [_, "=" | "TO", ..] => Statement::Set { name: unquoted(rest[0]), value: value(&rest[2..]) },
        _ => malformed(),
    }
}

fn show(rest: &[&str]) -> String {
    match rest {
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
struct StatementText<'a>(&'a str);

impl StatementText<'_> {
    /// Offset of `word`, a slice of it.
    fn offset_of(self, word: &str) -> usize {
        (word.as_ptr() as usize).saturating_sub(self.0.as_ptr() as usize)
    }
}

/// Removes the quotes from a name or constant.
fn unquoted(word: &str) -> String {
    match word.as_bytes().first() {
        Some(b'"') => word.trim_matches('"').replace("\"\"", "\""),
        Some(b'\'') => word.trim_matches('\'').replace("''", "'"),
        _ => word.to_owned(),
    }
}

fn value(words: &[&str]) -> String {
    words.iter().map(|word| unquoted(word)).collect::<Vec<_>>().join(" ").replace(" , ", ", ")
}

#[cfg(test)]
mod tests {
    use super::ExecuteStatement;
    use super::Statement::{self, *};

    fn set([name, value]: [&str; 2]) -> Statement {
        Set { name: name.into(), value: value.into() }
    }

    #[test]
    fn session_statements_are_distinguished_from_queries() {
        let cases = [
            ("select 1", Query("SELECT")),
            ("/* a */ with x as (select 1) select * from x", Query("SELECT")),
            ("explain select 1", Query("EXPLAIN")),
            ("-- nothing", Empty),
            ("START TRANSACTION READ ONLY", Begin),
            ("rollback to savepoint a", NoOp("ROLLBACK")),
            ("SET extra_float_digits = 3", set(["extra_float_digits", "3"])),
            ("set local application_name to 'it''s'", set(["application_name", "it's"])),
            ("SET datestyle TO ISO, MDY", set(["datestyle", "ISO, MDY"])),
            ("SET TIME ZONE 'Europe/Berlin'", set(["TimeZone", "Europe/Berlin"])),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", NoOp("SET")),
            ("show time zone", Show("TimeZone".into())),
            ("deallocate prepare \"a b\"", Deallocate(Some("a b".into()))),
            ("deallocate all", Deallocate(None)),
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
        for sql in ["copy x to stdout", "prepare p", "set x", "execute"] {
            assert!(matches!(Statement::of(sql), Unsupported(_)), "{sql}");
        }
    }
}
