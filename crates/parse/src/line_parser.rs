//! Parses the lines of one stream: splits a chunk into lines, passes each to its format, writes
//! rows.
//!
//! A format returns a filled `Record` or a `LineFault`; a faulty line is kept raw in `reject`.
//! Nothing here or below panics on input.

use std::sync::Arc;

use memchr::memchr;
use weir_tables::{LogFormat, LogSource, Micros, Program, Reject};
use weir_values::{TimeReader, Zone};

use crate::container_join;
use crate::format::{Format, LineJoin};
use crate::formats;
use crate::key_budget::{DEFAULT_KEY_BUDGET, KeyBudget};
use crate::pipeline::{Pipeline, PipelineRow, redact};
use crate::record::{LineFault, Record, RowKind};
use crate::redact::Redaction;
use crate::utf16::ByteOrder;
use crate::{KeyReport, ParsedRows, text, utf16, western};

/// Most bytes in which a quote is closed.
const MAX_QUOTED_BYTES: usize = 256 << 10;
/// Lines of comment in front of a log's first line, and that line.
const MAX_FIRST_LINES: usize = 10;
/// The mark of UTF-8 at the start of a file.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";
/// Longest line; longer ones are rejected.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Bytes that are kept of an overlong line.
const KEPT_BYTES: usize = 4096;
/// Arena memory that is reused for the next chunk.
const ARENA_BYTES: usize = 4 << 20;

/// Name of a stream, for its rows.
#[derive(Clone, Copy, Debug)]
pub struct StreamName<'a> {
    /// The column `source`.
    pub path: &'a str,
    /// The column `host`.
    pub host: &'a str,
}

/// Parses the lines of one stream into rows, and keeps what it learns about their layout.
///
/// Tier: access logs of nginx, HAProxy and Apache, and lines of any other log with method and
/// target or status, are requests of tier `proxy`, because the clock is in the program that talks
/// to the peer. An Apache that runs the application itself is still where the bytes leave, so it is
/// `proxy` too.
///
/// Times without a zone are UTC unless [`LineParser::with_zone`] or the pipeline sets one. Times
/// without a year get the year that is closest to the time of reading, but at most a day after it.
/// Impossible times (before 1990, more than a day ahead) are replaced by the time of reading, and
/// `repair` records that.
pub struct LineParser {
    path: String,
    host: String,
    program: Option<&'static str>,
    format: Box<dyn Format>,
    pipeline: Option<Arc<Pipeline>>,
    /// Pipelines of which one may have the log's first line; empty once that was read.
    candidates: Arc<[Arc<Pipeline>]>,
    /// Redacting ones among them, which any line may choose: a torn or unusual first line must not let
    /// data through. Empty once one was chosen.
    redacting: Arc<[Arc<Pipeline>]>,
    zone: Zone,
    redaction: Redaction,
    keys: KeyBudget,
    taken_for: &'static str,
    is_utf16: bool,
    /// Order of the bytes of a file in UTF-16.
    order: Option<ByteOrder>,
    /// Attributes of every row, such as the names of the container that writes the log.
    attributes: Vec<(String, String)>,
    /// Time of the last write of the file.
    written: Option<Micros>,
}

impl LineParser {
    /// A parser for one stream of a source.
    pub fn new(source: &LogSource, stream: StreamName<'_>) -> Self {
        let program = match source.program {
            Program::Nginx => Some("nginx"),
            Program::Haproxy => Some("haproxy"),
            Program::Apache => Some("apache"),
            Program::Syslog | Program::Journal | Program::Other => None,
        };
        let path = if source.program == Program::Journal { "journal" } else { stream.path };
        Self {
            path: path.to_owned(),
            host: stream.host.to_owned(),
            program,
            format: formats::new(&source.format),
            pipeline: None,
            candidates: Arc::default(),
            redacting: Arc::default(),
            zone: Zone::default(),
            redaction: Redaction::default(),
            keys: KeyBudget::new(DEFAULT_KEY_BUDGET),
            taken_for: "",
            is_utf16: false,
            order: None,
            attributes: Vec::new(),
            written: None,
        }
    }

