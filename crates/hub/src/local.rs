//! The store in this process as a destination: parcels are appended in their order, several at a time, so that one
//! fsync of the write-ahead log serves all that wait for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use weir_agent_core::watch::deliver::{Destination, Ticket};
use weir_process::meter::{Meter, Stage};
use weir_store::{Appended, ErrorKind, Store, StoreError};
use weir_tables::{Batch, Parcel, StreamId};

/// Parcels of streams that wait for the delivery task.
const STREAMS_WAITING: usize = 2;
/// Samples that wait for the delivery task: a minute of them.
const SAMPLES_WAITING: usize = 64;
/// Parcels that are being appended at one time.
const IN_FLIGHT: usize = 8;

struct Job {
    parcel: Parcel,
    ticket: Option<Ticket>,
}

/// Hands parcels to the delivery task.
pub(crate) struct Local {
    store: Arc<Store>,
    streams: mpsc::Sender<Job>,
    samples: mpsc::Sender<Job>,
    meter: Arc<Meter>,
    is_closed: AtomicBool,
}

impl Local {
    /// A destination, and its delivery task, which must be run and ends after the destination was dropped.
    pub(crate) fn new(
        store: Arc<Store>,
        meter: Arc<Meter>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send) {
        let (streams, stream_jobs) = mpsc::channel(STREAMS_WAITING);
        let (samples, sample_jobs) = mpsc::channel(SAMPLES_WAITING);
        let delivery = Delivery {
            store: Arc::clone(&store),
            meter: Arc::clone(&meter),
            refused: HashMap::new(),
            is_full: false,
        };
        let local = Self { store, streams, samples, meter, is_closed: AtomicBool::new(false) };
        (Arc::new(local), delivery.run(stream_jobs, sample_jobs))
    }
}

impl Destination for Local {
    fn positions(&self, streams: &[StreamId]) -> Result<Vec<(StreamId, u64)>, String> {
        Ok(self.store.positions(streams))
    }

    fn send_stream(&self, parcel: Parcel, ticket: Ticket) {
        if !self.is_closed.load(Ordering::Relaxed) {
            let _ = self.streams.blocking_send(Job { parcel, ticket: Some(ticket) });
        }
    }

    fn send_sample(&self, batches: Vec<Batch>) {
        let job = Job { parcel: Parcel { range: None, batches }, ticket: None };
        if self.samples.try_send(job).is_err() {
            self.meter.count_dropped(1);
        }
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

type Outcome = (Option<Ticket>, Duration, Result<Appended, StoreError>);

struct Delivery {
    store: Arc<Store>,
    meter: Arc<Meter>,
    /// Streams of which a parcel was not taken, with the epoch: what follows in that epoch would leave a gap.
    refused: HashMap<StreamId, u64>,
    is_full: bool,
}

impl Delivery {
    async fn run(mut self, mut streams: mpsc::Receiver<Job>, mut samples: mpsc::Receiver<Job>) {
        let mut flying: FuturesUnordered<BoxFuture<'static, Outcome>> = FuturesUnordered::new();
        let (mut has_streams, mut has_samples) = (true, true);
        while has_streams || has_samples || !flying.is_empty() {
            let has_room = flying.len() < IN_FLIGHT;
            tokio::select! {
                Some(outcome) = flying.next(), if !flying.is_empty() => self.settle(outcome),
                job = samples.recv(), if has_samples && has_room => match job {
                    Some(job) => self.launch(job, &mut flying).await,
                    None => has_samples = false,
                },
                job = streams.recv(), if has_streams && has_room => match job {
                    Some(job) => self.launch(job, &mut flying).await,
                    None => has_streams = false,
                },
            }
        }
    }

    async fn launch(
        &mut self,
        job: Job,
        flying: &mut FuturesUnordered<BoxFuture<'static, Outcome>>,
    ) {
        let Job { parcel, ticket } = job;
        if let Some(ticket) = &ticket
            && self.refused.get(&ticket.stream).is_some_and(|epoch| *epoch >= ticket.epoch)
        {
            return;
        }
        let must_be_alone = ticket.as_ref().is_some_and(|ticket| ticket.is_first);
        let store = Arc::clone(&self.store);
        let started = Instant::now();
        let mut append: BoxFuture<'static, Outcome> = Box::pin(async move {
            let result = store.append(parcel).await;
            (ticket, started.elapsed(), result)
        });
        if must_be_alone {
            let outcome = append.await;
            return self.settle(outcome);
        }
        // The first poll puts the parcel in the store's queue; that is what keeps the order within a stream.
        match futures::poll!(&mut append) {
            std::task::Poll::Ready(outcome) => self.settle(outcome),
            std::task::Poll::Pending => flying.push(append),
        }
    }

    fn settle(&mut self, (ticket, duration, result): Outcome) {
        match result {
            Ok(appended) => {
                let rows = usize::try_from(appended.rows).unwrap_or(usize::MAX);
                self.meter.took(Stage::Store, duration, rows);
                self.note_room(None);
                if let Some(ticket) = ticket {
                    let to = appended.position.unwrap_or(ticket.to);
                    ticket.durable(to);
                }
            }
            Err(error) => self.refuse(ticket, &error),
        }
    }

    fn refuse(&mut self, ticket: Option<Ticket>, error: &StoreError) {
        self.meter.failed(Stage::Store, &error.message);
        if matches!(error.kind, ErrorKind::Full) {
            self.note_room(Some(error));
        }
        let Some(ticket) = ticket else {
            self.meter.count_dropped(1);
            return;
        };
        match error.kind {
            ErrorKind::Behind { expected } => ticket.again(expected, false),
            // Also for a parcel that the store does not understand: going on would lose its lines, so it must be seen.
            kind => {
                if kind == ErrorKind::BadParcel {
                    tracing::error!("cannot keep rows of stream {}: {error}", ticket.stream);
                }
                let from = ticket.from;
                self.refused.insert(ticket.stream, ticket.epoch);
                ticket.again(from, true);
            }
        }
    }

    /// Says once that the store is full, and once that it is not any more.
    fn note_room(&mut self, error: Option<&StoreError>) {
        if self.is_full == error.is_some() {
            return;
        }
        self.is_full = error.is_some();
        match error {
            Some(error) => tracing::error!("{error}"),
            None => tracing::info!("there is room again, rows are kept"),
        }
    }
}
