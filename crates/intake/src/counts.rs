//! Counts of batches, rows and bytes by sender and outcome, until they become rows of `intake_run`.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::Mutex;
use weir_tables::{Batch, IntakeRun, IntakeRunRows, Micros, Rows};

/// Distinct combinations of protocol, peer, outcome and reason between two reports.
const MAX_KEYS: usize = 4096;

/// Outcome of a batch or of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum IntakeOutcome {
    Kept,
    Known,
    Rejected,
    Refused,
    Lost,
}

impl IntakeOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Known => "known",
            Self::Rejected => "rejected",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }
}

/// Sender and protocol of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BatchOrigin {
    /// The value of the column `protocol`.
    pub(crate) protocol: &'static str,
    /// The sender's address; `None` for the kernel.
    pub(crate) peer: Option<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct CountKey {
    protocol: &'static str,
    peer: String,
    outcome: IntakeOutcome,
    reason: Option<String>,
}

/// Counted batches, rows and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchAmount {
    pub(crate) batches: usize,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// The counts since the last report.
#[derive(Debug, Default)]
pub(crate) struct IntakeCounts(Mutex<HashMap<CountKey, BatchAmount>>);

impl IntakeCounts {
    pub(crate) fn add(
        &self,
        origin: BatchOrigin,
        outcome: IntakeOutcome,
        reason: Option<&str>,
        amount: BatchAmount,
    ) {
        let mut all = self.0.lock();
        let mut key = CountKey {
            protocol: origin.protocol,
            peer: origin.peer.map_or_else(|| "kernel".into(), |peer| peer.to_string()),
            outcome,
            reason: reason.map(str::to_owned),
        };
        if all.len() >= MAX_KEYS && !all.contains_key(&key) {
            key.peer = "other".into();
        }
        let sum = all.entry(key).or_default();
        sum.batches += amount.batches;
        sum.rows += amount.rows;
        sum.bytes += amount.bytes;
    }

    /// The counts as rows; resets them.
    pub(crate) fn report(&self, host: &str, now: Micros) -> Option<Batch> {
        let all = std::mem::take(&mut *self.0.lock());
        let mut all: Vec<(CountKey, BatchAmount)> = all.into_iter().collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let mut rows = IntakeRunRows::default();

        for (key, amount) in &all {
            rows.push(&IntakeRun {
                ts: now,
                host,
                protocol: key.protocol,
                peer: &key.peer,
                outcome: key.outcome.as_str(),
                reason: key.reason.as_deref(),
                batches: column_value(amount.batches),
                rows: column_value(amount.rows),
                bytes: column_value(amount.bytes),
            });
        }
        (!rows.is_empty()).then(|| Batch { table: IntakeRunRows::SPEC, rows: rows.finish() })
    }
}

fn column_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn senders_are_limited_and_counts_are_reset() {
        let counts = IntakeCounts::default();
        let amount = BatchAmount { batches: 1, rows: 2, bytes: 3 };
        for number in 0..u32::try_from(MAX_KEYS).expect("small") + 100 {
            let peer = Some(IpAddr::from(Ipv4Addr::from(number)));
            counts.add(BatchOrigin { protocol: "jsonl", peer }, IntakeOutcome::Kept, None, amount);
        }
        let batch = counts.report("hub", Micros(1)).expect("there is something");
        assert_eq!(batch.rows.num_rows(), MAX_KEYS + 1);
        assert!(counts.report("hub", Micros(2)).is_none());
    }
}
