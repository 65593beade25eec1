//! Listening Unix sockets with their accept queues and owners, in every network namespace.
//!
//! A host has dozens of them that are idle for months. So a socket has a row each second while
//! connections wait in its queue, when the queue has emptied or the owner changed, and once a
//! minute otherwise. The collector `listener` finds the owners; it runs before this one.

use std::collections::HashMap;
use std::sync::Arc;

use weir_tables::{Batch, Micros, UnixListener, UnixListenerRows};

use super::accept_process::{AcceptProcess, AcceptProcesses};
use super::listener::tier;
use super::netns::entering;
use super::unix_diag::UnixListenSocket;
use super::{CollectResult, Collector, FullRound, View, take};

const LISTENER_LIMIT: usize = 2000;
const FULL_ROUND_SECONDS: f64 = 60.0;

/// A listening Unix socket of the last round.
#[derive(Clone, Debug)]
pub(super) struct NetnsUnixListener {
    pub(super) netns: Arc<str>,
    pub(super) socket: UnixListenSocket,
}

/// What the last row of a socket showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReportedState {
    is_waiting: bool,
    process_id: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct UnixListenerCollector {
    rows: UnixListenerRows,
    reported: HashMap<u32, ReportedState>,
    accepting: AcceptProcesses,
    full_round: FullRound,
}

impl Collector for UnixListenerCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        if !view.is_live {
            return Ok(()); // `listener` reports that sockets cannot be listed
        }
        let result = query_all(view);
        let is_full = self.full_round.begin(now, FULL_ROUND_SECONDS);
        let before = std::mem::take(&mut self.reported);
        for listener in &view.unix_listeners {
            let socket = &listener.socket;
            let owner = view.owners.get(&socket.inode).and_then(Option::as_ref);
            let state = ReportedState {
                is_waiting: socket.queue_length > 0,
                process_id: owner.map(|owner| owner.process_id),
            };
            self.reported.insert(socket.inode, state);
            if !is_full && !state.is_waiting && before.get(&socket.inode) == Some(&state) {
                continue;
            }
            let accepting = owner
                .filter(|_| state.is_waiting)
                .and_then(|owner| self.accepting.of(&view.path("proc"), socket.inode, owner, now));
            self.push(view, listener, accepting, now);
        }
        take(&mut self.rows, out);
        result
    }
}

impl UnixListenerCollector {
    fn push(
        &mut self,
        view: &View,
        listener: &NetnsUnixListener,
        accepting: Option<AcceptProcess>,
        now: Micros,
    ) {
        let socket = &listener.socket;
        let owner = view.owners.get(&socket.inode).and_then(Option::as_ref);
        self.rows.push(&UnixListener {
            ts: now,
            host: &view.host,
            netns: &listener.netns,
            socket_path: &socket.path,
            accept_queue_length: i64::from(socket.queue_length),
            accept_queue_limit: i64::from(socket.queue_limit),
            socket_inode: i64::from(socket.inode),
            process_id: owner.map(|owner| i64::from(owner.process_id)),
            process_name: owner.map(|owner| owner.name.as_str()),
            process_count: owner.map(|owner| owner.process_count),
            cgroup: owner.and_then(|owner| Some(owner.cgroup.as_ref()?.name.as_str())),
            user_id: socket.user_id.map(i64::from),
            tier: owner.map(|owner| tier(&owner.name)),
            accepting_process_id: accepting.map(|accepting| i64::from(accepting.process_id)),
            accepting_process_count: accepting.map(|accepting| accepting.process_count),
        });
    }
}

fn query_all(view: &mut View) -> CollectResult {
    view.unix_listeners.clear();
    let mut sockets = Vec::new();
    let mut result = Ok(());
    for netns in &mut view.netns.namespaces {
        // The collector `listener` reports why a namespace cannot be queried.
        let Some(diag) = &mut netns.diag else { continue };
        sockets.clear();
        if let Err(error) = diag.unix_listeners(LISTENER_LIMIT, &mut sockets) {
            result = Err(entering(&netns.name, &error));
            netns.diag = None;
            continue;
        }
        let name = &netns.name;
        let found = sockets.drain(..);
        view.unix_listeners
            .extend(found.map(|socket| NetnsUnixListener { netns: name.clone(), socket }));
    }
    result
}
