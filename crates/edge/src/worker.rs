//! One thread of the edge: its runtime, its connections, its rows. Threads share the backends and little else.
//!
//! Each thread has a listener of its own on every address (`SO_REUSEPORT`), so the kernel spreads connections and no
//! lock is taken to accept one.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use http::header::HOST;
use rustc_hash::FxHashMap;
use slab::Slab;
use tokio_rustls::TlsAcceptor;
use weir_tables::Clock;

use crate::acme::CertificateManager;
use crate::admin::report::StateReporter;
use crate::client::state::{
    ClientState, ConnectionPhase, Listener, SweepVerdict, coarse_ns, set_coarse,
};
use crate::pool::backend::{Backend, HealthState};
use crate::pool::{AnswerHistory, Pool};
use crate::record::{RowRecorder, Sink};
use crate::settings::destination::RouteSettings;
use crate::settings::{Settings, UpstreamSettings};
use crate::time::{nanos, now_ns};
use crate::tls::CertificateStore;
use crate::tls::session_tickets::TicketKeys;
use crate::upstream::Upstream;
use crate::upstream::idle::{IdlePool, PendingConnect};
use crate::upstream::response_deadlines::ResponseDeadlines;

/// How often waits for backends are looked through.
const TICK: Duration = Duration::from_millis(50);
/// Ticks between two sweeps of connections and two deliveries of rows.
const SWEEP_TICKS: u32 = 10;
/// Ticks between two looks at the files of certificates: five seconds.
const CERTIFICATE_TICKS: u32 = 100;
/// Ticks between two looks for connections to park in a crowd.
const PARK_TICKS: u32 = 2;
/// Ticks between two looks for clients that closed their side while their request is under way.
const LOOK_TICKS: u32 = 20;
/// Requests that are younger are not looked after.
const LOOK_AFTER_NS: u64 = 500_000_000;
/// From so many connections of a thread on, idle ones are parked sooner.
const CROWD: usize = 1000;
/// How soon.
const PARK_CROWD_AFTER_NS: u64 = 150_000_000;
/// A client that sent nothing for that long is not about to, mostly: its connection is closed when another edge takes over.
const GENTLE_IDLE_NS: u64 = 1_000_000_000;
/// An idle connection gives its buffers back after that.
const PARK_AFTER_NS: u64 = 1_000_000_000;

/// What holds until the next change of the configuration.
#[derive(Clone)]
pub(crate) struct LiveConfig {
    pub(crate) settings: Settings,
    /// The first takes what no route names.
    pub(crate) pools: Vec<Arc<Pool>>,
    pub(crate) routes: Vec<(RouteSettings, Arc<Pool>)>,
    pub(crate) certificates: Option<Arc<CertificateStore>>,
    pub(crate) tls: Option<TlsAcceptor>,
}

impl LiveConfig {
    /// The pool for a request; `None` when there is no backend for it.
    pub(crate) fn pool(&self, parts: &http::request::Parts) -> Option<&Arc<Pool>> {
        let host = || {
            let field = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
            field.or_else(|| parts.uri.authority().map(|authority| authority.as_str()))
        };
        let fits = |route: &RouteSettings| route.fits(host().unwrap_or(""), parts.uri.path());
        let routed = self.routes.iter().find(|(route, _)| fits(route)).map(|(_, pool)| pool);
        routed.or(self.pools.first()).filter(|pool| !pool.backends.is_empty())
    }

    /// All backends with their pools.
    pub(crate) fn backends(&self) -> impl Iterator<Item = (&Arc<Pool>, &Arc<Backend>)> {
        self.pools.iter().flat_map(|pool| pool.backends.iter().map(move |one| (pool, one)))
    }
}

