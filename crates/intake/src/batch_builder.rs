//! Builds the batch of one request or one socket read: lines for the parser, and finished rows.
//!
//! An *item* is the sender's unit (a document of a bulk request, a syslog frame). Items are
//! numbered in order, for protocols that respond per item.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use memchr::memchr;
use weir_tables::{
    Batch, CheckResult, CheckResultRows, Log, LogRows, Metric, MetricRows, Micros, Reject,
    RejectRows, Request, RequestRows, Rows, Span, SpanRows, message_template,
};

use crate::body::no_memory;
use crate::check_book::CheckBook;
use crate::document;
use crate::hub::LineGroup;
use crate::memory::MemoryHold;
use crate::response::Refusal;
use crate::window::{Claim, ClaimSet, Identity, Window};

/// Most items of one request.
pub(crate) const MAX_ITEMS: usize = 200_000;
/// Most bytes of attributes in one request's rows: they can be many times the body.
const MAX_ATTR_BYTES: usize = 64 << 20;
/// Bytes of lines that a stream or datagrams bring into one batch, except within one message.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// Steps in which memory is taken for attributes.
const ATTR_STEP_BYTES: usize = 64 << 10;
/// Most pairs of host and source in one request; further lines go to the last.
const MAX_GROUPS: usize = 1024;
/// Bytes that are kept of a rejected item.
const MAX_RAW_BYTES: usize = 64 << 10;

/// 1990, and the furthest that a time may be ahead.
const EARLIEST: Micros = Micros(631_152_000_000_000);
const MOST_AHEAD: Duration = Duration::from_secs(86_400);

/// Result of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemVerdict {
    /// Durable.
    Kept,
    /// A repeat of an item that was kept before.
    Known,
    /// A repeat of an item that is still being stored.
    Pending,
    /// Kept raw in `reject`, with the reason.
    Rejected(String),
}

/// Items of one request.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    /// Time of arrival.
    pub(crate) now: Micros,
    pub(crate) groups: Vec<LineGroup>,
    by_key: HashMap<(String, String), usize>,
    pub(crate) verdicts: Vec<ItemVerdict>,
    pub(crate) claims: ClaimSet,
    /// Rows and bytes that were discarded, by reason.
    pub(crate) lost: BTreeMap<&'static str, (usize, usize)>,
    reject: RejectRows,
    log: LogRows,
    request: RequestRows,
    span: SpanRows,
    metric: MetricRows,
    check_result: CheckResultRows,
    /// Rules of results of checks, and their rhythms.
    pub(crate) checks: Arc<CheckBook>,
    /// Memory of the request or connection; `None` has no limit.
    pub(crate) memory: Option<MemoryHold>,
    line_bytes: usize,
    /// Bytes of attributes in these rows; a resource's attributes are repeated in each of its rows.
    attr_bytes: usize,
    is_overflowing: bool,
    is_out_of_memory: bool,
}

impl BatchBuilder {
    pub(crate) fn new(now: Micros, window: &Arc<Window>) -> Self {
        Self {
            now,
            groups: Vec::new(),
            by_key: HashMap::new(),
            verdicts: Vec::new(),
            claims: ClaimSet::new(Arc::clone(window)),
            lost: BTreeMap::new(),
            reject: RejectRows::default(),
            log: LogRows::default(),
            request: RequestRows::default(),
            span: SpanRows::default(),
            metric: MetricRows::default(),
            check_result: CheckResultRows::default(),
            checks: Arc::default(),
            memory: None,
            line_bytes: 0,
            attr_bytes: 0,
            is_overflowing: false,
            is_out_of_memory: false,
        }
    }

    /// Whether the limits are reached.
    pub(crate) fn is_full(&self) -> bool {
        self.verdicts.len() >= MAX_ITEMS || self.attr_bytes > MAX_ATTR_BYTES
    }

    /// Whether a stream or datagrams should store what they have before they read on.
    pub(crate) fn is_batch_full(&self) -> bool {
        self.is_full() || self.line_bytes >= MAX_BATCH_BYTES
    }

