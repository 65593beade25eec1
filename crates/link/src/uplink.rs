//! What an agent has to deliver, and to which hub: one connection at a time, the next hub when one dies, and everything
//! again that was not answered.
//!
//! ```text
//!   ship (bounded) ─► connected: in flight ─► Accepted: report    cut: report Again, the reader goes back
//!   push ─► spool ─►            in flight ─► Committed: free      cut: read again from the spool
//! ```
//! The courier remembers no positions: at each connect the hub is asked where every stream stands that was seen. What it
//! does remember is where reading of a stream began (`origin`), for a hub that does not know the stream.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, watch};
use weir_tables::{Batch, Clock, StreamId, StreamRange};

use crate::bandwidth::Bandwidth;
use crate::client::{Connection, Dial};
use crate::conversation::Conversation;
use crate::error::{Kind, LinkError};
use crate::identity::Identity;
use crate::message::STREAMS_A_FRAME;
use crate::spool::Spool;
use crate::wire::is_set;
use crate::{secret, tls};

/// Parcels that wait for a connection, besides the one that waits for them.
const SHIPMENTS_WAITING: usize = 2;
/// Questions that wait.
const QUESTIONS_WAITING: usize = 16;
/// A question has to be answered within this.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Pauses between rounds over all hubs grow from the first to the second, with jitter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));
/// A connection that held at least this long was a good one, as is one over which something was delivered.
const GOOD: Duration = Duration::from_secs(10);
/// Streams whose origin is remembered.
const STREAMS: usize = 200_000;

/// How to deliver.
pub struct CourierOptions {
    /// Where [`Identity`]s are.
    pub dir: PathBuf,
    /// `host:port` of hubs, best first; when empty, those of the join tokens.
    pub hubs: Vec<String>,
    /// What the agent calls itself.
    pub program: String,
    /// How fast to send.
    pub bandwidth: Bandwidth,
    /// Bytes of parcels that may be on their way at one time.
    pub window_bytes: u64,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// What cannot be read again.
    pub spool: Spool,
}

/// Rows of a stream on their way.
pub struct Shipment {
    /// The stretch that they cover.
    pub range: StreamRange,
    /// Counts the rewinds of the stream: after one, shipments of an earlier epoch are void.
    pub epoch: u64,
    /// The encoded parcel.
    pub bytes: Vec<u8>,
    /// Told once what became of it; dropped when it was void.
    pub report: Box<dyn FnOnce(Outcome) + Send>,
}

/// What became of a shipment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The stream is durable up to here.
    Accepted(u64),
    /// Send the stream from here again.
    Again {
        /// From where.
        position: u64,
        /// The hub asks for a pause first.
        is_busy: bool,
    },
}

/// What a person wants to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CourierStatus {
    /// The hub's address while connected.
    pub hub: Option<String>,
    /// Why there is no connection, or why the hub takes nothing.
    pub trouble: Option<String>,
    /// Parcels of streams that hubs accepted.
    pub accepted: u64,
    /// Parcels that were sent and have to be sent again.
    pub again: u64,
    /// Samples that were dropped because the spool was full.
    pub dropped: u64,
    /// Samples in the spool that no hub has yet.
    pub waiting: u64,
    /// Bytes of the spool.
    pub spool_bytes: u64,
}

/// A question from another thread.
pub(crate) struct Question {
    pub(crate) streams: Vec<StreamId>,
    pub(crate) answer: blocking::SyncSender<Result<Vec<(StreamId, u64)>, String>>,
}

/// Shared by the handle and the courier.
pub(crate) struct Shared {
    spool: Mutex<Spool>,
    status: Mutex<CourierStatus>,
    pub(crate) has_samples: Notify,
}

impl Shared {
    pub(crate) fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, CourierStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands over, from any thread that may block.
pub struct CourierHandle {
    shared: Arc<Shared>,
    shipments: mpsc::Sender<Shipment>,
    questions: mpsc::Sender<Question>,
    closing: watch::Sender<bool>,
}

impl CourierHandle {
    /// Hands over rows of a stream; waits while as much is on its way as may be. After [`CourierHandle::close`] it is
    /// dropped.
    pub fn ship(&self, shipment: Shipment) {
        let _ = self.shipments.blocking_send(shipment);
    }

    /// Puts rows that cannot be read again in the spool; how many older ones were dropped for them.
    ///
    /// # Errors
    /// [`Kind::Storage`]: the rows are lost.
    pub fn ship_sample(&self, batches: Vec<Batch>) -> Result<u64, LinkError> {
        let pushed = self.shared.spool().push(batches);
        let dropped = *pushed.as_ref().unwrap_or(&1);
        self.shared.status().dropped += dropped;
        self.shared.has_samples.notify_one();
        pushed
    }

