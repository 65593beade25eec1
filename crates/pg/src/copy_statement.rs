//! `COPY … TO STDOUT` with its options, in today's notation and in the one before PostgreSQL 9
//! (PostgreSQL's manual, part "SQL Commands").

use crate::error::PgError;
use crate::session_statements::{StatementText, identifier, is_one_of, unquoted};

/// Layout of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyFormat {
    Text,
    Csv,
    Binary,
}

/// `COPY { table [(columns)] | (query) } TO STDOUT [WITH] [options]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyStatement {
    pub(crate) sql: String,
    pub(crate) format: CopyFormat,
    pub(crate) has_header: bool,
    pub(crate) delimiter: u8,
    pub(crate) null: String,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    /// Columns whose values are always quoted.
    pub(crate) force_quote: ForcedQuotes,
}

/// Columns of `force_quote`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForcedQuotes {
    All,
    Columns(Vec<String>),
}

/// Options as they are written, before the defaults of the format.
struct CopyOptions {
    format: CopyFormat,
    has_header: bool,
    delimiter: Option<u8>,
    null: Option<String>,
    quote: Option<u8>,
    escape: Option<u8>,
    force_quote: ForcedQuotes,
}

impl CopyStatement {
    /// Parses the words after `COPY`.
    ///
    /// # Errors
    /// `42601` for a malformed statement, `0A000` for another direction or option.
    pub(crate) fn parse(sql: &str, rest: &[&str]) -> Result<Self, PgError> {
        let (is_binary, rest) = match rest {
            [first, others @ ..] if is_one_of(first, &["binary"]) => (true, others),
            all => (false, all),
        };
        let end = end_of_source(rest).ok_or_else(malformed)?;
        let (source, target) = rest.split_at(end);
        let options = match target {
            [to, stdout, options @ ..]
                if is_one_of(to, &["to"]) && is_one_of(stdout, &["stdout", "stdin"]) =>
            {
                options
            }
            [to, ..] if is_one_of(to, &["to"]) => {
                return Err(PgError::unsupported("`copy` writes only to `stdout`")
                    .hint("psql's `\\copy` writes files of the client"));
            }
            [from, ..] if is_one_of(from, &["from"]) => {
                return Err(PgError::new(
                    "25006",
                    "cannot copy rows into weir: only queries are run",
                ));
            }
            _ => return Err(malformed()),
        };
        let mut read = CopyOptions {
            format: if is_binary { CopyFormat::Binary } else { CopyFormat::Text },
            has_header: false,
            delimiter: None,
            null: None,
            quote: None,
            escape: None,
            force_quote: ForcedQuotes::Columns(Vec::new()),
        };
        read.read(options)?;
        read.finish(query_of(sql, source)?)
    }
}

/// Index of the word after a table, a table with columns, or a query in parentheses.
fn end_of_source(words: &[&str]) -> Option<usize> {
    let mut depth = 0_usize;
    words.iter().position(|word| {
        match *word {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            word => return depth == 0 && is_one_of(word, &["to", "from"]),
        }
        false
    })
}

/// The query whose rows are copied.
fn query_of(sql: &str, source: &[&str]) -> Result<String, PgError> {
    let text = StatementText(sql);
    match source {
        ["(", .., last @ ")"] => {
            let start = text.offset_of(source[0]) + 1;
            Ok(sql[start..text.offset_of(last)].trim().to_owned())
        }
        [first, ..] => {
            let open = source.iter().position(|word| *word == "(");
            let table = source[..open.unwrap_or(source.len())].concat();
            let columns = match open {
                None => "*",
                Some(open) => {
                    let start = text.offset_of(source[open]) + 1;
                    let last = source.last().filter(|last| **last == ")").ok_or_else(malformed)?;
                    &sql[start..text.offset_of(last)]
                }
            };
            if first.starts_with('\'') {
                return Err(malformed());
            }
            Ok(format!("select {columns} from {table}"))
        }
        [] => Err(malformed()),
    }
}

