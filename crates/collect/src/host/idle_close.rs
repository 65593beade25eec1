//! Idle connections that an application of this host closed, and after how long: who keeps connections to it must be the
//! quicker one to close.
//!
//! Whoever closes first remembers the connection in TIME_WAIT for a minute. So what was idle at one look, and is in TIME_WAIT on
//! the application's side at a later one, was closed by the application; the kernel's timer tells when. Nothing has to be known of
//! the application's language or configuration. Looking walks the kernel's hash of connections, so it paces itself like the
//! counts of states.

use std::collections::HashMap;
use std::sync::Arc;

use weir_tables::{Batch, IdleClose, IdleCloseRows, Micros};

use super::listener::{Listening, tier};
use super::netns::{Netns, entering};
use super::process::Owner;
use super::run::{Pacing, Stopwatch};
use super::sock_diag::{Ends, PORT_LIMIT};
use super::{Collector, View, take};
use crate::CollectError;

const PACING: Pacing = Pacing { cost_ratio: 0.0005, pause_seconds: (0.5, 600.0) };
/// A shorter pause is part of a conversation.
const IDLE_MILLISECONDS: u32 = 1000;
/// Most idle connections that are watched.
const WATCH_LIMIT: usize = 2000;
/// Most connections that are asked for in a look, one by one, after they were gone.
const GONE_LIMIT: usize = 100;
/// How long the kernel keeps TIME_WAIT, `TCP_TIMEWAIT_LEN`.
const TIME_WAIT_MILLISECONDS: u32 = 60_000;

/// Connections that carry nothing, of which namespace.
type Idle = HashMap<(Arc<str>, Ends), Resting>;

#[derive(Debug)]
struct Resting {
    since: Micros,
    /// Who listened on its port then: after a restart it is somebody else.
    app: Arc<App>,
}

#[derive(Debug)]
struct App {
    process_id: u32,
    name: String,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct IdleCloseCollector {
    rows: IdleCloseRows,
    idle: Idle,
    next: Option<Micros>,
}

impl Collector for IdleCloseCollector {
    fn name(&self) -> &'static str {
        "idle_close"
    }

    fn collect(
        &mut self,
        view: &mut View,
        now: Micros,
        out: &mut Vec<Batch>,
    ) -> Result<(), CollectError> {
        if !view.is_live || !PACING.is_due(self.next, now) {
            return Ok(());
        }
        let stopwatch = Stopwatch::start();
        let (mut gone, mut idle) = (std::mem::take(&mut self.idle), Idle::new());
        let mut result = Ok(());
        for netns in view.netns.namespaces.iter_mut().filter(|netns| netns.is_sampled) {
            let apps = apps(&netns.name, &view.listeners, &view.owners);
            if let Err(error) = look(netns, &apps, now, &mut gone, &mut idle) {
                netns.diag = None;
                result = Err(entering(&netns.name, &error));
            }
        }
        self.idle = idle;
        for ((name, ends), resting) in gone.into_iter().take(GONE_LIMIT) {
            let namespaces = &mut view.netns.namespaces;
            let netns = namespaces.iter_mut().find(|netns| netns.name == name);
            let Some(diag) = netns.and_then(|netns| netns.diag().ok()) else { continue };
            let Ok(Some(left)) = diag.time_wait(&ends) else { continue };
            let closed = before(now, TIME_WAIT_MILLISECONDS.saturating_sub(left));
            self.push(&view.host, &name, &ends, &resting, closed);
        }
        take(&mut self.rows, out);
        self.next = Some(PACING.after(stopwatch.stop(), now));
        result
    }
}

impl IdleCloseCollector {
    fn push(&mut self, host: &str, netns: &str, ends: &Ends, resting: &Resting, closed: Micros) {
        self.rows.push(&IdleClose {
            ts: closed,
            host,
            netns,
            server_address: &ends.address().to_string(),
            server_port: ends.port().into(),
            client_address: &ends.peer().to_string(),
            idle_seconds: closed.seconds_since(resting.since),
            process_id: resting.app.process_id.into(),
            process_name: &resting.app.name,
        });
    }
}

/// The applications that listen in a namespace, by port.
fn apps(
    netns: &str,
    listeners: &[Listening],
    owners: &HashMap<u32, Option<Owner>>,
) -> HashMap<u16, Arc<App>> {
    let app = |listening: &Listening| {
        let owner = owners.get(&listening.socket.inode)?.as_ref()?;
        let is_app = *listening.netns == *netns && tier(&owner.name) == "app";
        let app = || App { process_id: owner.process_id, name: owner.name.clone() };
        is_app.then(|| (listening.socket.port, Arc::new(app())))
    };
    listeners.iter().filter_map(app).collect()
}

/// Puts idle connections of these applications into `idle`, and takes those that are still there out of `gone`.
fn look(
    netns: &mut Netns,
    apps: &HashMap<u16, Arc<App>>,
    now: Micros,
    gone: &mut Idle,
    idle: &mut Idle,
) -> std::io::Result<()> {
    if apps.is_empty() {
        return Ok(());
    }
    let mut ports: Vec<u16> = apps.keys().copied().collect();
    ports.sort_unstable();
    ports.truncate(PORT_LIMIT);
    let name = netns.name.clone();
    // Why it cannot be asked is said of the table `listener`.
    let Ok(diag) = netns.diag() else { return Ok(()) };
    diag.established(&ports, |ends, idle_milliseconds| {
        let connection = (name.clone(), ends);
        gone.remove(&connection);
        if idle_milliseconds < IDLE_MILLISECONDS || idle.len() >= WATCH_LIMIT {
            return;
        }
        if let Some(app) = apps.get(&ends.port()) {
            let since = before(now, idle_milliseconds);
            idle.insert(connection, Resting { since, app: app.clone() });
        }
    })
}

fn before(now: Micros, milliseconds: u32) -> Micros {
    Micros(now.0 - i64::from(milliseconds) * 1000)
}
