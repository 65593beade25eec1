//! Connection attempts without an answer, per destination: rows of `tcp_connect`.
//!
//! They come from the walk that counts sockets by state. A SYN that was retransmitted had no answer
//! for a second: a firewall drops it, the host is gone, or the accept queue there is full. No log is
//! needed, and any program's attempts are seen.

use std::collections::HashMap;
use std::sync::Arc;

use weir_tables::{Micros, TcpConnect, TcpConnectRows};

use super::View;
use super::destination::{Destination, DestinationOwners};
use super::netns::NetnsRows;
use super::sock_diag::ConnectAttempt;

/// Unanswered attempts from which on the process is looked up.
const OWNER_FROM: i64 = 3;
/// Destinations counted in one sample.
const PEER_LIMIT: usize = 10_000;
/// Rows per namespace and sample.
const ROW_LIMIT: usize = 50;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AttemptSums {
    attempts: i64,
    unanswered: i64,
    silent: i64,
    /// The socket with the most retransmits, and how many.
    oldest: (u8, u32),
}

#[derive(Debug, Default)]
pub(super) struct ConnectAttempts {
    sums: HashMap<Destination, AttemptSums>,
    owners: DestinationOwners,
}

impl ConnectAttempts {
    pub(super) fn add(&mut self, netns: &Arc<str>, attempt: &ConnectAttempt) {
        let key = Destination { netns: netns.clone(), address: attempt.peer, port: attempt.port };
        if self.sums.len() >= PEER_LIMIT && !self.sums.contains_key(&key) {
            return;
        }
        let sums = self.sums.entry(key).or_default();
        sums.attempts += 1;
        sums.unanswered += i64::from(attempt.retransmits >= 1);
        sums.silent += i64::from(attempt.retransmits >= 2);
        sums.oldest = sums.oldest.max((attempt.retransmits, attempt.inode));
    }

    /// Appends the rows of what was added since the last call.
    pub(super) fn flush(&mut self, view: &View, now: Micros, rows: &mut TcpConnectRows) {
        let mut found: Vec<_> = self.sums.drain().filter(|(_, sums)| sums.unanswered > 0).collect();
        found.sort_unstable_by_key(|(_, sums)| std::cmp::Reverse((sums.unanswered, sums.attempts)));
        let wanted = found.iter().filter(|(_, sums)| sums.unanswered >= OWNER_FROM);
        self.owners.search(view, wanted.map(|(to, sums)| (to, sums.oldest.1)), now);
        let mut rows_of = NetnsRows::default();
        for (to, sums) in &found {
            if !rows_of.admit(&to.netns, ROW_LIMIT) {
                continue;
            }
            let owner = self.owners.get(to);
            rows.push(&TcpConnect {
                ts: now,
                host: &view.host,
                netns: &to.netns,
                peer_address: &to.address.to_string(),
                peer_port: i64::from(to.port),
                attempts: sums.attempts,
                unanswered: sums.unanswered,
                silent: sums.silent,
                process_id: owner.map(|owner| i64::from(owner.process_id)),
                process_name: owner.map(|owner| owner.name.as_str()),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use weir_tables::Rows;

    use super::super::HostOptions;
    use super::*;

    #[test]
    fn attempts_are_summed_by_destination_and_answered_ones_left_out() {
        let mut attempts = ConnectAttempts::default();
        let netns: Arc<str> = "host".into();
        let add = |attempts: &mut ConnectAttempts, last, retransmits| {
            let peer = IpAddr::from([10, 0, 0, last]);
            let attempt = ConnectAttempt { peer, port: 5432, retransmits, inode: 0 };
            attempts.add(&netns, &attempt);
        };
        for (last, retransmits) in [(1, 0), (1, 1), (1, 2), (2, 0), (3, 4)] {
            add(&mut attempts, last, retransmits);
        }
        let (view, mut rows) = (View::new(HostOptions::default()), TcpConnectRows::default());
        attempts.flush(&view, Micros(1), &mut rows);
        let batch = rows.finish();
        let column = |name: &str| {
            let column = batch.column_by_name(name).expect("a column of the table").clone();
            let numbers = column.as_any().downcast_ref::<arrow_array::Int64Array>().cloned();
            numbers.expect("numbers").values().to_vec()
        };
        assert_eq!(column("attempts"), [3, 1]);
        assert_eq!(column("unanswered"), [2, 1]);
        assert_eq!(column("silent"), [1, 1]);
        attempts.flush(&view, Micros(2), &mut rows);
        assert_eq!(rows.finish().num_rows(), 0);
    }
}
