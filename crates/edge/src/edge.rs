//! The public handle of an edge: start it, change it while it runs, and end it without breaking
//! requests in progress.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc::UnboundedSender;
use weir_tables::Clock;

use crate::acme::{self, CertificateManager};
use crate::admin::state::{self, EdgeState, LearntState};
use crate::client::listener::{self, BoundListener, ExistingSockets, Listener};
use crate::error::EdgeError;
use crate::live::{LiveConfig, LiveParts};
use crate::name_refresh::refresh_loop;
use crate::names::ResolvedNames;
use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::record::Sink;
use crate::settings::listener::ListenerSettings;
use crate::settings::{ProxyHeader, Settings};
use crate::shared::SharedState;
use crate::thread::{ThreadCommand, run};
use crate::tls::session_tickets::TicketKeys;

/// Most connections opened to one backend ahead of requests.
const WARM_MAX: u32 = 256;

/// A running edge; [`Edge::end`] ends it.
pub struct Edge {
    shared: Arc<SharedState>,
    threads: Vec<WorkerThread>,
    /// Listeners with their sockets; the threads have copies.
    bound: Mutex<Vec<BoundListener>>,
    acme: Arc<CertificateManager>,
    /// The thread that obtains certificates, once the configuration has any.
    acme_thread: Mutex<Option<JoinHandle<()>>>,
    /// Dropping it ends the thread that looks names up.
    _names_thread: Sender<()>,
}

struct WorkerThread {
    commands: UnboundedSender<ThreadCommand>,
    handle: JoinHandle<()>,
}

/// What an edge takes over from the one that it replaces.
#[derive(Debug, Default)]
pub struct InheritedState {
    /// Listening sockets with their configured addresses.
    pub sockets: Vec<(SocketAddr, TcpListener)>,
    /// What the other edge has learned.
    pub learnt: LearntState,
}

impl Edge {
    /// Binds all listeners and starts serving. `sink` receives rows within a second.
    ///
    /// # Errors
    /// If the settings are invalid, an address cannot be bound, or a certificate cannot be read.
    pub fn start(settings: Settings, clock: Arc<dyn Clock>, sink: Sink) -> Result<Self, EdgeError> {
        Self::start_with(settings, clock, sink, InheritedState::default())
    }

