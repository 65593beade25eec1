//! The hub's side: takes connections, lets strangers redeem join tokens, and gives each agent a session.
//!
//! What a connection may cost is bounded: handshakes at one time, connections, bytes in flight per connection, time
//! without a word. Agents that are revoked are cut off within half a second.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio_rustls::TlsAcceptor;
use weir_tables::{Clock, Micros, StreamId};

use crate::authority::{AgentName, Authority, Certified, read_certificate};
use crate::bandwidth::Bandwidth;
use crate::error::LinkError;
use crate::frame::STRANGER;
use crate::message::{Code, Hello, Message, Position, Reason, VERSION_MAX, VERSION_MIN};
use crate::registry::{Agent, Denial, Registry};
use crate::session::Session;
use crate::tls;
use crate::wire::{self, Inbox, Outbox};

/// Takes what agents send: the store, behind this interface.
pub trait Intake: Send + Sync {
    /// Has streams come here from now on, of a hub that is one of several; before it is asked where they stand.
    fn claim(&self, _streams: Vec<StreamId>) -> Claim {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Where streams stand, in the order asked.
    fn positions(&self, streams: &[StreamId]) -> Vec<Position>;
    /// Keeps an encoded parcel. The first poll has to put it in its place behind those before.
    fn append(&self, parcel: Vec<u8>) -> Append;
    /// Changes when positions were committed to tables.
    fn commits(&self) -> watch::Receiver<u64>;
    /// Why nothing can be taken now; `None` when it can.
    fn trouble(&self) -> Option<String>;
}

/// An [`Intake::append`] under way.
pub type Append = Pin<Box<dyn Future<Output = Result<Appended, Refusal>> + Send>>;

/// An [`Intake::claim`] under way; refused when the agent had better turn to another hub.
pub type Claim = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send>>;

/// The parcel survives a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Rows that were new.
    pub rows: u64,
    /// Where its stream stands; `None` for a parcel without a range.
    pub position: Option<u64>,
}

/// The parcel was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// For [`Reason::Behind`], where the next parcel has to start.
    pub expected: u64,
    /// For a person.
    pub text: String,
    /// For a person.
    pub hint: String,
}

/// How a hub serves.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// `link/` of its data directory.
    pub link_dir: PathBuf,
    /// What it calls itself.
    pub program: String,
    /// Each side says something at least this often; three times this without a word ends a connection.
    pub heartbeat: Duration,
    /// Largest parcel, in bytes.
    pub parcel_bytes: usize,
    /// Connections at one time.
    pub connections: usize,
    /// How long an agent's certificate is valid; it is renewed when a third is left.
    pub certificate_lifetime: Duration,
}

impl HubOptions {
    /// Defaults.
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

/// Handshakes at one time; more wait in the kernel's queue.
const HANDSHAKES: usize = 64;
/// TLS and the first message have to be done within this.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether agents were revoked.
const LOOK: Duration = Duration::from_millis(500);
/// How long connections may take to end after the hub was told to end.
const DRAIN: Duration = Duration::from_secs(3);

/// An agent that is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Its name.
    pub name: String,
    /// Where it connects from.
    pub address: String,
    /// Since when.
    pub since: Micros,
    /// Its program.
    pub program: String,
    /// Its clock; `None` until it has told it, and for agents of before it was asked.
    pub clock: Option<ClockOffset>,
}

/// How far an agent's clock is from the hub's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// When the agent was asked, by the hub's clock.
    pub at: Micros,
    /// The agent's clock minus the hub's, in microseconds.
    pub offset_micros: i64,
    /// From question to answer; the offset may be wrong by half of it.
    pub round_trip: Duration,
}

struct Live {
    agent: Agent,
    connected: Connected,
    cut: oneshot::Sender<Denial>,
}

/// A hub as agents see it.
pub struct Hub {
    pub(crate) options: HubOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) intake: Arc<dyn Intake>,
    authority: Arc<Authority>,
    registry: Registry,
    tls: TlsAcceptor,
    handshakes: Arc<Semaphore>,
    connections: Arc<Semaphore>,
    live: Mutex<HashMap<u64, Live>>,
    next: AtomicU64,
}

