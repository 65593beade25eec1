//! Converts the kernel's counters to rows of `tcp_state`, `tcp_accept` and `tcp_peer`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_tables::{
    Batch, Micros, Rows, TcpAccept, TcpAcceptRows, TcpPeer, TcpPeerRows, TcpState, TcpStateRows,
};

use crate::NameNetns;
use crate::histogram::WaitHistogram;

/// Side of a connection that this host is on.
#[cfg_attr(not(feature = "kernel"), expect(dead_code, reason = "only kernel.rs constructs it"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConnectionSide {
    Server,
    Client,
}

impl ConnectionSide {
    fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// Key of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterKey {
    /// Inode of the network namespace.
    pub(crate) netns: u32,
    pub(crate) side: ConnectionSide,
    /// Port of the server.
    pub(crate) port: u16,
    /// Address of the peer, or the local address of an accept queue.
    pub(crate) address: IpAddr,
}

impl CounterKey {
    /// Decodes an address of family `AF_INET6` (10) or `AF_INET`; maps IPv4-mapped IPv6 to IPv4.
    #[cfg_attr(not(feature = "kernel"), expect(dead_code, reason = "only kernel.rs constructs it"))]
    pub(crate) fn address(family: u8, bytes: [u8; 16]) -> IpAddr {
        if family == 10 {
            Ipv6Addr::from(bytes).to_canonical()
        } else {
            IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
        }
    }
}

/// Five counters, in the order of the enums in `sockets.bpf.c`.
pub(crate) type EventCounts = [u64; 5];

/// Counters of one accept queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcceptCounts {
    pub(crate) accepted: u64,
    pub(crate) abandoned: u64,
    pub(crate) waits: WaitHistogram,
}

/// All counters of one interval.
#[derive(Debug, Default)]
pub(crate) struct SocketCounts {
    pub(crate) states: Vec<(CounterKey, EventCounts)>,
    pub(crate) peers: Vec<(CounterKey, EventCounts)>,
    pub(crate) listeners: Vec<(CounterKey, AcceptCounts)>,
}

/// Values that all rows of one interval share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowContext<'a> {
    pub(crate) ts: Micros,
    pub(crate) host: &'a str,
    pub(crate) interval_seconds: f64,
    /// Maximum rows of single peers.
    pub(crate) peer_rows: usize,
}

/// Converts counters to batches; empty tables are omitted.
pub(crate) fn batches(
    counted: &SocketCounts,
    context: &RowContext<'_>,
    netns: NameNetns<'_>,
) -> Vec<Batch> {
    let mut batches = Vec::new();
    take(states(&counted.states, context, netns), &mut batches);
    take(accepts(&counted.listeners, context, netns), &mut batches);
    take(peers(&counted.peers, context, netns), &mut batches);
    batches
}

fn take<R: Rows>(mut rows: R, out: &mut Vec<Batch>) {
    if !rows.is_empty() {
        out.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}

fn states(
    all: &[(CounterKey, EventCounts)],
    context: &RowContext<'_>,
    netns: NameNetns<'_>,
) -> TcpStateRows {
    let mut rows = TcpStateRows::default();
    for (key, counts) in all {
        let [opened, closed_here, closed_by_peer, aborted, connect_failed] = counts.map(int);
        rows.push(&TcpState {
            ts: context.ts,
            host: context.host,
            netns: &netns(key.netns),
            side: key.side.as_str(),
            server_port: i64::from(key.port),
            opened,
            closed_here,
            closed_by_peer,
            aborted,
            connect_failed,
            interval_seconds: context.interval_seconds,
        });
    }
    rows
}

fn accepts(
    all: &[(CounterKey, AcceptCounts)],
    context: &RowContext<'_>,
    netns: NameNetns<'_>,
) -> TcpAcceptRows {
    let mut rows = TcpAcceptRows::default();
    for (key, accepts) in all {
        let waits = &accepts.waits;
        rows.push(&TcpAccept {
            ts: context.ts,
            host: context.host,
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
            interval_seconds: context.interval_seconds,
        });
    }
    rows
}

/// Peers with the most retransmits and resets; the others are one row per namespace and side.
fn peers(
    all: &[(CounterKey, EventCounts)],
    context: &RowContext<'_>,
    netns: NameNetns<'_>,
) -> TcpPeerRows {
    let mut order: Vec<&(CounterKey, EventCounts)> = all.iter().collect();
    // SYN and SYN-ACK retransmits are already part of `retransmits`.
    order.sort_by_key(|(_, [retransmits, _, _, sent, received])| {
        std::cmp::Reverse(retransmits + sent + received)
    });
    let mut rows = TcpPeerRows::default();
    let (single, rest) = order.split_at(order.len().min(context.peer_rows));
    for (key, counts) in single {
        let address = key.address.to_string();
        let peer = PeerColumns { port: Some(key.port), address: Some(&address), peers: 1 };
        push_peer(&mut rows, context, (&netns(key.netns), key.side), &peer, counts);
    }
    let mut sums: BTreeMap<(u32, ConnectionSide), (usize, EventCounts)> = BTreeMap::new();
    for (key, counts) in rest {
        let (peers, sum) = sums.entry((key.netns, key.side)).or_default();
        *peers += 1;
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    for ((inode, side), (peers, counts)) in &sums {
        let peer = PeerColumns { port: None, address: None, peers: *peers };
        push_peer(&mut rows, context, (&netns(*inode), *side), &peer, counts);
    }
    rows
}

/// Columns that identify one peer, or the sum of several peers.
struct PeerColumns<'a> {
    port: Option<u16>,
    address: Option<&'a str>,
    peers: usize,
}

fn push_peer(
    rows: &mut TcpPeerRows,
    context: &RowContext<'_>,
    (netns, side): (&Arc<str>, ConnectionSide),
    peer: &PeerColumns<'_>,
    counts: &EventCounts,
) {
    let counts = counts.map(int);
    let [retransmits, syn_retransmits, syn_ack_retransmits, resets_sent, resets_received] = counts;
    rows.push(&TcpPeer {
        ts: context.ts,
        host: context.host,
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
        interval_seconds: context.interval_seconds,
    });
}

fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a second")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