    /// Starts with the sockets and the knowledge of another edge. Sockets for addresses that are
    /// not in `settings` are closed.
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
        // Only a replacing edge may share the addresses with a running one.
        if sockets.is_empty() {
            settings.listeners.iter().try_for_each(|one| listener::check_free(one.address))?;
        }
        let bound = settings.listeners.iter().map(|one| {
            let sockets = listener::take(&mut sockets, one.address);
            listener::bind(one, count, Some(ExistingSockets { sockets, totals: Arc::default() }))
        });
        let bound = bound.collect::<Result<Vec<_>, _>>()?;
        let tickets = Arc::new(TicketKeys::new()?);
        let acme = Arc::new(CertificateManager::default());
        let names = Arc::<ResolvedNames>::default();
        names.look_up(&settings);
        let challenges = Arc::clone(&acme.challenges);
        let parts = LiveParts { names: &names, tickets: &tickets, challenges: &challenges };
        let live = LiveConfig::build(&settings, None, parts)?;
        let shared = Arc::new(SharedState {
            changing: Mutex::default(),
            names,
            clock,
            sink,
            live: Mutex::new(Arc::new(live)),
            generation: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            addresses: Mutex::new(FxHashMap::default()),
            is_ending: AtomicBool::new(false),
            is_gentle: AtomicBool::new(false),
            tickets,
            challenges,
            listeners: Mutex::default(),
        });
        let threads = (0..count).map(|at| start_thread(&shared, at)).collect::<Result<_, _>>()?;
        let names_thread = start_names_thread(&shared)?;
        let edge = Self {
            shared,
            threads,
            bound: Mutex::default(),
            acme,
            acme_thread: Mutex::default(),
            _names_thread: names_thread,
        };
        edge.teach(&learnt);
        bound.into_iter().try_for_each(|bound| edge.listen(bound))?;
        edge.start_acme()?;
        Ok(edge)
    }

    /// Hands each thread copies of its sockets.
    fn listen(&self, bound: BoundListener) -> Result<(), EdgeError> {
        warn_of_backlog(&bound.listener);
        for (at, socket) in bound.sockets.iter().enumerate() {
            let thread = &self.threads[at % self.threads.len()];
            let socket = socket.try_clone().map_err(cannot_copy)?;
            let _ =
                thread.commands.send(ThreadCommand::Listen(Arc::clone(&bound.listener), socket));
        }
        self.shared.listeners.lock().push(Arc::clone(&bound.listener));
        self.bound.lock().push(bound);
        Ok(())
    }

    /// The bound addresses, with actual ports.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.shared.listeners().iter().map(|listener| listener.address).collect()
    }

    /// Number of serving threads.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Copies of the listening sockets, each with its configured address.
    ///
    /// # Errors
    /// If file descriptors run out.
    pub fn sockets(&self) -> Result<Vec<(SocketAddr, TcpListener)>, EdgeError> {
        let bound = self.bound.lock();
        let each = bound.iter().flat_map(|one| one.sockets.iter().map(move |socket| (one, socket)));
        each.map(|(one, socket)| {
            let copy = socket.try_clone().map_err(cannot_copy)?;
            Ok((one.listener.settings.address, copy))
        })
        .collect()
    }

    /// A snapshot of listeners, backends and certificates.
    pub fn state(&self) -> EdgeState {
        let certificates = self.acme.states(self.shared.clock.now());
        state::snapshot(&self.shared.live(), &self.shared.listeners(), certificates)
    }

    /// The name of the backend at `address`, as the configuration has it.
    pub fn backend_name(&self, address: &str) -> Option<String> {
        let live = self.shared.live();
        let mut backends = live.backends();
        let found = backends.find(|(_, backend)| backend.name == address);
        found.map(|(_, backend)| backend.written_name.clone())
    }

    /// Exports what the edge has learned.
    pub fn learnt(&self) -> LearntState {
        let live = self.shared.live();
        let backends = live.backends().map(|(_, backend)| state::export_learnt(backend)).collect();
        LearntState { backends, ticket_keys: self.shared.tickets.export() }
    }

    /// Adopts what another edge has learned: latencies that are unknown here, idle timeouts, and
    /// ticket keys. Opens as many connections to backends as the other edge had.
    pub fn teach(&self, learnt: &LearntState) {
        self.shared.tickets.import(&learnt.ticket_keys);
        let live = self.shared.live();
        for (pool, backend) in live.backends() {
            let known = learnt.backends.iter().find(|one| one.backend == backend.name);
            let Some(known) = known else { continue };
            state::import_learnt(backend, known);
            self.warm(pool, backend, known.connections);
        }
    }

    fn warm(&self, pool: &Arc<Pool>, backend: &Arc<Backend>, count: u32) {
        // A PROXY header ties a connection to one client.
        if pool.settings.proxy_header != ProxyHeader::Off || !backend.is_resolved() {
            return;
        }
        let threads = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let missing = count.saturating_sub(backend.connections.load(Relaxed)).min(WARM_MAX);
        for (at, thread) in (0..).zip(&self.threads) {
            let own = missing / threads + u32::from(at < missing % threads);
            if own > 0 {
                let command = ThreadCommand::Warm(Arc::clone(pool), Arc::clone(backend), own);
                let _ = thread.commands.send(command);
            }
        }
    }

    /// Applies `settings` without closing a connection and returns what changed, one line each.
    ///
    /// New addresses are bound first, so a failure changes nothing; addresses that stay keep their
    /// sockets. The number of threads stays. If nothing changes, failed certificates are retried
    /// at once.
    ///
    /// # Errors
    /// As [`Edge::start`]; the running configuration stays in effect.
    pub fn change(&self, settings: &Settings) -> Result<Vec<String>, EdgeError> {
        settings.check()?;
        self.shared.names.look_up(settings);
        let turn = self.shared.changing.lock();
        let before = self.shared.live();
        let differences = before.settings.differences(settings);
        let known = self.shared.listeners();
        let new =
            settings.listeners.iter().filter(|one| !known.iter().any(|old| old.settings == **one));
        let bound =
            new.map(|one| self.bind_beside(one, settings)).collect::<Result<Vec<_>, _>>()?;
        let live = LiveConfig::build(settings, Some(&before), self.shared.parts())?;
        *self.shared.live.lock() = Arc::new(live);
        self.shared.generation.fetch_add(1, Relaxed);
        drop(turn);
        bound.into_iter().try_for_each(|bound| self.listen(bound))?;
        let kept = &settings.listeners;
        self.shared.listeners.lock().retain(|listener| kept.contains(&listener.settings));
        self.bound.lock().retain(|bound| {
            let stays = kept.contains(&bound.listener.settings);
            for thread in self.threads.iter().filter(|_| !stays) {
                let _ = thread.commands.send(ThreadCommand::Close(Arc::clone(&bound.listener)));
            }
            stays
        });
        self.start_acme()?;
        if differences.is_empty() {
            self.acme.retry();
        }
        Ok(differences)
    }

    /// Starts the thread that obtains certificates, if there are any to obtain and it does not run.
    fn start_acme(&self) -> Result<(), EdgeError> {
        let mut handle = self.acme_thread.lock();
        let live = self.shared.live();
        let Some(settings) = live.settings.acme.as_ref().filter(|_| handle.is_none()) else {
            return Ok(());
        };
        self.acme.plan(settings);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().map_err(cannot_start_thread)?;
        let (acme, shared) = (Arc::clone(&self.acme), Arc::clone(&self.shared));
        let thread = std::thread::Builder::new()
            .name("weir-edge-acme".into())
            .spawn(move || runtime.block_on(acme::renew_loop(acme, shared)));
        *handle = Some(thread.map_err(cannot_start_thread)?);
        Ok(())
    }

    /// Binds an address. If it is bound with other settings, its sockets are reused, so the
    /// connections in their queues are kept.
    fn bind_beside(
        &self,
        new: &ListenerSettings,
        all: &Settings,
    ) -> Result<BoundListener, EdgeError> {
        let bound = self.bound.lock();
        let same = bound.iter().find(|one| {
            let old = &one.listener.settings;
            old.address == new.address && !all.listeners.contains(old)
        });
        let existing = same.map(BoundListener::duplicate).transpose().map_err(cannot_copy)?;
        listener::bind(new, self.threads.len(), existing)
    }

    /// Stops listening, waits up to ten seconds for requests, and delivers the last rows.
    pub fn end(self) {
        self.finish(false);
    }

    /// Ends after another edge has taken over the sockets: responses ask clients to reconnect, and
    /// only connections idle for a second are closed right away.
    pub fn leave(self) {
        self.finish(true);
    }

    fn finish(self, is_gentle: bool) {
        self.shared.is_gentle.store(is_gentle, Relaxed);
        self.shared.is_ending.store(true, Relaxed);
        self.bound.lock().clear();
        for thread in &self.threads {
            let _ = thread.commands.send(ThreadCommand::End);
        }
        let acme_thread = self.acme_thread.into_inner();
        let handles = self.threads.into_iter().map(|thread| thread.handle).chain(acme_thread);
        for handle in handles {
            if handle.join().is_err() {
                tracing::error!("a thread of the edge panicked");
            }
        }
    }
}

