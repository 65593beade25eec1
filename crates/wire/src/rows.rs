//! Rows of the tables `request`, `wire_request`, `tcp_conn` and `wire_slice` from the model's
//! results.

use weir_tables::{
    Batch, Micros, Request, RequestRows, Rows, TcpConn, TcpConnRows, WireRequest, WireRequestRows,
    WireSlice, WireSliceRows,
};

use crate::judge::{Report, SliceReport};
use crate::model::{ObservedConnection, ObservedRequest, RowSink};

/// Origin columns of each row.
#[derive(Debug, Clone)]
pub struct RowOrigin {
    /// The capturing host.
    pub host: String,
    /// The capture's name.
    pub source: String,
    /// When it was read.
    pub observed: Micros,
}

/// A sink that collects batches and passes them on once they are large enough.
pub struct TableSink<F: FnMut(Vec<Batch>) + Send> {
    origin: RowOrigin,
    requests: RequestRows,
    details: WireRequestRows,
    connections: TcpConnRows,
    take: F,
}

const ROWS_MAX: usize = 16_384;

impl<F: FnMut(Vec<Batch>) + Send> TableSink<F> {
    /// Creates a sink that passes its batches to `take`.
    pub fn new(origin: RowOrigin, take: F) -> Self {
        let (requests, details) = (RequestRows::default(), WireRequestRows::default());
        Self { origin, requests, details, connections: TcpConnRows::default(), take }
    }

    fn hand_on(&mut self) {
        let mut batches = Vec::new();
        push(&mut batches, &mut self.requests);
        push(&mut batches, &mut self.details);
        push(&mut batches, &mut self.connections);
        if !batches.is_empty() {
            (self.take)(batches);
        }
    }
}

/// Flushes when the model ends.
impl<F: FnMut(Vec<Batch>) + Send> Drop for TableSink<F> {
    fn drop(&mut self) {
        self.hand_on();
    }
}

pub(crate) fn push<R: Rows>(batches: &mut Vec<Batch>, rows: &mut R) {
    if !rows.is_empty() {
        batches.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}

impl<F: FnMut(Vec<Batch>) + Send> RowSink for TableSink<F> {
    fn request(&mut self, seen: &ObservedRequest<'_>) {
        let client = seen.client.ip().to_string();
        let mut row = request(seen, &self.origin, self.origin.observed);
        row.client_address = Some(&client);
        self.requests.push(&row);
        self.details.push(&detail(seen, &self.origin));
        if self.details.len() >= ROWS_MAX {
            self.hand_on();
        }
    }

    fn connection(&mut self, seen: &ObservedConnection) {
        let (client, server) = (seen.client.ip().to_string(), seen.server.ip().to_string());
        let mut row = connection(seen, &self.origin);
        (row.client_address, row.server_address) = (&client, &server);
        self.connections.push(&row);
        if self.connections.len() >= ROWS_MAX {
            self.hand_on();
        }
    }
}

fn micros(ns: i64) -> Micros {
    Micros(ns.div_euclid(1000))
}

#[expect(clippy::cast_precision_loss, reason = "spans are below 2^53 ns, 104 days")]
fn seconds(ns: i64) -> f64 {
    ns.max(0) as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "microseconds are below 2^53")]
fn seconds_of(us: u64) -> f64 {
    us as f64 / 1e6
}

fn optional_seconds(us: Option<u32>) -> Option<f64> {
    us.map(|us| seconds_of(us.into()))
}

fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn readable(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn ended(seen: &ObservedRequest<'_>) -> i64 {
    seen.answered.map_or(seen.asked[1], |[_, last]| last)
}

pub(crate) fn request<'a>(
    seen: &ObservedRequest<'a>,
    origin: &'a RowOrigin,
    observed: Micros,
) -> Request<'a> {
    let (path, query) = match seen.target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (seen.target, None),
    };
    Request {
        ts: micros(ended(seen)),
        host: &origin.host,
        tier: seen.tier.as_str(),
        observed_ts: observed,
        source: &origin.source,
        source_offset: Some(count(seen.number)),
        request_id: readable(seen.request_id),
        client_port: Some(seen.client.port.into()),
        server_address: readable(seen.host),
        server_port: Some(seen.server.port.into()),
        http_request_method: readable(seen.method).filter(|_| !seen.protocol.is_database()),
        url_path: readable(path),
        url_query: query,
        http_response_status_code: seen.status.map(i64::from),
        request_bytes: Some(count(seen.request_bytes)),
        response_bytes: Some(count(seen.response_bytes)),
        duration_seconds: seen.answered.map(|[_, last]| seconds(last - seen.asked[0])),
        request_read_seconds: Some(seconds(seen.asked[1] - seen.asked[0])),
        connection_requests: Some(seen.order.into()),
        ..Request::default()
    }
}

pub(crate) fn detail<'a>(seen: &ObservedRequest<'a>, origin: &'a RowOrigin) -> WireRequest<'a> {
    let answered = seen.answered;
    let end_and_ack = answered.zip(seen.acknowledged);
    let parent_match = if seen.is_matched_by_header { "header" } else { "time" };
    WireRequest {
        ts: micros(ended(seen)),
        host: &origin.host,
        tier: seen.tier.as_str(),
        source: &origin.source,
        source_offset: count(seen.number),
        connection_number: count(seen.connection),
        connection_requests: seen.order.into(),
        network_protocol_name: seen.protocol.as_str(),
        url_template: readable(seen.template).filter(|_| !seen.target.is_empty()),
        request_first_ts: micros(seen.asked[0]),
        request_last_ts: micros(seen.asked[1]),
        response_first_ts: answered.map(|[first, _]| micros(first)),
        response_last_ts: answered.map(|[_, last]| micros(last)),
        response_acked_ts: seen.acknowledged.map(micros),
        think_seconds: answered.map(|[first, _]| seconds(first - seen.asked[1])),
        transfer_seconds: answered.map(|[first, last]| seconds(last - first)),
        ack_tail_seconds: end_and_ack.map(|([_, last], acked)| seconds(acked - last)),
        request_retransmits: seen.request_retransmits.into(),
        response_retransmits: seen.response_retransmits.into(),
        response_spurious_retransmits: seen.spurious.into(),
        interim_responses: seen.interim.into(),
        parent_source_offset: seen.parent.map(count),
        parent_match: seen.parent.map(|_| parent_match),
        end: seen.end.as_str(),
        is_truncated: seen.is_cut,
        sampled_ratio: 1.0,
        operation: readable(seen.method).filter(|_| seen.protocol.is_database()),
        error_code: readable(seen.error),
    }
}

/// A row without the addresses, whose text must outlive it.
pub(crate) fn connection<'a>(seen: &ObservedConnection, origin: &'a RowOrigin) -> TcpConn<'a> {
    TcpConn {
        ts: micros(seen.last_ts),
        host: &origin.host,
        source: &origin.source,
        connection_number: count(seen.number),
        client_port: seen.client.port.into(),
        server_port: seen.server.port.into(),
        network_protocol_name: seen.protocol.as_str(),
        first_ts: micros(seen.first_ts),
        client_syns: seen.syns.into(),
        server_syns: seen.synacks.into(),
        syn_wait_seconds: optional_seconds(seen.syn_wait_us),
        handshake_rtt_seconds: optional_seconds(seen.handshake_us),
        client_rtt_min_seconds: optional_seconds(seen.rtt_us[0]),
        server_rtt_min_seconds: optional_seconds(seen.rtt_us[1]),
        delay_variation_max_seconds: optional_seconds(seen.delay_max_us),
        timestamp_tick_seconds: seen.tick_us.map(|us| seconds_of(us.into())),
        requests: seen.requests.into(),
        client_bytes: count(seen.bytes[0]),
        server_bytes: count(seen.bytes[1]),
        client_packets: seen.packets[0].into(),
        server_packets: seen.packets[1].into(),
        client_retransmits: seen.retransmits[0].into(),
        server_retransmits: seen.retransmits[1].into(),
        client_spurious_retransmits: seen.spurious[0].into(),
        server_spurious_retransmits: seen.spurious[1].into(),
        client_reordered: seen.filled[0].into(),
        server_reordered: seen.filled[1].into(),
        client_missing: seen.missing[0].map(i64::from),
        server_missing: seen.missing[1].map(i64::from),
        client_zero_windows: seen.zero_windows[0].into(),
        server_zero_windows: seen.zero_windows[1].into(),
        client_zero_window_seconds: seconds_of(seen.zero_window_us[0].into()),
        server_zero_window_seconds: seconds_of(seen.zero_window_us[1].into()),
        fin_by: seen.fin_by,
        rst_by: seen.rst_by,
        is_reset_in_flight: seen.is_rst_in_flight,
        requests_after_fin: seen.late_requests.into(),
        interface_index: seen.interface.into(),
        sampled_ratio: 1.0,
        ..TcpConn::default()
    }
}

