//! A hub as a destination: parcels go over HTTP one after the other, and again until the hub has
//! them.
//!
//! Samples cannot be read again, so they wait in memory under a limit, numbered as one stream: a
//! sample whose acknowledgement was lost is sent again, and the hub recognises it as a duplicate.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::Value;
use weir_process::meter::{Meter, Stage};
use weir_tables::{Batch, Parcel, StreamId, StreamRange};

use crate::client::{Client, HttpResponse};
use crate::parcel_link::{PARCEL_TYPE, parse_stream};
use crate::watch::deliver::{DeliveryTicket, Destination};

/// Parcels of streams that wait to be sent.
const STREAMS_WAITING: usize = 2;
/// Pauses between attempts grow from the first to the second, with jitter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// Hands parcels to the sending thread.
pub(crate) struct RemoteHub {
    client: Client,
    queue: Mutex<Queue>,
    changed: Condvar,
    meter: Arc<Meter>,
    sample_stream: StreamId,
    buffer_bytes: usize,
}

#[derive(Default)]
struct Queue {
    streams: VecDeque<(Parcel, DeliveryTicket)>,
    samples: VecDeque<QueuedSample>,
    sample_bytes: usize,
    next_sample: u64,
    is_closed: bool,
}

struct QueuedSample {
    from: u64,
    to: u64,
    bytes: Vec<u8>,
    /// Being sent: its number may be known to the hub already.
    is_sent: bool,
}

enum SendOutcome {
    Durable(Option<u64>),
    Behind(u64),
    Refused(String),
    Later(String),
}

