//! Listening sockets with their accept queues and owners, by sock_diag in every network namespace.
//!
//! For a listening socket the kernel reports the accept queue's length as `rqueue` and its limit as
//! `wqueue`; it refuses connections when length > limit, so a full queue shows limit + 1. Owners
//! are searched when a socket appears or its owner dies, once more 5 s later (workers fork after
//! the socket was created), and every minute; less often on a host with very many descriptors.

use weir_tables::{Batch, Listener, ListenerRows, Micros};

use super::accept_process::AcceptProcesses;
use super::netns::{Netns, entering};
use super::process::SocketOwner;
use super::run::Stopwatch;
use super::sock_diag::ListenSocket;
use super::{CollectResult, Collector, ListenerSummary, View, take};
use crate::CollectError;

const LISTENER_LIMIT: usize = 10_000;
const OWNERS_EVERY_SECONDS: f64 = 60.0;
const WORKERS_AFTER_SECONDS: f64 = 5.0;
/// Share of one CPU that the search for owners may use.
const OWNERS_COST_RATIO: f64 = 0.002;
const OWNERS_PAUSE_SECONDS: (f64, f64) = (2.0, 300.0);

/// A listening socket of the last round.
#[derive(Clone, Debug)]
pub(super) struct NetnsListener {
    pub(super) netns: std::sync::Arc<str>,
    pub(super) socket: ListenSocket,
}

impl NetnsListener {
    pub(super) fn summary(
        &self,
        owners: &std::collections::HashMap<u32, Option<SocketOwner>>,
    ) -> ListenerSummary {
        let owner = owners.get(&self.socket.inode).and_then(Option::as_ref);
        ListenerSummary {
            netns: self.netns.to_string(),
            address: self.socket.address.to_string(),
            port: self.socket.port,
            process_name: owner.map(|owner| owner.name.clone()),
            process_id: owner.map(|owner| owner.process_id),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ListenerCollector {
    rows: ListenerRows,
    sockets: Vec<ListenSocket>,
    last_search: Option<Micros>,
    pause_seconds: f64,
    search_again: Option<Micros>,
    accepting: AcceptProcesses,
    is_refused: bool,
}

impl Collector for ListenerCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        view.require_live("list sockets")?;
        let scanned = view.netns.scan(&mut view.processes);
        let queried = self.query_all(view);
        self.find_owners(view, now);
        self.push_rows(view, now);
        take(&mut self.rows, out);
        let owners = if self.is_refused { Err(owners_refused()) } else { Ok(()) };
        queried.and(scanned).and(owners)
    }
}

impl ListenerCollector {
    fn query_all(&mut self, view: &mut View) -> Result<(), CollectError> {
        view.listeners.clear();
        let mut result = Ok(());
        for netns in &mut view.netns.namespaces {
            match self.query(netns) {
                Ok(()) => {
                    let name = &netns.name;
                    view.listeners.extend(
                        self.sockets
                            .iter()
                            .map(|&socket| NetnsListener { netns: name.clone(), socket }),
                    );
                }
                Err(error) => result = Err(error),
            }
        }
        result
    }

    fn query(&mut self, netns: &mut Netns) -> Result<(), CollectError> {
        self.sockets.clear();
        match netns.open_diag() {
            Ok(()) => {}
            // Its last process exited since the scan; the next scan drops it.
            Err(_) if !netns.is_own() && !netns.entrance.exists() => return Ok(()),
            Err(error) => return Err(error),
        }
        if let Err(error) = netns.diag()?.listeners(LISTENER_LIMIT, &mut self.sockets) {
            netns.diag = None;
            return Err(entering(&netns.name, &error));
        }
        netns.is_sampled = netns.is_own() || !self.sockets.is_empty();
        if netns.is_sampled {
            netns.open_files().map_err(|error| entering(&netns.name, &error))?;
        }
        Ok(())
    }