/// What all threads share.
pub(crate) struct SharedState {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sink: Sink,
    pub(crate) live: Mutex<Arc<LiveConfig>>,
    /// Counts changes of `live`.
    pub(crate) generation: AtomicU64,
    pub(crate) open: AtomicUsize,
    pub(crate) addresses: Mutex<FxHashMap<IpAddr, usize>>,
    /// It takes no connection any more, and ends those that are open.
    pub(crate) is_ending: AtomicBool,
    /// Idle connections are not ended at once: another edge has taken this one's place, nobody waits for the end.
    pub(crate) is_gentle: AtomicBool,
    pub(crate) tickets: Arc<TicketKeys>,
    pub(crate) acme: CertificateManager,
    pub(crate) listeners: Mutex<Vec<Arc<Listener>>>,
}

impl SharedState {
    pub(crate) fn listeners(&self) -> Vec<Arc<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn live(&self) -> Arc<LiveConfig> {
        Arc::clone(&self.live.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a connection of `address`; the reason when there are too many.
    pub(crate) fn admit(&self, address: IpAddr, settings: &Settings) -> Result<(), &'static str> {
        let limits = &settings.limits;
        if self.open.fetch_add(1, Relaxed) >= limits.connections {
            self.open.fetch_sub(1, Relaxed);
            return Err("connections");
        }
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let count = addresses.entry(address).or_default();
        if *count >= limits.address_connections {
            self.open.fetch_sub(1, Relaxed);
            return Err("address_connections");
        }
        *count += 1;
        Ok(())
    }

    pub(crate) fn dismiss(&self, address: IpAddr) {
        self.open.fetch_sub(1, Relaxed);
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&address);
            }
        }
    }
}

/// One thread's part.
pub(crate) struct Worker {
    pub(crate) shared: Arc<SharedState>,
    live: RefCell<Rc<LiveConfig>>,
    generation: Cell<u64>,
    pub(crate) recorder: RefCell<RowRecorder>,
    conns: RefCell<Slab<Arc<ClientState>>>,
    /// Those of them that may have HTTP buffers.
    awake: RefCell<Vec<Arc<ClientState>>>,
    pub(crate) waits: Rc<ResponseDeadlines>,
    idle: RefCell<IdlePool>,
    random: Cell<u64>,
    id_prefix: u64,
    reporter: RefCell<StateReporter>,
    /// Whether this thread looks after the backends, the certificates and the reports.
    is_first: bool,
}

impl Worker {
    pub(crate) fn new(shared: Arc<SharedState>, is_first: bool) -> Self {
        let live = Rc::new(LiveConfig::clone(&shared.live()));
        let (clock, sink) = (Arc::clone(&shared.clock), Arc::clone(&shared.sink));
        let seed = RandomState::new();
        set_coarse(now_ns());
        Self {
            recorder: RefCell::new(RowRecorder::new(live.settings.host.clone(), clock, sink)),
            live: RefCell::new(live),
            generation: Cell::new(shared.generation.load(Relaxed)),
            shared,
            conns: RefCell::default(),
            awake: RefCell::default(),
            waits: Rc::default(),
            idle: RefCell::default(),
            random: Cell::new(seed.hash_one(1) | 1),
            id_prefix: seed.hash_one(2),
            reporter: RefCell::default(),
            is_first,
        }
    }

    /// The configuration that holds.
    pub(crate) fn live(&self) -> Rc<LiveConfig> {
        Rc::clone(&self.live.borrow())
    }

