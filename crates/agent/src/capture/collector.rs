//! The tap that is always on: rows of requests, connections and slices go where all rows go, every
//! second.
//!
//! It has a limit of CPU time and of rows. Above the first fewer connections are followed, above
//! the second fewer get rows; each row carries its sampling ratio. Packets that the kernel dropped
//! are counted in the slice in which they were dropped.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weir_config::{Values, saturating_usize};
use weir_process::failure::Failure;
use weir_process::meter::{Stage, thread_cpu};
use weir_tables::Batch;
use weir_wire::live::{
    ALL_CONNECTIONS, LiveSink, LossCounts, LossHistory, SamplingShares, Tap, TapLoad, TapOptions,
    TapThrottle, live_slices, softnet_drops,
};
use weir_wire::{Decoder, Model, ModelOptions, RowOrigin, SkipCounts};

use super::{TapPlace, wire_failure};
use crate::watch::WatchContext;

/// A tap and its limits.
#[derive(Clone, Debug)]
pub struct Collector {
    place: TapPlace,
    ports: Vec<u16>,
    snap_bytes: u32,
    ring_bytes: usize,
    connections_max: usize,
    cpu_ratio_max: f64,
    requests_max: f64,
}

const SECOND: i64 = 1_000_000_000;
/// A slice is finished when it is this old: most of its requests are over then.
const RIPE_AFTER: i64 = 3 * SECOND;
/// How often the kernel's drop counters are read.
const LOOK_EVERY: i64 = SECOND / 4;
/// A wait for packets; stop is noticed within.
const STEP: Duration = Duration::from_millis(100);
/// A tap that cannot be opened, or whose interface went away, is tried again after that long.
const RETRY: Duration = Duration::from_secs(10);

impl Collector {
    /// One for each interface that the configuration names.
    pub fn configured(values: &Values) -> Vec<Self> {
        let wire = &values.wire;
        #[expect(clippy::cast_precision_loss, reason = "limits are small numbers")]
        let ratio = |value: u64| value as f64;
        wire.interfaces
            .iter()
            .map(|interface| Self {
                place: TapPlace::parse(interface),
                ports: wire.ports.clone(),
                snap_bytes: u32::try_from(wire.snap_bytes.clamp(96, 65_535)).unwrap_or(65_535),
                ring_bytes: saturating_usize(wire.ring_bytes.clamp(2 << 20, 1 << 30)),
                connections_max: saturating_usize(wire.connections.max(1)),
                cpu_ratio_max: ratio(wire.cpu_percent.max(1)) / 100.0,
                requests_max: ratio(wire.requests_per_second.max(1)),
            })
            .collect()
    }

    /// Watches until the stop.
    pub fn run(&self, context: &WatchContext) {
        let source = self.place.source();
        let mut was_refused = false;
        if let Err(failure) = self.place.enter() {
            tracing::error!("{failure}");
            return context.meter.failed(Stage::Wire, &failure.to_string());
        }
        loop {
            match self.watch(context, &source) {
                Ok(()) => return,
                Err(failure) => {
                    if !std::mem::replace(&mut was_refused, true) {
                        tracing::error!("{failure}");
                    }
                    context.meter.failed(Stage::Wire, &failure.to_string());
                }
            }
            if context.stop.wait(RETRY) {
                return;
            }
        }
    }

    fn watch(&self, context: &WatchContext, source: &str) -> Result<(), Failure> {
        let options = TapOptions {
            interface: self.place.interface.clone(),
            ports: self.ports.clone(),
            snap_bytes: self.snap_bytes,
            ring_bytes: self.ring_bytes,
        };
        let tap = Tap::open(options).map_err(wire_failure)?;
        tracing::info!("watching packets of `{}`", &source["live:".len()..]);
        let mut watching = TapSession::new(self, context, source, tap);
        let result = watching.run();
        watching.finish();
        result
    }
}

/// A tap at work.
struct TapSession<'a> {
    context: &'a WatchContext,
    tap: Tap,
    model: Model,
    decoder: Decoder,
    skipped: SkipCounts,
    origin: RowOrigin,
    shares: Arc<SamplingShares>,
    waiting: Arc<Mutex<Vec<Batch>>>,
    throttle: TapThrottle,
    requests_max: f64,
    losses: LossHistory,
    softnet_before: Option<u64>,
    is_losing: bool,
    /// From when on which share of connections was seen.
    history: VecDeque<(i64, u32)>,
    cpu_before: Duration,
    looked: i64,
    reported: i64,
}

