//! Delivers an agent's rows: one connection at a time, failover to the next hub, and resending of
//! everything without a reply.
//!
//! ```text
//!   ship (bounded) ─► connected: in flight ─► Accepted: report    cut: report Again, the reader goes back
//!   push ─► spool ─►            in flight ─► Committed: free      cut: read again from the spool
//! ```
//! The uplink keeps no positions: at each connect it queries the hub for every known stream. It
//! does keep where reading of a stream began (`origin`), for a hub that does not know the stream.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, watch};
use weir_tables::{Batch, Clock, StreamId, StreamRange};

use crate::agent_session::AgentSession;
use crate::bandwidth::Bandwidth;
use crate::client::{Connection, Dial};
use crate::error::{LinkError, LinkErrorKind};
use crate::identity::Identity;
use crate::message::{CAN_ORDER, CAPABILITIES, STREAMS_A_FRAME};
use crate::order::OrderCarrier;
use crate::spool::Spool;
use crate::wire::is_set;
use crate::{secret, tls};

/// Length of the queue of parcels that wait for a connection.
const SHIPMENTS_WAITING: usize = 2;
/// Length of the queue of position queries.
const QUERIES_WAITING: usize = 16;
/// Timeout of a position query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);
/// Shortest and longest backoff between rounds over all hubs, before jitter.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));
/// A connection that lasted this long, or delivered something, resets the backoff.
const GOOD_CONNECTION: Duration = Duration::from_secs(10);
/// Number of streams whose state is kept.
const STREAMS: usize = 200_000;

/// Options of an uplink.
pub struct UplinkOptions {
    /// Directory of [`Identity`] files.
    pub dir: PathBuf,
    /// `host:port` of hubs in order of preference; if empty, those of the join tokens.
    pub hubs: Vec<String>,
    /// Name and version that the agent reports.
    pub program: String,
    /// Host of the agent's rows.
    pub host: String,
    /// Rate limit for sending.
    pub bandwidth: Bandwidth,
    /// Limit of parcel bytes in flight.
    pub window_bytes: u64,
    /// Clock for certificates and handshakes.
    pub clock: Arc<dyn Clock>,
    /// Samples, which cannot be read again.
    pub spool: Spool,
    /// Carries the hub's orders to this host's helper; `None` takes none.
    pub orders: Option<Arc<dyn OrderCarrier>>,
}

/// A parcel of a stream, for delivery.
pub struct Shipment {
    /// Range of the stream that it covers.
    pub range: StreamRange,
    /// Number of rewinds of the stream. A rewind voids shipments of earlier epochs.
    pub epoch: u64,
    /// The encoded parcel.
    pub bytes: Vec<u8>,
    /// Called once with the outcome; dropped if the shipment is void.
    pub report: Box<dyn FnOnce(DeliveryOutcome) + Send>,
}

/// Outcome of a shipment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The stream is durable up to this position.
    Accepted(u64),
    /// The reader must resend the stream from `position`.
    Resend {
        /// First position to resend.
        position: u64,
        /// Whether to pause first, since the hub is busy.
        is_busy: bool,
    },
}

/// State of an uplink for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UplinkStatus {
    /// Address of the connected hub.
    pub hub: Option<String>,
    /// Why there is no connection, or why the hub has paused ingest.
    pub trouble: Option<String>,
    /// Parcels of streams that a hub accepted.
    pub accepted: u64,
    /// Parcels that must be resent.
    pub resent: u64,
    /// Samples dropped because the spool was full.
    pub dropped: u64,
    /// Samples in the spool that no hub has accepted yet.
    pub waiting: u64,
    /// Size of the spool in bytes.
    pub spool_bytes: u64,
}

/// A query for positions from another thread.
pub(crate) struct PositionQuery {
    pub(crate) streams: Vec<StreamId>,
    pub(crate) reply: blocking::SyncSender<Result<Vec<(StreamId, u64)>, String>>,
}

/// State shared by the handle and the uplink.
pub(crate) struct UplinkState {
    spool: Mutex<Spool>,
    status: Mutex<UplinkStatus>,
    pub(crate) has_samples: Notify,
}

impl UplinkState {
    pub(crate) fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock()
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, UplinkStatus> {
        self.status.lock()
    }
}

/// Hands rows to the uplink, from any thread that may block.
pub struct UplinkHandle {
    shared: Arc<UplinkState>,
    shipments: mpsc::Sender<Shipment>,
    queries: mpsc::Sender<PositionQuery>,
    closing: watch::Sender<bool>,
}

impl UplinkHandle {
    /// Hands over rows of a stream; blocks while the window is full. After [`UplinkHandle::close`]
    /// rows are dropped.
    pub fn ship(&self, shipment: Shipment) {
        let _ = self.shipments.blocking_send(shipment);
    }