    /// The next number of a sequence that looks random (xorshift64*).
    pub(crate) fn random(&self) -> u64 {
        let mut next = self.random.get();
        next ^= next >> 12;
        next ^= next << 25;
        next ^= next >> 27;
        self.random.set(next);
        next.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// An id that no other request has: 32 hex digits.
    pub(crate) fn new_request_id(&self) -> HeaderValue {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let number = u128::from(self.id_prefix) << 64 | u128::from(self.random());
        let mut text = [0; 32];
        for (at, digit) in text.iter_mut().enumerate() {
            *digit = DIGITS[(number >> (124 - 4 * at)) as usize & 15];
        }
        HeaderValue::from_bytes(&text).expect("digits")
    }

    /// A connection that the sweep looks after, until [`Worker::forget`].
    pub(crate) fn look_after(&self, conn: &Arc<ClientState>) -> usize {
        self.conns.borrow_mut().insert(Arc::clone(conn))
    }

    pub(crate) fn forget(&self, key: usize) {
        self.conns.borrow_mut().remove(key).set_phase(ConnectionPhase::Over);
    }

    /// A connection begins to use HTTP buffers.
    pub(crate) fn awakes(&self, conn: &Arc<ClientState>) {
        self.awake.borrow_mut().push(Arc::clone(conn));
    }

    /// Lets connections that are idle give their buffers back soon, when there are so many that it matters: what one gives
    /// back the next one uses, before the allocator has to have more.
    fn park_many(&self, now: u64) {
        let is_crowded = self.conns.borrow().len() > CROWD;
        let mut parked = Vec::new();
        self.awake.borrow_mut().retain(|conn| match conn.phase() {
            ConnectionPhase::Idle
                if is_crowded && now.saturating_sub(conn.since()) > PARK_CROWD_AFTER_NS =>
            {
                parked.push(Arc::clone(conn));
                false
            }
            ConnectionPhase::Resting | ConnectionPhase::Tunnel | ConnectionPhase::Over => false,
            _ => true,
        });
        parked.iter().for_each(|conn| conn.judge(SweepVerdict::Park));
    }

    pub(crate) fn open(&self) -> usize {
        self.conns.borrow().len()
    }

    /// A connection to a backend at rest, if there is one.
    pub(crate) fn rested(
        &self,
        backend: &Arc<Backend>,
        now: u64,
        settings: &UpstreamSettings,
    ) -> Option<Box<Upstream>> {
        self.idle.borrow_mut().take(backend, now, settings)
    }

    /// Whoever is told to wait by [`IdlePool::awaited`] waits for that.
    pub(crate) fn awaited(&self, backend: SocketAddr) -> Option<Rc<PendingConnect>> {
        self.idle.borrow_mut().awaited(backend)
    }

    /// The connection that others wait for is made, or cannot be.
    pub(crate) fn made(&self, backend: SocketAddr) {
        self.idle.borrow_mut().made(backend);
    }

    /// Others may use the connection as well, when it carries more than one request.
    pub(crate) fn share(&self, upstream: &Upstream) {
        if let Some(shared) = upstream.shared() {
            self.idle.borrow_mut().share(shared);
        }
    }

    /// A connection to a backend rests.
    pub(crate) fn rest(&self, upstream: Box<Upstream>, now: u64) {
        self.idle.borrow_mut().put(upstream, now);
    }

    /// Looks through waits, connections and backends until the edge ends.
    pub(crate) async fn sweep_always(&self) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut looked: Vec<AnswerHistory> = Vec::new();
        let mut count = 0_u32;
        loop {
            ticks.tick().await;
            count = count.wrapping_add(1);
            let now = now_ns();
            set_coarse(now);
            self.renew();
            let live = self.live();
            let upstream = &live.settings.upstream;
            if self.is_first {
                looked.resize_with(live.pools.len(), AnswerHistory::default);
                live.pools
                    .iter()
                    .zip(&mut looked)
                    .for_each(|(pool, looked)| pool.look(now, looked));
                self.reporter.borrow_mut().look(now, &live, &self.shared, false);
                if count.is_multiple_of(CERTIFICATE_TICKS)
                    && let Some(certificates) = &live.certificates
                {
                    certificates.reload_changed();
                    self.shared.tickets.rotate(now);
                }
            }
            let is_stalled = |address| {
                let backend = live.backends().find(|(_, one)| one.address == address);
                backend.is_some_and(|(_, backend)| backend.is_silent(now))
            };
            self.waits.sweep(now, nanos(upstream.answer), is_stalled);
            for (_, backend) in live.backends() {
                if backend.state(now, upstream) == HealthState::Stalled {
                    self.idle.borrow_mut().close(backend.address);
                }
            }
            if count.is_multiple_of(PARK_TICKS) {
                self.park_many(now);
            }
            if count.is_multiple_of(LOOK_TICKS) {
                self.look_at_busy(now);
            }
            if count.is_multiple_of(SWEEP_TICKS) {
                self.idle.borrow_mut().sweep(now, &live);
                self.sweep_connections(&live, now);
                self.recorder.borrow_mut().hand_over();
            }
        }
    }