impl<'a> TapSession<'a> {
    fn new(collector: &Collector, context: &'a WatchContext, source: &str, tap: Tap) -> Self {
        let now = context.clock.now();
        let origin = RowOrigin { host: context.host.clone(), source: source.into(), observed: now };
        let shares = Arc::new(SamplingShares::default());
        let waiting: Arc<Mutex<Vec<Batch>>> = Arc::default();
        let taken = Arc::clone(&waiting);
        let sink = LiveSink::new(origin.clone(), Arc::clone(&shares), move |batches| {
            taken.lock().extend(batches);
        });
        let options = ModelOptions {
            slice_ns: SECOND,
            ports: collector.ports.clone(),
            connections_max: collector.connections_max,
            seed: RandomState::new().hash_one(0),
            ..ModelOptions::default()
        };
        let now = now.0 * 1000;
        Self {
            context,
            tap,
            model: Model::new(options, Some(Box::new(sink))),
            decoder: Decoder::default(),
            skipped: SkipCounts::default(),
            origin,
            shares,
            waiting,
            throttle: TapThrottle::new(collector.cpu_ratio_max),
            requests_max: collector.requests_max,
            losses: LossHistory::default(),
            softnet_before: None,
            is_losing: false,
            history: VecDeque::from([(i64::MIN, ALL_CONNECTIONS)]),
            cpu_before: thread_cpu(),
            looked: now,
            reported: now,
        }
    }

    fn run(&mut self) -> Result<(), Failure> {
        while !self.context.stop.is_set() {
            let Self { tap, model, decoder, skipped, .. } = self;
            tap.feed(STEP, decoder, skipped, model).map_err(wire_failure)?;
            let now = self.context.clock.now();
            self.shares.set_now(now);
            let now = now.0 * 1000;
            if !(0..LOOK_EVERY).contains(&(now - self.looked)) {
                self.look(now)?;
            }
            if now.div_euclid(SECOND) != self.reported.div_euclid(SECOND) {
                self.report(now)?;
            }
        }
        Ok(())
    }

    /// Asks the kernel what was lost.
    fn look(&mut self, now: i64) -> Result<(), Failure> {
        self.looked = now;
        let counts = self.tap.counts().map_err(wire_failure)?;
        let softnet = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
        let softnet = softnet_drops(&softnet);
        let before = self.softnet_before.replace(softnet).unwrap_or(softnet);
        self.is_losing |= counts.drops > 0;
        let lost = LossCounts {
            tap_drops: counts.drops,
            ring_freezes: counts.freezes,
            softnet_drops: softnet.saturating_sub(before),
            is_touched: false,
        };
        self.losses.note(now, lost);
        Ok(())
    }

    /// Sends what is finished, and decides how much is followed from now on.
    fn report(&mut self, now: i64) -> Result<(), Failure> {
        self.send(now - RIPE_AFTER);
        let cpu = thread_cpu();
        let seconds = Duration::from_nanos((now - self.reported).max(1).cast_unsigned());
        let spent = cpu.saturating_sub(std::mem::replace(&mut self.cpu_before, cpu));
        self.reported = now;
        let made = self.shares.take_made();
        self.context.meter.spent(Stage::Wire, spent, made as usize);
        let load = TapLoad {
            cpu_ratio: spent.as_secs_f64() / seconds.as_secs_f64(),
            rows_ratio: f64::from(made) / seconds.as_secs_f64() / self.requests_max,
            is_losing: std::mem::take(&mut self.is_losing),
        };
        if self.throttle.update(&load) {
            let (connections, rows) = (self.throttle.connections(), self.throttle.rows());
            tracing::info!(
                "{} follows 1 of {} connections and writes rows of 1 of {} of these",
                self.origin.source,
                ALL_CONNECTIONS / connections,
                ALL_CONNECTIONS / rows
            );
            self.tap.keep(connections).map_err(wire_failure)?;
            self.shares.set(&self.throttle);
            self.history.push_back((now, connections));
        }
        Ok(())
    }

    fn send(&mut self, until: i64) {
        let slices = self.model.take_slices(until);
        self.model.flush();
        let batch = live_slices(&slices, SECOND, &self.origin, |from, to| {
            (self.losses.between(from..to), self.share(from, to))
        });
        self.losses.forget_before(until - 2 * SECOND);
        while self.history.get(1).is_some_and(|(since, _)| *since < until - SECOND) {
            self.history.pop_front();
        }
        let mut batches = std::mem::take(&mut *self.waiting.lock());
        if batch.rows.num_rows() > 0 {
            batches.push(batch);
        }
        if !batches.is_empty() {
            self.context.destination.send_sample(batches);
        }
    }

    /// The share of connections that was seen in `[from, to)`, by time.
    #[expect(clippy::cast_precision_loss, reason = "a slice is short")]
    fn share(&self, from: i64, to: i64) -> f64 {
        let until = self.history.iter().skip(1).map(|(since, _)| *since).chain([i64::MAX]);
        let seen: f64 = self
            .history
            .iter()
            .zip(until)
            .map(|((since, share), until)| {
                let span = until.min(to).saturating_sub((*since).max(from)).max(0);
                span as f64 * f64::from(*share)
            })
            .sum();
        seen / (to - from).max(1) as f64 / f64::from(ALL_CONNECTIONS)
    }

    /// The end: what is under way is written as cut.
    fn finish(mut self) {
        let now = self.context.clock.now().0 * 1000;
        let _ = self.look(now);
        self.send(now);
        let Self { model, waiting, context, .. } = self;
        drop(model.report());
        let batches = std::mem::take(&mut *waiting.lock());
        if !batches.is_empty() {
            context.destination.send_sample(batches);
        }
    }
}
