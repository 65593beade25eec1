//! The result of one attempt, and the record that follows from it: pure.
//!
//! A page does not wait for an unreachable receiver: within a minute it fails over to the person's
//! next contact. The last contact is retried until the notice expires, as is every other kind.

use std::time::Duration;

use weir_actions::NoticeKind;

use super::record::{NoticeRecord, NoticeState};
use crate::http_client::shortened;
use crate::receiver::{Accepted, RetryAdvice, SendError};

/// A page that could not be tried again within this time after its first attempt goes to the next
/// contact.
const PAGE_PATIENCE_US: i64 = 60_000_000;

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
                try_later(&mut record, pause, now_us);
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
        RetryAdvice::After(ordered) if after(now_us, ordered) >= record.notice.expires_us => {
            record.enter(NoticeState::Failed, now_us);
        }
        RetryAdvice::After(ordered) => {
            record.is_pause_ordered = true;
            // Do not flood a receiver that keeps sending `Retry-After: 0`.
            try_later(record, ordered.max(pause), now_us);
        }
        RetryAdvice::Backoff => try_later(record, pause, now_us),
        RetryAdvice::Unclear => {
            record.is_repeat = true;
            try_later(record, pause, now_us);
        }
    }
}

/// The next attempt after a pause, or the end at this contact if a page would wait too long.
fn try_later(record: &mut NoticeRecord, pause: Duration, now_us: i64) {
    let has_other = record.notice.kind == NoticeKind::Page && !record.notice.fallbacks.is_empty();
    let first = record.history.iter().find(|step| step.state == NoticeState::Sending);
    let first_us = first.map_or(now_us, |step| step.ts_us);
    if has_other && after(now_us, pause) > first_us.saturating_add(PAGE_PATIENCE_US) {
        return record.enter(NoticeState::Failed, now_us);
    }
    wait(record, pause, now_us);
}

fn wait(record: &mut NoticeRecord, pause: Duration, now_us: i64) {
    record.next_try_us = after(now_us, pause).min(record.notice.expires_us);
    let state = if record.is_repeat { NoticeState::Uncertain } else { NoticeState::Queued };
    record.enter(state, now_us);
}

fn after(now_us: i64, pause: Duration) -> i64 {
    now_us.saturating_add(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX))
}
