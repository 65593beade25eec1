//! One thread of the edge: its runtime, connections and rows. Threads share little but backends.
//!
//! Each thread has its own listening socket per address (`SO_REUSEPORT`), so the kernel spreads
//! connections and accepting takes no lock.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::HeaderValue;
use slab::Slab;

use crate::admin::report::StateReporter;
use crate::client::h2_stream::StreamState;
use crate::client::state::{ClientState, ConnectionPhase, SweepVerdict};
use crate::live::LiveConfig;
use crate::pool::backend::{Backend, HealthState};
use crate::pool::{RandomBits, ResponseHistory};
use crate::record::RowRecorder;
use crate::settings::{Limits, UpstreamSettings};
use crate::shared::SharedState;
use crate::time::{MonoTime, Nanos, coarse_now, set_coarse};
use crate::upstream::Upstream;
use crate::upstream::idle::{IdlePool, PendingConnect};
use crate::upstream::response_deadlines::ResponseDeadlines;

/// Interval at which response deadlines and backends are checked.
const TICK: Duration = Duration::from_millis(50);
/// Ticks between two sweeps of connections and two deliveries of rows.
const SWEEP_TICKS: u32 = 10;
/// Ticks between two checks of the certificate files: five seconds.
const CERTIFICATE_TICKS: u32 = 100;
/// Ticks between two searches for connections to park while there are many.
const PARK_TICKS: u32 = 2;
/// Ticks between two probes for clients that closed their side during a request.
const PROBE_TICKS: u32 = 20;
/// Age at which a request's client is first probed.
const PROBE_AFTER: Nanos = Nanos::from_millis(500);
/// From this number of connections per thread on, idle ones are parked after [`PARK_MANY_AFTER`].
const MANY_CONNECTIONS: usize = 1000;
const PARK_MANY_AFTER: Nanos = Nanos::from_millis(150);
/// How long a connection is idle before it is parked otherwise.
const PARK_AFTER: Nanos = Nanos::from_secs(1);
/// When another edge takes over, connections idle for this long are closed: their clients are
/// probably not about to send.
const GENTLE_IDLE: Nanos = Nanos::from_secs(1);

/// State of one thread.
pub(crate) struct Worker {
    pub(crate) shared: Arc<SharedState>,
    live: RefCell<Rc<LiveConfig>>,
    generation: Cell<u64>,
    pub(crate) recorder: RefCell<RowRecorder>,
    conns: RefCell<Slab<Arc<ClientState>>>,
    /// Streams of HTTP/2 clients.
    streams: RefCell<Slab<Rc<StreamState>>>,
    /// The connections that may have HTTP buffers.
    awake: RefCell<Vec<Arc<ClientState>>>,
    pub(crate) deadlines: Rc<ResponseDeadlines>,
    idle: RefCell<IdlePool>,
    random: Cell<u64>,
    id_prefix: u64,
    reporter: RefCell<StateReporter>,
    /// Whether this thread updates backend health, certificates and reports.
    is_first: bool,
}

impl Worker {
    pub(crate) fn new(shared: Arc<SharedState>, is_first: bool) -> Self {
        let live = Rc::new(LiveConfig::clone(&shared.live()));
        let (clock, sink) = (Arc::clone(&shared.clock), Arc::clone(&shared.sink));
        let seed = RandomState::new();
        set_coarse(MonoTime::now());
        Self {
            recorder: RefCell::new(RowRecorder::new(live.settings.host.clone(), clock, sink)),
            live: RefCell::new(live),
            generation: Cell::new(shared.generation.load(Relaxed)),
            shared,
            conns: RefCell::default(),
            streams: RefCell::default(),
            awake: RefCell::default(),
            deadlines: Rc::default(),
            idle: RefCell::default(),
            random: Cell::new(seed.hash_one(1) | 1),
            id_prefix: seed.hash_one(2),
            reporter: RefCell::default(),
            is_first,
        }
    }

    pub(crate) fn live(&self) -> Rc<LiveConfig> {
        Rc::clone(&self.live.borrow())
    }

