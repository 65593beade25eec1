//! What a lane does next: pure, from its open notices, its thread and the time.
//!
//! Order is strict with one exception: a notice that is not due yet holds up nothing. A page must
//! not wait until morning behind a mail held in quiet hours.

use std::time::Duration;

use weir_actions::NoticeKind;

use super::record::{NoticeRecord, NoticeState, ThreadRecord};

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Wall clock, microseconds since 1970.
    pub(crate) now_us: i64,
    /// Monotonic clock.
    pub(crate) monotonic: Duration,
}

/// An open notice as of its version.
#[derive(Clone, Debug)]
pub(crate) struct OpenNotice {
    pub(crate) record: NoticeRecord,
    pub(crate) version: i64,
    /// When this process read or wrote this version first.
    pub(crate) seen: Moment,
    /// Whether its pause was cut short, since the receiver works again.
    pub(crate) is_hurried: bool,
}

/// Longest pauses that are kept after the wall clock was set back.
const LEASE_MAX_US: i64 = 30_000_000;
const PAUSE_MAX_US: i64 = 75_000_000;

impl OpenNotice {
    pub(crate) fn new(record: NoticeRecord, version: i64, seen: Moment) -> Self {
        Self { record, version, seen, is_hurried: false }
    }

    /// Earliest time of the next attempt, or of taking over an abandoned one.
    pub(crate) fn due_us(&self) -> i64 {
        if self.is_hurried {
            return i64::MIN;
        }
        let record = &self.record;
        let due_us = record.due_us().unwrap_or(i64::MAX);
        let latest = match record.state {
            NoticeState::Sending => self.seen.now_us.saturating_add(LEASE_MAX_US),
            _ if record.attempt > 0 && !record.is_pause_ordered => {
                self.seen.now_us.saturating_add(PAUSE_MAX_US)
            }
            _ => i64::MAX,
        };
        due_us.min(latest)
    }

    /// Whether it waits for its next attempt after a failure, and could go out at once.
    pub(crate) fn is_pausing(&self) -> bool {
        let record = &self.record;
        let is_free = !record.is_pause_ordered && record.lease_until_us.is_none();
        is_free && record.attempt > 0 && !self.is_hurried
    }

    /// Whether the receiver demanded a pause that is not over.
    pub(crate) fn is_pause_demanded(&self, now: Moment) -> bool {
        self.record.is_pause_ordered && !self.is_due(now)
    }

    /// Time until `at_us` by the clock that is there first, so that a clock set back delays
    /// nothing.
    fn remaining(&self, at_us: i64, now: Moment) -> Duration {
        let by_wall = span_us(at_us.saturating_sub(now.now_us));
        let passed = now.monotonic.saturating_sub(self.seen.monotonic);
        let by_monotonic = span_us(at_us.saturating_sub(self.seen.now_us)).saturating_sub(passed);
        by_wall.min(by_monotonic)
    }

    /// Whether it makes earlier pages pointless: a person works on the incident, or it is over.
    pub(crate) fn overtakes_pages(&self) -> bool {
        let notice = &self.record.notice;
        match notice.kind {
            NoticeKind::Ack => notice.incident.acked_by.is_some(),
            NoticeKind::Resolved => true,
            NoticeKind::Page | NoticeKind::Mail | NoticeKind::Test => false,
        }
    }

    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.remaining(self.due_us(), now).is_zero()
    }

    /// Whether an attempt of some process may still be running.
    pub(crate) fn is_leased(&self, now: Moment) -> bool {
        self.record.state == NoticeState::Sending && !self.is_due(now)
    }

    /// Whether both clocks agree that it is too late.
    fn is_expired(&self, now: Moment) -> bool {
        let expires_us = self.record.notice.expires_us;
        let passed = now.monotonic.saturating_sub(self.seen.monotonic);
        now.now_us >= expires_us && passed >= span_us(expires_us.saturating_sub(self.seen.now_us))
    }

    /// Time until something about this notice changes by itself.
    pub(crate) fn pause(&self, now: Moment) -> Option<Duration> {
        let due = self.remaining(self.due_us(), now);
        let expiry = span_us(self.record.notice.expires_us.saturating_sub(now.now_us));
        [due, expiry].into_iter().filter(|pause| !pause.is_zero()).min()
    }
}

/// Microseconds as a duration; zero for the past.
pub(crate) fn span_us(micros: i64) -> Duration {
    Duration::from_micros(micros.max(0).cast_unsigned())
}

