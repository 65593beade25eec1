//! The hub's side: accepts connections, lets strangers redeem join tokens, and runs a session per
//! agent.
//!
//! Limits bound the cost of connections: concurrent handshakes, connections, bytes in flight per
//! connection, and silence. Revoked agents are disconnected within half a second.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio_rustls::TlsAcceptor;
use weir_tables::{Clock, Micros, StreamId};

use crate::authority::{AgentName, Authority, CertificateInfo, read_certificate};
use crate::bandwidth::Bandwidth;
use crate::error::{LinkError, LinkErrorKind};
use crate::frame::STRANGER;
use crate::handshakes::{HandshakePlaces, PATIENCE};
use crate::hub_session::HubSession;
use crate::message::{
    CAN_ORDER, GoodbyeCode, Hello, Message, RefusalReason, StreamPosition, VERSION_MAX, VERSION_MIN,
};
use crate::order::{CarriedOrder, ORDER_BYTES_MAX, OrderAnswer, OrderSender, PendingOrder};
use crate::registry::{Agent, Denial, Registry};
use crate::tls;
use crate::wire::{self, Inbox, Outbox};

/// Receives what agents send. The store implements it.
pub trait Intake: Send + Sync {
    /// Moves streams to this hub of a cluster, before their positions are read.
    fn claim(&self, _streams: Vec<StreamId>) -> ClaimFuture {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Positions of streams, in the given order.
    fn positions(&self, streams: &[StreamId]) -> Vec<StreamPosition>;
    /// Stores an encoded parcel of an agent. The first poll must enqueue it, after earlier ones.
    fn append(&self, agent: &str, parcel: Vec<u8>) -> AppendFuture;
    /// Whether an agent may send rows of a host.
    fn speaks_for(&self, agent: &str, host: &str) -> bool {
        agent == host
    }
    /// A counter that changes at each commit to tables.
    fn commits(&self) -> watch::Receiver<u64>;
    /// Why ingest is paused; `None` if it is not.
    fn trouble(&self) -> Option<String>;
}

/// An [`Intake::append`] under way.
pub type AppendFuture = Pin<Box<dyn Future<Output = Result<AppendResult, Refusal>> + Send>>;

/// An [`Intake::claim`] under way; refused if the agent should use another hub.
pub type ClaimFuture = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send>>;

/// A parcel that survives a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendResult {
    /// Rows that were new.
    pub rows: u64,
    /// New position of its stream; `None` for a parcel without a range.
    pub position: Option<u64>,
}

/// A refused parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// For [`RefusalReason::Behind`], where the next parcel must start.
    pub expected: u64,
    /// What failed, for people.
    pub text: String,
    /// What to do, for people.
    pub hint: String,
}

/// Options of a hub.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Directory `link/` in the data directory.
    pub link_dir: PathBuf,
    /// Name and version that the hub reports.
    pub program: String,
    /// Longest time between messages of either side; three times this ends a connection.
    pub heartbeat: Duration,
    /// Largest parcel, in bytes.
    pub parcel_bytes: usize,
    /// Limit of concurrent connections.
    pub connections: usize,
    /// Lifetime of an agent's certificate, which is renewed when a third is left.
    pub certificate_lifetime: Duration,
}

impl HubOptions {
    /// The default options.
    pub fn new(link_dir: &Path) -> Self {
        Self {
            link_dir: link_dir.to_owned(),
            program: "weir".into(),
            heartbeat: Duration::from_secs(5),
            parcel_bytes: 64 << 20,
            connections: 4096,
            certificate_lifetime: crate::identity::CERTIFICATE_LIFETIME,
        }
    }
}

/// Interval of checks for revoked agents.
const REVOCATION_CHECK: Duration = Duration::from_millis(500);
/// How long connections may take to end when the hub shuts down.
const DRAIN: Duration = Duration::from_secs(3);

/// A connected agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedAgent {
    /// Name of the agent.
    pub name: String,
    /// Remote address.
    pub address: String,
    /// Start of the connection.
    pub since: Micros,
    /// Name and version of the agent.
    pub program: String,
    /// Clock offset; `None` before the first reply, and for agents that do not report their clock.
    pub clock: Option<ClockOffset>,
}

