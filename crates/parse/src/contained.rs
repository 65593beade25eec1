//! The line inside of an envelope, in any detected format, read once: what it contains in turn is
//! text.

use crate::detectors;
use crate::json_lines::JsonLines;
use crate::log_text;
use crate::record::{Record, RowKind};

/// Reads the lines inside of the envelopes of one stream.
pub(crate) struct ContainedFormat {
    json: JsonLines,
}

impl Default for ContainedFormat {
    fn default() -> Self {
        Self { json: JsonLines::free() }
    }
}

impl ContainedFormat {
    /// Reads a line into an empty record. A torn one is text: the entry that holds it is whole.
    pub(crate) fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> RowKind {
        self.parse_known(line, record).unwrap_or_else(|| {
            record.taken_for = "text";
            log_text::parse(line, record);
            RowKind::Log
        })
    }

    /// Reads a line in a detected format; `None`, with the record empty, if it is plain text.
    pub(crate) fn parse_known<'a>(
        &mut self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Option<RowKind> {
        let repair = record.repair;
        let outcome = if detectors::is_json(line.as_bytes()) {
            record.taken_for = "json";
            Some(self.json.parse(line, record))
        } else {
            detectors::read_known(line, record)
        };
        let kind = outcome.and_then(Result::ok);
        if kind.is_none() {
            record.clear_texts();
            record.repair = repair;
        }
        kind
    }
}
