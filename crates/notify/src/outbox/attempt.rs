//! The result of one attempt, and the record that follows from it: pure.

use std::time::Duration;

use super::record::{NoticeRecord, NoticeState};
use crate::http_client::shortened;
use crate::receiver::{Accepted, RetryAdvice, SendError};

/// The result of one attempt.
#[derive(Debug)]
pub(crate) enum AttemptResult {
    Accepted(Accepted),
    Refused(SendError),
    /// No answer in time: the message may have arrived.
    TimedOut,
    /// Too much time passed after the claim; nothing left this process.
    Unsent,
}

impl AttemptResult {
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self, Self::Unsent)
    }

    /// The record after the attempt; `pause` is the usual one before the next.
    pub(crate) fn applied_to(
        &self,
        claimed: &NoticeRecord,
        pause: Duration,
        now_us: i64,
    ) -> NoticeRecord {
        let mut record = claimed.clone();
        record.lease_until_us = None;
        record.is_pause_ordered = false;
        match self {
            Self::Accepted(accepted) => {
                record.answer = Some(shortened(&accepted.answer));
                record.external_id.clone_from(&accepted.external_id);
                record.enter(NoticeState::Sent, now_us);
            }
            Self::Refused(error) => {
                record.answer = Some(shortened(&error.message));
                refuse(&mut record, error.retry, pause, now_us);
            }
            Self::TimedOut => {
                record.answer = Some("no answer within 10 s".to_owned());
                record.is_repeat = true;
                wait(&mut record, pause, now_us);
            }
            Self::Unsent => {
                record.attempt -= 1;
                wait(&mut record, Duration::ZERO, now_us);
            }
        }
        record
    }
}

fn refuse(record: &mut NoticeRecord, retry: RetryAdvice, pause: Duration, now_us: i64) {
    match retry {
        RetryAdvice::Never => record.enter(NoticeState::Failed, now_us),
        // A pause beyond the notice's life is a refusal.
        RetryAdvice::After(pause) if after(now_us, pause) >= record.notice.expires_us => {
            record.enter(NoticeState::Failed, now_us);
        }
        RetryAdvice::After(pause) => {
            record.is_pause_ordered = true;
            wait(record, pause, now_us);
        }
        RetryAdvice::Backoff => wait(record, pause, now_us),
        RetryAdvice::Unclear => {
            record.is_repeat = true;
            wait(record, pause, now_us);
        }
    }
}

fn wait(record: &mut NoticeRecord, pause: Duration, now_us: i64) {
    record.next_try_us = after(now_us, pause).min(record.notice.expires_us);
    let state = if record.is_repeat { NoticeState::Uncertain } else { NoticeState::Queued };
    record.enter(state, now_us);
}

fn after(now_us: i64, pause: Duration) -> i64 {
    now_us.saturating_add(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX))
}
