//! What a protocol makes of one request or of one read of a socket: lines for the parser, and rows of its own.
//!
//! An *item* is what the sender counts (a document of a bulk request, a syslog frame), numbered in its order, so that
//! protocols that answer item by item can.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use http::StatusCode;
use memchr::memchr;
use weir_tables::{
    Batch, Log, LogRows, Metric, MetricRows, Micros, Reject, RejectRows, Request, RequestRows,
    Rows, Span, SpanRows,
};

use crate::http::Refusal;
use crate::hub::Lines;
use crate::window::{Claim, Claims, Identity, Window};

/// Items of one request at most.
pub(crate) const MAX_ITEMS: usize = 200_000;
/// Attributes of one request's rows at most: they can be many times the body.
const MAX_ATTR_BYTES: usize = 64 << 20;
/// Pairs of host and source that one request may have lines of; more go under the last.
const MAX_GROUPS: usize = 1024;
/// What is kept of an item that no protocol understood.
const MAX_RAW_BYTES: usize = 64 << 10;

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Durable.
    Kept,
    /// Sent before and kept then.
    Known,
    /// Sent before, and not yet through.
    Pending,
    /// Kept raw in `reject`, for this reason.
    Rejected(String),
}

/// Items of one request.
#[derive(Debug)]
pub(crate) struct Harvest {
    /// When it arrived.
    pub(crate) now: Micros,
    pub(crate) groups: Vec<Lines>,
    by_key: HashMap<(String, String), usize>,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) claims: Claims,
    reject: RejectRows,
    log: LogRows,
    request: RequestRows,
    span: SpanRows,
    metric: MetricRows,
    /// Bytes of attributes of these rows: a resource with many stands in each of its rows.
    attr_bytes: usize,
    is_overflowing: bool,
}

impl Harvest {
    pub(crate) fn new(now: Micros, window: &Arc<Window>) -> Self {
        Self {
            now,
            groups: Vec::new(),
            by_key: HashMap::new(),
            verdicts: Vec::new(),
            claims: Claims::new(Arc::clone(window)),
            reject: RejectRows::default(),
            log: LogRows::default(),
            request: RequestRows::default(),
            span: SpanRows::default(),
            metric: MetricRows::default(),
            attr_bytes: 0,
            is_overflowing: false,
        }
    }

    /// Whether the next item would be one too many.
    pub(crate) fn is_full(&self) -> bool {
        self.verdicts.len() >= MAX_ITEMS || self.attr_bytes > MAX_ATTR_BYTES
    }

    /// Whether these very bytes were kept before: senders whose protocol has no identity send the same bytes again until
    /// they are taken. What is known is one item.
    ///
    /// # Errors
    /// When a request with these bytes is not through yet.
    pub(crate) fn is_known_body(&mut self, protocol: &str, body: &[u8]) -> Result<bool, Refusal> {
        let claim = self.claims.claim(Identity::of(&[protocol.as_bytes(), body]));
        match claim {
            Claim::New => Ok(false),
            Claim::Known => {
                self.verdicts.push(Verdict::Known);
                Ok(true)
            }
            Claim::Pending => {
                let message = "the same request is not through yet";
                Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "pending", message))
            }
        }
    }

    /// Adds a row of `log` as one item.
    pub(crate) fn log_row(&mut self, row: &Log<'_>) {
        if self.has_room(row.attrs) {
            self.log.push(row);
        }
    }

    /// Adds a row of `request` as one item.
    pub(crate) fn request_row(&mut self, row: &Request<'_>) {
        if self.has_room(row.attrs) {
            self.request.push(row);
        }
    }

    /// Adds a row of `span` as one item.
    pub(crate) fn span_row(&mut self, row: &Span<'_>) {
        if self.has_room(row.attrs) {
            self.span.push(row);
        }
    }

    /// Adds a row of `metric` as one item.
    pub(crate) fn metric_row(&mut self, row: &Metric<'_>) {
        if self.has_room(row.labels) {
            self.metric.push(row);
        }
    }

    fn has_room(&mut self, attrs: &[(&str, &str)]) -> bool {
        if self.is_full() {
            self.is_overflowing = true;
            return false;
        }
        self.attr_bytes += attrs.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        self.verdicts.push(Verdict::Kept);
        true
    }

    /// # Errors
    /// When rows were left out because there were too many.
    pub(crate) fn checked(&self) -> Result<(), Refusal> {
        if self.is_overflowing { Err(too_many()) } else { Ok(()) }
    }

    /// Adds a line as one item, unless one with its identity was kept before. Line ends inside become `#012`, as rsyslog writes them.
    pub(crate) fn line(&mut self, place: Place<'_>, line: &[u8], id: Option<Identity>) {
        match id.map(|id| self.claims.claim(id)) {
            Some(Claim::Known) => return self.verdicts.push(Verdict::Known),
            Some(Claim::Pending) => return self.verdicts.push(Verdict::Pending),
            Some(Claim::New) | None => {}
        }
        let group = self.group(place);
        let item = self.verdicts.len();
        let lines = &mut self.groups[group];
        lines.items.push((lines.bytes.len(), item));
        let mut rest = line;
        while let Some(at) = memchr(b'\n', rest) {
            lines.bytes.extend_from_slice(&rest[..at]);
            lines.bytes.extend_from_slice(b"#012");
            rest = &rest[at + 1..];
        }
        lines.bytes.extend_from_slice(rest);
        lines.bytes.push(b'\n');
        self.verdicts.push(Verdict::Kept);
    }

    /// Adds an item that is not understood: kept raw.
    pub(crate) fn reject(&mut self, place: Place<'_>, fault: &Fault<'_>, raw: &[u8]) {
        let kept = &raw[..raw.len().min(MAX_RAW_BYTES)];
        self.reject.push(&Reject {
            ts: self.now,
            host: place.host,
            source: place.source,
            parser: fault.parser,
            reason: fault.reason,
            detail: fault.detail,
            raw: &printable(kept),
            ..Reject::default()
        });
        self.verdicts.push(Verdict::Rejected(fault.reason.to_owned()));
    }

    fn group(&mut self, place: Place<'_>) -> usize {
        if let Some(last) = self.groups.last()
            && (last.host == place.host && last.source == place.source
                || self.groups.len() >= MAX_GROUPS)
        {
            return self.groups.len() - 1;
        }
        let key = (place.host.to_owned(), place.source.to_owned());
        let next = self.groups.len();
        let at = *self.by_key.entry(key).or_insert(next);
        if at == next {
            self.groups.push(Lines {
                host: place.host.to_owned(),
                source: place.source.to_owned(),
                ..Lines::default()
            });
        }
        at
    }

    /// The rows that need no parser, as batches.
    pub(crate) fn own_rows(&mut self) -> Vec<Batch> {
        let mut batches = Vec::new();
        push_rows(&mut self.request, &mut batches);
        push_rows(&mut self.log, &mut batches);
        push_rows(&mut self.span, &mut batches);
        push_rows(&mut self.metric, &mut batches);
        push_rows(&mut self.reject, &mut batches);
        batches
    }
}