    /// Adds attributes to every row of `request` and `log`, such as the names of the container that
    /// writes the log. A value of the line with the same name becomes `name#2`.
    #[must_use]
    pub fn with_attributes(mut self, attributes: Vec<(String, String)>) -> Self {
        self.attributes = attributes;
        self
    }

    /// Sets when the file was last written: times without a year are near that. `None`, or a time
    /// behind the time of reading, has no effect.
    pub fn set_last_write(&mut self, written: Option<Micros>) {
        self.written = written;
    }

    /// Sets the first bytes of the file, which show its encoding and its format, for a reader that
    /// starts behind them. [`LineParser::parse`] reads them where it starts at offset 0.
    pub fn set_head(&mut self, head: &[u8]) {
        self.order = self.order.or_else(|| utf16::order_of_file(head));
        self.choose_pipeline(head);
        self.format.set_head(head);
    }

    /// Starts of lines that replace what the head says, anywhere in a file: a reader that starts behind
    /// the head passes the newest one of each before its position to [`LineParser::set_head`].
    pub fn later_heads(&self) -> &'static [&'static str] {
        self.format.later_heads()
    }

    /// Reads times without a zone as in `zone`.
    #[must_use]
    pub fn with_zone(mut self, zone: Zone) -> Self {
        self.zone = zone;
        self
    }

    /// Applies a pipeline; its zone overrides [`LineParser::with_zone`].
    #[must_use]
    pub fn with_pipeline(mut self, pipeline: Arc<Pipeline>, source: &LogSource) -> Self {
        self.apply_pipeline(pipeline, &source.format);
        self
    }

    /// Applies the one of `candidates` whose `[match]` has the first line of the log, once that is
    /// known, and the one of `redacting` that has any line.
    #[must_use]
    pub(crate) fn with_candidates(
        mut self,
        candidates: &Arc<[Arc<Pipeline>]>,
        redacting: &Arc<[Arc<Pipeline>]>,
    ) -> Self {
        (self.candidates, self.redacting) = (Arc::clone(candidates), Arc::clone(redacting));
        self
    }

    fn apply_pipeline(&mut self, pipeline: Arc<Pipeline>, found: &LogFormat) {
        self.format = pipeline.format(found);
        if let Some(zone) = pipeline.zone() {
            self.zone = zone.clone();
        }
        self.order = pipeline.byte_order().or(self.order);
        if pipeline.redacts() {
            self.redacting = Arc::default();
        }
        self.pipeline = Some(pipeline);
    }

    /// Looks at the first line once, and at comments before it, so that those behind it cost nothing.
    fn choose_pipeline(&mut self, bytes: &[u8]) {
        self.choose_by_first_line(bytes);
        if self.redacting.is_empty() {
            return;
        }
        let mut lines = bytes.split(|byte| *byte == b'\n').map(trim_end);
        let chosen = lines.find_map(|line| {
            self.redacting.iter().find(|pipeline| pipeline.has_line(line)).cloned()
        });
        if let Some(pipeline) = chosen {
            self.apply_pipeline(pipeline, &LogFormat::Auto);
        }
    }

    fn choose_by_first_line(&mut self, bytes: &[u8]) {
        if self.candidates.is_empty() {
            return;
        }
        let bytes = bytes.strip_prefix(UTF8_MARK).unwrap_or(bytes);
        let lines = bytes.split(|byte| *byte == b'\n').map(trim_end);
        let mut lines = lines.filter(|line| !line.is_empty()).take(MAX_FIRST_LINES).peekable();
        let mut first = Vec::new();
        while lines.peek().is_some_and(|line| line.starts_with(b"#")) {
            first.extend(lines.next());
        }
        first.extend(lines.next());
        if first.is_empty() {
            return;
        }
        let candidates = std::mem::take(&mut self.candidates);
        let has_any = |pipeline: &&Arc<Pipeline>| first.iter().any(|line| pipeline.has_line(line));
        if let Some(pipeline) = candidates.iter().find(has_any) {
            self.apply_pipeline(Arc::clone(pipeline), &LogFormat::Auto);
        }
    }

    /// Redacts every row and every reject.
    #[must_use]
    pub fn with_redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Limits the distinct attribute names of the stream.
    #[must_use]
    pub fn with_key_budget(mut self, names: usize) -> Self {
        self.keys = KeyBudget::new(names);
        self
    }

    /// The format of the last line; for unknown logs, the detected one.
    pub fn format_name(&self) -> &'static str {
        if self.taken_for.is_empty() { self.format.name() } else { self.taken_for }
    }

    /// Whether its format joins lines up to the one that closes a quote, so that a reader must not
    /// cut a record between them.
    pub fn joins_quotes(&self) -> bool {
        matches!(self.format.line_join(), LineJoin::Quotes { .. })
    }

    /// Attribute names over the limit since the last call.
    pub fn take_key_report(&mut self) -> Option<KeyReport> {
        self.keys.take_report()
    }

    /// Whether the first line of the file names the values and was not read, because reading
    /// started after it.
    pub fn needs_header(&self) -> bool {
        self.format.needs_header()
    }

    /// Sets the first line of the file, which names the values; a byte order mark is no part of it.
    pub fn set_header(&mut self, line: &str) {
        self.format.set_header(line.trim_start_matches('\u{feff}'));
    }

    /// Appends one row for each line of `bytes` that is not blank.
    ///
    /// `bytes` are whole lines, each ending in `\n`; the last one may lack it at the final end of a
    /// file. `offset` is the stream offset of `bytes[0]`, `observed` the time of reading.
    pub fn parse(&mut self, bytes: &[u8], offset: u64, observed: Micros, out: &mut ParsedRows) {
        self.choose_pipeline(bytes);
        if self.format.looks_ahead() {
            let lines = bytes.split(|byte| *byte == b'\n').map(trim_end);
            let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
            self.format.look_ahead(&lines);
        }
        let line_join = self.format.line_join();
        self.parse_cut(ChunkBytes { bytes, offset, ends: None }, observed, out, |at| {
            if let LineJoin::Quotes { delimiter } = line_join
                && let Some(length) = record_length(&bytes[at..], delimiter)
            {
                return at + length;
            }
            memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end + 1)
        });
    }

    /// Appends one row for each event of `bytes` that is not blank. Like [`LineParser::parse`], but
    /// events end at `ends` and can span several lines.
    pub fn parse_events(
        &mut self,
        bytes: &[u8],
        ends: &[usize],
        offset: u64,
        observed: Micros,
        out: &mut ParsedRows,
    ) {
        self.choose_pipeline(bytes);
        let cut = ChunkBytes { bytes, offset, ends: Some(ends) };
        let mut ends = ends.iter().copied();
        self.parse_cut(cut, observed, out, |at| {
            let end = ends.find(|end| *end > at).unwrap_or(bytes.len());
            end.min(bytes.len())
        });
    }

    /// `end_of` returns the end of the line or event that starts at an offset.
    fn parse_cut(
        &mut self,
        ChunkBytes { bytes, offset, ends }: ChunkBytes<'_>,
        observed: Micros,
        out: &mut ParsedRows,
        mut end_of: impl FnMut(usize) -> usize,
    ) {
        if offset == 0
            && let Some(order) = utf16::order_of_file(bytes)
        {
            self.order = Some(order);
        }
        let arena = std::mem::take(&mut out.arena);
        let place = ChunkContext {
            path: &self.path,
            host: &self.host,
            program: self.program,
            observed,
            parser: self.format.name(),
            pipeline: self.pipeline.as_deref(),
            redaction: &self.redaction,
            attributes: &self.attributes,
            is_western: self.pipeline.as_ref().is_some_and(|pipeline| pipeline.is_western()),
        };
        let forms = self.pipeline.as_ref().map(|pipeline| pipeline.times()).unwrap_or_default();
        let times = TimeReader::new(observed, self.zone.clone(), forms);
        let times = times.with_last_write(self.written);
        let keys = std::mem::take(&mut self.keys);
        let mut record = Record::new(&arena, times, keys);
        record.names = self.format.names(&arena);
        record.is_utf16 = self.is_utf16;
        let joined = match (self.order, self.format.line_join()) {
            (Some(order), _) => Some(utf16::lines(bytes, (offset, order), &arena)),
            (None, LineJoin::Pieces) => container_join::joined(bytes, ends, &arena),
            (None, LineJoin::None | LineJoin::Quotes { .. }) => None,
        };
        let mut joined = joined.map(Vec::into_iter);
        let mut at = 0;
        loop {
            let (start, line) = match &mut joined {
                Some(lines) => match lines.next() {
                    Some(next) => next,
                    None => break,
                },
                None if at >= bytes.len() => break,
                None => {
                    let start = at;
                    at = end_of(start);
                    (start, &bytes[start..at])
                }
            };
            out.lines += 1;
            let line = trim_end(line);
            if !line.is_empty() {
                let line_offset = i64::try_from(offset.saturating_add(start as u64)).ok();
                parse_line(&mut *self.format, &place, line, line_offset, &mut record, out);
            }
        }
        self.is_utf16 = record.is_utf16;
        (self.keys, self.taken_for) = (record.keys, record.taken_for);
        if arena.allocated_bytes() <= ARENA_BYTES {
            out.arena = arena;
            out.arena.reset();
        }
    }
}

