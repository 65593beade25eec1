//! Loss per peer, from the kernel's own account of each open connection. The same dump gives the
//! rows of `tcp_wait`.
//!
//! The counters of a namespace mix all peers, and loopback dilutes them. `tcp_info` counts per
//! connection: its increases between two samples are summed by server, or by client network.
//! Connections that are seen once only do not count: a lossy connection lives longer, so among
//! short ones a sample would find far more lossy ones than there are. A dump of 20,000 connections
//! takes some 30 ms, so its pace follows its cost.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use weir_tables::{Batch, Micros, TcpPath, TcpPathRows, TcpWaitRows};

use super::netns::{Netns, NetnsRows, entering};
use super::run::{DutyCycle, Stopwatch};
use super::sock_diag::{ConnectionInfo, SocketId};
use super::tcp_wait::ServiceWaits;
use super::{CollectResult, Collector, View, take};

const DUTY_CYCLE: DutyCycle = DutyCycle { cost_ratio: 0.0008, pause_seconds: (1.5, 300.0) };
const FLUSH_SECONDS: f64 = 10.0;
/// Connections kept between two samples.
const CONNECTION_LIMIT: usize = 50_000;
const PEER_LIMIT: usize = 10_000;
/// Rows per namespace and flush.
const ROW_LIMIT: usize = 100;
const SEGMENTS_AT_LEAST: i64 = 20;

/// Last sample of each connection, by namespace and the kernel's cookie.
type ConnectionSamples = HashMap<(Arc<str>, u64), ConnectionInfo>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PeerKey {
    netns: Arc<str>,
    is_server: bool,
    server_port: u16,
    /// Server address, or network of the client.
    address: IpAddr,
}

#[derive(Debug, Default)]
struct PeerSums {
    connections: HashSet<u64>,
    lossy: HashSet<u64>,
    segments: i64,
    retransmits: i64,
    spurious: Option<i64>,
    rtt_micros: i64,
    rtt_samples: i64,
}

#[derive(Debug, Default)]
pub(super) struct TcpPathCollector {
    rows: TcpPathRows,
    wait_rows: TcpWaitRows,
    waits: ServiceWaits,
    connections: ConnectionSamples,
    peers: HashMap<PeerKey, PeerSums>,
    next: Option<Micros>,
    /// First sample of the interval that is being summed.
    since: Option<Micros>,
    sampled_at: Option<Micros>,
}

impl Collector for TcpPathCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        if !view.is_live || !DUTY_CYCLE.is_due(self.next, now) {
            return Ok(());
        }
        let stopwatch = Stopwatch::start();
        let mut result = Ok(());
        let before = std::mem::take(&mut self.connections);
        for netns in view.netns.namespaces.iter_mut().filter(|netns| netns.is_sampled) {
            let its = view.listeners.iter().filter(|listener| listener.netns == netns.name);
            let ports = its.map(|listener| listener.socket.port).collect();
            if let Err(error) = self.sample(netns, &ports, &before) {
                netns.diag = None;
                result = Err(entering(&netns.name, &error));
            }
        }
        self.next = Some(DUTY_CYCLE.next_run(stopwatch.stop(), now));
        self.waits.flush(view, now, &mut self.wait_rows);
        take(&mut self.wait_rows, out);
        let since = *self.since.get_or_insert(self.sampled_at.unwrap_or(now));
        self.sampled_at = Some(now);
        if now.seconds_since(since) >= FLUSH_SECONDS - 0.5 || now < since {
            self.flush(&view.host, now, now.seconds_since(since));
            self.since = None;
            take(&mut self.rows, out);
        }
        result
    }
}

impl TcpPathCollector {
    fn sample(
        &mut self,
        netns: &mut Netns,
        ports: &HashSet<u16>,
        before: &ConnectionSamples,
    ) -> std::io::Result<()> {
        let name = netns.name.clone();
        // The table `listener` reports why it cannot be queried.
        let Ok(diag) = netns.diag() else { return Ok(()) };
        diag.connections(|id, info| {
            self.waits.add(&name, &id, ports, &info);
            if id.peer().is_loopback() || id.peer() == id.address() {
                return;
            }
            let key = (name.clone(), info.cookie);
            if let Some(before) = before.get(&key) {
                self.add(&name, &id, ports.contains(&id.port()), (before, &info));
            }
            if self.connections.len() < CONNECTION_LIMIT {
                self.connections.insert(key, info);
            }
        })
    }