    fn find_owners(&mut self, view: &mut View, now: Micros) {
        // Short-lived Unix sockets are many; only one in which connections wait is worth a search.
        let tcp = view.listeners.iter().map(|listener| listener.socket.inode);
        let waiting = view.unix_listeners.iter().map(|listener| &listener.socket);
        let waiting = waiting.filter(|socket| socket.queue_length > 0).map(|socket| socket.inode);
        let has_new = tcp.chain(waiting).any(|inode| !view.owners.contains_key(&inode));
        let has_lost_owner =
            view.owners.values().flatten().any(|owner| !view.processes.is_alive(owner.process_id));
        let age = self.last_search.map_or(f64::INFINITY, |last| now.seconds_since(last).abs());
        let is_again = self.search_again.is_some_and(|at| now >= at);
        if age < self.pause_seconds
            || !(has_new || has_lost_owner || is_again || age >= OWNERS_EVERY_SECONDS)
        {
            return;
        }
        let stopwatch = Stopwatch::start();
        self.last_search = Some(now);
        self.search_again =
            has_new.then(|| now + std::time::Duration::from_secs_f64(WORKERS_AFTER_SECONDS));
        view.owners = inodes(view).map(|inode| (inode, None)).collect();
        self.is_refused = view.processes.find_owners(&mut view.owners)
            && view.listeners.iter().any(|listener| {
                view.owners.get(&listener.socket.inode).is_none_or(Option::is_none)
            });
        let pause = stopwatch.stop().cpu_seconds / OWNERS_COST_RATIO;
        self.pause_seconds = pause.clamp(OWNERS_PAUSE_SECONDS.0, OWNERS_PAUSE_SECONDS.1);
    }

    fn push_rows(&mut self, view: &View, now: Micros) {
        let mut address = String::new();
        for NetnsListener { netns, socket } in &view.listeners {
            let owner = view.owners.get(&socket.inode).and_then(Option::as_ref);
            let accepting = owner
                .filter(|_| socket.queue_length > 0)
                .and_then(|owner| self.accepting.of(&view.path("proc"), socket.inode, owner, now));
            address.clear();
            std::fmt::Write::write_fmt(&mut address, format_args!("{}", socket.address))
                .expect("writing to a string does not fail");
            self.rows.push(&Listener {
                ts: now,
                host: &view.host,
                netns,
                server_address: &address,
                server_port: i64::from(socket.port),
                accept_queue_length: i64::from(socket.queue_length),
                accept_queue_limit: i64::from(socket.queue_limit),
                socket_inode: i64::from(socket.inode),
                process_id: owner.map(|owner| i64::from(owner.process_id)),
                process_name: owner.map(|owner| owner.name.as_str()),
                process_count: owner.map(|owner| owner.process_count),
                cgroup: owner.and_then(|owner| Some(owner.cgroup.as_ref()?.name.as_str())),
                user_id: Some(i64::from(socket.user_id)),
                tier: owner.map(|owner| tier(&owner.name)),
                accepting_process_id: accepting.map(|accepting| i64::from(accepting.process_id)),
                accepting_process_count: accepting.map(|accepting| accepting.process_count),
            });
        }
    }
}

/// Inodes of the listening sockets, those of Unix sockets as of the last round.
fn inodes(view: &View) -> impl Iterator<Item = u32> {
    let tcp = view.listeners.iter().map(|listener| listener.socket.inode);
    tcp.chain(view.unix_listeners.iter().map(|listener| listener.socket.inode))
}

/// Tier of a program by its process name; unknown programs serve requests themselves.
pub(super) fn tier(process_name: &str) -> &'static str {
    match process_name {
        "nginx" | "haproxy" | "apache2" | "httpd" | "envoy" | "traefik" | "caddy" | "varnishd"
        | "squid" | "lighttpd" => "proxy",
        "postgres" | "mysqld" | "mariadbd" | "redis-server" | "valkey-server" | "mongod"
        | "memcached" => "db",
        "weir" | "weir-agent" => "edge",
        _ => "app",
    }
}

fn owners_refused() -> CollectError {
    CollectError::new("find the owners of all listening sockets", "permission denied")
        .with_hint("run weir as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH")
}