/// Bytes of a stream, their offset, and where events end in them.
struct ChunkBytes<'a> {
    bytes: &'a [u8],
    offset: u64,
    ends: Option<&'a [usize]>,
}

/// Bytes of the first record (RFC 4180) with its line end. A quote opens a value only at the
/// value's start. `None` if a quote is not closed soon or text follows its end: then the first line
/// is torn or not CSV, and is alone.
fn record_length(bytes: &[u8], delimiter: u8) -> Option<usize> {
    let mut at = if bytes.starts_with(UTF8_MARK) { UTF8_MARK.len() } else { 0 };
    loop {
        if bytes.get(at) == Some(&b'"') {
            at += 1 + closing_quote(&bytes[at + 1..])? + 1;
            let ends_value = match &bytes[at..] {
                [] | [b'\n', ..] | [b'\r', b'\n', ..] | [b'\r'] => true,
                [next, ..] => *next == delimiter,
            };
            if !ends_value {
                return None;
            }
        }
        let Some(end) = memchr::memchr2(delimiter, b'\n', &bytes[at..]) else {
            return Some(bytes.len());
        };
        at += end + 1;
        if bytes[at - 1] == b'\n' {
            return Some(at);
        }
    }
}

/// Offset of the quote that ends a value; doubled quotes are part of the value.
fn closing_quote(quoted: &[u8]) -> Option<usize> {
    let quoted = &quoted[..quoted.len().min(MAX_QUOTED_BYTES)];
    let mut at = 0;
    loop {
        at += memchr(b'"', &quoted[at..])?;
        if quoted.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// Context shared by all rows of a chunk.
struct ChunkContext<'a> {
    path: &'a str,
    host: &'a str,
    program: Option<&'static str>,
    observed: Micros,
    parser: &'static str,
    pipeline: Option<&'a Pipeline>,
    redaction: &'a Redaction,
    attributes: &'a [(String, String)],
    /// Whether lines that are not UTF-8 are in a Western encoding.
    is_western: bool,
}

impl ChunkContext<'_> {
    /// Redacts a text of a line that was not parsed.
    fn redacted(&self, text: &str) -> String {
        let text = self.redaction.apply(text);
        self.pipeline.map_or_else(|| text.to_string(), |p| p.redact_raw(&text).into_owned())
    }
}