impl CopyOptions {
    /// Reads `[WITH] (name [value], …)`, or words without parentheses.
    fn read(&mut self, words: &[&str]) -> Result<(), PgError> {
        let words = match words {
            [with, rest @ ..] if is_one_of(with, &["with"]) => rest,
            all => all,
        };
        match words {
            ["(", inner @ .., ")"] => {
                for option in options(inner) {
                    self.read_one(option)?;
                }
                Ok(())
            }
            words => self.read_old(words),
        }
    }

    fn read_one(&mut self, option: &[&str]) -> Result<(), PgError> {
        let (name, value) = option.split_first().ok_or_else(malformed)?;
        let text = value.first().map(|word| unquoted(word)).unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "format" => self.format = format_of(&text)?,
            "header" => self.has_header = value.is_empty() || flag(&text)?,
            "delimiter" => self.delimiter = Some(byte(&text)?),
            "null" => self.null = Some(text),
            "quote" => self.quote = Some(byte(&text)?),
            "escape" => self.escape = Some(byte(&text)?),
            "encoding" if is_utf8(&text) => {}
            "freeze" | "oids" if !value.is_empty() && !flag(&text)? => {}
            "force_quote" => self.force_quote = forced(value),
            other => return Err(unknown(other)),
        }
        Ok(())
    }

    /// Reads `[BINARY] [DELIMITER 'x'] [NULL 'x'] [CSV [HEADER] [QUOTE 'x'] …]`.
    fn read_old(&mut self, words: &[&str]) -> Result<(), PgError> {
        let mut words = words.iter().copied().peekable();
        while let Some(word) = words.next() {
            let name = word.to_ascii_lowercase();
            match name.as_str() {
                "binary" => self.format = CopyFormat::Binary,
                "csv" => self.format = CopyFormat::Csv,
                "header" => self.has_header = true,
                "delimiter" | "delimiters" | "null" | "quote" | "escape" | "encoding" => {
                    words.next_if(|next| is_one_of(next, &["as"]));
                    let value = words.next().ok_or_else(malformed)?;
                    let name = if name == "delimiters" { "delimiter" } else { &name };
                    self.read_one(&[name, value])?;
                }
                "force" => {
                    let quote = words.next().filter(|word| is_one_of(word, &["quote"]));
                    quote.ok_or_else(malformed)?;
                    let columns: Vec<&str> = words.by_ref().collect();
                    self.force_quote = forced(&columns);
                }
                other => return Err(unknown(other)),
            }
        }
        Ok(())
    }

    fn finish(self, sql: String) -> Result<CopyStatement, PgError> {
        let is_csv = self.format == CopyFormat::Csv;
        let is_quoting = self.quote.is_some()
            || self.escape.is_some()
            || self.force_quote != ForcedQuotes::Columns(Vec::new());
        if is_quoting && !is_csv {
            return Err(PgError::new("42601", "quotes are possible only with `format csv`"));
        }
        if self.format == CopyFormat::Binary
            && (self.has_header || self.delimiter.is_some() || self.null.is_some())
        {
            return Err(PgError::new("42601", "`format binary` has no further options"));
        }
        let quote = self.quote.unwrap_or(b'"');
        Ok(CopyStatement {
            sql,
            format: self.format,
            has_header: self.has_header,
            delimiter: self.delimiter.unwrap_or(if is_csv { b',' } else { b'\t' }),
            null: self.null.unwrap_or_else(|| if is_csv { "" } else { "\\N" }.to_owned()),
            quote,
            escape: self.escape.unwrap_or(quote),
            force_quote: self.force_quote,
        })
    }
}