/// Offset of an agent's clock from the hub's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// When the query was sent, by the hub's clock.
    pub at: Micros,
    /// The agent's clock minus the hub's, in microseconds.
    pub offset_micros: i64,
    /// Time from query to reply; the offset may be wrong by half of it.
    pub round_trip: Duration,
}

struct LiveConnection {
    agent: Agent,
    connected: ConnectedAgent,
    cut: oneshot::Sender<Denial>,
    orders: OrderSender,
}

/// The hub's and the agent's side of one registered connection.
struct ConnectionEnds {
    id: u64,
    cut: oneshot::Receiver<Denial>,
    orders: tokio::sync::mpsc::Receiver<PendingOrder>,
}

/// A hub's endpoint for agents.
pub struct Hub {
    pub(crate) options: HubOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) intake: Arc<dyn Intake>,
    authority: Arc<Authority>,
    registry: Registry,
    tls: TlsAcceptor,
    handshakes: HandshakePlaces,
    connections: Arc<Semaphore>,
    live: Mutex<HashMap<u64, LiveConnection>>,
    next: AtomicU64,
}

impl Hub {
    /// A hub with the authority of its directory, which is created if there is none.
    ///
    /// # Errors
    /// [`crate::LinkErrorKind::Storage`] and [`crate::LinkErrorKind::Identity`].
    pub fn new(
        options: HubOptions,
        intake: Arc<dyn Intake>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, LinkError> {
        let authority = Arc::new(Authority::open(&options.link_dir, clock.now())?);
        let tls = tls::server(Arc::clone(&authority), &clock)?.into();
        Ok(Arc::new(Self {
            registry: Registry::new(&options.link_dir),
            handshakes: HandshakePlaces::default(),
            connections: Arc::new(Semaphore::new(options.connections)),
            options,
            clock,
            intake,
            authority,
            tls,
            live: Mutex::default(),
            next: AtomicU64::new(0),
        }))
    }

    fn live(&self) -> MutexGuard<'_, HashMap<u64, LiveConnection>> {
        self.live.lock()
    }

    /// Connected agents, sorted by name.
    pub fn connected(&self) -> Vec<ConnectedAgent> {
        let mut all: Vec<_> = self.live().values().map(|live| live.connected.clone()).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Sends an order to a connected agent, and waits for its host's answer, for `patience` at most.
    ///
    /// # Errors
    /// [`LinkErrorKind::Unreachable`], [`LinkErrorKind::Protocol`]: it was not sent.
    /// [`LinkErrorKind::Silent`], [`LinkErrorKind::Cut`]: it may run, and its outcome is unknown.
    pub async fn send_order(
        &self,
        agent: &str,
        order: CarriedOrder,
        patience: Duration,
    ) -> Result<OrderAnswer, LinkError> {
        if order.body.len() > ORDER_BYTES_MAX {
            let text = format!("cannot order `{agent}`: {} bytes", order.body.len());
            return Err(LinkError::protocol(text));
        }
        let orders = self
            .live()
            .values()
            .find(|live| live.connected.name == agent)
            .map(|live| live.orders.clone());
        let orders = orders.ok_or_else(|| {
            let text = format!("cannot order `{agent}`: this agent is not connected to this hub");
            LinkError::new(LinkErrorKind::Unreachable, text)
        })?;
        let answer = orders.send(agent, order)?;
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => {
                let text = format!("the connection to `{agent}` ended before it answered an order");
                Err(LinkError::new(LinkErrorKind::Cut, text))
            }
            Err(_) => {
                let seconds = patience.as_secs_f64();
                let text = format!("`{agent}` did not answer an order within {seconds} s");
                Err(LinkError::new(LinkErrorKind::Silent, text))
            }
        }
    }

