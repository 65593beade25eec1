//! The edge as its owner sees it: started, changed while it runs, ended without breaking what is under way.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustc_hash::FxHashMap;
use tokio::sync::mpsc::UnboundedSender;
use weir_tables::Clock;

use crate::acme::{self, CertificateManager};
use crate::admin::state::{self, EdgeState, LearntState};
use crate::client::listen::{self, BoundListener, ExistingSockets};
use crate::client::state::Listener;
use crate::error::EdgeError;
use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::record::Sink;
use crate::settings::{ListenerSettings, ProxyHeader, Settings};
use crate::thread::{ThreadCommand, run};
use crate::tls::CertificateStore;
use crate::tls::backend_tls::BackendTls;
use crate::tls::session_tickets::TicketKeys;
use crate::worker::{LiveConfig, SharedState};

/// Connections to one backend that are opened beforehand, at most.
const WARM_MAX: u32 = 256;

/// A running edge; [`Edge::end`] ends it.
pub struct Edge {
    shared: Arc<SharedState>,
    threads: Vec<WorkerThread>,
    /// Listeners with their sockets, which threads have copies of.
    bound: Mutex<Vec<BoundListener>>,
    /// Obtains certificates, when the configuration asks for some.
    keeper: Mutex<Option<JoinHandle<()>>>,
}

struct WorkerThread {
    orders: UnboundedSender<ThreadCommand>,
    handle: JoinHandle<()>,
}

/// What an edge takes over from one whose place it takes.
#[derive(Debug, Default)]
pub struct InheritedState {
    /// Listening sockets, by the address that they were asked to have.
    pub sockets: Vec<(SocketAddr, TcpListener)>,
    /// What the other one has learnt.
    pub learnt: LearntState,
}

impl Edge {
    /// Binds everything and starts to serve. Rows go to `sink` within a second.
    ///
    /// # Errors
    /// When settings cannot work, an address cannot be listened on, or a certificate cannot be read.
    pub fn start(settings: Settings, clock: Arc<dyn Clock>, sink: Sink) -> Result<Self, EdgeError> {
        Self::start_with(settings, clock, sink, InheritedState::default())
    }

    /// The same with sockets that are listening already. Those for addresses that `settings` does not name are closed.
    ///
    /// # Errors
    /// As [`Edge::start`].
    pub fn start_with(
        settings: Settings,
        clock: Arc<dyn Clock>,
        sink: Sink,
        inherited: InheritedState,
    ) -> Result<Self, EdgeError> {
        settings.check()?;
        let count = thread_count(&settings);
        let InheritedState { mut sockets, learnt } = inherited;
        // Who takes another's place may listen beside it for a moment, nobody else.
        if sockets.is_empty() {
            settings.listeners.iter().try_for_each(|one| listen::check_free(one.address))?;
        }
        let bound = settings.listeners.iter().map(|one| {
            let sockets = listen::take(&mut sockets, one.address);
            listen::bind(one, count, Some(ExistingSockets { sockets, totals: Arc::default() }))
        });
        let bound = bound.collect::<Result<Vec<_>, _>>()?;
        let tickets = Arc::new(TicketKeys::new()?);
        let acme = CertificateManager::default();
        let live = live(&settings, None, &tickets, &acme)?;
        let shared = Arc::new(SharedState {
            clock,
            sink,
            live: Mutex::new(Arc::new(live)),
            generation: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            addresses: Mutex::new(FxHashMap::default()),
            is_ending: AtomicBool::new(false),
            is_gentle: AtomicBool::new(false),
            tickets,
            acme,
            listeners: Mutex::default(),
        });
        let threads = (0..count).map(|at| start_thread(&shared, at)).collect::<Result<_, _>>()?;
        let edge = Self { shared, threads, bound: Mutex::default(), keeper: Mutex::default() };
        edge.teach(&learnt);
        bound.into_iter().try_for_each(|bound| edge.listen(bound))?;
        edge.keep_certificates()?;
        Ok(edge)
    }

    /// Tells the threads, each of its own sockets.
    fn listen(&self, bound: BoundListener) -> Result<(), EdgeError> {
        warn_of_backlog(&bound.listener);
        for (at, socket) in bound.sockets.iter().enumerate() {
            let thread = &self.threads[at % self.threads.len()];
            let socket = socket.try_clone().map_err(cannot_copy)?;
            let _ = thread.orders.send(ThreadCommand::Listen(Arc::clone(&bound.listener), socket));
        }
        lock(&self.shared.listeners).push(Arc::clone(&bound.listener));
        lock(&self.bound).push(bound);
        Ok(())
    }

