//! What an envelope says of the line inside of it: a container's runtime, syslog, the journal, or
//! a shipper's JSON.
//!
//! The line inside is read on its own and its values take precedence, because the program that
//! wrote it has them first hand. The envelope's values fill what is missing, its other values are
//! attributes.

use weir_tables::Micros;

use super::{Record, RowKind};
use crate::field::Field;

/// Web servers as they are called in syslog, and in their own format.
const WEB_SERVERS: [(&str, &str); 5] = [
    ("nginx", "nginx"),
    ("apache", "apache"),
    ("apache2", "apache"),
    ("httpd", "apache"),
    ("haproxy", "haproxy"),
];

/// Whether a web server's message looks like a line of another program: a visitor made it contain
/// that.
fn is_foreign(server: &str, inside: &str) -> bool {
    WEB_SERVERS.iter().any(|(name, own)| *name == server && *own != inside)
}

/// Values of an envelope.
#[derive(Debug, Default)]
pub(crate) struct Envelope<'a> {
    /// The line inside.
    pub(crate) text: &'a str,
    pub(crate) ts: Option<Micros>,
    pub(crate) severity: Option<&'a str>,
    pub(crate) facility: Option<&'a str>,
    pub(crate) program: Option<&'a str>,
    pub(crate) process_id: Option<i64>,
    pub(crate) attrs: Vec<(&'a str, &'a str)>,
}

impl<'a> Envelope<'a> {
    /// Takes the values that a header put into the record, and clears the record.
    pub(crate) fn take(text: &'a str, record: &mut Record<'a>) -> Self {
        let log = &record.log;
        let taken = Self {
            text,
            ts: record.ts,
            severity: log.severity,
            facility: log.facility,
            program: log.program,
            process_id: log.process_id,
            attrs: record.take_pairs(),
        };
        record.clear_texts();
        taken
    }

    /// Puts the values back as those of the line itself.
    pub(crate) fn restore(self, record: &mut Record<'a>) {
        record.clear_texts();
        record.ts = self.ts;
        record.log.severity = self.severity;
        record.log.facility = self.facility;
        record.log.program = self.program;
        record.log.process_id = self.process_id;
        for pair in self.attrs {
            record.put(pair.into(), Field::Attr);
        }
    }
}

impl<'a> Record<'a> {
    /// Fills what the line inside lacks.
    pub(super) fn settle_envelope(&mut self, kind: RowKind) {
        if self.envelope.text.is_empty() {
            return;
        }
        let envelope = std::mem::take(&mut self.envelope);
        self.ts = self.ts.or(envelope.ts);
        let log = &mut self.log;
        log.program = match (log.program, envelope.program) {
            (Some(inside), Some(server)) if is_foreign(server, inside) => Some(server),
            (inside, outside) => inside.or(outside),
        };
        log.severity = log.severity.or(envelope.severity);
        log.facility = log.facility.or(envelope.facility);
        log.process_id = log.process_id.or(envelope.process_id);
        self.request.program = self.request.program.or(envelope.program);
        if kind == RowKind::Log && log.body.is_empty() {
            log.body = envelope.text;
        }
        for (key, value) in envelope.attrs {
            if !value.is_empty() {
                self.keep_attr([key, value]);
            }
        }
    }
}
