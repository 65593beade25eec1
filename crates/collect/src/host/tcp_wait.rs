//! Requests that wait for an answer, per service: rows of `tcp_wait`.
//!
//! The kernel knows for each connection when it last sent and last received data. A client whose
//! last data went out after the last came in waits for an answer, in any protocol and through TLS,
//! whatever a log says; a server owes one the other way round. Connections that only send
//! (log shippers), long polls and subscriptions look alike, so the rules compare with the time
//! before.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_tables::{Micros, TcpWait, TcpWaitRows};

use super::View;
use super::destination::{Destination, DestinationOwners};
use super::listener::tier;
use super::netns::NetnsRows;
use super::process::SocketOwner;
use super::sock_diag::{ConnectionInfo, SocketId};

/// Services counted in one sample.
const SERVICE_LIMIT: usize = 10_000;
/// Rows per namespace and sample.
const ROW_LIMIT: usize = 50;
const WAIT_MILLISECONDS: u32 = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WaitSums {
    connections: i64,
    waiting: i64,
    unacknowledged: i64,
    /// The longest wait in milliseconds, and the inode of its socket.
    longest: (u32, u32),
}

#[derive(Debug, Default)]
pub(super) struct ServiceWaits {
    /// By whether this host is the server, and the server's end.
    sums: HashMap<(bool, Destination), WaitSums>,
    owners: DestinationOwners,
}

impl ServiceWaits {
    pub(super) fn add(
        &mut self,
        netns: &Arc<str>,
        id: &SocketId,
        ports: &HashSet<u16>,
        info: &ConnectionInfo,
    ) {
        if !info.is_established {
            return;
        }
        let is_server = ports.contains(&id.port());
        let (address, port) =
            if is_server { (id.address(), id.port()) } else { (id.peer(), id.peer_port()) };
        let key = (is_server, Destination { netns: netns.clone(), address, port });
        if self.sums.len() >= SERVICE_LIMIT && !self.sums.contains_key(&key) {
            return;
        }
        let sums = self.sums.entry(key).or_default();
        sums.connections += 1;
        let wait = if is_server { owed(info) } else { awaited(info) };
        let Some(wait) = wait.filter(|wait| *wait >= WAIT_MILLISECONDS) else { return };
        sums.waiting += 1;
        sums.unacknowledged += i64::from(info.unacknowledged > 0);
        sums.longest = sums.longest.max((wait, info.inode));
    }

    /// Appends the rows of what was added since the last call.
    pub(super) fn flush(&mut self, view: &View, now: Micros, rows: &mut TcpWaitRows) {
        let mut found: Vec<_> = self.sums.drain().filter(|(_, sums)| sums.waiting > 0).collect();
        found.sort_unstable_by_key(|(_, sums)| std::cmp::Reverse((sums.waiting, sums.longest)));
        let clients = found.iter().filter(|((is_server, _), _)| !is_server);
        self.owners.search(view, clients.map(|((_, to), sums)| (to, sums.longest.1)), now);
        let mut rows_of = NetnsRows::default();
        for ((is_server, to), sums) in &found {
            if !rows_of.admit(&to.netns, ROW_LIMIT) {
                continue;
            }
            let owner = if *is_server { listener_owner(view, to) } else { self.owners.get(to) };
            rows.push(&TcpWait {
                ts: now,
                host: &view.host,
                netns: &to.netns,
                side: if *is_server { "server" } else { "client" },
                server_address: &to.address.to_string(),
                server_port: i64::from(to.port),
                connections: sums.connections,
                waiting: sums.waiting,
                unacknowledged: sums.unacknowledged,
                longest_seconds: f64::from(sums.longest.0) / 1000.0,
                process_id: owner.map(|owner| i64::from(owner.process_id)),
                process_name: owner.map(|owner| owner.name.as_str()),
                tier: owner.map(|owner| tier(&owner.name)),
            });
        }
    }
}