impl RemoteHub {
    /// A destination; [`RemoteHub::send_always`] must run on a separate thread.
    pub(crate) fn new(client: Client, meter: Arc<Meter>, buffer_bytes: usize) -> Self {
        let sample_stream = StreamId(random_half(1) << 64 | random_half(2));
        Self {
            client,
            queue: Mutex::default(),
            changed: Condvar::new(),
            meter,
            sample_stream,
            buffer_bytes,
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Sends until the destination is closed and what waited was tried once more.
    pub(crate) fn send_always(&self) {
        let mut failures = 0;
        while let Some(work) = self.next() {
            let verdict = match work {
                SendJob::QueuedSample => self.send_oldest_sample(),
                SendJob::Stream(parcel, ticket) => self.send_parcel(&parcel, ticket),
            };
            match verdict {
                None if failures > 0 => {
                    tracing::info!("the hub answers again");
                    failures = 0;
                }
                None => {}
                Some(error) => {
                    if failures == 0 {
                        tracing::warn!("cannot send to the hub, will try again: {error}");
                    }
                    self.meter.failed(Stage::Store, &error);
                    failures += 1;
                    self.pause(failures);
                }
            }
        }
    }

    /// Samples first: they are small, and only they can be lost.
    fn next(&self) -> Option<SendJob> {
        let mut queue = self.queue();
        loop {
            if let Some(sample) = queue.samples.front_mut() {
                sample.is_sent = true;
                return Some(SendJob::QueuedSample);
            }
            if let Some((parcel, ticket)) = queue.streams.pop_front() {
                self.changed.notify_all();
                return Some(SendJob::Stream(parcel, ticket));
            }
            if queue.is_closed {
                return None;
            }
            self.changed.wait(&mut queue);
        }
    }

    /// The reason when it has to be tried again.
    fn send_oldest_sample(&self) -> Option<String> {
        let (bytes, from) = {
            let queue = self.queue();
            let sample = queue.samples.front()?;
            (sample.bytes.clone(), sample.from)
        };
        let started = Instant::now();
        match self.post(bytes) {
            SendOutcome::Later(error) => {
                // A closed agent tries once and lets go.
                let is_closed = self.queue().is_closed;
                is_closed.then(|| self.drop_oldest());
                return Some(error);
            }
            SendOutcome::Durable(_) => self.meter.took(Stage::Store, started.elapsed(), 0),
            SendOutcome::Behind(expected) => {
                tracing::error!(
                    "the hub knows samples up to {expected}, this one begins at {from}"
                );
                self.meter.count_dropped(1);
            }
            SendOutcome::Refused(error) => {
                tracing::error!("the hub refuses a sample: {error}");
                self.meter.count_dropped(1);
            }
        }
        self.drop_oldest();
        None
    }

    fn drop_oldest(&self) {
        let mut queue = self.queue();
        if let Some(sample) = queue.samples.pop_front() {
            queue.sample_bytes -= sample.bytes.len();
        }
    }

    fn send_parcel(&self, parcel: &Parcel, ticket: DeliveryTicket) -> Option<String> {
        let started = Instant::now();
        match self.post(parcel.encode(true)) {
            SendOutcome::Durable(position) => {
                self.meter.took(Stage::Store, started.elapsed(), parcel.row_count());
                let to = position.unwrap_or(ticket.to);
                ticket.durable(to);
                None
            }
            SendOutcome::Behind(expected) => {
                ticket.again(expected, false);
                None
            }
            // The tailer reads it again after its own pause; nothing is kept here meanwhile.
            SendOutcome::Refused(error) | SendOutcome::Later(error) => {
                let from = ticket.from;
                self.forget(&ticket);
                ticket.again(from, true);
                Some(error)
            }
        }
    }

    /// What waits of the same attempt at a stream would leave a gap: it is read again as well.
    fn forget(&self, refused: &DeliveryTicket) {
        let mut queue = self.queue();
        queue
            .streams
            .retain(|(_, ticket)| ticket.stream != refused.stream || ticket.epoch > refused.epoch);
        self.changed.notify_all();
    }

    fn post(&self, bytes: Vec<u8>) -> SendOutcome {
        let answer = match self.client.post("/api/link/parcel", PARCEL_TYPE, bytes) {
            Ok(answer) => answer,
            Err(error) => return SendOutcome::Later(error),
        };
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        match answer.status {
            200 => SendOutcome::Durable(body["position"].as_u64()),
            409 => match body["expected"].as_u64() {
                Some(expected) => SendOutcome::Behind(expected),
                None => SendOutcome::Later(reason(&answer)),
            },
            400 | 413 | 415 => SendOutcome::Refused(reason(&answer)),
            _ => SendOutcome::Later(reason(&answer)),
        }
    }

    /// Longer after each failure, and never in step with other agents.
    fn pause(&self, failures: u32) {
        let longest = PAUSES.0.saturating_mul(1 << failures.min(16)).min(PAUSES.1);
        let part = RandomState::new().hash_one(failures) % 1000;
        let span = longest / 2 + longest / 2 * u32::try_from(part).unwrap_or_default() / 1000;
        let end = Instant::now() + span;
        let mut queue = self.queue();
        while !queue.is_closed {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.changed.wait_for(&mut queue, left);
        }
    }
}

fn random_half(n: u8) -> u128 {
    u128::from(RandomState::new().hash_one(n))
}

enum SendJob {
    QueuedSample,
    Stream(Parcel, DeliveryTicket),
}

fn reason(answer: &HttpResponse) -> String {
    answer.failure().to_string().replace('\n', "; ")
}

impl Destination for RemoteHub {
    fn positions(&self, streams: &[StreamId]) -> Result<Vec<(StreamId, u64)>, String> {
        let ids: Vec<String> = streams.iter().map(ToString::to_string).collect();
        let body = serde_json::json!({"streams": ids}).to_string();
        let answer = self
            .client
            .post("/api/link/positions", "application/json", body.into_bytes())
            .map_err(|error| format!("cannot ask the hub where streams stand: {error}"))?;
        if answer.status != 200 {
            return Err(reason(&answer));
        }
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let Some(positions) = body["positions"].as_object() else {
            return Err("the hub's answer has no `positions`".to_owned());
        };
        Ok(positions
            .iter()
            .filter_map(|(id, position)| Some((parse_stream(id)?, position.as_u64()?)))
            .collect())
    }

    fn send_stream(&self, parcel: Parcel, ticket: DeliveryTicket) {
        let mut queue = self.queue();
        while queue.streams.len() >= STREAMS_WAITING && !queue.is_closed {
            self.changed.wait(&mut queue);
        }
        if !queue.is_closed {
            queue.streams.push_back((parcel, ticket));
            self.changed.notify_all();
        }
    }

    fn send_sample(&self, batches: Vec<Batch>) {
        let mut queue = self.queue();
        let (from, to) = (queue.next_sample, queue.next_sample + 1);
        queue.next_sample = to;
        let range = StreamRange { stream: self.sample_stream, from, to };
        let bytes = Parcel { range: Some(range), batches }.encode(true);
        queue.sample_bytes += bytes.len();
        queue.samples.push_back(QueuedSample { from, to, bytes, is_sent: false });
        while queue.sample_bytes > self.buffer_bytes && drop_one(&mut queue) {
            self.meter.count_dropped(1);
        }
        self.changed.notify_all();
    }

    fn close(&self) {
        self.queue().is_closed = true;
        self.changed.notify_all();
    }
}

/// Drops the oldest sample that is not being sent; the next one then covers its number, so that no
/// gap is left.
fn drop_one(queue: &mut Queue) -> bool {
    let at = usize::from(queue.samples.front().is_some_and(|sample| sample.is_sent));
    if queue.samples.len() < at + 2 {
        return false;
    }
    let Some(dropped) = queue.samples.remove(at) else { return false };
    queue.sample_bytes -= dropped.bytes.len();
    let Some(next) = queue.samples.get_mut(at) else { return true };
    if let Ok(mut parcel) = Parcel::decode(&next.bytes)
        && let Some(range) = &mut parcel.range
    {
        range.from = dropped.from;
        let bytes = parcel.encode(true);
        let (from, to, is_sent) = (dropped.from, next.to, next.is_sent);
        queue.sample_bytes = queue.sample_bytes - next.bytes.len() + bytes.len();
        *next = QueuedSample { from, to, bytes, is_sent };
    }
    true
}