    /// Takes memory until the rows are stored; `false` when others use it.
    pub(crate) fn take_memory(&self, bytes: usize) -> bool {
        self.memory.as_ref().is_none_or(|memory| memory.try_grow(bytes))
    }

    /// Whether the same body was kept before: senders whose protocol has no ids resend the same
    /// bytes until they are accepted. A known body is one item.
    ///
    /// # Errors
    /// When a request with the same body is still being stored.
    pub(crate) fn is_known_body(&mut self, protocol: &str, body: &[u8]) -> Result<bool, Refusal> {
        let claim = self.claims.claim(Identity::of(&[protocol.as_bytes(), body]));
        match claim {
            Claim::New => Ok(false),
            Claim::Known => {
                self.verdicts.push(ItemVerdict::Known);
                Ok(true)
            }
            Claim::Pending => {
                let message = "the same request is still being stored";
                Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "pending", message))
            }
        }
    }

    /// Adds a row of `log` as one item. An impossible time, such as one in another unit, is replaced as
    /// the parser does.
    pub(crate) fn log_row(&mut self, row: &Log<'_>) {
        if !self.admit(row.attrs) {
            return;
        }
        // A sender's line of nginx may be one of its access log.
        let template = row
            .program
            .filter(|program| *program != "nginx")
            .and_then(|program| message_template(program, row.body));
        let row = Log { message_template: template.as_deref(), ..*row };
        if row.ts >= EARLIEST && row.ts <= self.now + MOST_AHEAD {
            return self.log.push(&row);
        }
        let written = row.ts.to_string();
        let mut attrs = row.attrs.to_vec();
        attrs.push(("weir.time", written.as_str()));
        let repair = Some("implausible_time");
        self.log.push(&Log { ts: self.now, repair, attrs: &attrs, ..row });
    }

    /// Adds a row of `request` as one item.
    pub(crate) fn request_row(&mut self, row: &Request<'_>) {
        if self.admit(row.attrs) {
            self.request.push(row);
        }
    }

    /// Adds a row of `span` as one item.
    pub(crate) fn span_row(&mut self, row: &Span<'_>) {
        if self.admit(row.attrs) {
            self.span.push(row);
        }
    }

    /// Adds a row of `metric` as one item.
    pub(crate) fn metric_row(&mut self, row: &Metric<'_>) {
        if self.admit(row.labels) {
            self.metric.push(row);
        }
    }

    /// Adds a row of `check_result` as one item.
    pub(crate) fn check_row(&mut self, row: &CheckResult<'_>) {
        if self.admit(row.perfdata) {
            self.check_result.push(row);
        }
    }

    fn admit(&mut self, attrs: &[(&str, &str)]) -> bool {
        if self.is_full() {
            self.is_overflowing = true;
            return false;
        }
        let steps = self.attr_bytes / ATTR_STEP_BYTES;
        self.attr_bytes += attrs.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        let steps = self.attr_bytes / ATTR_STEP_BYTES - steps;
        if steps > 0 && !self.take_memory(steps * ATTR_STEP_BYTES) {
            self.is_out_of_memory = true;
            return false;
        }
        self.verdicts.push(ItemVerdict::Kept);
        true
    }

    /// # Errors
    /// When rows were dropped because of the limits.
    pub(crate) fn checked(&self) -> Result<(), Refusal> {
        if self.is_out_of_memory {
            return Err(no_memory());
        }
        if self.is_overflowing { Err(too_many()) } else { Ok(()) }
    }

    /// Adds a line, or a message of several lines, as one item, unless its identity was kept before.
    pub(crate) fn line(&mut self, place: RowOrigin<'_>, line: &[u8], id: Option<Identity>) {
        match id.map(|id| self.claims.claim(id)) {
            Some(Claim::Known) => return self.verdicts.push(ItemVerdict::Known),
            Some(Claim::Pending) => return self.verdicts.push(ItemVerdict::Pending),
            Some(Claim::New) | None => {}
        }
        let group = self.group(place);
        let item = self.verdicts.len();
        self.line_bytes += line.len();
        let lines = &mut self.groups[group];
        lines.items.push((lines.bytes.len(), item));
        if document::is_object(line) {
            document::push_in_one_line(line, &mut lines.bytes);
        } else {
            lines.has_line_ends_inside |= memchr(b'\n', line).is_some();
            lines.bytes.extend_from_slice(line);
        }
        lines.bytes.push(b'\n');
        self.verdicts.push(ItemVerdict::Kept);
    }

    /// Adds a raw item to `reject`.
    pub(crate) fn reject(&mut self, place: RowOrigin<'_>, fault: &RejectCause<'_>, raw: &[u8]) {
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
        self.verdicts.push(ItemVerdict::Rejected(fault.reason.to_owned()));
    }

    /// Counts what is discarded: the protocol cannot refuse it.
    pub(crate) fn lose(&mut self, reason: &'static str, rows: usize, bytes: usize) {
        let sum = self.lost.entry(reason).or_default();
        *sum = (sum.0 + rows, sum.1 + bytes);
    }

    fn group(&mut self, place: RowOrigin<'_>) -> usize {
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
            self.groups.push(LineGroup {
                host: place.host.to_owned(),
                source: place.source.to_owned(),
                ..LineGroup::default()
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
        push_rows(&mut self.check_result, &mut batches);
        push_rows(&mut self.reject, &mut batches);
        batches
    }
}

fn push_rows<R: Rows>(rows: &mut R, batches: &mut Vec<Batch>) {
    if !rows.is_empty() {
        batches.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}

/// The refusal of a request that exceeds the limits.
pub(crate) fn too_many() -> Refusal {
    let message = format!(
        "more than {MAX_ITEMS} rows or {} MiB of attributes in one request",
        MAX_ATTR_BYTES >> 20
    );
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many_rows", message)
        .hint("send smaller batches")
}

/// Origin of an item: the columns `host` and `source`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowOrigin<'a> {
    pub(crate) host: &'a str,
    pub(crate) source: &'a str,
}

/// Why an item is rejected: columns of `reject`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RejectCause<'a> {
    pub(crate) parser: &'a str,
    pub(crate) reason: &'static str,
    pub(crate) detail: &'a str,
}