    /// Puts a sample into the spool and returns how many older ones were dropped for it.
    ///
    /// # Errors
    /// [`LinkErrorKind::Storage`]: the rows are lost.
    pub fn ship_sample(&self, batches: Vec<Batch>) -> Result<u64, LinkError> {
        let pushed = self.shared.spool().push(batches);
        let dropped = *pushed.as_ref().unwrap_or(&1);
        self.shared.status().dropped += dropped;
        self.shared.has_samples.notify_one();
        pushed
    }

    /// Positions of streams at the hub, without streams that it does not know.
    ///
    /// # Errors
    /// Why there is no reply; retry later.
    pub fn positions(&self, streams: &[StreamId]) -> Result<Vec<(StreamId, u64)>, String> {
        let mut all = Vec::new();
        for part in streams.chunks(STREAMS_A_FRAME) {
            let (reply, replies) = blocking::sync_channel(1);
            let query = PositionQuery { streams: part.to_vec(), reply };
            let sent = self.queries.blocking_send(query);
            sent.map_err(|_| "the agent is ending".to_owned())?;
            let reply = replies.recv_timeout(QUERY_TIMEOUT);
            all.extend(reply.map_err(|_| "no reply from the hub".to_owned())??);
        }
        Ok(all)
    }

    /// The uplink's current state.
    pub fn status(&self) -> UplinkStatus {
        let (waiting, spool_bytes) = {
            let spool = self.shared.spool();
            (spool.waiting(), spool.bytes())
        };
        UplinkStatus { waiting, spool_bytes, ..self.shared.status().clone() }
    }

    /// Ends the uplink once every parcel in flight has a reply, at most a few seconds later.
    pub fn close(&self) {
        let _ = self.closing.send(true);
    }
}

/// What the uplink knows about a stream.
pub(crate) struct StreamState {
    /// Lowest position that this process has read.
    pub(crate) origin: u64,
    /// Whether the hub of this connection knows the stream.
    pub(crate) is_at_hub: bool,
    /// Whether the reader was rewound to the origin for this hub.
    pub(crate) is_rewound: bool,
    /// Parcels in flight.
    pub(crate) in_flight: u32,
}

/// Delivers shipments and samples to a hub.
pub struct Uplink {
    pub(crate) options: UplinkSettings,
    pub(crate) shared: Arc<UplinkState>,
    pub(crate) shipments: mpsc::Receiver<Shipment>,
    pub(crate) queries: mpsc::Receiver<PositionQuery>,
    pub(crate) closing: watch::Receiver<bool>,
    pub(crate) known: HashMap<StreamId, StreamState>,
    /// Latest void epoch of each stream; earlier ones are void too.
    pub(crate) void: HashMap<StreamId, u64>,
    /// A shipment that waits for the reply to an earlier one of its stream.
    pub(crate) held: Option<Shipment>,
    pub(crate) identities: Vec<Identity>,
}

/// Options that do not change while the uplink runs.
pub(crate) struct UplinkSettings {
    pub(crate) dir: PathBuf,
    pub(crate) hubs: Vec<String>,
    pub(crate) program: String,
    pub(crate) host: String,
    pub(crate) bandwidth: Bandwidth,
    pub(crate) window_bytes: u64,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) orders: Option<Arc<dyn OrderCarrier>>,
}

impl Uplink {
    /// An uplink, whose [`Uplink::run`] must be polled, and its handle.
    pub fn new(options: UplinkOptions) -> (UplinkHandle, Self) {
        let (to_shipments, shipments) = mpsc::channel(SHIPMENTS_WAITING);
        let (to_queries, queries) = mpsc::channel(QUERIES_WAITING);
        let (closing, is_closing) = watch::channel(false);
        let UplinkOptions {
            dir,
            hubs,
            program,
            host,
            bandwidth,
            window_bytes,
            clock,
            spool,
            orders,
        } = options;
        let shared = Arc::new(UplinkState {
            spool: Mutex::new(spool),
            status: Mutex::default(),
            has_samples: Notify::new(),
        });
        let handle = UplinkHandle {
            shared: Arc::clone(&shared),
            shipments: to_shipments,
            queries: to_queries,
            closing,
        };
        let uplink = Self {
            options: UplinkSettings {
                dir,
                hubs,
                program,
                host,
                bandwidth,
                window_bytes,
                clock,
                orders,
            },
            shared,
            shipments,
            queries,
            closing: is_closing,
            known: HashMap::new(),
            void: HashMap::new(),
            held: None,
            identities: Vec::new(),
        };
        (handle, uplink)
    }

