//! The line that a shipper (Filebeat, Fluentd, Vector, Logstash) wraps into JSON as `message`.
//!
//! Only a message in a detected format is taken for such a line. Then the shipper's own keys say
//! nothing of it, except its time, severity and program, and are attributes.

use weir_values::severity;

use crate::contained::ContainedFormat;
use crate::field::Field;
use crate::record::{Envelope, Record, RowKind, TextList};

/// Keys of the line, in this order.
const KEYS: [&str; 5] = ["message", "MESSAGE", "log", "msg", "textPayload"];

/// Reads the message of the JSON object in the record, if it is a line of a known format.
pub(crate) fn parse<'a>(
    kind: RowKind,
    contained: &mut ContainedFormat,
    record: &mut Record<'a>,
) -> RowKind {
    if kind == RowKind::Request {
        return kind;
    }
    let Some((key, text)) = KEYS.iter().find_map(|key| Some((*key, record.text(key)?))) else {
        return kind;
    };
    let line = text.trim_end_matches(['\n', '\r']);
    if !may_be_line(line) {
        return kind;
    }
    let texts = record.take_texts();
    let taken_for = record.taken_for;
    record.clear_texts();
    if let Some(inner) = contained.parse_known(line, record) {
        record.taken_for = taken_for;
        record.envelope = envelope([key, line], &texts, record);
        return inner;
    }
    record.taken_for = taken_for;
    record.put_back(texts);
    kind
}

/// A cheap test: nearly all messages are prose, and each would be tried with every format.
fn may_be_line(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_object = bytes.first() == Some(&b'{') && bytes.last() == Some(&b'}');
    let is_access = memchr::memmem::find(bytes, b" [").is_some() && bytes.contains(&b'"');
    let is_error_log = bytes.len() > 20 && (bytes[0] == b'[' || bytes[4] == b'/');
    let is_pairs = bytes.iter().filter(|byte| **byte == b'=').count() >= 3;
    is_object || is_access || is_error_log || is_pairs
}

fn envelope<'a>(
    [line_key, text]: [&'a str; 2],
    texts: &TextList<'a>,
    record: &mut Record<'a>,
) -> Envelope<'a> {
    let mut envelope = Envelope { text, ..Envelope::default() };
    for (key, value, field) in texts.iter() {
        let is_used = match field {
            _ if key == line_key => true,
            Field::Time if envelope.ts.is_none() => {
                envelope.ts = record.times.read(value);
                envelope.ts.is_some()
            }
            Field::Severity if envelope.severity.is_none() => {
                envelope.severity = severity::of_word(value);
                envelope.severity.is_some()
            }
            Field::Program if envelope.program.is_none() => {
                envelope.program = Some(value);
                true
            }
            _ => false,
        };
        if !is_used {
            envelope.attrs.push((key, value));
        }
    }
    envelope
}
