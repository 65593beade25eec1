//! The edge in this process: rows to the destination, changes while it runs, and another weir that
//! takes its place.
//!
//! ```text
//!   SIGHUP, `weir edge change`, the API ──► Control ──► Edge ──► rows ──► destination
//!   `weir edge --replace` ──► handover: sockets, what was learnt ──► Edge of the new weir
//! ```

mod control;
mod export;
mod handover;
mod requests;
mod settings;
mod socket;
mod text_log;
mod upgrade;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TrySendError, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use weir_config::flags::EdgeFlags;
use weir_config::{Config, Values};
use weir_edge::{Edge, InheritedState, Settings, Sink};
use weir_process::failure::Failure;
use weir_process::meter::Meter;
use weir_process::own_limits;
use weir_tables::{Batch, Clock};

use crate::watch::deliver::Destination;
pub use control::{EdgeControl, WeightChange};
pub use handover::take_over;
pub use settings::{edge_failure, is_wanted, settings};
pub use socket::{EdgeRequest, ask, path as control_socket};
use text_log::TextLog;

/// Batches of up to a thousand rows that may wait for the destination; more are dropped and
/// counted.
const BATCHES_WAITING: usize = 256;
/// The limit while the replaced process still holds the store: ten seconds at 100,000 requests/s.
const BATCHES_WAITING_FOR_STORE: usize = 1024;
/// Batches that become one parcel when they have waited.
const BATCHES_TOGETHER: usize = 16;

/// Reads the configuration again, with the flags that were given.
pub type ReloadConfig = Arc<dyn Fn() -> Result<Config, Failure> + Send + Sync>;

/// What an edge begins with.
pub struct EdgeStartup {
    reload: ReloadConfig,
    /// Whether this is `weir edge`, whose place another one can take.
    pub is_edge: bool,
    /// Counts rows that are dropped, from the first on.
    pub meter: Arc<Meter>,
    early: Mutex<Option<EarlyEdge>>,
}

/// An edge that serves before there is a destination for its rows.
pub struct EarlyEdge {
    edge: Edge,
    batches: Receiver<Vec<Batch>>,
}

impl EdgeStartup {
    /// With what reads the configuration again.
    pub fn new(reload: ReloadConfig, is_edge: bool) -> Self {
        Self { reload, is_edge, meter: Arc::default(), early: Mutex::default() }
    }

    /// Starts to serve with what another weir handed over.
    fn begin(
        &self,
        values: &Values,
        clock: &Arc<dyn Clock>,
        inherited: InheritedState,
    ) -> Result<(), Failure> {
        let early = EarlyEdge::start(settings(values)?, clock, &self.meter, Some(inherited))?;
        *self.early.lock() = Some(early);
        Ok(())
    }
}

impl EarlyEdge {
    fn start(
        settings: Settings,
        clock: &Arc<dyn Clock>,
        meter: &Arc<Meter>,
        inherited: Option<InheritedState>,
    ) -> Result<Self, Failure> {
        let room = if inherited.is_some() { BATCHES_WAITING_FOR_STORE } else { BATCHES_WAITING };
        let (sender, batches) = sync_channel::<Vec<Batch>>(room);
        let meter = Arc::clone(meter);
        let sink: Sink = Arc::new(move |batches| {
            if let Err(TrySendError::Full(_)) = sender.try_send(batches) {
                meter.count_dropped(1);
            }
        });
        let inherited = inherited.unwrap_or_default();
        let edge =
            own_limits::as_edge(|| Edge::start_with(settings, Arc::clone(clock), sink, inherited))
                .map_err(edge_failure)?;
        Ok(Self { edge, batches })
    }
}

/// An edge at work.
pub struct HostedEdge {
    control: Arc<EdgeControl>,
    rows: JoinHandle<()>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    /// One line for each address.
    pub lines: Vec<String>,
}