/// The line or event without its line end; empty when it is blank.
fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut line = line.strip_suffix(b"\r").unwrap_or(line);
    // Blank lines at the end of an event are not part of it.
    while let Some(rest) = line.strip_suffix(b"\n") {
        line = rest.strip_suffix(b"\r").unwrap_or(rest);
    }
    if line.first().is_some_and(u8::is_ascii_whitespace) && line.trim_ascii().is_empty() {
        return &[];
    }
    line
}

fn parse_line<'a>(
    format: &mut dyn Format,
    place: &ChunkContext<'a>,
    line: &'a [u8],
    offset: Option<i64>,
    record: &mut Record<'a>,
    out: &mut ParsedRows,
) {
    if line.len() > MAX_LINE_BYTES {
        let detail = format!("{} bytes, more than {MAX_LINE_BYTES}", line.len());
        let fault = LineFault { reason: "too_long", detail };
        return reject(place, &line[..KEPT_BYTES], offset, &fault, out);
    }
    record.clear();
    let whole = line;
    // The mark of the encoding is no part of the first line.
    let line = line.strip_prefix(UTF8_MARK).unwrap_or(line);
    let line = match line {
        // The second byte of the last line end.
        [0] if record.is_utf16 => return,
        [0 | 0xfe | 0xff, ..] => match utf16::decoded(line, record.arena) {
            Some(line) => {
                record.is_utf16 = true;
                line
            }
            None => line,
        },
        _ => line,
    };
    if line.is_empty() {
        return;
    }
    let (text, is_mended) = match std::str::from_utf8(line) {
        Ok(text) => (text, false),
        Err(_) if place.is_western => (western::decoded(line, record.arena), false),
        Err(_) => text::lossless(line, format.byte_escape(line), record.arena),
    };
    record.repair.invalid_utf8 = is_mended;
    let parsed = format.parse(text, record).and_then(|kind| settle(place, kind, text, record));
    match parsed {
        Ok(kind) => accept(place, kind, offset, record, out),
        Err(fault) => reject(place, whole, offset, &fault, out),
    }
}

