//! A capture that was dropped on the page: the answer of `weir wire`, and its slowest requests one
//! by one.

use std::io::Cursor;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_agent_core::capture::wire_failure;
use weir_process::failure::Failure;
use weir_tables::{Batch, Micros};
use weir_wire::{
    Capture, CaptureFormat, CaptureInput, Model, ModelOptions, ObservedConnection, ObservedRequest,
    RowOrigin, RowSink, TableSink, slices,
};

use super::json as object;

/// The capture and the options.
pub(crate) struct UploadRequest {
    /// The file's name.
    pub(crate) name: String,
    /// Width of a slice.
    pub(crate) slice_ns: i64,
    /// The longest that reading may take.
    pub(crate) limit: Duration,
    /// The origin of the rows, when they are to be kept.
    pub(crate) keep_as: Option<RowOrigin>,
}

/// The answer, and the rows of all four tables when they are to be kept.
pub(crate) struct UploadAnswer {
    pub(crate) object: Value,
    pub(crate) parcels: Vec<Vec<Batch>>,
}

/// Requests that an answer holds: the slowest, with those of upstreams that belong to them.
const REQUESTS_MAX: usize = 5_000;

/// Reads a capture; nothing of it stays.
pub(crate) fn answer(
    bytes: impl AsRef<[u8]> + Send + 'static,
    question: UploadRequest,
) -> Result<UploadAnswer, Failure> {
    let begun = Instant::now();
    let UploadRequest { name, slice_ns, limit, keep_as } = question;
    let input =
        CaptureInput::from_stream(&name, Box::new(Cursor::new(bytes))).map_err(wire_failure)?;
    if input.format() == CaptureFormat::Text {
        return Err(Failure::new(format!("cannot read `{name}`: it is neither pcap nor pcapng"))
            .hint("make one with `weir capture 10s --payload`, or `tcpdump -i any -s 512 -w FILE tcp`"));
    }
    let mut capture = Capture::new(input).map_err(wire_failure)?;
    let gathered: Arc<Mutex<UploadRows>> = Arc::default();
    let mut tee = TeeSink { gathered: Arc::clone(&gathered), rows: None };
    if let Some(origin) = &keep_as {
        let gathered = Arc::clone(&gathered);
        tee.rows = Some(Box::new(TableSink::new(origin.clone(), move |batches| {
            lock(&gathered).parcels.push(batches);
        })));
    }
    let options = ModelOptions { slice_ns, ..ModelOptions::default() };
    let mut model = Model::new(options, Some(Box::new(tee)));
    while capture.feed(&mut model).map_err(wire_failure)? {
        if begun.elapsed() > limit {
            return Err(Failure::new(format!(
                "cannot read all of `{name}` in {} s",
                limit.as_secs()
            ))
            .hint("`weir wire FILE` has no limit; `editcap -A TIME -B TIME` cuts a capture"));
        }
    }
    let mut report = model.report();
    report.skipped.merge(&capture.skipped());
    report.tap_drops = capture.tap_drops();
    let mut gathered = std::mem::take(&mut *lock(&gathered));
    if let Some(origin) = &keep_as {
        gathered.parcels.push(vec![slices(&report, origin)]);
    }
    gathered.keep_slowest();
    let mut value = object::value(&report, std::slice::from_ref(&name.into()));
    value["request_count"] = gathered.count.into();
    value["requests"] = gathered.requests.into_iter().map(|(_, row)| row).collect();
    Ok(UploadAnswer { object: value, parcels: gathered.parcels })
}

fn lock(gathered: &Mutex<UploadRows>) -> std::sync::MutexGuard<'_, UploadRows> {
    gathered.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct UploadRows {
    /// By duration.
    requests: Vec<(i64, Value)>,
    count: u64,
    parcels: Vec<Vec<Batch>>,
}

impl UploadRows {
    fn keep_slowest(&mut self) {
        self.requests.sort_by_key(|(duration, _)| std::cmp::Reverse(*duration));
        self.requests.truncate(REQUESTS_MAX);
    }
}

/// Passes what it receives to the display and to the store.
struct TeeSink {
    gathered: Arc<Mutex<UploadRows>>,
    rows: Option<Box<dyn RowSink>>,
}

impl RowSink for TeeSink {
    fn request(&mut self, request: &ObservedRequest<'_>) {
        let mut gathered = lock(&self.gathered);
        gathered.count += 1;
        gathered.requests.push(row(request));
        if gathered.requests.len() >= 2 * REQUESTS_MAX {
            gathered.keep_slowest();
        }
        drop(gathered);
        if let Some(rows) = &mut self.rows {
            rows.request(request);
        }
    }

    fn connection(&mut self, connection: &ObservedConnection) {
        if let Some(rows) = &mut self.rows {
            rows.connection(connection);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "spans are below 2^53 ns, 104 days")]
fn seconds(span: Range<i64>) -> f64 {
    (span.end - span.start).max(0) as f64 / 1e9
}

/// A request under the names of the tables' columns.
fn row(seen: &ObservedRequest<'_>) -> (i64, Value) {
    let [asked, sent] = seen.asked;
    let answered = seen.answered;
    let path = seen.target.split('?').next().unwrap_or_default();
    let value = json!({
        "source_offset": seen.number,
        "connection_number": seen.connection,
        "connection_requests": seen.order,
        "tier": seen.tier.as_str(),
        "client_address": seen.client.ip().to_string(),
        "server_port": seen.server.port,
        "http_request_method": filled(seen.method),
        "url_path": filled(path),
        "url_template": filled(seen.template),
        "http_response_status_code": seen.status,
        "request_first_ts": instant(asked),
        "request_last_ts": instant(sent),
        "response_first_ts": answered.map(|[first, _]| instant(first)),
        "response_last_ts": answered.map(|[_, last]| instant(last)),
        "response_acked_ts": seen.acknowledged.map(instant),
        "duration_seconds": answered.map(|[_, last]| seconds(asked..last)),
        "think_seconds": answered.map(|[first, _]| seconds(sent..first)),
        "transfer_seconds": answered.map(|[first, last]| seconds(first..last)),
        "request_retransmits": seen.request_retransmits,
        "response_retransmits": seen.response_retransmits,
        "parent_source_offset": seen.parent,
        "end": seen.end.as_str(),
    });
    (answered.map_or(i64::MAX, |[_, last]| last - asked), value)
}

fn instant(ns: i64) -> String {
    Micros(ns.div_euclid(1000)).to_string()
}

fn filled(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
