//! Idle connections that an application on this host closed, and after how long: a client that
//! pools connections to it must close them earlier.
//!
//! The side that closes first keeps the connection in TIME_WAIT for a minute. So a connection that
//! was idle in one sample and is in TIME_WAIT on the application's side later was closed by the
//! application; the kernel's timer gives the moment. Nothing needs to be known about the
//! application's language or configuration. Sampling walks the kernel's connection hash, so it is
//! paced.

use std::collections::HashMap;
use std::sync::Arc;

use weir_tables::{Batch, IdleClose, IdleCloseRows, Micros};

use super::listener::{NetnsListener, tier};
use super::netns::{Netns, entering};
use super::process::SocketOwner;
use super::run::{DutyCycle, Stopwatch};
use super::sock_diag::{PORT_LIMIT, SocketId};
use super::{CollectResult, Collector, View, take};

const DUTY_CYCLE: DutyCycle = DutyCycle { cost_ratio: 0.0005, pause_seconds: (0.5, 600.0) };
/// A shorter pause is part of an exchange.
const IDLE_MILLISECONDS: u32 = 1000;
const WATCH_LIMIT: usize = 2000;
/// Maximum number of vanished connections queried one by one per sample.
const GONE_LIMIT: usize = 100;
/// Duration of TIME_WAIT, `TCP_TIMEWAIT_LEN`.
const TIME_WAIT_MILLISECONDS: u32 = 60_000;

type IdleConnections = HashMap<(Arc<str>, SocketId), IdleConnection>;

#[derive(Debug)]
struct IdleConnection {
    since: Micros,
    /// Process that listened on the port then; after a restart it is another one.
    app: Arc<AppProcess>,
}

#[derive(Debug)]
struct AppProcess {
    process_id: u32,
    name: String,
}

#[derive(Debug, Default)]
pub(super) struct IdleCloseCollector {
    rows: IdleCloseRows,
    idle: IdleConnections,
    next: Option<Micros>,
}

impl Collector for IdleCloseCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        if !view.is_live || !DUTY_CYCLE.is_due(self.next, now) {
            return Ok(());
        }
        let stopwatch = Stopwatch::start();
        let (mut gone, mut idle) = (std::mem::take(&mut self.idle), IdleConnections::new());
        let mut result = Ok(());
        for netns in view.netns.namespaces.iter_mut().filter(|netns| netns.is_sampled) {
            let apps = apps(&netns.name, &view.listeners, &view.owners);
            if let Err(error) = sample(netns, &apps, now, &mut gone, &mut idle) {
                netns.diag = None;
                result = Err(entering(&netns.name, &error));
            }
        }
        self.idle = idle;
        for ((name, id), connection) in gone.into_iter().take(GONE_LIMIT) {
            let namespaces = &mut view.netns.namespaces;
            let netns = namespaces.iter_mut().find(|netns| netns.name == name);
            let Some(diag) = netns.and_then(|netns| netns.diag().ok()) else { continue };
            let Ok(Some(left)) = diag.time_wait(&id) else { continue };
            let closed_at = before(now, TIME_WAIT_MILLISECONDS.saturating_sub(left));
            self.push((&view.host, &name), &id, &connection, closed_at);
        }
        take(&mut self.rows, out);
        self.next = Some(DUTY_CYCLE.next_run(stopwatch.stop(), now));
        result
    }
}

impl IdleCloseCollector {
    fn push(
        &mut self,
        (host, netns): (&str, &str),
        id: &SocketId,
        connection: &IdleConnection,
        closed_at: Micros,
    ) {
        self.rows.push(&IdleClose {
            ts: closed_at,
            host,
            netns,
            server_address: &id.address().to_string(),
            server_port: id.port().into(),
            client_address: &id.peer().to_string(),
            idle_seconds: closed_at.seconds_since(connection.since),
            process_id: connection.app.process_id.into(),
            process_name: &connection.app.name,
        });
    }
}

/// Applications that listen in a namespace, by port.
fn apps(
    netns: &str,
    listeners: &[NetnsListener],
    owners: &HashMap<u32, Option<SocketOwner>>,
) -> HashMap<u16, Arc<AppProcess>> {
    let mut apps = HashMap::new();
    for listener in listeners.iter().filter(|listener| *listener.netns == *netns) {
        let Some(Some(owner)) = owners.get(&listener.socket.inode) else { continue };
        if tier(&owner.name) == "app" {
            let app = AppProcess { process_id: owner.process_id, name: owner.name.clone() };
            apps.insert(listener.socket.port, Arc::new(app));
        }
    }
    apps
}

/// Adds idle connections of these applications to `idle`, and removes open ones from `gone`.
fn sample(
    netns: &mut Netns,
    apps: &HashMap<u16, Arc<AppProcess>>,
    now: Micros,
    gone: &mut IdleConnections,
    idle: &mut IdleConnections,
) -> std::io::Result<()> {
    if apps.is_empty() {
        return Ok(());
    }
    let mut ports: Vec<u16> = apps.keys().copied().collect();
    ports.sort_unstable();
    ports.truncate(PORT_LIMIT);
    let name = netns.name.clone();
    // The table `listener` reports why it cannot be queried.
    let Ok(diag) = netns.diag() else { return Ok(()) };
    diag.established(&ports, |id, idle_milliseconds| {
        let key = (name.clone(), id);
        gone.remove(&key);
        if idle_milliseconds < IDLE_MILLISECONDS || idle.len() >= WATCH_LIMIT {
            return;
        }
        if let Some(app) = apps.get(&id.port()) {
            let since = before(now, idle_milliseconds);
            idle.insert(key, IdleConnection { since, app: app.clone() });
        }
    })
}

fn before(now: Micros, milliseconds: u32) -> Micros {
    Micros(now.0 - i64::from(milliseconds) * 1000)
}