    /// The next pseudo-random number (xorshift64*): none comes twice in the life of a worker, which
    /// request ids rely on.
    pub(crate) fn random(&self) -> RandomBits {
        let mut next = self.random.get();
        next ^= next >> 12;
        next ^= next << 25;
        next ^= next >> 27;
        self.random.set(next);
        RandomBits(next.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// A unique request id: 32 hex digits.
    pub(crate) fn new_request_id(&self) -> HeaderValue {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let number = u128::from(self.id_prefix) << 64 | u128::from(self.random().0);
        let mut text = [0; 32];
        for (at, digit) in text.iter_mut().enumerate() {
            *digit = DIGITS[(number >> (124 - 4 * at)) as usize & 15];
        }
        HeaderValue::from_bytes(&text).expect("hex digits are valid in a header")
    }

    /// Adds a connection to the sweep until [`Worker::unregister`].
    pub(crate) fn register(&self, conn: &Arc<ClientState>) -> usize {
        self.conns.borrow_mut().insert(Arc::clone(conn))
    }

    pub(crate) fn unregister(&self, key: usize) {
        self.conns.borrow_mut().remove(key).set_phase(ConnectionPhase::Closed);
    }

    /// Adds a stream to the sweep until [`Worker::unregister_stream`].
    pub(crate) fn register_stream(&self, stream: &Rc<StreamState>) -> usize {
        self.streams.borrow_mut().insert(Rc::clone(stream))
    }

    pub(crate) fn unregister_stream(&self, key: usize) {
        self.streams.borrow_mut().remove(key);
    }

    /// Cancels streams whose client takes or sends nothing.
    fn sweep_streams(&self, live: &LiveConfig, now: MonoTime) {
        let limit = live.settings.limits.client_pause.into();
        self.streams.borrow().iter().for_each(|(_, stream)| stream.judge(now, limit));
    }

    /// Notes that a connection begins to use HTTP buffers.
    pub(crate) fn mark_awake(&self, conn: &Arc<ClientState>) {
        self.awake.borrow_mut().push(Arc::clone(conn));
    }

    /// Parks idle connections early while there are many, so that the next ones reuse their
    /// buffers before the allocator has to grow.
    fn park_many(&self, now: MonoTime) {
        let has_many = self.conns.borrow().len() > MANY_CONNECTIONS;
        let mut parked = Vec::new();
        self.awake.borrow_mut().retain(|conn| match conn.phase() {
            ConnectionPhase::Idle if has_many && now.since(conn.since()) > PARK_MANY_AFTER => {
                parked.push(Arc::clone(conn));
                false
            }
            ConnectionPhase::Parked | ConnectionPhase::Tunnel | ConnectionPhase::Closed => false,
            _ => true,
        });
        parked.iter().for_each(|conn| conn.set_verdict(SweepVerdict::Park));
    }

    /// Number of open client connections.
    pub(crate) fn open(&self) -> usize {
        self.conns.borrow().len()
    }

    /// An idle connection to a backend, if there is one.
    pub(crate) fn take_idle(
        &self,
        backend: &Arc<Backend>,
        now: MonoTime,
        settings: &UpstreamSettings,
    ) -> Option<Box<Upstream>> {
        self.idle.borrow_mut().take(backend, now, settings)
    }

    /// Pools a connection to a backend.
    pub(crate) fn put_idle(&self, upstream: Box<Upstream>, now: MonoTime) {
        self.idle.borrow_mut().put(upstream, now);
    }

    /// See [`IdlePool::pending_connect`].
    pub(crate) fn pending_connect(&self, backend: SocketAddr) -> Option<Rc<PendingConnect>> {
        self.idle.borrow_mut().pending_connect(backend)
    }

    /// See [`IdlePool::finish_connect`].
    pub(crate) fn finish_connect(&self, backend: SocketAddr) {
        self.idle.borrow_mut().finish_connect(backend);
    }

    /// Makes a connection available to other requests if it carries more than one.
    pub(crate) fn share(&self, upstream: &Upstream) {
        if let Some(shared) = upstream.shared() {
            self.idle.borrow_mut().share(shared);
        }
    }

    /// Sweeps deadlines, connections and backends until the thread ends.
    pub(crate) async fn sweep_loop(&self) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut histories: Vec<ResponseHistory> = Vec::new();
        let mut count = 0_u32;
        loop {
            ticks.tick().await;
            count = count.wrapping_add(1);
            let now = MonoTime::now();
            set_coarse(now);
            self.refresh_config();
            let live = self.live();
            if self.is_first {
                histories.resize_with(live.pools.len(), ResponseHistory::default);
                for (pool, history) in live.pools.iter().zip(&mut histories) {
                    pool.update_health(now, history);
                }
                self.reporter.borrow_mut().report(now, &live, &self.shared, false);
                if count.is_multiple_of(CERTIFICATE_TICKS)
                    && let Some(certificates) = &live.certificates
                {
                    certificates.reload_changed();
                    self.shared.tickets.rotate(now);
                }
            }
            self.sweep_backends(&live, now);
            if count.is_multiple_of(PARK_TICKS) {
                self.park_many(now);
            }
            if count.is_multiple_of(PROBE_TICKS) {
                self.probe_busy(now);
            }
            if count.is_multiple_of(SWEEP_TICKS) {
                self.idle.borrow_mut().sweep(now, &live);
                self.sweep_connections(&live, now);
                self.sweep_streams(&live, now);
                self.recorder.borrow_mut().flush();
            }
        }
    }

    /// Ends waits that took too long, and closes connections to backends that have stalled.
    fn sweep_backends(&self, live: &LiveConfig, now: MonoTime) {
        let upstream = &live.settings.upstream;
        self.deadlines.sweep(now, upstream.answer.into());
        for (_, backend) in live.backends() {
            if backend.state(now, upstream) == HealthState::Stalled {
                self.idle.borrow_mut().close(backend.address);
            }
        }
    }

    /// Delivers all remaining rows.
    pub(crate) fn flush(&self, is_end: bool) {
        self.recorder.borrow_mut().flush();
        if self.is_first {
            let now = MonoTime::now();
            self.reporter.borrow_mut().report(now, &self.live(), &self.shared, is_end);
        }
    }

    /// Adopts a new configuration if there is one.
    pub(crate) fn refresh_config(&self) {
        let generation = self.shared.generation.load(Relaxed);
        if self.generation.replace(generation) != generation {
            *self.live.borrow_mut() = Rc::new(LiveConfig::clone(&self.shared.live()));
        }
    }

    fn sweep_connections(&self, live: &LiveConfig, now: MonoTime) {
        let ending = match self.shared.is_ending.load(Relaxed) {
            false => None,
            true if self.shared.is_gentle.load(Relaxed) => Some(GENTLE_IDLE),
            true => Some(Nanos::ZERO),
        };
        let judged: Vec<(Arc<ClientState>, SweepVerdict)> = {
            let conns = self.conns.borrow();
            conns.iter().for_each(|(_, conn)| conn.report_bytes());
            let verdicts = conns.iter().map(|(_, conn)| (conn, judge(conn, live, now, ending)));
            let judged = verdicts.filter(|(_, verdict)| *verdict != SweepVerdict::None);
            judged.map(|(conn, verdict)| (Arc::clone(conn), verdict)).collect()
        };
        for (conn, verdict) in judged {
            conn.set_verdict(verdict);
        }
    }

    /// Probes the clients of long requests for a closed side.
    fn probe_busy(&self, now: MonoTime) {
        for (_, conn) in &*self.conns.borrow() {
            let is_long = now.since(conn.since()) > PROBE_AFTER;
            if !conn.is_h2 && is_long && conn.phase() == ConnectionPhase::Busy {
                conn.request_probe();
            }
        }
    }

    /// Closes idle connections now and the others after their request.
    pub(crate) fn close_idle(&self) {
        set_coarse(MonoTime::now());
        self.sweep_connections(&self.live(), coarse_now());
    }
}

/// Judges one connection. While the edge ends, `ending` is the idle time after which to close.
fn judge(
    conn: &ClientState,
    live: &LiveConfig,
    now: MonoTime,
    ending: Option<Nanos>,
) -> SweepVerdict {
    let limits = &live.settings.limits;
    let idle = Nanos::from(limits.idle_of(conn.listener.settings.address));
    match conn.verdict() {
        SweepVerdict::None | SweepVerdict::Park => {}
        SweepVerdict::Close if conn.is_h2 => return judge_closing(conn, limits, now, idle),
        _ => return SweepVerdict::None,
    }
    // HTTP/2 can refuse new requests while those in progress continue.
    if ending.is_some() && conn.is_h2 {
        return SweepVerdict::Close;
    }
    let age = now.since(conn.since());
    match conn.phase() {
        ConnectionPhase::Idle | ConnectionPhase::Parked => {
            if age >= ending.map_or(idle, |ending| ending.min(idle)) {
                SweepVerdict::Close
            } else if conn.phase() == ConnectionPhase::Idle && age > PARK_AFTER && !conn.is_h2 {
                SweepVerdict::Park
            } else {
                SweepVerdict::None
            }
        }
        ConnectionPhase::Head if age > limits.head.into() => SweepVerdict::SlowHead,
        ConnectionPhase::Busy => {
            if is_longer(now, conn.stuck_since(), limits.client_pause) {
                SweepVerdict::SlowClient
            } else if is_longer(now, conn.half_closed_since(), limits.half_closed) {
                SweepVerdict::Gone
            } else {
                SweepVerdict::None
            }
        }
        _ => SweepVerdict::None,
    }
}

/// Judges a connection of HTTP/2 that is to close, for which hyper waits: until the client begins to speak
/// HTTP/2, and acknowledges the end. Some clients do neither.
fn judge_closing(conn: &ClientState, limits: &Limits, now: MonoTime, idle: Nanos) -> SweepVerdict {
    let since = match conn.phase() {
        ConnectionPhase::Idle => Some(conn.since() + idle),
        _ => conn.stuck_since(),
    };
    match is_longer(now, since, limits.client_pause) {
        true => SweepVerdict::SlowClient,
        false => SweepVerdict::None,
    }
}

/// Whether something has lasted for more than `limit`; `None` lasts for no time.
fn is_longer(now: MonoTime, since: Option<MonoTime>, limit: Duration) -> bool {
    since.map_or(Nanos::ZERO, |since| now.since(since)) > Nanos::from(limit)
}
