//! Lines of one stream to rows: cuts the chunk into lines, hands each to its format, writes the row.
//!
//! A format gives a filled `Record` or a `Fault`; the fault's line is kept raw in `reject`. Nothing here or below
//! panics on input.

use bumpalo::Bump;
use memchr::memchr;
use weir_tables::{LogSource, Micros, Program, Reject};

use crate::ParsedRows;
use crate::format::Format;
use crate::record::{Fault, Kind, Record};
use crate::text;
use crate::time::TimeReader;

/// Longer lines are rejected.
const MAX_LINE_BYTES: usize = 1 << 20;
/// What is kept of a line that is too long.
const KEPT_BYTES: usize = 4096;
/// Arena memory that is kept for the next chunk.
const ARENA_BYTES: usize = 4 << 20;

/// Turns the lines of one stream into rows. Keeps what it learns of the lines' layout from chunk to chunk.
///
/// Tier: access logs of nginx, HAProxy and Apache, and lines of any other log that say method and target or
/// status, are requests of tier `proxy`, because the clock stood in the program that talks to the peer. An Apache
/// that runs the application itself is still the place where the bytes leave, so it is `proxy` too.
///
/// Times without a zone are UTC unless [`LineParser::with_utc_offset`] says otherwise. Times without a year get the
/// year that puts them nearest to the time of reading.
pub struct LineParser {
    path: String,
    host: String,
    program: Option<&'static str>,
    format: Format,
    utc_offset_seconds: i32,
    arena: Bump,
}

impl LineParser {
    /// A parser for one stream: `source` says program and format, `path` and `host` go into the rows.
    pub fn new(source: &LogSource, path: &str, host: &str) -> Self {
        let program = match source.program {
            Program::Nginx => Some("nginx"),
            Program::Haproxy => Some("haproxy"),
            Program::Apache => Some("apache"),
            Program::Syslog | Program::Journal | Program::Other => None,
        };
        let path = if source.program == Program::Journal { "journal" } else { path };
        Self {
            path: path.to_owned(),
            host: host.to_owned(),
            program,
            format: Format::new(&source.format),
            utc_offset_seconds: 0,
            arena: Bump::new(),
        }
    }

    /// Reads times without a zone as those of a clock `seconds` east of UTC.
    #[must_use]
    pub fn with_utc_offset(mut self, seconds: i32) -> Self {
        self.utc_offset_seconds = seconds;
        self
    }

    /// Appends one row for each line of `bytes` that is not blank.
    ///
    /// `bytes` are whole lines, each ending in `\n`; the last one may lack it when the file ended for good.
    /// `offset` is the stream offset of `bytes[0]`, `observed` the time of reading.
    pub fn parse(&mut self, bytes: &[u8], offset: u64, observed: Micros, out: &mut ParsedRows) {
        if self.arena.allocated_bytes() > ARENA_BYTES {
            self.arena = Bump::new();
        }
        self.arena.reset();
        let place = Place {
            path: &self.path,
            host: &self.host,
            program: self.program,
            observed,
            parser: self.format.name(),
        };
        let times = TimeReader::new(observed, self.utc_offset_seconds);
        let mut record = Record::new(&self.arena, times);
        record.names = self.format.names(&self.arena);
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            out.lines += 1;
            let line = trim_end(&rest[..length]);
            if !line.is_empty() {
                let line_offset = i64::try_from(offset.saturating_add(at as u64)).ok();
                parse_line(&mut self.format, &place, line, line_offset, &mut record, out);
            }
            at += length + 1;
        }
    }
}

/// What all rows of a chunk share.
struct Place<'a> {
    path: &'a str,
    host: &'a str,
    program: Option<&'static str>,
    observed: Micros,
    parser: &'static str,
}

/// The line without `\r`; empty when it is blank.
fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.first().is_some_and(u8::is_ascii_whitespace) && line.trim_ascii().is_empty() {
        return &[];
    }
    line
}

fn parse_line<'a>(
    format: &mut Format,
    place: &Place<'a>,
    line: &'a [u8],
    offset: Option<i64>,
    record: &mut Record<'a>,
    out: &mut ParsedRows,
) {
    if line.len() > MAX_LINE_BYTES {
        let detail = format!("{} bytes, more than {MAX_LINE_BYTES}", line.len());
        let fault = Fault { reason: "too_long", detail };
        return reject(place, &line[..KEPT_BYTES], offset, &fault, out);
    }
    record.clear();
    let (text, is_mended) = match std::str::from_utf8(line) {
        Ok(text) => (text, false),
        Err(_) => text::lossless(line, format.byte_escape(line), record.arena),
    };
    record.repair.invalid_utf8 = is_mended;
    match format.parse(text, record) {
        Ok(kind) => accept(place, kind, text, offset, record, out),
        Err(fault) => reject(place, line, offset, &fault, out),
    }
}

fn accept<'a>(
    place: &Place<'a>,
    kind: Kind,
    line: &'a str,
    source_offset: Option<i64>,
    record: &mut Record<'a>,
    out: &mut ParsedRows,
) {
    record.settle(kind);
    if record.log.body.is_empty() {
        // Without a message the line itself is what a reader wants to see and to search.
        record.log.body = line;
    }
    let repair = record.repair.as_str();
    out.repaired += u64::from(repair.is_some());
    let ts = record.ts.unwrap_or(place.observed);
    match kind {
        Kind::Request => out.request.push(&weir_tables::Request {
            ts,
            host: place.host,
            tier: "proxy",
            observed_ts: place.observed,
            source: place.path,
            source_offset,
            program: record.request.program.or(place.program),
            repair,
            attrs: record.attrs(),
            ..record.request
        }),
        Kind::Log => out.log.push(&weir_tables::Log {
            ts,
            host: place.host,
            observed_ts: place.observed,
            source: place.path,
            source_offset,
            program: record.log.program.or(place.program),
            repair,
            attrs: record.attrs(),
            ..record.log
        }),
    }
}

fn reject(
    place: &Place<'_>,
    line: &[u8],
    source_offset: Option<i64>,
    fault: &Fault,
    out: &mut ParsedRows,
) {
    out.reject.push(&Reject {
        ts: place.observed,
        host: place.host,
        source: place.path,
        source_offset,
        // Of the formats that an unknown file can have, only JSON rejects.
        parser: if fault.reason == "invalid_json" && place.parser == "auto" {
            "json"
        } else {
            place.parser
        },
        reason: fault.reason,
        detail: &fault.detail,
        raw: &text::raw(line),
        ..Default::default()
    });
}