    /// Serves until `ended` is set.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, mut ended: watch::Receiver<bool>) {
        let mut tasks = tokio::task::JoinSet::new();
        let mut check = tokio::time::interval(REVOCATION_CHECK);
        let mut last_change = None;
        loop {
            tokio::select! {
                accepted = accept(&listener, &self.handshakes) => {
                    let (stream, address, permit) = accepted;
                    let hub = Arc::clone(&self);
                    tasks.spawn(async move { hub.handshake(stream, address, permit).await });
                }
                _ = check.tick() => {
                    if self.registry.changed() != last_change {
                        last_change = self.registry.changed();
                        self.cut_revoked();
                    }
                }
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
                () = wire::is_set(&mut ended) => break,
            }
        }
        let ending = Denial::new(GoodbyeCode::Ending, "the hub is ending", "");
        let all: Vec<LiveConnection> = self.live().drain().map(|(_, live)| live).collect();
        all.into_iter().for_each(|live| drop(live.cut.send(ending.clone())));
        let all_ended = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DRAIN, all_ended).await;
    }

    pub(crate) fn note_clock(&self, id: u64, clock: ClockOffset) {
        if let Some(live) = self.live().get_mut(&id) {
            live.connected.clock = Some(clock);
        }
    }

    fn cut_revoked(&self) {
        let ids: Vec<(u64, Agent)> =
            self.live().iter().map(|(id, live)| (*id, live.agent.clone())).collect();
        for (id, agent) in ids {
            if let Err(denial) = self.registry.admit(&agent.name, &agent.id) {
                self.cut(id, denial);
            }
        }
    }

    fn cut(&self, id: u64, denial: Denial) {
        if let Some(live) = self.live().remove(&id) {
            let _ = live.cut.send(denial);
        }
    }

    async fn handshake(
        self: Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        permit: tokio::sync::OwnedSemaphorePermit,
    ) {
        let _ = stream.set_nodelay(true);
        let (since, ip) = (Instant::now(), address.ip());
        if self.handshakes.silent(ip, since, stream.readable()).await.is_none() {
            return tracing::debug!(%address, "the peer sent nothing");
        }
        let handshake = self.handshakes.speaking(ip, since, self.tls.accept(stream)).await;
        let stream = match handshake {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => {
                let error = tls::explain(&address.to_string(), self.clock.now(), &error);
                tracing::debug!(%address, "handshake failed: {}", error.message);
                return;
            }
            None => return tracing::debug!(%address, "handshake timed out"),
        };
        let chain = stream.get_ref().1.peer_certificates();
        let certificate = chain.and_then(|chain| read_certificate(chain.first()?));
        self.serve_peer(stream, certificate, address.to_string(), permit).await;
    }

    /// Serves a connection whose peer has presented this certificate, or none.
    pub(crate) async fn serve_peer<S, T>(
        self: Arc<Self>,
        stream: S,
        certificate: Option<CertificateInfo>,
        address: String,
        permit: T,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut inbox, outbox) = wire::split(stream, STRANGER, Bandwidth::new(0));
        // Peers without an address (tests) have one share.
        let ip = address.parse().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer: SocketAddr| peer.ip());
        let step = inbox.next_within(PATIENCE);
        let first = self.handshakes.speaking(ip, Instant::now(), step).await;
        let first = first.unwrap_or_else(|| {
            Err(LinkError::new(LinkErrorKind::Silent, "no message in time, and others wait"))
        });
        drop(permit);
        let denial = match first {
            Ok(Message::Enrol { invite, secret, name, request }) => {
                self.enrol((&invite, &secret), &name, &request, &outbox, &address).await
            }
            Ok(Message::Hello(hello)) => {
                self.serve_agent(inbox, &outbox, &hello, certificate, address.clone()).await
            }
            Ok(_) => Err(Denial::new(
                GoodbyeCode::Protocol,
                "the first message is neither Hello nor Enrol",
                "",
            )),
            Err(error) => Err(error.into()),
        };
        if let Err(Denial { code, text, hint }) = denial {
            if code == GoodbyeCode::Failed {
                tracing::debug!(%address, "connection ended: {text}"); // lost, by the peer or on the network
            } else {
                tracing::info!(%address, "connection ended: {text}");
            }
            let _ = outbox.send(&Message::Goodbye { code, text, hint }).await;
        }
        outbox.end().await;
    }

    async fn enrol(
        &self,
        token: (&[u8; 8], &[u8; 16]),
        name: &str,
        request: &[u8],
        outbox: &Outbox,
        address: &str,
    ) -> Result<(), Denial> {
        let agent = self.registry.redeem(token, name, request, self.clock.now())?;
        let certificate = self.sign(&agent, request)?;
        tracing::info!(%address, "the agent `{}` joined", agent.name);
        let answer = Message::Enrolled { name: agent.name, certificate };
        Ok(outbox.send(&answer).await?)
    }

    pub(crate) fn sign(&self, agent: &Agent, request: &[u8]) -> Result<Vec<u8>, LinkError> {
        let name = AgentName { name: &agent.name, id: agent.id };
        let lifetime = self.options.certificate_lifetime;
        self.authority.sign_agent(&name, request, self.clock.now(), lifetime)
    }

    async fn serve_agent<S>(
        self: &Arc<Self>,
        inbox: Inbox<S>,
        outbox: &Outbox,
        hello: &Hello,
        certificate: Option<CertificateInfo>,
        address: String,
    ) -> Result<(), Denial>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let certificate = certificate.ok_or_else(no_certificate)?;
        let id = certificate.agent.ok_or_else(no_certificate)?;
        let agent = self.registry.admit(&certificate.name, &id)?;
        let version = common_version(hello)?;
        if !hello.host.is_empty() && !self.intake.speaks_for(&agent.name, &hello.host) {
            return Err(foreign_host(&agent.name, &hello.host));
        }
        let Ok(_permit) = Arc::clone(&self.connections).try_acquire_owned() else {
            let text = format!(
                "the hub has reached its limit of {} connections",
                self.options.connections
            );
            return Err(Denial::new(
                GoodbyeCode::TooMany,
                text,
                "raise `link.connections`, or add a hub",
            ));
        };
        let ConnectionEnds { id, cut, orders } = self.register(&agent, hello, address);
        let session = HubSession::new((Arc::clone(self), id), agent, inbox, outbox, (cut, orders));
        let outcome = session.run(version, hello).await;
        self.live().remove(&id);
        outcome
    }

    /// Registers the connection and ends an older one of the same agent, which the agent has lost.
    fn register(&self, agent: &Agent, hello: &Hello, address: String) -> ConnectionEnds {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (cut, is_cut) = oneshot::channel();
        let older: Vec<u64> = self
            .live()
            .iter()
            .filter(|(_, live)| live.agent.id == agent.id)
            .map(|(id, _)| *id)
            .collect();
        for older in older {
            let text = format!("the agent `{}` connected again, from {address}", agent.name);
            let hint = "two hosts that share one agent's directory keep replacing each other: each must join by itself";
            self.cut(older, Denial::new(GoodbyeCode::Superseded, text, hint));
        }
        let connected = ConnectedAgent {
            name: agent.name.clone(),
            address,
            since: self.clock.now(),
            program: hello.program.clone(),
            clock: None,
        };
        let (to_orders, orders) = OrderSender::new(hello.capabilities & CAN_ORDER != 0);
        let live = LiveConnection { agent: agent.clone(), connected, cut, orders: to_orders };
        self.live().insert(id, live);
        ConnectionEnds { id, cut: is_cut, orders }
    }
}