impl HostedEdge {
    /// Starts the edge if one is configured, or adopts the one that already serves.
    pub fn start(
        values: &Values,
        destination: &Arc<dyn Destination>,
        clock: &Arc<dyn Clock>,
        startup: &EdgeStartup,
    ) -> Result<Option<Self>, Failure> {
        if !is_wanted(values) {
            return Ok(None);
        }
        let early = startup.early.lock().take();
        let early = match early {
            Some(early) => early,
            None => EarlyEdge::start(settings(values)?, clock, &startup.meter, None)?,
        };
        let EarlyEdge { edge, batches } = early;
        let destination = Arc::clone(destination);
        let mut log = values.edge.log_file.clone().map(TextLog::new);
        let rows = std::thread::Builder::new()
            .name("weir-edge-rows".into())
            .spawn(move || deliver_always(&batches, &*destination, log.as_mut()))
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        let backends = settings(values)?.backends.len();
        let line =
            |address| format!("{address}  backends {backends}, threads {}", edge.thread_count());
        let lines = edge.addresses().into_iter().map(line).collect();
        let control = Arc::new(EdgeControl::new(edge, values.clone()));
        let reload = Arc::clone(&startup.reload);
        let mut tasks = vec![tokio::spawn(reload_always(Arc::clone(&control), reload))];
        if startup.is_edge {
            tasks.push(tokio::spawn(upgrade::upgrade_always()));
        }
        // Without it the edge serves all the same; it only cannot be told anything.
        match socket::bind(&socket::path(values)) {
            Ok(bound) => tasks.push(tokio::spawn(bound.serve(Arc::clone(&control)))),
            Err(failure) => tracing::warn!("this edge takes no commands: {failure}"),
        }
        Ok(Some(Self { control, rows, tasks, lines }))
    }

    /// What changes it.
    pub fn control(&self) -> &Arc<EdgeControl> {
        &self.control
    }

    async fn end(self) {
        let Self { control, rows, tasks, .. } = self;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let ending = tokio::task::spawn_blocking(move || {
            control.end();
            if rows.join().is_err() {
                tracing::error!("the thread of the edge's rows panicked");
            }
        });
        let _ = ending.await;
    }
}

/// Lets requests end, and hands over the last rows.
pub async fn end(edge: Option<HostedEdge>) {
    if let Some(edge) = edge {
        edge.end().await;
    }
}

/// Returns when another weir has taken the edge's place; never, when there is no edge.
pub async fn replaced(edge: Option<&HostedEdge>) {
    match edge {
        Some(edge) => edge.control.replaced().await,
        None => std::future::pending().await,
    }
}

/// Encodes and delivers rows on a separate thread, because the edge's threads must not wait for a
/// disk.
fn deliver_always(
    waiting: &Receiver<Vec<Batch>>,
    destination: &dyn Destination,
    mut log: Option<&mut TextLog>,
) {
    while let Ok(mut batches) = waiting.recv() {
        for _ in 1..BATCHES_TOGETHER {
            let Ok(more) = waiting.try_recv() else { break };
            batches.extend(more);
        }
        if let Some(log) = &mut log {
            log.write(&batches);
        }
        destination.send_sample(batches);
    }
}

async fn reload_always(control: Arc<EdgeControl>, reload: ReloadConfig) {
    let Ok(mut hangups) = signal(SignalKind::hangup()) else {
        return tracing::error!("cannot wait for SIGHUP: the configuration is not read again");
    };
    while hangups.recv().await.is_some() {
        let (control, reload) = (Arc::clone(&control), Arc::clone(&reload));
        // Files are read and names looked up: not on a thread that serves.
        let change = move || match reload().and_then(|config| control.change(&config.values, false))
        {
            Ok(lines) if lines.is_empty() => {
                tracing::info!("the edge's configuration is as it was")
            }
            Ok(lines) => {
                tracing::info!("the edge's configuration has changed: {}", lines.join("; "))
            }
            Err(failure) => tracing::error!("the edge stays as it is: {failure}"),
        };
        let _ = tokio::task::spawn_blocking(change).await;
    }
}

/// What reads the configuration again: the same file, the same environment, the same flags.
pub fn reload_of(file: Option<PathBuf>, flags: Option<EdgeFlags>) -> ReloadConfig {
    Arc::new(move || {
        let mut config = Config::of_process(file.as_deref(), None)?;
        if let Some(flags) = &flags {
            config.apply_edge(flags);
        }
        Ok(config)
    })
}