    /// Where streams stand at the hub; those that it does not know are left out.
    ///
    /// # Errors
    /// Why there is no answer; ask again later.
    pub fn positions(&self, streams: &[StreamId]) -> Result<Vec<(StreamId, u64)>, String> {
        let mut all = Vec::new();
        for part in streams.chunks(STREAMS_A_FRAME) {
            let (answer, answered) = blocking::sync_channel(1);
            let question = Question { streams: part.to_vec(), answer };
            let asked = self.questions.blocking_send(question);
            asked.map_err(|_| "the agent is ending".to_owned())?;
            let answered = answered.recv_timeout(ANSWER_WITHIN);
            all.extend(answered.map_err(|_| "the hub does not answer".to_owned())??);
        }
        Ok(all)
    }

    /// What a person wants to know.
    pub fn status(&self) -> CourierStatus {
        let (waiting, spool_bytes) = {
            let spool = self.shared.spool();
            (spool.waiting(), spool.bytes())
        };
        CourierStatus { waiting, spool_bytes, ..self.shared.status().clone() }
    }

    /// Ends the courier once what is in flight is answered, at most a few seconds later.
    pub fn close(&self) {
        let _ = self.closing.send(true);
    }
}

/// What is known of a stream.
pub(crate) struct Known {
    /// The lowest position that this process knows of.
    pub(crate) origin: u64,
    /// Whether the hub of this connection knows the stream.
    pub(crate) is_at_hub: bool,
    /// Whether the reader was sent back to the origin for this hub.
    pub(crate) is_rewound: bool,
    /// Parcels in flight.
    pub(crate) flying: u32,
}

/// Delivers.
pub struct Courier {
    pub(crate) options: Fixed,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shipments: mpsc::Receiver<Shipment>,
    pub(crate) questions: mpsc::Receiver<Question>,
    pub(crate) closing: watch::Receiver<bool>,
    pub(crate) known: HashMap<StreamId, Known>,
    /// Epochs that are void, and those before them.
    pub(crate) void: HashMap<StreamId, u64>,
    /// The shipment that has to wait for another one of its stream.
    pub(crate) held: Option<Shipment>,
    pub(crate) identities: Vec<Identity>,
}

/// The options that stay.
pub(crate) struct Fixed {
    pub(crate) dir: PathBuf,
    pub(crate) hubs: Vec<String>,
    pub(crate) program: String,
    pub(crate) bandwidth: Bandwidth,
    pub(crate) window_bytes: u64,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Courier {
    /// A courier, whose [`Courier::run`] must be polled, and the way to it.
    pub fn new(options: CourierOptions) -> (CourierHandle, Self) {
        let (to_shipments, shipments) = mpsc::channel(SHIPMENTS_WAITING);
        let (to_questions, questions) = mpsc::channel(QUESTIONS_WAITING);
        let (closing, is_closing) = watch::channel(false);
        let CourierOptions { dir, hubs, program, bandwidth, window_bytes, clock, spool } = options;
        let shared = Arc::new(Shared {
            spool: Mutex::new(spool),
            status: Mutex::default(),
            has_samples: Notify::new(),
        });
        let handle = CourierHandle {
            shared: Arc::clone(&shared),
            shipments: to_shipments,
            questions: to_questions,
            closing,
        };
        let courier = Self {
            options: Fixed { dir, hubs, program, bandwidth, window_bytes, clock },
            shared,
            shipments,
            questions,
            closing: is_closing,
            known: HashMap::new(),
            void: HashMap::new(),
            held: None,
            identities: Vec::new(),
        };
        (handle, courier)
    }

    /// Until [`CourierHandle::close`].
    pub async fn run(mut self) {
        let (mut at, mut failures, mut said) = (0, 0_u32, String::new());
        while !*self.closing.borrow() {
            let hubs = self.hubs();
            let address = hubs.get(at % hubs.len().max(1)).cloned();
            let (began, accepted) = (Instant::now(), self.shared.status().accepted);
            let error = match self.connect(address.as_deref()).await {
                Ok(Some(connection)) => {
                    let address = address.expect("it was connected to");
                    tracing::info!("connected to the hub `{address}`");
                    said.clear();
                    self.note(Some(&address), None);
                    let error = Conversation::new(&mut self, connection, address).run().await;
                    let Some(error) = error else { break };
                    error
                }
                Ok(None) => break,
                Err(error) => error,
            };
            let has_delivered = self.shared.status().accepted > accepted;
            if has_delivered || began.elapsed() > GOOD {
                failures = 0;
            }
            failures += 1;
            self.note(None, Some(&error));
            at += usize::from(is_hubs_fault(&error));
            let next = hubs.get(at % hubs.len().max(1));
            if said != error.message {
                said.clone_from(&error.message);
                match next {
                    Some(next) if hubs.len() > 1 => {
                        tracing::warn!("{error}\ntrying the hub `{next}` next")
                    }
                    _ => tracing::warn!("{error}"),
                }
            }
            let is_round_over = at % hubs.len().max(1) == 0;
            if is_round_over || failures > 3 {
                let round = failures / u32::try_from(hubs.len().max(1)).unwrap_or(1);
                self.refuse_questions(&error, pause_of(round)).await;
            }
        }
    }

    /// Those of the configuration, else those of the fleets that were joined.
    fn hubs(&mut self) -> Vec<String> {
        match Identity::load_all(&self.options.dir) {
            Ok(identities) => self.identities = identities,
            Err(error) => tracing::error!("{error}"),
        }
        if !self.options.hubs.is_empty() {
            return self.options.hubs.clone();
        }
        let all = self.identities.iter().flat_map(|identity| &identity.addresses);
        let mut hubs: Vec<String> = Vec::new();
        for address in all {
            if !hubs.contains(address) {
                hubs.push(address.clone());
            }
        }
        hubs
    }

    fn note(&self, hub: Option<&str>, trouble: Option<&LinkError>) {
        let mut status = self.shared.status();
        status.hub = hub.map(str::to_owned);
        status.trouble = trouble.map(|error| error.message.clone());
    }

    /// `None` when the agent ends meanwhile.
    async fn connect(&mut self, address: Option<&str>) -> Result<Option<Connection>, LinkError> {
        let Some(address) = address else {
            return Err(LinkError::new(Kind::Identity, "this agent has not joined a hub")
                .hint("`weir hub invite` on the hub, then `weir agent join TOKEN` here"));
        };
        if self.identities.is_empty() {
            let text = format!(
                "cannot connect to the hub at `{address}`: this agent has not joined a hub"
            );
            return Err(LinkError::new(Kind::Identity, text)
                .hint("`weir hub invite` on the hub, then `weir agent join TOKEN` here"));
        }
        let dial = Dial {
            address,
            tls: tls::client(&self.identities, &self.options.clock)?,
            clock: &self.options.clock,
            program: &self.options.program,
            bandwidth: self.options.bandwidth.clone(),
        };
        let connecting = dial.connect();
        tokio::pin!(connecting);
        loop {
            tokio::select! {
                connection = &mut connecting => return connection.map(Some),
                Some(question) = self.questions.recv() => refuse(&question, "connecting to the hub"),
                () = is_set(&mut self.closing) => return Ok(None),
            }
        }
    }

    async fn refuse_questions(&mut self, error: &LinkError, span: Duration) {
        let end = tokio::time::sleep(span);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return,
                Some(question) = self.questions.recv() => refuse(&question, &error.message),
                () = is_set(&mut self.closing) => return,
            }
        }
    }