/// Fills the columns, then applies pipeline and redaction.
fn settle<'a>(
    place: &ChunkContext<'a>,
    kind: RowKind,
    line: &'a str,
    record: &mut Record<'a>,
) -> Result<RowKind, LineFault> {
    for (name, value) in place.attributes {
        record.keep_source_attr([name, value]);
    }
    record.settle(kind);
    if record.log.body.is_empty() && !record.is_blank {
        // Without a message, show and search the line itself.
        record.log.body = line;
    }
    record.settle_time();
    let mut kind = kind;
    if let Some(pipeline) = place.pipeline {
        kind = pipeline.run(PipelineRow { record, kind, line, source: place.path })?;
        if record.is_plain {
            pipeline.redact_plain(record, kind);
        }
    }
    record.settle_budget();
    if kind == RowKind::Log {
        record.settle_template(record.log.program.or(place.program));
    }
    if !place.redaction.is_empty() {
        redact(record, kind, place.redaction);
    }
    Ok(kind)
}

fn accept<'a>(
    place: &ChunkContext<'a>,
    kind: RowKind,
    source_offset: Option<i64>,
    record: &mut Record<'a>,
    out: &mut ParsedRows,
) {
    let repair = record.repair.as_str();
    out.repaired += u64::from(repair.is_some());
    let ts = record.ts.unwrap_or(place.observed);
    match kind {
        RowKind::Request => out.request.push(&weir_tables::Request {
            ts,
            host: place.host,
            tier: if record.request.tier.is_empty() { "proxy" } else { record.request.tier },
            observed_ts: place.observed,
            source: place.path,
            source_offset,
            program: record.request.program.or(place.program),
            repair,
            attrs: record.attrs(),
            ..record.request
        }),
        RowKind::Log => out.log.push(&weir_tables::Log {
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
    place: &ChunkContext<'_>,
    line: &[u8],
    source_offset: Option<i64>,
    fault: &LineFault,
    out: &mut ParsedRows,
) {
    out.reject.push(&Reject {
        ts: place.observed,
        host: place.host,
        source: place.path,
        source_offset,
        // In logs of unknown format, only JSON lines are rejected.
        parser: if fault.reason == "invalid_json" && place.parser == "auto" {
            "json"
        } else {
            place.parser
        },
        reason: fault.reason,
        detail: &place.redacted(&fault.detail),
        raw: &place.redacted(&text::raw(line)),
        ..Default::default()
    });
}