/// The next step of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LaneStep {
    /// Nothing now.
    Wait,
    /// Send the notice with this id.
    Send(String),
    /// End the notice with this id in this state, unsent, for this reason.
    Finish(String, NoticeState, &'static str),
}

impl LaneStep {
    fn finish(notice: &OpenNotice, state: NoticeState, reason: &'static str) -> Self {
        Self::Finish(notice.record.notice.id.clone(), state, reason)
    }
}

/// Decides the next step; `notices` are the lane's open ones by order.
pub(crate) fn next_step(notices: &[&OpenNotice], thread: &ThreadRecord, now: Moment) -> LaneStep {
    if notices.iter().any(|notice| notice.is_leased(now)) {
        return LaneStep::Wait;
    }
    if let Some(expired) = notices.iter().find(|notice| notice.is_expired(now)) {
        return LaneStep::finish(expired, NoticeState::Failed, "expired before it was accepted");
    }
    if let Some(notice) = before_the_end(notices, now) {
        return LaneStep::finish(notice, NoticeState::Superseded, "the incident is over");
    }
    if let Some(page) = before_the_ack(notices, now) {
        let reason = "the incident was acknowledged before it could be sent";
        return LaneStep::finish(page, NoticeState::Superseded, reason);
    }
    if let Some(notice) = before_a_page(notices, now) {
        return LaneStep::finish(notice, NoticeState::Superseded, "a page of the incident follows");
    }
    first_to_go(notices, thread, now)
}

/// The first page that an acknowledgement overtakes: who works on the incident knows of it, and if
/// the acknowledgement expires, the incident pages again.
fn before_the_ack<'a>(notices: &[&'a OpenNotice], now: Moment) -> Option<&'a OpenNotice> {
    let ack = notices.iter().rposition(|notice| {
        notice.overtakes_pages() && (notice.record.attempt > 0 || notice.is_due(now))
    });
    let earlier = &notices[..ack.unwrap_or(0)];
    earlier.iter().find(|notice| notice.record.notice.kind == NoticeKind::Page).copied()
}

/// The first mail or acknowledgement that would hold up a page until its next attempt. The page
/// reports all that it does.
fn before_a_page<'a>(notices: &[&'a OpenNotice], now: Moment) -> Option<&'a OpenNotice> {
    let page = notices
        .iter()
        .rposition(|notice| notice.record.notice.kind == NoticeKind::Page && notice.is_due(now));
    let earlier = &notices[..page.unwrap_or(0)];
    let is_less = |kind| matches!(kind, NoticeKind::Mail | NoticeKind::Ack);
    let mut waiting = earlier.iter().filter(|notice| notice.record.attempt > 0);
    waiting.find(|notice| is_less(notice.record.notice.kind)).copied()
}

/// The first notice that the end of the incident overtakes.
fn before_the_end<'a>(notices: &[&'a OpenNotice], now: Moment) -> Option<&'a OpenNotice> {
    let end = notices.iter().rposition(|notice| {
        notice.record.notice.kind == NoticeKind::Resolved
            && (notice.record.attempt > 0 || notice.is_due(now))
    });
    let earlier = &notices[..end.unwrap_or(0)];
    earlier.iter().find(|notice| notice.record.notice.kind != NoticeKind::Test).copied()
}

fn first_to_go(notices: &[&OpenNotice], thread: &ThreadRecord, now: Moment) -> LaneStep {
    let is_reached =
        thread.is_reached || notices.iter().any(|notice| notice.record.may_have_arrived());
    let mut is_first = true;
    for notice in notices {
        let OpenNotice { record: NoticeRecord { notice: content, attempt, .. }, .. } = notice;
        if thread.is_past(content) {
            let reason = "a later message of the incident was sent";
            return LaneStep::finish(notice, NoticeState::Superseded, reason);
        }
        // The end of something that this address was never sent is no news.
        let is_pointless =
            matches!(content.kind, NoticeKind::Ack | NoticeKind::Resolved) && !is_reached;
        if is_pointless && is_first {
            let reason = "nothing about the incident was sent here";
            return LaneStep::finish(notice, NoticeState::Superseded, reason);
        }
        if !is_pointless && notice.is_due(now) {
            return LaneStep::Send(content.id.clone());
        }
        if *attempt > 0 {
            return LaneStep::Wait;
        }
        is_first &= content.kind == NoticeKind::Test;
    }
    LaneStep::Wait
}
