//! What the kernel counted, as rows of `tcp_state`, `tcp_accept` and `tcp_peer`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_tables::{
    Batch, Micros, Rows, TcpAccept, TcpAcceptRows, TcpPeer, TcpPeerRows, TcpState, TcpStateRows,
};

use crate::NameNetns;
use crate::histogram::Waits;

/// Which end of a connection this host is.
#[cfg_attr(not(feature = "kernel"), expect(dead_code, reason = "only the kernel tells"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Server,
    Client,
}

impl Side {
    fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// What was counted where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Inode of the network namespace.
    pub(crate) netns: u32,
    pub(crate) side: Side,
    /// The server's.
    pub(crate) port: u16,
    /// The peer's, or the own of an accept queue.
    pub(crate) address: IpAddr,
}

impl Key {
    /// Bytes of an address of the family `AF_INET6` (10) or `AF_INET`; IPv4 inside of IPv6 is IPv4.
    #[cfg_attr(not(feature = "kernel"), expect(dead_code, reason = "only the kernel tells"))]
    pub(crate) fn address(family: u8, bytes: [u8; 16]) -> IpAddr {
        if family == 10 {
            Ipv6Addr::from(bytes).to_canonical()
        } else {
            IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
        }
    }
}

/// Five counters, in the order of the enums in `sockets.bpf.c`.
pub(crate) type Counts = [u64; 5];

/// One accept queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accepts {
    pub(crate) accepted: u64,
    pub(crate) abandoned: u64,
    pub(crate) waits: Waits,
}

/// All that was counted in a stretch of time.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) states: Vec<(Key, Counts)>,
    pub(crate) peers: Vec<(Key, Counts)>,
    pub(crate) listeners: Vec<(Key, Accepts)>,
}

/// Of when and whom rows are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) ts: Micros,
    pub(crate) host: &'a str,
    pub(crate) interval_seconds: f64,
    /// Most rows of single peers.
    pub(crate) peer_rows: usize,
}

/// The rows; tables without any are left out.
pub(crate) fn batches(counted: &Counted, place: &Place<'_>, netns: NameNetns<'_>) -> Vec<Batch> {
    let mut batches = Vec::new();
    take(states(&counted.states, place, netns), &mut batches);
    take(accepts(&counted.listeners, place, netns), &mut batches);
    take(peers(&counted.peers, place, netns), &mut batches);
    batches
}

fn take<R: Rows>(mut rows: R, out: &mut Vec<Batch>) {
    if !rows.is_empty() {
        out.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}

fn states(all: &[(Key, Counts)], place: &Place<'_>, netns: NameNetns<'_>) -> TcpStateRows {
    let mut rows = TcpStateRows::default();
    for (key, counts) in all {
        let [opened, closed_here, closed_by_peer, aborted, connect_failed] = counts.map(int);
        rows.push(&TcpState {
            ts: place.ts,
            host: place.host,
            netns: &netns(key.netns),
            side: key.side.as_str(),
            server_port: i64::from(key.port),
            opened,
            closed_here,
            closed_by_peer,
            aborted,
            connect_failed,
            interval_seconds: place.interval_seconds,
        });
    }
    rows
}

fn accepts(all: &[(Key, Accepts)], place: &Place<'_>, netns: NameNetns<'_>) -> TcpAcceptRows {
    let mut rows = TcpAcceptRows::default();
    for (key, accepts) in all {
        let waits = &accepts.waits;
        rows.push(&TcpAccept {
            ts: place.ts,
            host: place.host,
            netns: &netns(key.netns),
            server_address: &key.address.to_string(),
            server_port: i64::from(key.port),
            accepted: int(accepts.accepted),
            measured: int(waits.count()),
            abandoned: int(accepts.abandoned),
            wait_sum_seconds: seconds(waits.sum_us),
            wait_p50_seconds: waits.quantile(0.5).map(seconds),
            wait_p90_seconds: waits.quantile(0.9).map(seconds),
            wait_p99_seconds: waits.quantile(0.99).map(seconds),
            wait_max_seconds: waits.max().map(seconds),
            interval_seconds: place.interval_seconds,
        });
    }
    rows
}

/// Peers by how often they needed a segment again or were reset; the least are one row for each namespace and side.
fn peers(all: &[(Key, Counts)], place: &Place<'_>, netns: NameNetns<'_>) -> TcpPeerRows {
    let mut order: Vec<&(Key, Counts)> = all.iter().collect();
    // Retransmits, resets sent and received; what is a part of the retransmits counts once.
    order.sort_by_key(|(_, [retransmits, _, _, sent, received])| {
        std::cmp::Reverse(retransmits + sent + received)
    });
    let mut rows = TcpPeerRows::default();
    let (single, rest) = order.split_at(order.len().min(place.peer_rows));
    for (key, counts) in single {
        let address = key.address.to_string();
        let peer = Peer { port: Some(key.port), address: Some(&address), peers: 1 };
        push_peer(&mut rows, place, (&netns(key.netns), key.side), &peer, counts);
    }
    let mut sums: BTreeMap<(u32, Side), (usize, Counts)> = BTreeMap::new();
    for (key, counts) in rest {
        let (peers, sum) = sums.entry((key.netns, key.side)).or_default();
        *peers += 1;
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    for ((inode, side), (peers, counts)) in &sums {
        let peer = Peer { port: None, address: None, peers: *peers };
        push_peer(&mut rows, place, (&netns(*inode), *side), &peer, counts);
    }
    rows
}

/// One peer at one port, or many.
struct Peer<'a> {
    port: Option<u16>,
    address: Option<&'a str>,
    peers: usize,
}

fn push_peer(
    rows: &mut TcpPeerRows,
    place: &Place<'_>,
    (netns, side): (&Arc<str>, Side),
    peer: &Peer<'_>,
    counts: &Counts,
) {
    let counts = counts.map(int);
    let [retransmits, syn_retransmits, syn_ack_retransmits, resets_sent, resets_received] = counts;
    rows.push(&TcpPeer {
        ts: place.ts,
        host: place.host,
        netns,
        side: side.as_str(),
        server_port: peer.port.map(i64::from),
        peer_address: peer.address,
        peers: int(peer.peers as u64),
        retransmits,
        syn_retransmits,
        syn_ack_retransmits,
        resets_sent,
        resets_received,
        interval_seconds: place.interval_seconds,
    });
}

fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a second")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
