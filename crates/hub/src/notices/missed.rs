//! Rows of notices that ended in the ledger while weir ended before it wrote their row.
//!
//! The ledger is first, so after a kill between the two the table `notice` shows a notice as
//! `sending` for ever. A start compares what is open in the table with the ledger.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_ledger::LedgerError;
use weir_notify::outbox::{NOTICE_KIND, NoticeChange, NoticeRecord};
use weir_rules::rows_of;
use weir_store::{Query, QueryLimits};

use super::{Notices, append, rows};

/// Notices that are open in the table; more are written as rows of their next change.
const OPEN: &str =
    "select notice_id from notice_now where state in ('queued', 'sending', 'uncertain') limit 1000";
const OPEN_MAX: usize = 1000;

impl Notices {
    /// Writes the missing rows.
    pub(super) async fn write_missed(&self) -> Result<(), LedgerError> {
        let limits = QueryLimits::of_rule(OPEN_MAX, Duration::from_secs(10));
        let answer = match self.store.query(Query::new(OPEN).limits(limits)).run().await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(
                    "cannot compare the table `notice` with the ledger: {}",
                    error.message
                );
                return Ok(());
            }
        };
        let found = rows_of(&answer.batches, OPEN_MAX);
        let open: BTreeSet<&str> = found.iter().filter_map(|row| row.text("notice_id")).collect();
        if open.is_empty() {
            return Ok(());
        }
        let documents = self.with_ledger(|ledger| ledger.all(NOTICE_KIND)).await?;
        let records = documents.iter().filter_map(NoticeRecord::parse);
        let ended = records
            .filter(|record| record.state.is_final() && open.contains(record.notice.id.as_str()));
        let missed: Vec<NoticeChange> = ended.map(change).collect();
        if !missed.is_empty() {
            append(&self.store, rows::notices(&missed, &self.host)).await;
        }
        Ok(())
    }
}

/// The last change of a notice, as the ledger has it.
fn change(record: NoticeRecord) -> NoticeChange {
    NoticeChange {
        state: record.state,
        attempt: record.attempt,
        is_repeat: record.is_repeat,
        answer: record.answer,
        latency_seconds: None,
        ts_us: record.history.last().map_or(record.next_try_us, |step| step.ts_us),
        notice: record.notice,
    }
}