    /// Delivers until [`UplinkHandle::close`].
    pub async fn run(mut self) {
        let (mut at, mut failures, mut reported) = (0, 0_u32, String::new());
        while !*self.closing.borrow() {
            let hubs = self.hubs();
            let address = hubs.get(at % hubs.len().max(1)).cloned();
            let (began, accepted) = (Instant::now(), self.shared.status().accepted);
            let error = match self.connect(address.as_deref()).await {
                Ok(Some(connection)) => {
                    let address = address.expect("connecting needs an address");
                    tracing::info!("connected to the hub `{address}`");
                    reported.clear();
                    self.set_status(Some(&address), None);
                    let error = AgentSession::new(&mut self, connection, address).run().await;
                    let Some(error) = error else { break };
                    error
                }
                Ok(None) => break,
                Err(error) => error,
            };
            let has_delivered = self.shared.status().accepted > accepted;
            if has_delivered || began.elapsed() > GOOD_CONNECTION {
                failures = 0;
            }
            failures += 1;
            self.set_status(None, Some(&error));
            at += usize::from(may_another_hub_work(&error));
            let next = hubs.get(at % hubs.len().max(1));
            if reported != error.message {
                reported.clone_from(&error.message);
                match next {
                    Some(next) if hubs.len() > 1 => {
                        tracing::warn!("{error}; trying the hub `{next}` next")
                    }
                    _ => tracing::warn!("{error}"),
                }
            }
            let is_round_over = at % hubs.len().max(1) == 0;
            if is_round_over || failures > 3 {
                let round = failures / u32::try_from(hubs.len().max(1)).unwrap_or(1);
                self.refuse_queries(&error, backoff(round)).await;
            }
        }
    }

    /// Configured hubs, or else those of the joined fleets.
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

    fn set_status(&self, hub: Option<&str>, trouble: Option<&LinkError>) {
        let mut status = self.shared.status();
        status.hub = hub.map(str::to_owned);
        status.trouble = trouble.map(|error| error.message.clone());
    }

    /// Connects; `None` if the agent ends meanwhile.
    async fn connect(&mut self, address: Option<&str>) -> Result<Option<Connection>, LinkError> {
        let Some(address) = address else {
            return Err(LinkError::new(LinkErrorKind::Identity, "this agent has not joined a hub")
                .hint("`weir hub invite` on the hub, then `weir agent join TOKEN` here"));
        };
        if self.identities.is_empty() {
            let text = format!(
                "cannot connect to the hub at `{address}`: this agent has not joined a hub"
            );
            return Err(LinkError::new(LinkErrorKind::Identity, text)
                .hint("`weir hub invite` on the hub, then `weir agent join TOKEN` here"));
        }
        let dial = Dial {
            address,
            tls: tls::client(&self.identities, &self.options.clock)?,
            clock: &self.options.clock,
            program: &self.options.program,
            host: &self.options.host,
            bandwidth: self.options.bandwidth.clone(),
            capabilities: match &self.options.orders {
                Some(_) => CAPABILITIES,
                None => CAPABILITIES & !CAN_ORDER,
            },
        };
        let connecting = dial.connect();
        tokio::pin!(connecting);
        loop {
            tokio::select! {
                connection = &mut connecting => return connection.map(Some),
                Some(query) = self.queries.recv() => refuse(&query, "connecting to the hub"),
                () = is_set(&mut self.closing) => return Ok(None),
            }
        }
    }

    async fn refuse_queries(&mut self, error: &LinkError, span: Duration) {
        let end = tokio::time::sleep(span);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return,
                Some(query) = self.queries.recv() => refuse(&query, &error.message),
                () = is_set(&mut self.closing) => return,
            }
        }
    }

    /// The state of a stream. At the limit, drops streams without parcels in flight.
    pub(crate) fn known_mut(&mut self, stream: StreamId, origin: u64) -> &mut StreamState {
        if self.known.len() >= STREAMS && !self.known.contains_key(&stream) {
            self.known.retain(|_, known| known.in_flight > 0);
        }
        let new = StreamState { origin, is_at_hub: false, is_rewound: false, in_flight: 0 };
        let known = self.known.entry(stream).or_insert(new);
        known.origin = known.origin.min(origin);
        known
    }

    /// Voids shipments of the stream up to this epoch.
    pub(crate) fn void(&mut self, stream: StreamId, epoch: u64) {
        if self.void.len() >= STREAMS {
            self.void.clear(); // the hub refuses parcels out of order
        }
        let void = self.void.entry(stream).or_insert(epoch);
        *void = epoch.max(*void);
    }

    pub(crate) fn is_void(&self, shipment: &Shipment) -> bool {
        self.void.get(&shipment.range.stream).is_some_and(|epoch| *epoch >= shipment.epoch)
    }
}

pub(crate) fn refuse(query: &PositionQuery, why: &str) {
    let _ = query.reply.send(Err(why.to_owned()));
}

/// Whether another hub may work.
fn may_another_hub_work(error: &LinkError) -> bool {
    !matches!(error.kind, LinkErrorKind::Storage | LinkErrorKind::Token | LinkErrorKind::Closed)
}

/// Exponential backoff with jitter.
fn backoff(round: u32) -> Duration {
    let longest = BACKOFF.0.saturating_mul(1 << round.min(16)).min(BACKOFF.1);
    let part = u32::from(u16::from_le_bytes(secret::random()));
    longest / 2 + longest / 2 * part / u32::from(u16::MAX)
}