fn push_rows<R: Rows>(rows: &mut R, batches: &mut Vec<Batch>) {
    if !rows.is_empty() {
        batches.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}

/// More items than one request may have.
pub(crate) fn too_many() -> Refusal {
    let message = format!(
        "more than {MAX_ITEMS} rows or {} MiB of attributes in one request",
        MAX_ATTR_BYTES >> 20
    );
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many_rows", message)
        .hint("send smaller batches")
}

/// Where an item comes from: the columns `host` and `source`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) host: &'a str,
    pub(crate) source: &'a str,
}

/// Why an item is not understood: columns of `reject`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault<'a> {
    pub(crate) parser: &'a str,
    pub(crate) reason: &'static str,
    pub(crate) detail: &'a str,
}

/// Text with bytes that are not UTF-8 as `\xNN`.
fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}").expect("writing to a String does not fail");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn harvest() -> Harvest {
        Harvest::new(Micros(0), &Arc::new(Window::new(Duration::from_secs(1))))
    }

    #[test]
    fn lines_are_grouped_by_host_and_source_and_stay_one_line_each() {
        let mut harvest = harvest();
        for (host, line) in [("a", "1"), ("b", "2\nmore"), ("a", "3")] {
            harvest.line(Place { host, source: "x" }, line.as_bytes(), None);
        }
        let groups: Vec<(&str, &str)> = harvest
            .groups
            .iter()
            .map(|group| (group.host.as_str(), std::str::from_utf8(&group.bytes).unwrap()))
            .collect();
        assert_eq!(groups, [("a", "1\n3\n"), ("b", "2#012more\n")]);
        assert_eq!(harvest.groups[0].items, [(0, 0), (2, 2)]);
    }

    #[test]
    fn items_with_a_known_identity_are_left_out() {
        let mut harvest = harvest();
        let place = Place { host: "a", source: "x" };
        let id = Some(Identity(7));
        harvest.line(place, b"1", id);
        harvest.line(place, b"1", id);
        assert_eq!(harvest.verdicts, [Verdict::Kept, Verdict::Known]);
        assert_eq!(harvest.groups[0].bytes, b"1\n");
    }

    #[test]
    fn bytes_that_are_not_text_are_written_out() {
        assert_eq!(printable(b"a\xff\xc3b"), "a\\xff\\xc3b");
    }

    #[test]
    fn groups_are_bounded() {
        let mut harvest = harvest();
        for number in 0..MAX_GROUPS + 5 {
            let host = number.to_string();
            harvest.line(Place { host: &host, source: "x" }, b"1", None);
        }
        assert_eq!(harvest.groups.len(), MAX_GROUPS);
        assert_eq!(harvest.verdicts.len(), MAX_GROUPS + 5);
    }
}
