//! The journal as `journalctl -o json` prints it (systemd.journal-fields(7), "Journal JSON
//! Format"). The message is read like any other line.
//!
//! A field that is not UTF-8, or has control characters such as colours, is an array of byte values;
//! a text may look like one, so the line is searched for how the field is written. Internal ids of the journal (cursor,
//! boot, machine, sequence numbers) are dropped: they differ on every row and are of no use.

use weir_values::{number, severity};

use crate::contained::ContainedFormat;
use crate::field::Field;
use crate::format::{Format, JSON_ESCAPE};
use crate::json_lines::JsonLines;
use crate::record::{Envelope, LineFault, Record, RowKind};
use crate::text;

/// Internal keys of the journal.
const OWN_KEYS: [&str; 8] = [
    "__CURSOR",
    "__MONOTONIC_TIMESTAMP",
    "__SEQNUM",
    "__SEQNUM_ID",
    "_BOOT_ID",
    "_MACHINE_ID",
    "_SOURCE_MONOTONIC_TIMESTAMP",
    "_SOURCE_BOOTTIME_TIMESTAMP",
];

/// A reader of journal lines.
pub(crate) fn format() -> Box<dyn Format> {
    let lines = JsonLines::new(|_| Field::Attr);
    Box::new(JournalFormat { lines, contained: ContainedFormat::default() })
}

/// Reads the journal's entries.
struct JournalFormat {
    lines: JsonLines,
    contained: ContainedFormat,
}

impl Format for JournalFormat {
    fn name(&self) -> &'static str {
        "journal"
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        self.lines.read(line, record)?;
        Ok(parse_entry(line, &mut self.contained, record))
    }

    fn byte_escape(&self, _line: &[u8]) -> &'static str {
        JSON_ESCAPE
    }
}

/// Reads the entry whose keys and values are in the record, and the line that is its message.
pub(crate) fn parse_entry<'a>(
    line: &'a str,
    contained: &mut ContainedFormat,
    record: &mut Record<'a>,
) -> RowKind {
    for (key, value) in record.take_pairs() {
        take((key, decoded(line, (key, value), record)), record);
    }
    settle_entry(contained, record)
}

/// Reads the message of the entry in the record.
pub(crate) fn settle_entry<'a>(
    contained: &mut ContainedFormat,
    record: &mut Record<'a>,
) -> RowKind {
    record.log.program = record.log.program.or(record.request.program);
    let message = record.log.body;
    if message.is_empty() {
        return RowKind::Log;
    }
    let entry = Envelope::take(message, record);
    match contained.parse_known(message, record) {
        Some(kind) => {
            record.envelope = entry;
            kind
        }
        None => {
            entry.restore(record);
            record.log.body = message;
            RowKind::Log
        }
    }
}

/// Takes a field of an entry.
pub(crate) fn take<'a>((key, value): (&'a str, &'a str), record: &mut Record<'a>) {
    let log = &mut record.log;
    match key {
        "__REALTIME_TIMESTAMP" if record.ts.is_none() => {
            record.ts = record.times.read(value);
            if record.ts.is_none() {
                record.attr([key, value]);
            }
        }
        "MESSAGE" => record.log.body = value,
        "PRIORITY" => log.severity = number::integer(value).and_then(severity::of_syslog),
        "SYSLOG_FACILITY" => log.facility = number::integer(value).and_then(severity::facility),
        "SYSLOG_IDENTIFIER" => log.program = Some(value),
        // Used without an identifier; kept here until all keys are read.
        "_COMM" => record.request.program = Some(value),
        "_PID" => log.process_id = number::integer(value),
        _ if OWN_KEYS.contains(&key) => {}
        _ => record.attr([key, value]),
    }
}

/// Decodes a field that the line has as an array of bytes; any other value is the text itself.
fn decoded<'a>(line: &str, (key, value): (&str, &'a str), record: &mut Record<'a>) -> &'a str {
    let Some(list) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return value;
    };
    let bytes: Option<Vec<u8>> =
        list.split(',').map(|number| number.trim_ascii().parse().ok()).collect();
    let Some(bytes) = bytes.filter(|_| is_array(line, key)) else { return value };
    let bytes = record.arena.alloc_slice_copy(&bytes);
    let (text, is_mended) = text::lossless(bytes, "\\x", record.arena);
    record.repair.invalid_utf8 |= is_mended;
    text
}

/// Whether a field is written as an array. Unambiguous: quotes inside of texts are escaped.
fn is_array(line: &str, key: &str) -> bool {
    let behind = line.split_once(&format!("\"{key}\"")).map_or("", |(_, behind)| behind);
    let value = behind.trim_ascii_start().strip_prefix(':').unwrap_or("");
    value.trim_ascii_start().starts_with('[')
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn journal_entries_are_read_also_as_bytes() {
        check_format(
            LogFormat::Journal,
            r#"{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"1795175999123456","_BOOT_ID":"b","PRIORITY":"4","SYSLOG_FACILITY":"3","SYSLOG_IDENTIFIER":"nginx","_COMM":"nginx","_PID":"812","_SYSTEMD_UNIT":"nginx.service","MESSAGE":"worker exited"}
{"__REALTIME_TIMESTAMP":"1795175999123456","_COMM":"app","MESSAGE":[104,105,255,10],"_EXTRA":["a","b"]}
{"__REALTIME_TIMESTAMP":"1795175999123456","MESSAGE":null}
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T11:59:59.123456Z
                  program: nginx
                  process_id: 812
                  severity: warn
                  facility: daemon
                  body: worker exited
                  attrs: {_SYSTEMD_UNIT: nginx.service}
                log
                  ts: 2026-11-20T11:59:59.123456Z
                  program: app
                  body: hi\xFF

                  repair: invalid_utf8
                  attrs: {_EXTRA: ["a","b"]}
                log
                  ts: 2026-11-20T11:59:59.123456Z
                  body: {"__REALTIME_TIMESTAMP":"1795175999123456","MESSAGE":null}
            "#]],
        );
    }

    /// Field cases: elastic/beats#41083, opentelemetry-collector-contrib#35964. An application that
    /// logs a JSON array writes a text that looks like bytes.
    #[test]
    fn bytes_are_text_in_every_field_and_a_text_like_bytes_stays() {
        check_format(
            LogFormat::Journal,
            r#"{"__REALTIME_TIMESTAMP":"1795175999123456","MESSAGE":"[200]","_CMDLINE":[47,97,255],"SHOP":"[1,2]","LIST":["1","2"]}
{"__REALTIME_TIMESTAMP":"1795175999123456","NOTE":"\"MESSAGE\":[","MESSAGE" : [ 104, 105 ]}
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T11:59:59.123456Z
                  body: [200]
                  repair: invalid_utf8
                  attrs: {_CMDLINE: /a\xFF, SHOP: [1,2], LIST: ["1","2"]}
                log
                  ts: 2026-11-20T11:59:59.123456Z
                  body: hi
                  attrs: {NOTE: "MESSAGE":[}
            "#]],
        );
    }

    #[test]
    fn torn_entry_is_rejected() {
        check_format(
            LogFormat::Journal,
            r#"{"__CURSOR":"s=1","MESS"#,
            expect![[r#"
            reject
              ts: 2026-11-20T12:00:00Z
              reason: invalid_json
              detail: a string without end begins at byte 18
              raw: {"__CURSOR":"s=1","MESS
        "#]],
        );
    }
}