fn cannot_copy(error: std::io::Error) -> EdgeError {
    EdgeError::new(format!("cannot copy a listening socket: {error}"))
        .hint("raise the file-descriptor limit: `ulimit -n`, or `LimitNOFILE=` of systemd")
}

fn cannot_start_thread(error: std::io::Error) -> EdgeError {
    EdgeError::new(format!("cannot start a thread: {error}"))
}

fn thread_count(settings: &Settings) -> usize {
    match settings.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    }
}

/// Starts the thread that looks names up; it ends after the sender is dropped.
fn start_names_thread(shared: &Arc<SharedState>) -> Result<Sender<()>, EdgeError> {
    let (end, ended) = channel();
    let shared = Arc::clone(shared);
    std::thread::Builder::new()
        .name("weir-edge-names".into())
        .spawn(move || refresh_loop(&shared, &ended))
        .map_err(cannot_start_thread)?;
    Ok(end)
}

fn start_thread(shared: &Arc<SharedState>, at: usize) -> Result<WorkerThread, EdgeError> {
    let (commands, received) = tokio::sync::mpsc::unbounded_channel();
    let shared = Arc::clone(shared);
    let handle = std::thread::Builder::new()
        .name(format!("weir-edge-{at}"))
        .spawn(move || run(shared, at == 0, received))
        .map_err(cannot_start_thread)?;
    Ok(WorkerThread { commands, handle })
}

fn warn_of_backlog(listener: &Listener) {
    let asked = listener.settings.backlog;
    if let Some(limit) = listener::backlog_limit().filter(|limit| *limit < asked) {
        tracing::warn!(
            "the kernel caps the backlog of `{}` at {limit} instead of {asked}\nhint: sysctl -w net.core.somaxconn={asked}",
            listener.name
        );
    }
}