/// Rows of the slices of all tiers.
pub fn slices(report: &Report, origin: &RowOrigin) -> Batch {
    let mut rows = WireSliceRows::default();
    for tier in &report.tiers {
        let kind = if tier.is_upstream { "wire_upstream" } else { "wire_edge" };
        for slice in &tier.slices {
            let mut row = slice_row(slice, report.slice_ns, origin);
            (row.tier, row.server_port) = (kind, tier.port.into());
            rows.push(&row);
        }
    }
    Batch { table: WireSliceRows::SPEC, rows: rows.finish() }
}

fn quantile_seconds(quantiles: Option<[u64; 3]>, at: usize) -> Option<f64> {
    quantiles.map(|quantiles| seconds_of(quantiles[at]))
}

pub(crate) fn slice_row<'a>(
    slice: &SliceReport,
    width_ns: i64,
    origin: &'a RowOrigin,
) -> WireSlice<'a> {
    WireSlice {
        ts: micros(slice.start_ns),
        host: &origin.host,
        source: &origin.source,
        width_seconds: seconds(width_ns),
        observed_seconds: seconds_of(slice.observed_us),
        arrivals: count(slice.arrivals),
        completions: count(slice.completions),
        concurrency: slice.concurrency(),
        throughput: slice.throughput(),
        busy_seconds: seconds_of(slice.busy_us),
        weighted_seconds: seconds_of(slice.weighted_us),
        sum_seconds: seconds_of(slice.sum_us),
        variance_mean_seconds: slice.variance_mean_us / 1e6,
        duration_p50_seconds: quantile_seconds(slice.total_us, 0),
        duration_p95_seconds: quantile_seconds(slice.total_us, 1),
        duration_p99_seconds: quantile_seconds(slice.total_us, 2),
        think_p50_seconds: quantile_seconds(slice.think_us, 0),
        think_p95_seconds: quantile_seconds(slice.think_us, 1),
        think_p99_seconds: quantile_seconds(slice.think_us, 2),
        transfer_p95_seconds: quantile_seconds(slice.transfer_us, 1),
        syn_wait_p95_seconds: quantile_seconds(slice.connect_us, 1),
        delay_variation_p95_seconds: quantile_seconds(slice.delay_us, 1),
        errors_5xx: slice.errors_5xx.into(),
        new_connections: slice.new_connections.into(),
        syns: slice.syns.into(),
        late_syns: slice.late_syns.into(),
        synack_retries: slice.synack_retries.into(),
        retransmits: slice.retransmits.into(),
        spurious_retransmits: slice.spurious.into(),
        missing: slice.missing.into(),
        missed_by_tap: slice.missed_by_tap.into(),
        zero_windows: slice.zero_windows.into(),
        resets_in_flight: slice.resets_in_flight.into(),
        closing_races: slice.races.into(),
        packets: count(slice.packets),
        payload_bytes: count(slice.bytes),
        dispersion_10ms: slice.dispersion[0],
        dispersion_100ms: slice.dispersion[1],
        little_error_ratio: slice.little_error,
        verdict: slice.verdict.map(crate::judge::DelayVerdict::as_str),
        sampled_ratio: 1.0,
        is_lossy: slice.missed_by_tap > 0,
        ..WireSlice::default()
    }
}