/// Options between commas outside of parentheses.
fn options<'a>(words: &'a [&'a str]) -> Vec<&'a [&'a str]> {
    let (mut depth, mut found, mut start) = (0_usize, Vec::new(), 0);
    for (at, word) in words.iter().enumerate() {
        match *word {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            "," if depth == 0 => {
                found.push(&words[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&words[start..]);
    found
}

fn forced(words: &[&str]) -> ForcedQuotes {
    if words == ["*"] {
        return ForcedQuotes::All;
    }
    let names = words.iter().filter(|word| !["(", ")", ","].contains(word));
    ForcedQuotes::Columns(names.map(|name| identifier(name)).collect())
}

fn format_of(text: &str) -> Result<CopyFormat, PgError> {
    match text.to_ascii_lowercase().as_str() {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "binary" => Ok(CopyFormat::Binary),
        other => Err(PgError::new("22023", format!("there is no copy format `{other}`"))
            .hint("formats are text, csv and binary")),
    }
}

fn flag(text: &str) -> Result<bool, PgError> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        other => Err(PgError::new("42601", format!("`{other}` is not a boolean"))),
    }
}

fn byte(text: &str) -> Result<u8, PgError> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !b"\r\n".contains(byte) => Ok(*byte),
        _ => Err(PgError::new("0A000", format!("`{text}` is not one ASCII character"))),
    }
}

fn is_utf8(text: &str) -> bool {
    ["utf8", "utf-8", "unicode"].contains(&text.to_ascii_lowercase().as_str())
}

fn unknown(option: &str) -> PgError {
    PgError::unsupported(format!("the option `{option}` of `copy` is not supported"))
}

fn malformed() -> PgError {
    PgError::new("42601", "the statement is incomplete")
        .hint("copy (select …) to stdout with (format csv, header)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::words;

    fn parse(sql: &str) -> Result<CopyStatement, PgError> {
        let rest: Vec<&str> = words(sql).skip(1).collect();
        CopyStatement::parse(sql, &rest)
    }

    #[test]
    fn queries_tables_and_columns_are_copied() {
        for (sql, query) in [
            ("copy (select 1, (2) from x) to stdout", "select 1, (2) from x"),
            ("COPY log TO STDOUT", "select * from log"),
            ("copy public.\"log\" (ts, host) to stdout", "select ts, host from public.\"log\""),
            ("copy log (ts) to stdout", "select ts from log"),
            ("copy binary log to stdout", "select * from log"),
        ] {
            assert_eq!(parse(sql).map(|copy| copy.sql).as_deref(), Ok(query), "{sql}");
        }
    }

    #[test]
    fn options_are_read_in_both_notations() {
        let new = "copy (select 1) to stdout with (format csv, header true, delimiter ';', null 'NULL', quote '''', force_quote (a, \"B\"))";
        let old = "copy (select 1) to stdout with csv header delimiter as ';' null as 'NULL' quote '''' force quote a, \"B\"";
        assert_eq!(parse(new), parse(old));
        let copy = parse(new).expect("it is complete");
        assert_eq!((copy.format, copy.has_header, copy.delimiter), (CopyFormat::Csv, true, b';'));
        assert_eq!((copy.null.as_str(), copy.quote, copy.escape), ("NULL", b'\'', b'\''));
        let names = ForcedQuotes::Columns(vec!["a".into(), "B".into()]);
        assert_eq!(copy.force_quote, names);
        let text = parse("copy x to stdout (delimiter E'\\t')").expect("it is complete");
        assert_eq!(
            (text.format, text.delimiter, text.null.as_str()),
            (CopyFormat::Text, b'\t', "\\N")
        );
    }

    #[test]
    fn what_cannot_be_copied_is_refused() {
        for (sql, state) in [
            ("copy x from stdin", "25006"),
            ("copy x to '/etc/passwd'", "0A000"),
            ("copy x to program 'sh'", "0A000"),
            ("copy x", "42601"),
            ("copy to stdout", "42601"),
            ("copy x to stdout (format xml)", "22023"),
            ("copy x to stdout (header maybe)", "42601"),
            ("copy x to stdout (delimiter 'ab')", "0A000"),
            ("copy x to stdout (quote '|')", "42601"),
            ("copy x to stdout (format binary, header)", "42601"),
            ("copy x to stdout (encoding 'latin1')", "0A000"),
        ] {
            assert_eq!(parse(sql).expect_err(sql).state, state, "{sql}");
        }
    }
}