impl Hub {
    /// A hub with the authority of its directory, which is made when there is none.
    ///
    /// # Errors
    /// [`crate::Kind::Storage`] and [`crate::Kind::Identity`].
    pub fn new(
        options: HubOptions,
        intake: Arc<dyn Intake>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, LinkError> {
        let authority = Arc::new(Authority::open(&options.link_dir, clock.now())?);
        let tls = tls::server(Arc::clone(&authority), &clock)?.into();
        Ok(Arc::new(Self {
            registry: Registry::new(&options.link_dir),
            handshakes: Arc::new(Semaphore::new(HANDSHAKES)),
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

    fn live(&self) -> MutexGuard<'_, HashMap<u64, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Agents that are connected, by name.
    pub fn connected(&self) -> Vec<Connected> {
        let mut all: Vec<_> = self.live().values().map(|live| live.connected.clone()).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Serves until `ended`.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, mut ended: watch::Receiver<bool>) {
        let mut tasks = tokio::task::JoinSet::new();
        let mut look = tokio::time::interval(LOOK);
        let mut seen = None;
        loop {
            tokio::select! {
                accepted = accept(&listener, &self.handshakes) => {
                    let (stream, address, turn) = accepted;
                    let hub = Arc::clone(&self);
                    tasks.spawn(async move { hub.connection(stream, address, turn).await });
                }
                _ = look.tick() => {
                    if self.registry.changed() != seen {
                        seen = self.registry.changed();
                        self.cut_revoked();
                    }
                }
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
                () = wire::is_set(&mut ended) => break,
            }
        }
        let ending = Denial::new(Code::Ending, "the hub is ending", "");
        let all: Vec<Live> = self.live().drain().map(|(_, live)| live).collect();
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

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        turn: tokio::sync::OwnedSemaphorePermit,
    ) {
        let _ = stream.set_nodelay(true);
        let handshake = tokio::time::timeout(HANDSHAKE_PATIENCE, self.tls.accept(stream)).await;
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let error = tls::explain(&address.to_string(), self.clock.now(), &error);
                tracing::debug!(%address, "no handshake: {}", error.message);
                return;
            }
            Err(_) => return tracing::debug!(%address, "no handshake in time"),
        };
        let shown = stream.get_ref().1.peer_certificates();
        let shown = shown.and_then(|chain| read_certificate(chain.first()?));
        self.talk(stream, shown, address.to_string(), turn).await;
    }

    /// A connection whose other side has shown its certificate, or none.
    pub(crate) async fn talk<S, T>(
        self: Arc<Self>,
        stream: S,
        shown: Option<Certified>,
        address: String,
        turn: T,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut inbox, outbox) = wire::split(stream, STRANGER, Bandwidth::new(0));
        let first = inbox.next_within(HANDSHAKE_PATIENCE).await;
        drop(turn);
        let denial = match first {
            Ok(Message::Enrol { invite, secret, name, request }) => {
                self.enrol((&invite, &secret), &name, &request, &outbox, &address).await
            }
            Ok(Message::Hello(hello)) => {
                self.agent(inbox, &outbox, &hello, shown, address.clone()).await
            }
            Ok(_) => {
                Err(Denial::new(Code::Protocol, "the first word is neither hello nor enrol", ""))
            }
            Err(error) => Err(error.into()),
        };
        if let Err(Denial { code, text, hint }) = denial {
            if code == Code::Failed {
                tracing::debug!(%address, "a connection ends: {text}"); // cut, by its other side or on the way
            } else {
                tracing::info!(%address, "a connection ends: {text}");
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

    async fn agent<S>(
        self: &Arc<Self>,
        inbox: Inbox<S>,
        outbox: &Outbox,
        hello: &Hello,
        shown: Option<Certified>,
        address: String,
    ) -> Result<(), Denial>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let stranger = || {
            let hint = "`weir hub invite` on the hub, then `weir agent join TOKEN` here";
            Denial::new(Code::Stranger, "the connection shows no agent's certificate", hint)
        };
        let certified = shown.ok_or_else(stranger)?;
        let agent = self.registry.admit(&certified.name, &certified.agent.ok_or_else(stranger)?)?;
        let version = version(hello)?;
        let Ok(_place) = Arc::clone(&self.connections).try_acquire_owned() else {
            let text =
                format!("the hub has {} connections, as many as it may", self.options.connections);
            return Err(Denial::new(Code::TooMany, text, "raise `link.connections`, or add a hub"));
        };
        let (id, cut) = self.enter(&agent, hello, address);
        let session = Session::new((Arc::clone(self), id), agent, inbox, outbox, cut);
        let outcome = session.run(version, hello).await;
        self.live().remove(&id);
        outcome
    }

    /// Notes the connection; an older one of the same agent ends, since an agent that comes again has lost it.
    fn enter(
        &self,
        agent: &Agent,
        hello: &Hello,
        address: String,
    ) -> (u64, oneshot::Receiver<Denial>) {
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
            let hint = "two hosts with one agent's directory would do this for ever: each has to join by itself";
            self.cut(older, Denial::new(Code::Superseded, text, hint));
        }
        let connected = Connected {
            name: agent.name.clone(),
            address,
            since: self.clock.now(),
            program: hello.program.clone(),
            clock: None,
        };
        let live = Live { agent: agent.clone(), connected, cut };
        self.live().insert(id, live);
        (id, is_cut)
    }
}

/// Waits for a turn at the handshake, then for a connection.
async fn accept(
    listener: &TcpListener,
    handshakes: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit) {
    let turn = Arc::clone(handshakes).acquire_owned().await.expect("it is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address, turn),
            Err(error) => {
                // Out of file descriptors, most likely: those that end give some back.
                tracing::warn!("cannot take a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The newest version that both speak.
fn version(hello: &Hello) -> Result<u8, Denial> {
    let (oldest, newest) = hello.versions;
    let version = newest.min(VERSION_MAX);
    if version >= oldest.max(VERSION_MIN) {
        return Ok(version);
    }
    let text = format!(
        "no common version: the agent speaks {oldest} to {newest}, the hub {VERSION_MIN} to {VERSION_MAX}"
    );
    Err(Denial::new(Code::Version, text, "update the hub first, then the agents"))
}