    fn add(
        &mut self,
        netns: &Arc<str>,
        id: &SocketId,
        is_server: bool,
        (before, info): (&ConnectionInfo, &ConnectionInfo),
    ) {
        let segments = i64::from(info.segments.wrapping_sub(before.segments));
        let retransmits = i64::from(info.retransmits.wrapping_sub(before.retransmits));
        if segments == 0 && retransmits == 0 {
            return;
        }
        let key = PeerKey {
            netns: netns.clone(),
            is_server,
            server_port: if is_server { id.port() } else { id.peer_port() },
            address: if is_server { network(id.peer()) } else { id.peer() },
        };
        if self.peers.len() >= PEER_LIMIT && !self.peers.contains_key(&key) {
            return;
        }
        let sums = self.peers.entry(key).or_default();
        sums.connections.insert(info.cookie);
        sums.segments += segments;
        sums.retransmits += retransmits;
        if retransmits > 0 {
            sums.lossy.insert(info.cookie);
        }
        if let (Some(now), Some(then)) = (info.spurious, before.spurious) {
            *sums.spurious.get_or_insert(0) += i64::from(now.wrapping_sub(then));
        }
        if info.rtt_micros > 0 {
            sums.rtt_micros += i64::from(info.rtt_micros);
            sums.rtt_samples += 1;
        }
    }

    fn flush(&mut self, host: &str, now: Micros, seconds: f64) {
        let mut peers: Vec<(PeerKey, PeerSums)> = self.peers.drain().collect();
        peers.retain(|(_, sums)| sums.segments >= SEGMENTS_AT_LEAST);
        peers.sort_unstable_by(|(_, left), (_, right)| {
            (right.retransmits, right.segments).cmp(&(left.retransmits, left.segments))
        });
        let mut rows_of = NetnsRows::default();
        for (key, sums) in &peers {
            if !rows_of.admit(&key.netns, ROW_LIMIT) {
                continue;
            }
            self.rows.push(&TcpPath {
                ts: now,
                host,
                netns: &key.netns,
                side: if key.is_server { "server" } else { "client" },
                server_port: key.server_port.into(),
                peer_address: &key.shown(),
                connections: length(&sums.connections),
                lossy_connections: length(&sums.lossy),
                segments: sums.segments,
                retransmits: sums.retransmits,
                spurious_retransmits: sums.spurious,
                rtt_seconds: sums.rtt_seconds(),
                interval_seconds: seconds,
            });
        }
    }
}

impl PeerSums {
    /// Mean round-trip time; `None` when none was measured.
    #[expect(clippy::cast_precision_loss, reason = "sums of times stay far below 2^53 µs")]
    fn rtt_seconds(&self) -> Option<f64> {
        let is_measured = self.rtt_samples > 0;
        is_measured.then(|| self.rtt_micros as f64 / self.rtt_samples as f64 / 1e6)
    }
}

impl PeerKey {
    fn shown(&self) -> String {
        match (self.is_server, self.address) {
            (false, address) => address.to_string(),
            (true, IpAddr::V4(address)) => format!("{address}/24"),
            (true, IpAddr::V6(address)) => format!("{address}/48"),
        }
    }
}

/// The network of a client: the first 24 bits of IPv4, the first 48 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            [a, b, c, 0].into()
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            [a, b, c, 0, 0, 0, 0, 0].into()
        }
    }
}

fn length(set: &HashSet<u64>) -> i64 {
    i64::try_from(set.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_summed_by_network() {
        let of = |address: &str| network(address.parse().unwrap()).to_string();
        assert_eq!(of("203.0.113.77"), "203.0.113.0");
        assert_eq!(of("2001:db8:1:2::3"), "2001:db8:1::");
        let sums = PeerSums { rtt_micros: 3_000_000, rtt_samples: 2, ..PeerSums::default() };
        assert_eq!(sums.rtt_seconds(), Some(1.5));
        assert_eq!(PeerSums::default().rtt_seconds(), None);
    }
}
