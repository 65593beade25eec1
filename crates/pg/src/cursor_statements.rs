//! Statements about cursors: `DECLARE`, `FETCH`, `MOVE` (PostgreSQL's manual, part "SQL Commands").

use crate::session_statements::{StatementText, identifier, is_one_of};

/// `DECLARE name [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [WITH HOLD] FOR query`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CursorDeclaration {
    pub(crate) name: String,
    pub(crate) is_binary: bool,
    /// Whether rows before the present one can be fetched.
    pub(crate) has_scroll: bool,
    /// Whether the cursor outlives its transaction.
    pub(crate) has_hold: bool,
    pub(crate) sql: String,
}

/// `FETCH [direction] [FROM | IN] name`, or `MOVE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CursorFetch {
    pub(crate) name: String,
    pub(crate) direction: FetchDirection,
    /// Whether rows are passed over instead of sent.
    pub(crate) is_move: bool,
}

/// Rows of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchDirection {
    /// Rows after the position; before it if negative.
    Forward(i64),
    /// All rows after the position.
    AllForward,
    /// All rows before the position, from the last.
    AllBackward,
    /// One row: counted from the start, or from the end if negative.
    Absolute(i64),
    /// One row, counted from the position.
    Relative(i64),
}

/// Parses the words after `DECLARE`; `None` if they are incomplete.
pub(crate) fn declare(sql: &str, rest: &[&str]) -> Option<CursorDeclaration> {
    let (name, rest) = rest.split_first()?;
    let end = rest.iter().position(|word| is_one_of(word, &["for"]))?;
    let options: Vec<String> = rest[..end].iter().map(|word| word.to_lowercase()).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let cursor = options.iter().position(|word| *word == "cursor")?;
    let kind = &options[..cursor];
    let known = ["binary", "insensitive", "asensitive", "no", "scroll"];
    if !kind.iter().all(|word| known.contains(word)) {
        return None;
    }
    let has_hold = match &options[cursor + 1..] {
        [] | ["without", "hold"] => false,
        ["with", "hold"] => true,
        _ => return None,
    };
    let query = rest.get(end + 1)?;
    Some(CursorDeclaration {
        name: identifier(name),
        is_binary: kind.contains(&"binary"),
        has_scroll: !kind.contains(&"no"),
        has_hold,
        sql: sql[StatementText(sql).offset_of(query)..].to_owned(),
    })
}

/// Parses the words after `FETCH` or `MOVE`; `None` if they are malformed.
pub(crate) fn fetch(rest: &[&str], is_move: bool) -> Option<CursorFetch> {
    let (name, rest) = rest.split_last()?;
    let rest = match rest {
        [before @ .., word] if is_one_of(word, &["from", "in"]) => before,
        all => all,
    };
    let lower: Vec<String> = rest.iter().map(|word| word.to_lowercase()).collect();
    let direction = match lower.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["next" | "forward"] => FetchDirection::Forward(1),
        ["prior" | "backward"] => FetchDirection::Forward(-1),
        ["first"] => FetchDirection::Absolute(1),
        ["last"] => FetchDirection::Absolute(-1),
        ["all"] | ["forward", "all"] => FetchDirection::AllForward,
        ["backward", "all"] => FetchDirection::AllBackward,
        ["absolute", count @ ..] => FetchDirection::Absolute(number(count)?),
        ["relative", count @ ..] => FetchDirection::Relative(number(count)?),
        ["forward", count @ ..] => FetchDirection::Forward(number(count)?),
        ["backward", count @ ..] => FetchDirection::Forward(number(count)?.checked_neg()?),
        count => FetchDirection::Forward(number(count)?),
    };
    Some(CursorFetch { name: identifier(name), direction, is_move })
}

fn number(words: &[&str]) -> Option<i64> {
    match words {
        [digits] => digits.parse().ok(),
        ["-", digits] => digits.parse::<i64>().ok()?.checked_neg(),
        ["+", digits] => digits.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::words;

    fn rest(sql: &str) -> Vec<&str> {
        words(sql).skip(1).collect()
    }

    #[test]
    fn cursors_are_declared_with_their_options() {
        let sql = "DECLARE \"C 1\" BINARY NO SCROLL CURSOR WITH HOLD FOR select 'for' from x";
        assert_eq!(
            declare(sql, &rest(sql)),
            Some(CursorDeclaration {
                name: "C 1".into(),
                is_binary: true,
                has_scroll: false,
                has_hold: true,
                sql: "select 'for' from x".into(),
            })
        );
        for wrong in ["declare", "declare c", "declare c cursor", "declare c fast cursor for a"] {
            assert_eq!(declare(wrong, &rest(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn rows_are_fetched_in_each_direction() {
        for (sql, direction) in [
            ("fetch c", FetchDirection::Forward(1)),
            ("FETCH FORWARD 100 FROM c", FetchDirection::Forward(100)),
            ("fetch 100 in c", FetchDirection::Forward(100)),
            ("fetch -2 c", FetchDirection::Forward(-2)),
            ("fetch all from c", FetchDirection::AllForward),
            ("fetch backward all from c", FetchDirection::AllBackward),
            ("fetch backward 3 from c", FetchDirection::Forward(-3)),
            ("fetch absolute -1 from c", FetchDirection::Absolute(-1)),
            ("fetch relative 0 from c", FetchDirection::Relative(0)),
            ("fetch first from c", FetchDirection::Absolute(1)),
            ("fetch prior c", FetchDirection::Forward(-1)),
        ] {
            let fetched = fetch(&rest(sql), false).map(|fetch| (fetch.name, fetch.direction));
            assert_eq!(fetched, Some(("c".to_owned(), direction)), "{sql}");
        }
        for wrong in ["fetch", "fetch some c", "fetch forward many from c"] {
            assert_eq!(fetch(&rest(wrong), false), None, "{wrong}");
        }
    }
}
