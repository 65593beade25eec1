//! `key=value` lines (logfmt): `ts=… level=warn msg="request done" path=/x`.
//!
//! Accepted only if the whole line is pairs and one of them is a message or a level: reading pairs
//! from any text would turn untrusted data into keys.

use crate::field::{self, Field};
use crate::record::{Record, RowKind};
use crate::{combined, text};

/// Fewest pairs of a logfmt line.
const MIN_PAIRS: usize = 3;

/// Reads a line; `None`, with the record unchanged, if it is not in this format.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<RowKind> {
    let (mut count, mut is_log) = (0, false);
    let mut pairs = PairIter { rest: line };
    for pair in &mut pairs {
        is_log |= matches!(field::of_key(pair.0), Field::Message | Field::Severity);
        count += 1;
    }
    if !pairs.rest.is_empty() || count < MIN_PAIRS || !is_log {
        return None;
    }
    for (key, value) in (PairIter { rest: line }) {
        record.put([key, text::unescape(value, record.arena)], field::of_key(key));
    }
    Some(record.guess_kind())
}

/// Iterates over leading pairs; stops at the first text that is not a pair and leaves it in `rest`.
struct PairIter<'a> {
    rest: &'a str,
}

impl<'a> Iterator for PairIter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, behind) = self.rest.trim_ascii_start().split_once('=')?;
        if key.is_empty() || key.len() > 128 || !key.bytes().all(is_key_byte) {
            return None;
        }
        let (value, rest) = match behind.strip_prefix('"') {
            Some(quoted) => combined::quoted_end(quoted)?,
            None => behind.split_at(behind.find(' ').unwrap_or(behind.len())),
        };
        if !rest.is_empty() && !rest.starts_with(' ') {
            return None;
        }
        self.rest = rest.trim_ascii_start();
        Some((key, value))
    }
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.@/".contains(&byte)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn pairs_are_read_when_the_whole_line_is_pairs() {
        check_format(
            LogFormat::Auto,
            r#"ts=2026-11-20T11:59:59.123Z level=warn service=api msg="request \"done\"" dur_ms=12.5 path=/x empty=
level=info method=GET path=/y status=200 dur_ms=3
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  http_request_method: GET
                  url_path: /y
                  http_response_status_code: 200
                  duration_seconds: 0.003
                  attrs: {level: info}
                log
                  ts: 2026-11-20T11:59:59.123Z
                  program: api
                  severity: warn
                  body: request "done"
                  attrs: {dur_ms: 12.5, path: /x, empty: }
            "#]],
        );
    }

    #[test]
    fn other_text_with_equal_signs_stays_text() {
        check_format(
            LogFormat::Auto,
            "level=error open() \"/x?a=1&b=2\" failed host=3 msg=x\na=1 b=2 c=3\nlevel=info msg=\"torn\n",
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00Z
                  body: level=error open() "/x?a=1&b=2" failed host=3 msg=x
                log
                  ts: 2026-11-20T12:00:00Z
                  body: a=1 b=2 c=3
                log
                  ts: 2026-11-20T12:00:00Z
                  body: level=info msg="torn
            "#]],
        );
    }
}
