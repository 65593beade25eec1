//! Numbers of sockets: sums of `/proc/net/sockstat` each second, counts by state less often.
//!
//! Counting states walks the kernel's whole connection hash, whatever the filter. So the pause
//! after a count limits its cost to 1/1000 of one CPU, and is never shorter than 2 s. The same walk
//! gives the rows of `tcp_connect`.

use weir_tables::{Batch, Micros, SockStat, SockStatRows, TcpConnectRows};

use super::netns::{Netns, entering};
use super::run::{DutyCycle, Stopwatch};
use super::sock_diag::StateCounts;
use super::tcp_connect::ConnectAttempts;
use super::{CollectResult, Collector, View, take, text};
use crate::CollectError;

const DUTY_CYCLE: DutyCycle = DutyCycle { cost_ratio: 0.0008, pause_seconds: (2.0, 600.0) };

#[derive(Debug, Default)]
pub(super) struct SockStatCollector {
    rows: SockStatRows,
    connect_rows: TcpConnectRows,
    attempts: ConnectAttempts,
    next_count: Option<Micros>,
}

impl Collector for SockStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let is_counting = view.is_live && DUTY_CYCLE.is_due(self.next_count, now);
        let stopwatch = Stopwatch::start();
        let mut result = Ok(());
        for netns in view.netns.namespaces.iter_mut().filter(|netns| netns.is_sampled) {
            let counts = if is_counting {
                count_states(netns, &mut self.attempts).map_err(|error| result = Err(error)).ok()
            } else {
                None
            };
            let Some(files) = &mut netns.files else { continue };
            let mut totals = match files.sockstat.read() {
                Ok(bytes) => SocketTotals::parse(bytes, view.page_bytes),
                Err(error) => {
                    result = Err(error);
                    continue;
                }
            };
            // The file is missing where IPv6 is off.
            totals.add_v6(files.sockstat6.read_if_any().unwrap_or_default());
            totals.established =
                files.snmp.read_if_any().and_then(current_established).unwrap_or(0);
            let (host, netns) = (&*view.host, &*netns.name);
            self.rows.push(&SockStat { ts: now, host, netns, ..row(&totals, counts) });
        }
        if is_counting {
            self.next_count = Some(DUTY_CYCLE.next_run(stopwatch.stop(), now));
            self.attempts.flush(view, now, &mut self.connect_rows);
            take(&mut self.connect_rows, out);
        }
        take(&mut self.rows, out);
        result
    }
}

fn row(totals: &SocketTotals, counts: Option<StateCounts>) -> SockStat<'static> {
    SockStat {
        tcp_in_use: totals.tcp_in_use,
        tcp_orphan: totals.orphan,
        tcp_time_wait: totals.time_wait,
        tcp_allocated: totals.allocated,
        tcp_memory_bytes: totals.tcp_memory_bytes,
        tcp_established: totals.established,
        udp_in_use: totals.udp_in_use,
        udp_memory_bytes: totals.udp_memory_bytes,
        tcp_syn_recv: counts.map(|counts| counts.syn_recv),
        tcp_syn_sent: counts.map(|counts| counts.syn_sent),
        tcp_fin_wait: counts.map(|counts| counts.fin_wait),
        tcp_close_wait: counts.map(|counts| counts.close_wait),
        tcp_last_ack: counts.map(|counts| counts.last_ack),
        tcp_close_wait_unread: counts.map(|counts| counts.close_wait_unread),
        ..SockStat::default()
    }
}

fn count_states(
    netns: &mut Netns,
    attempts: &mut ConnectAttempts,
) -> Result<StateCounts, CollectError> {
    let name = netns.name.clone();
    let counted = netns.diag()?.count_states(|attempt| attempts.add(&name, &attempt));
    counted.map_err(|error| {
        netns.diag = None;
        entering(&netns.name, &error)
    })
}

/// `/proc/net/sockstat` and `sockstat6`.
#[derive(Debug, Default, PartialEq, Eq)]
struct SocketTotals {
    tcp_in_use: i64,
    orphan: i64,
    time_wait: i64,
    allocated: i64,
    tcp_memory_bytes: i64,
    established: i64,
    udp_in_use: i64,
    udp_memory_bytes: i64,
}

impl SocketTotals {
    fn parse(bytes: &[u8], page_bytes: i64) -> Self {
        let mut totals = Self::default();
        each(bytes, |group, key, value| match (group, key) {
            (b"TCP:", b"inuse") => totals.tcp_in_use = value,
            (b"TCP:", b"orphan") => totals.orphan = value,
            (b"TCP:", b"tw") => totals.time_wait = value,
            (b"TCP:", b"alloc") => totals.allocated = value,
            (b"TCP:", b"mem") => totals.tcp_memory_bytes = value.saturating_mul(page_bytes),
            (b"UDP:", b"inuse") => totals.udp_in_use = value,
            (b"UDP:", b"mem") => totals.udp_memory_bytes = value.saturating_mul(page_bytes),
            _ => {}
        });
        totals
    }

    fn add_v6(&mut self, bytes: &[u8]) {
        each(bytes, |group, key, value| match (group, key) {
            (b"TCP6:", b"inuse") => self.tcp_in_use = self.tcp_in_use.saturating_add(value),
            (b"UDP6:", b"inuse") => self.udp_in_use = self.udp_in_use.saturating_add(value),
            _ => {}
        });
    }
}

fn each(bytes: &[u8], mut take: impl FnMut(&[u8], &[u8], i64)) {
    for line in text::lines(bytes) {
        let mut fields = text::fields(line);
        let Some(group) = fields.next() else { continue };
        while let (Some(key), Some(value)) = (fields.next(), fields.next()) {
            take(group, key, text::int(value).unwrap_or(0));
        }
    }
}

/// `Tcp: … CurrEstab …` of `/proc/net/snmp`.
fn current_established(bytes: &[u8]) -> Option<i64> {
    let mut lines = text::lines(bytes).filter(|line| line.starts_with(b"Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = text::fields(names).position(|name| name == b"CurrEstab")?;
    text::fields(values).nth(at).and_then(text::int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_both_families_are_read() {
        let mut totals = SocketTotals::parse(
            b"sockets: used 9\nTCP: inuse 3 orphan 1 tw 7 alloc 5 mem 2\nUDP: inuse 4 mem 1\n",
            4096,
        );
        totals.add_v6(b"TCP6: inuse 10\nUDP6: inuse 20\n");
        assert_eq!((totals.tcp_in_use, totals.udp_in_use), (13, 24));
        assert_eq!((totals.orphan, totals.time_wait, totals.allocated), (1, 7, 5));
        assert_eq!(totals.tcp_memory_bytes, 8192);
    }

    #[test]
    fn established_is_found_by_name() {
        let snmp = b"Ip: A\nIp: 1\nTcp: RtoMin CurrEstab InSegs\nTcp: 200 20000 5\n";
        assert_eq!(current_established(snmp), Some(20_000));
        assert_eq!(current_established(b"Tcp: A\n"), None);
    }
}