fn foreign_host(agent: &str, host: &str) -> Denial {
    let text = format!("the agent joined as `{agent}`, but its rows are of the host `{host}`");
    let hint = format!(
        "start it with --host {agent} (`collect.host`), join again with --host {host}, or add \"{agent}: {host}\" to `link.speaks_for` on the hub"
    );
    Denial::new(GoodbyeCode::ForeignHost, text, hint)
}

fn no_certificate() -> Denial {
    let hint = "`weir hub invite` on the hub, then `weir agent join TOKEN` here";
    Denial::new(GoodbyeCode::Stranger, "the connection has no agent's certificate", hint)
}

/// Waits for a handshake slot, then for a connection.
async fn accept(
    listener: &TcpListener,
    handshakes: &HandshakePlaces,
) -> (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit) {
    let permit = handshakes.place().await;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address, permit),
            Err(error) => {
                // Most likely out of file descriptors, which ending connections release.
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The newest version that both sides support.
fn common_version(hello: &Hello) -> Result<u8, Denial> {
    let (oldest, newest) = hello.versions;
    let version = newest.min(VERSION_MAX);
    if version >= oldest.max(VERSION_MIN) {
        return Ok(version);
    }
    let text = format!(
        "no common version: the agent speaks {oldest} to {newest}, the hub {VERSION_MIN} to {VERSION_MAX}"
    );
    Err(Denial::new(GoodbyeCode::Version, text, "update the hub first, then the agents"))
}