    /// The addresses that are listened on, with the ports that they really have.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.shared.listeners().iter().map(|listener| listener.address).collect()
    }

    /// How many threads serve.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Copies of the listening sockets, each with the address that it was asked to have.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn sockets(&self) -> Result<Vec<(SocketAddr, TcpListener)>, EdgeError> {
        let bound = lock(&self.bound);
        let each = bound.iter().flat_map(|one| one.sockets.iter().map(move |socket| (one, socket)));
        each.map(|(one, socket)| {
            let copy = socket.try_clone().map_err(cannot_copy)?;
            Ok((one.listener.settings.address, copy))
        })
        .collect()
    }

    /// What it is doing at this moment.
    pub fn state(&self) -> EdgeState {
        let certificates = self.shared.acme.states(self.shared.clock.now());
        state::state(&self.shared.live(), &self.shared.listeners(), certificates)
    }

    /// What it has learnt.
    pub fn learnt(&self) -> LearntState {
        let live = self.shared.live();
        let backends = live.backends().map(|(_, backend)| state::learnt_of(backend)).collect();
        LearntState { backends, ticket_keys: self.shared.tickets.export() }
    }

    /// Takes what another edge has learnt: latencies where none is known here, time-outs of backends, keys of tickets; and opens
    /// as many connections as the other one had.
    pub fn teach(&self, learnt: &LearntState) {
        self.shared.tickets.import(&learnt.ticket_keys);
        let live = self.shared.live();
        for (pool, backend) in live.backends() {
            let known = learnt.backends.iter().find(|one| one.backend == backend.name);
            let Some(known) = known else { continue };
            state::teach(backend, known);
            self.warm(pool, backend, known.connections);
        }
    }

    fn warm(&self, pool: &Arc<Pool>, backend: &Arc<Backend>, count: u32) {
        // With a header for each client, a connection is for one client.
        if pool.settings.proxy_header != ProxyHeader::Off {
            return;
        }
        let threads = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let missing = count.saturating_sub(backend.connections.load(Relaxed)).min(WARM_MAX);
        for (at, thread) in (0..).zip(&self.threads) {
            let own = missing / threads + u32::from(at < missing % threads);
            if own > 0 {
                let order = ThreadCommand::Warm(Arc::clone(pool), Arc::clone(backend), own);
                let _ = thread.orders.send(order);
            }
        }
    }

    /// Changes to `settings` without closing a connection; what changed, one line each. When nothing does, certificates that
    /// could not be obtained are tried again at once. New addresses are bound first,
    /// so nothing changes when that fails; an address that stays keeps its sockets. The number of threads stays.
    ///
    /// # Errors
    /// As [`Edge::start`]; then everything stays as it was.
    pub fn change(&self, settings: &Settings) -> Result<Vec<String>, EdgeError> {
        settings.check()?;
        let before = self.shared.live();
        let differences = before.settings.differences(settings);
        let known = self.shared.listeners();
        let is_known = |one: &ListenerSettings| known.iter().any(|old| old.settings == *one);
        let new = settings.listeners.iter().filter(|one| !is_known(one));
        let bound =
            new.map(|one| self.bind_beside(one, settings)).collect::<Result<Vec<_>, _>>()?;
        let live = live(settings, Some(&before), &self.shared.tickets, &self.shared.acme)?;
        *lock(&self.shared.live) = Arc::new(live);
        self.shared.generation.fetch_add(1, Relaxed);
        bound.into_iter().try_for_each(|bound| self.listen(bound))?;
        let stays = |listener: &Listener| settings.listeners.contains(&listener.settings);
        lock(&self.shared.listeners).retain(|listener| stays(listener));
        lock(&self.bound).retain(|bound| {
            let stays = stays(&bound.listener);
            for thread in self.threads.iter().filter(|_| !stays) {
                let _ = thread.orders.send(ThreadCommand::Close(Arc::clone(&bound.listener)));
            }
            stays
        });
        self.keep_certificates()?;
        if differences.is_empty() {
            self.shared.acme.retry();
        }
        Ok(differences)
    }

    /// Starts the thread that obtains certificates, unless it runs or there never were any to obtain.
    fn keep_certificates(&self) -> Result<(), EdgeError> {
        let mut keeper = lock(&self.keeper);
        let live = self.shared.live();
        let Some(settings) = live.settings.acme.as_ref().filter(|_| keeper.is_none()) else {
            return Ok(());
        };
        self.shared.acme.plan(settings);
        let failed =
            |error: std::io::Error| EdgeError::new(format!("cannot start a thread: {error}"));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name("weir-edge-acme".into())
            .spawn(move || runtime.block_on(acme::keep(shared)));
        *keeper = Some(thread.map_err(failed)?);
        Ok(())
    }

    /// Binds an address; one that is listened on with other settings keeps its sockets, and nobody in their queues is lost.
    fn bind_beside(
        &self,
        new: &ListenerSettings,
        all: &Settings,
    ) -> Result<BoundListener, EdgeError> {
        let bound = lock(&self.bound);
        let goes = |old: &ListenerSettings| !all.listeners.contains(old);
        let same = bound.iter().find(|one| {
            let old = &one.listener.settings;
            old.address == new.address && goes(old)
        });
        let found = same.map(BoundListener::again).transpose().map_err(cannot_copy)?;
        listen::bind(new, self.threads.len(), found)
    }

    /// Stops to listen, lets requests end for at most ten seconds, and hands over the last rows.
    pub fn end(self) {
        self.finish(false);
    }

    /// The same when another edge has the sockets: clients are asked to come anew with their next answer, and only connections
    /// that were idle for a second are closed unasked.
    pub fn leave(self) {
        self.finish(true);
    }

    fn finish(self, is_gentle: bool) {
        self.shared.is_gentle.store(is_gentle, Relaxed);
        self.shared.is_ending.store(true, Relaxed);
        lock(&self.bound).clear();
        for thread in &self.threads {
            let _ = thread.orders.send(ThreadCommand::End);
        }
        let keeper = self.keeper.into_inner().unwrap_or_else(PoisonError::into_inner);
        let handles = self.threads.into_iter().map(|thread| thread.handle).chain(keeper);
        for handle in handles {
            if handle.join().is_err() {
                tracing::error!("a thread of the edge panicked");
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cannot_copy(error: std::io::Error) -> EdgeError {
    EdgeError::new(format!("cannot copy a listening socket: {error}"))
        .hint("raise the limit of open files: `ulimit -n`, `LimitNOFILE=` of systemd")
}

fn thread_count(settings: &Settings) -> usize {
    match settings.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    }
}

fn live(
    settings: &Settings,
    before: Option<&LiveConfig>,
    tickets: &Arc<TicketKeys>,
    acme: &CertificateManager,
) -> Result<LiveConfig, EdgeError> {
    let needs_tls = settings.backends.iter().any(|backend| backend.protocol.is_tls());
    let backend_tls = if needs_tls { Some(BackendTls::load(&settings.backend_tls)?) } else { None };
    let old = before.map(|live| &live.pools[..]);
    let mut names = vec![""];
    for route in &settings.routes {
        if !names.contains(&route.pool.as_str()) {
            names.push(&route.pool);
        }
    }
    let pool = |name: &&str| Arc::new(Pool::new(name, settings, backend_tls.clone(), old));
    let pools: Vec<Arc<Pool>> = names.iter().map(pool).collect();
    let routes = settings.routes.iter().map(|route| {
        let at = names.iter().position(|name| *name == route.pool);
        (route.clone(), Arc::clone(&pools[at.expect("every route's pool is among the names")]))
    });
    let routes = routes.collect();
    let same = before.filter(|live| {
        live.settings.certificates == settings.certificates && live.settings.acme == settings.acme
    });
    let (certificates, tls) = match same {
        Some(live) => (live.certificates.clone(), live.tls.clone()),
        None if settings.certificates.is_empty() && settings.acme.is_none() => (None, None),
        None => {
            let certificates = CertificateStore::load(settings, &acme.challenges)?;
            let acceptor = certificates.acceptor(tickets)?;
            (Some(certificates), Some(acceptor))
        }
    };
    Ok(LiveConfig { settings: settings.clone(), pools, routes, certificates, tls })
}

fn start_thread(shared: &Arc<SharedState>, at: usize) -> Result<WorkerThread, EdgeError> {
    let (orders, work) = tokio::sync::mpsc::unbounded_channel();
    let shared = Arc::clone(shared);
    let handle = std::thread::Builder::new()
        .name(format!("weir-edge-{at}"))
        .spawn(move || run(shared, at == 0, work))
        .map_err(|error| EdgeError::new(format!("cannot start a thread: {error}")))?;
    Ok(WorkerThread { orders, handle })
}

fn warn_of_backlog(listener: &Listener) {
    let asked = listener.settings.backlog;
    if let Some(limit) = listen::backlog_limit().filter(|limit| *limit < asked) {
        tracing::warn!(
            "the kernel cuts the backlog of `{}` from {asked} to {limit}\nhint: sysctl -w net.core.somaxconn={asked}",
            listener.name
        );
    }
}