/// The process that listens on a service's port.
fn listener_owner<'a>(view: &'a View, to: &Destination) -> Option<&'a SocketOwner> {
    let listener = view.listeners.iter().find(|listener| {
        let (socket, at) = (&listener.socket, listener.socket.address);
        listener.netns == to.netns
            && socket.port == to.port
            && (at == to.address || at.is_unspecified())
    })?;
    view.owners.get(&listener.socket.inode)?.as_ref()
}

/// Milliseconds that a client has waited for the answer to what it sent; `None` when the last word
/// is the server's or unread.
fn awaited(info: &ConnectionInfo) -> Option<u32> {
    let is_last = info.sent_ago < info.received_ago || is_acknowledged_alone(info);
    let is_asking =
        info.segments > 0 && info.unread == 0 && (info.segments_received == 0 || is_last);
    is_asking.then_some(info.sent_ago)
}

/// Whether something was sent in the same tick of the kernel's clock (1 to 10 ms) in which data was
/// received, and the other kernel acknowledged it later without data: a request sent as soon as the
/// login was accepted. A server's last word is not acknowledged to its client. Probes of an idle
/// connection come after a second or more.
fn is_acknowledged_alone(info: &ConnectionInfo) -> bool {
    /// Time that Linux, Windows and others delay an acknowledgment for, with a path's round trip.
    const DELAY_MILLISECONDS: std::ops::RangeInclusive<u32> = 20..=700;
    let delay = info.received_ago.saturating_sub(info.acknowledged_ago);
    info.sent_ago == info.received_ago && DELAY_MILLISECONDS.contains(&delay)
}

/// Milliseconds that a server has owed the answer to what it received.
fn owed(info: &ConnectionInfo) -> Option<u32> {
    let is_owing =
        info.segments_received > 0 && (info.segments == 0 || info.received_ago < info.sent_ago);
    is_owing.then_some(info.received_ago)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::super::sock_diag::SockDiag;
    use super::*;

    fn info_of(diag: &mut SockDiag, port: u16, is_server: bool) -> ConnectionInfo {
        let mut found = None;
        let take = |id: SocketId, info| {
            if port == if is_server { id.port() } else { id.peer_port() } {
                found = Some(info);
            }
        };
        diag.connections(take).unwrap();
        found.expect("the connection is open")
    }

    /// Within one tick of the kernel's clock, the order of two events is unknown.
    fn pass_ticks() {
        for _ in 0..20 {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn a_request_is_awaited_and_owed_until_its_answer() {
        let mut diag = SockDiag::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        let mut waits = |expected: bool| {
            let (at_client, at_server) =
                (info_of(&mut diag, port, false), info_of(&mut diag, port, true));
            assert_eq!(awaited(&at_client).is_some(), expected, "{at_client:?}");
            assert_eq!(owed(&at_server).is_some(), expected, "{at_server:?}");
        };
        waits(false);
        for _ in 0..2 {
            (&client).write_all(b"ask").unwrap();
            waits(true);
            (&server).read_exact(&mut [0; 3]).unwrap();
            pass_ticks();
            (&server).write_all(b"ok").unwrap();
            waits(false);
            (&client).read_exact(&mut [0; 2]).unwrap();
            pass_ticks();
            waits(false);
        }
    }

    #[test]
    fn what_only_receives_or_has_not_read_its_answer_waits_for_nothing() {
        let idle = ConnectionInfo { segments_received: 3, ..ConnectionInfo::default() };
        assert_eq!(awaited(&idle), None);
        let answered = ConnectionInfo { segments: 1, received_ago: 5, sent_ago: 9, ..idle };
        assert_eq!(awaited(&answered), None);
        let unread = ConnectionInfo { unread: 4, received_ago: 9, sent_ago: 5, ..answered };
        assert_eq!(awaited(&unread), None);
        assert_eq!(awaited(&ConnectionInfo { unread: 0, ..unread }), Some(5));
        let tie = ConnectionInfo { sent_ago: 4000, received_ago: 4000, ..answered };
        for (acknowledged_ago, waits) in [(4000, false), (3996, false), (3952, true), (9, false)] {
            let info = ConnectionInfo { acknowledged_ago, ..tie };
            assert_eq!(awaited(&info).is_some(), waits, "{acknowledged_ago}");
        }
    }
}