    /// The stream, as far as it is known; makes room by forgetting those that nothing is on its way of.
    pub(crate) fn known_mut(&mut self, stream: StreamId, origin: u64) -> &mut Known {
        if self.known.len() >= STREAMS && !self.known.contains_key(&stream) {
            self.known.retain(|_, known| known.flying > 0);
        }
        let new = Known { origin, is_at_hub: false, is_rewound: false, flying: 0 };
        let known = self.known.entry(stream).or_insert(new);
        known.origin = known.origin.min(origin);
        known
    }

    /// Shipments of the stream up to this epoch will not be sent.
    pub(crate) fn void(&mut self, stream: StreamId, epoch: u64) {
        if self.void.len() >= STREAMS {
            self.void.clear(); // the hub refuses what is out of order
        }
        let void = self.void.entry(stream).or_insert(epoch);
        *void = epoch.max(*void);
    }

    pub(crate) fn is_void(&self, shipment: &Shipment) -> bool {
        self.void.get(&shipment.range.stream).is_some_and(|epoch| *epoch >= shipment.epoch)
    }
}

pub(crate) fn refuse(question: &Question, why: &str) {
    let _ = question.answer.send(Err(why.to_owned()));
}

/// Whether another hub may do better.
fn is_hubs_fault(error: &LinkError) -> bool {
    !matches!(error.kind, Kind::Storage | Kind::Token | Kind::Closed)
}

/// Longer after each round, and never in step with other agents.
fn pause_of(round: u32) -> Duration {
    let longest = PAUSES.0.saturating_mul(1 << round.min(16)).min(PAUSES.1);
    let part = u32::from(u16::from_le_bytes(secret::random()));
    longest / 2 + longest / 2 * part / u32::from(u16::MAX)
}
