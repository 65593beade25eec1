//! The edge as its owner sees it: started, changed while it runs, ended without breaking what is under way.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustc_hash::FxHashMap;
use tokio::sync::mpsc::UnboundedSender;
use weir_tables::Clock;

use crate::backend_tls::BackendTls;
use crate::conn::Listener;
use crate::error::EdgeError;
use crate::listen::{self, Bound};
use crate::pool::Pool;
use crate::record::Sink;
use crate::settings::Settings;
use crate::thread::{Order, run};
use crate::tls::Certificates;
use crate::worker::{Live, Shared};

/// A running edge; [`Edge::end`] ends it.
pub struct Edge {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
}

struct Thread {
    orders: UnboundedSender<Order>,
    handle: JoinHandle<()>,
}

impl Edge {
    /// Binds everything and starts to serve. Rows go to `sink` within a second.
    ///
    /// # Errors
    /// When settings cannot work, an address cannot be listened on, or a certificate cannot be read.
    pub fn start(settings: Settings, clock: Arc<dyn Clock>, sink: Sink) -> Result<Self, EdgeError> {
        settings.check()?;
        let count = thread_count(&settings);
        let bound = settings.listeners.iter().map(|one| listen::bind(one, count));
        let bound = bound.collect::<Result<Vec<_>, _>>()?;
        let live = live(&settings, None)?;
        let shared = Arc::new(Shared {
            clock,
            sink,
            live: Mutex::new(Arc::new(live)),
            generation: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            addresses: Mutex::new(FxHashMap::default()),
            is_ending: AtomicBool::new(false),
            listeners: Mutex::default(),
        });
        let threads = (0..count).map(|at| start_thread(&shared, at)).collect::<Result<_, _>>()?;
        let edge = Self { shared, threads };
        bound.into_iter().for_each(|bound| edge.listen(bound));
        Ok(edge)
    }

    fn listen(&self, bound: Bound) {
        warn_of_backlog(&bound.listener);
        let mut listeners = self.shared.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Arc::clone(&bound.listener));
        drop(listeners);
        for (thread, socket) in self.threads.iter().zip(bound.sockets) {
            let _ = thread.orders.send(Order::Listen(Arc::clone(&bound.listener), socket));
        }
    }

    /// The addresses that are listened on, with the ports that they really have.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.shared.listeners().iter().map(|listener| listener.address).collect()
    }

    /// How many threads serve.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Changes to `settings` without closing a connection; what changed, one line each. New addresses are bound first,
    /// so nothing changes when that fails. The number of threads stays.
    ///
    /// # Errors
    /// As [`Edge::start`]; then everything stays as it was.
    pub fn change(&self, settings: &Settings) -> Result<Vec<String>, EdgeError> {
        settings.check()?;
        let before = self.shared.live();
        let differences = before.settings.differences(settings);
        let known = self.shared.listeners();
        let is_known = |one: &crate::settings::ListenerSettings| {
            known.iter().any(|listener| listener.settings == *one)
        };
        let new = settings.listeners.iter().filter(|one| !is_known(one));
        let bound = new.map(|one| listen::bind(one, self.threads.len()));
        let bound = bound.collect::<Result<Vec<_>, _>>()?;
        let live = live(settings, Some(&before))?;
        *self.shared.live.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
        self.shared.generation.fetch_add(1, Relaxed);
        bound.into_iter().for_each(|bound| self.listen(bound));
        let mut listeners = self.shared.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| {
            let stays = settings.listeners.contains(&listener.settings);
            for thread in self.threads.iter().filter(|_| !stays) {
                let _ = thread.orders.send(Order::Close(Arc::clone(listener)));
            }
            stays
        });
        Ok(differences)
    }

    /// Stops to listen, lets requests end for at most ten seconds, and hands over the last rows.
    pub fn end(self) {
        self.shared.is_ending.store(true, Relaxed);
        for thread in &self.threads {
            let _ = thread.orders.send(Order::End);
        }
        for thread in self.threads {
            if thread.handle.join().is_err() {
                tracing::error!("a thread of the edge panicked");
            }
        }
    }
}

fn thread_count(settings: &Settings) -> usize {
    match settings.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    }
}

fn live(settings: &Settings, before: Option<&Live>) -> Result<Live, EdgeError> {
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
    let same = before.filter(|live| live.settings.certificates == settings.certificates);
    let (certificates, tls) = match same {
        Some(live) => (live.certificates.clone(), live.tls.clone()),
        None if settings.certificates.is_empty() => (None, None),
        None => {
            let certificates = Certificates::load(&settings.certificates)?;
            let acceptor = certificates.acceptor()?;
            (Some(certificates), Some(acceptor))
        }
    };
    Ok(Live { settings: settings.clone(), pools, routes, certificates, tls })
}

fn start_thread(shared: &Arc<Shared>, at: usize) -> Result<Thread, EdgeError> {
    let (orders, work) = tokio::sync::mpsc::unbounded_channel();
    let shared = Arc::clone(shared);
    let handle = std::thread::Builder::new()
        .name(format!("weir-edge-{at}"))
        .spawn(move || run(shared, at == 0, work))
        .map_err(|error| EdgeError::new(format!("cannot start a thread: {error}")))?;
    Ok(Thread { orders, handle })
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