    /// Hands over everything that is not handed over yet.
    pub(crate) fn report(&self, is_end: bool) {
        self.recorder.borrow_mut().hand_over();
        if self.is_first {
            self.reporter.borrow_mut().look(now_ns(), &self.live(), &self.shared, is_end);
        }
    }

    /// Takes a new configuration when there is one.
    pub(crate) fn renew(&self) {
        let generation = self.shared.generation.load(Relaxed);
        if self.generation.replace(generation) != generation {
            *self.live.borrow_mut() = Rc::new(LiveConfig::clone(&self.shared.live()));
        }
    }

    fn sweep_connections(&self, live: &LiveConfig, now: u64) {
        let ending = match self.shared.is_ending.load(Relaxed) {
            false => None,
            true if self.shared.is_gentle.load(Relaxed) => Some(GENTLE_IDLE_NS),
            true => Some(0),
        };
        let conns: Vec<(Arc<ClientState>, SweepVerdict)> = {
            let conns = self.conns.borrow();
            conns.iter().for_each(|(_, conn)| conn.tell_bytes());
            let judged = conns.iter().map(|(_, conn)| (conn, judge(conn, live, now, ending)));
            let told = judged.filter(|(_, verdict)| *verdict != SweepVerdict::None);
            told.map(|(conn, verdict)| (Arc::clone(conn), verdict)).collect()
        };
        for (conn, verdict) in conns {
            conn.judge(verdict);
        }
    }

    /// Lets connections whose request takes long look if their client has closed its side.
    fn look_at_busy(&self, now: u64) {
        for (_, conn) in &*self.conns.borrow() {
            let is_long = now.saturating_sub(conn.since()) > LOOK_AFTER_NS;
            if !conn.is_h2 && is_long && conn.phase() == ConnectionPhase::Busy {
                conn.look();
            }
        }
    }

    /// Ends what is idle at once; the rest when its request is over.
    pub(crate) fn end_idle(&self) {
        set_coarse(now_ns());
        self.sweep_connections(&self.live(), coarse_ns());
    }
}

/// `ending` is after how long of idleness a connection is closed when the edge ends.
fn judge(conn: &ClientState, live: &LiveConfig, now: u64, ending: Option<u64>) -> SweepVerdict {
    let limits = &live.settings.limits;
    if !matches!(conn.verdict(), SweepVerdict::None | SweepVerdict::Park) {
        return SweepVerdict::None;
    }
    // HTTP/2 can be told to send nothing more while what is under way goes on.
    if ending.is_some() && conn.is_h2 {
        return SweepVerdict::Close;
    }
    let age = now.saturating_sub(conn.since());
    let idle = || {
        let idle = nanos(limits.idle_of(conn.listener.settings.address));
        ending.map_or(idle, |ending| ending.min(idle))
    };
    match conn.phase() {
        ConnectionPhase::Idle | ConnectionPhase::Resting if age >= idle() => SweepVerdict::Close,
        ConnectionPhase::Idle if age > PARK_AFTER_NS && !conn.is_h2 => SweepVerdict::Park,
        ConnectionPhase::Head if age > nanos(limits.head) => SweepVerdict::SlowHead,
        ConnectionPhase::Busy => {
            let span = |since: Option<u64>| since.map_or(0, |since| now.saturating_sub(since));
            if span(conn.stuck_since()) > nanos(limits.client_pause) {
                SweepVerdict::SlowClient
            } else if span(conn.half_closed_since()) > nanos(limits.half_closed) {
                SweepVerdict::Gone
            } else {
                SweepVerdict::None
            }
        }
        _ => SweepVerdict::None,
    }
}
