//! Rows of a live tap: those of a capture, with the sampling ratio.
//!
//! Numbers of requests and connections start at the tap's start time in microseconds since 1970, so
//! that they are not reused after a restart. Above the row limit, whole connections are dropped, by
//! a hash of their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use weir_tables::{Batch, Micros, RequestRows, Rows, TcpConnRows, WireRequestRows, WireSliceRows};

use super::{ALL_CONNECTIONS, LossCounts, TapThrottle};
use crate::judge::{CompletedSlice, DelayVerdict};
use crate::model::{ObservedConnection, ObservedRequest, RowSink};
use crate::rows::{RowOrigin, connection, detail, request, slice_row};

/// Sampling state shared with the sink, and its row count.
#[derive(Debug)]
pub struct SamplingShares {
    /// Connections that pass the tap, of 65,536; `rows` is the share of those with rows.
    connections: AtomicU32,
    rows: AtomicU32,
    now: AtomicI64,
    made: AtomicU32,
}

impl Default for SamplingShares {
    fn default() -> Self {
        Self {
            connections: AtomicU32::new(ALL_CONNECTIONS),
            rows: AtomicU32::new(ALL_CONNECTIONS),
            now: AtomicI64::new(0),
            made: AtomicU32::new(0),
        }
    }
}

impl SamplingShares {
    /// Takes over the shares that the throttle has decided on.
    pub fn set(&self, throttle: &TapThrottle) {
        self.connections.store(throttle.connections(), Ordering::Relaxed);
        self.rows.store(throttle.rows(), Ordering::Relaxed);
    }

    /// Sets the observation time of further rows.
    pub fn set_now(&self, now: Micros) {
        self.now.store(now.0, Ordering::Relaxed);
    }

    /// Requests that got rows since the last call.
    pub fn take_made(&self) -> u32 {
        self.made.swap(0, Ordering::Relaxed)
    }

    fn ratio(&self) -> f64 {
        let [connections, rows] =
            [&self.connections, &self.rows].map(|share| f64::from(share.load(Ordering::Relaxed)));
        connections / f64::from(ALL_CONNECTIONS) * rows / f64::from(ALL_CONNECTIONS)
    }
}

/// Row sink of a tap.
pub struct LiveSink<F: FnMut(Vec<Batch>) + Send> {
    origin: RowOrigin,
    shares: Arc<SamplingShares>,
    base: i64,
    requests: RequestRows,
    details: WireRequestRows,
    connections: TcpConnRows,
    take: F,
}

/// Buffered rows of one table; normally they are flushed every second.
const ROWS_MAX: usize = 16_384;

impl<F: FnMut(Vec<Batch>) + Send> LiveSink<F> {
    /// Creates a sink that passes its batches to `take` when flushed.
    pub fn new(origin: RowOrigin, shares: Arc<SamplingShares>, take: F) -> Self {
        let base = origin.observed.0;
        let (requests, details) = (RequestRows::default(), WireRequestRows::default());
        Self { origin, shares, base, requests, details, connections: TcpConnRows::default(), take }
    }

    fn is_kept(&self, connection: u64) -> bool {
        let hash = connection.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        hash < u64::from(self.shares.rows.load(Ordering::Relaxed))
    }
}

impl<F: FnMut(Vec<Batch>) + Send> RowSink for LiveSink<F> {
    fn request(&mut self, seen: &ObservedRequest<'_>) {
        if !self.is_kept(seen.connection) {
            return;
        }
        let ratio = self.shares.ratio();
        let observed = Micros(self.shares.now.load(Ordering::Relaxed));
        let client = seen.client.ip().to_string();
        let mut row = request(seen, &self.origin, observed);
        row.client_address = Some(&client);
        // Queries contain user input that was not meant to be logged.
        row.url_query = None;
        row.source_offset = row.source_offset.map(|number| self.base + number);
        row.sampled_ratio = (ratio < 1.0).then_some(ratio);
        self.requests.push(&row);
        let mut row = detail(seen, &self.origin);
        row.source_offset += self.base;
        row.connection_number += self.base;
        row.parent_source_offset = row.parent_source_offset.map(|number| self.base + number);
        row.sampled_ratio = ratio;
        self.details.push(&row);
        self.shares.made.fetch_add(1, Ordering::Relaxed);
        if self.details.len() >= ROWS_MAX {
            self.flush();
        }
    }

    fn connection(&mut self, seen: &ObservedConnection) {
        if !self.is_kept(seen.number) {
            return;
        }
        let (client, server) = (seen.client.ip().to_string(), seen.server.ip().to_string());
        let mut row = connection(seen, &self.origin);
        (row.client_address, row.server_address) = (&client, &server);
        row.connection_number += self.base;
        row.sampled_ratio = self.shares.ratio();
        self.connections.push(&row);
        if self.connections.len() >= ROWS_MAX {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let mut batches = Vec::new();
        crate::rows::push(&mut batches, &mut self.requests);
        crate::rows::push(&mut batches, &mut self.details);
        crate::rows::push(&mut batches, &mut self.connections);
        if !batches.is_empty() {
            (self.take)(batches);
        }
    }
}

/// Flushes when the model ends.
impl<F: FnMut(Vec<Batch>) + Send> Drop for LiveSink<F> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Rows of completed slices; `of` returns the losses and the sampling ratio of an interval `[from,
/// to)`.
pub fn live_slices(
    slices: &[CompletedSlice],
    width_ns: i64,
    origin: &RowOrigin,
    of: impl Fn(i64, i64) -> (LossCounts, f64),
) -> Batch {
    let mut rows = WireSliceRows::default();
    for CompletedSlice { port, is_upstream, slice } in slices {
        let (lost, ratio) = of(slice.start_ns, slice.start_ns + width_ns);
        let mut row = slice_row(slice, width_ns, origin);
        row.tier = if *is_upstream { "wire_upstream" } else { "wire_edge" };
        row.server_port = i64::from(*port);
        row.sampled_ratio = ratio;
        row.tap_drops = i64::try_from(lost.tap_drops).ok();
        row.ring_freezes = i64::try_from(lost.ring_freezes).ok();
        row.softnet_drops = i64::try_from(lost.softnet_drops).ok();
        row.is_lossy |= lost.is_any();
        if row.is_lossy {
            row.verdict = row.verdict.map(|_| DelayVerdict::Unknown.as_str());
        }
        rows.push(&row);
    }
    Batch { table: WireSliceRows::SPEC, rows: rows.finish() }
}
