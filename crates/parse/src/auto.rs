//! Lines of a file of which nothing is known: each line is looked at on its own.
//!
//! Only JSON can be rejected here: a line that begins like an object and is none was torn or made by hand. All
//! others are at least plain text.

use crate::json_lines::JsonLines;
use crate::record::{Fault, Kind, Record};
use crate::{apache_error, combined, haproxy, klog, log_text, logfmt, nginx_error, syslog};

/// Reads lines of any known format.
pub(crate) struct Auto {
    json: JsonLines,
}

impl Default for Auto {
    fn default() -> Self {
        Self { json: JsonLines::free() }
    }
}

impl Auto {
    /// Whether a line is taken for JSON.
    pub(crate) fn is_json(line: &[u8]) -> bool {
        let line = line.trim_ascii_start();
        line.strip_prefix(b"{")
            .is_some_and(|rest| matches!(rest.trim_ascii_start(), [b'"' | b'}', ..]))
    }

    /// Reads a line.
    pub(crate) fn parse<'a>(
        &mut self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Result<Kind, Fault> {
        if Self::is_json(line.as_bytes()) {
            return self.json.parse(line, record);
        }
        if combined::is_likely(line) && combined::parse(line, record).is_ok() {
            return Ok(Kind::Request);
        }
        record.clear_texts();
        if haproxy::is_access(line) {
            return haproxy::parse(line, record);
        }
        Ok(Self::parse_log(line, record))
    }

    fn parse_log<'a>(line: &'a str, record: &mut Record<'a>) -> Kind {
        if syslog::is_likely(line, record) {
            return syslog::parse(line, record);
        }
        if nginx_error::is_likely(line) {
            return nginx_error::parse(line, record);
        }
        if apache_error::is_likely(line) {
            return apache_error::parse(line, record);
        }
        if klog::parse(line, record).is_some() {
            return Kind::Log;
        }
        if let Some(kind) = logfmt::parse(line, record) {
            return kind;
        }
        log_text::parse(line, record);
        Kind::Log
    }
}
