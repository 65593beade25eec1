//! What came, by sender and outcome, until it becomes rows of `intake_run`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use weir_tables::{Batch, IntakeRun, IntakeRunRows, Micros, Rows};

/// Combinations of protocol, peer, outcome and reason that are counted apart between two reports.
const MAX_KEYS: usize = 4096;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Kept,
    Known,
    Rejected,
    Refused,
    Lost,
}

impl Outcome {
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

/// Who sent, and by which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Origin {
    /// The protocol, as the column `protocol` has it.
    pub(crate) protocol: &'static str,
    /// The sender's address; `None` stands for the kernel.
    pub(crate) peer: Option<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    protocol: &'static str,
    peer: String,
    outcome: Outcome,
    reason: Option<String>,
}

/// How much of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Amount {
    pub(crate) batches: usize,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// The counts since the last report.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<HashMap<Key, Amount>>);

impl Counts {
    pub(crate) fn add(
        &self,
        origin: Origin,
        outcome: Outcome,
        reason: Option<&str>,
        amount: Amount,
    ) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Key {
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

    /// The counts as rows; they start again from nothing.
    pub(crate) fn report(&self, host: &str, now: Micros) -> Option<Batch> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut all: Vec<(Key, Amount)> = all.into_iter().collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let mut rows = IntakeRunRows::default();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (key, amount) in &all {
            rows.push(&IntakeRun {
                ts: now,
                host,
                protocol: key.protocol,
                peer: &key.peer,
                outcome: key.outcome.as_str(),
                reason: key.reason.as_deref(),
                batches: number(amount.batches),
                rows: number(amount.rows),
                bytes: number(amount.bytes),
            });
        }
        (!rows.is_empty()).then(|| Batch { table: IntakeRunRows::SPEC, rows: rows.finish() })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn senders_are_bounded_and_counts_start_again() {
        let counts = Counts::default();
        let amount = Amount { batches: 1, rows: 2, bytes: 3 };
        for number in 0..u32::try_from(MAX_KEYS).expect("small") + 100 {
            let peer = Some(IpAddr::from(Ipv4Addr::from(number)));
            counts.add(Origin { protocol: "jsonl", peer }, Outcome::Kept, None, amount);
        }
        let batch = counts.report("hub", Micros(1)).expect("there is something");
        assert_eq!(batch.rows.num_rows(), MAX_KEYS + 1);
        assert!(counts.report("hub", Micros(2)).is_none());
    }
}