/// Text in which bytes that are not UTF-8 are written as `\xNN`.
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
    use super::*;

    fn builder() -> BatchBuilder {
        BatchBuilder::new(Micros(0), &Arc::new(Window::new(Duration::from_secs(1))))
    }

    #[test]
    fn lines_are_grouped_by_host_and_source_and_keep_their_line_ends() {
        let mut builder = builder();
        for (host, line) in [("a", "1"), ("b", "2\nmore"), ("a", "3")] {
            builder.line(RowOrigin { host, source: "x" }, line.as_bytes(), None);
        }
        let groups: Vec<(&str, &str)> = builder
            .groups
            .iter()
            .map(|group| (group.host.as_str(), std::str::from_utf8(&group.bytes).unwrap()))
            .collect();
        assert_eq!(groups, [("a", "1\n3\n"), ("b", "2\nmore\n")]);
        assert_eq!(builder.groups[0].message_ends(), None);
        assert_eq!(builder.groups[1].message_ends(), Some(vec![7]));
        assert_eq!(builder.groups[0].items, [(0, 0), (2, 2)]);
    }

    #[test]
    fn items_with_a_known_identity_are_dropped() {
        let mut builder = builder();
        let place = RowOrigin { host: "a", source: "x" };
        let id = Some(Identity(7));
        builder.line(place, b"1", id);
        builder.line(place, b"1", id);
        assert_eq!(builder.verdicts, [ItemVerdict::Kept, ItemVerdict::Known]);
        assert_eq!(builder.groups[0].bytes, b"1\n");
    }

    #[test]
    fn bytes_that_are_not_text_are_escaped() {
        assert_eq!(printable(b"a\xff\xc3b"), "a\\xff\\xc3b");
    }

    #[test]
    fn groups_are_limited() {
        let mut builder = builder();
        for number in 0..MAX_GROUPS + 5 {
            let host = number.to_string();
            builder.line(RowOrigin { host: &host, source: "x" }, b"1", None);
        }
        assert_eq!(builder.groups.len(), MAX_GROUPS);
        assert_eq!(builder.verdicts.len(), MAX_GROUPS + 5);
    }
}
