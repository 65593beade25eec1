//! What the outbox does in the ledger: each function is a few reads and one transaction.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use weir_actions::{Notice, NoticeKind};
use weir_ledger::{Change, LedgerBackend, LedgerError};

use super::attempt::AttemptResult;
use super::board::{Board, Lane};
use super::lane::{LaneStep, Moment};
use super::record::{
    LaneKey, NOTICE_KIND, NoticeRecord, NoticeState, THREAD_KIND, ThreadRecord, derived,
    insert_changes,
};
use super::status::{DeliveryNote, NoticeChange};
use crate::links;
use crate::receiver::{ActLink, Receiver};

/// Length of a lease: longer than the wait before a send and the send together.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// Open notices in memory; those due later wait in the ledger.
const OPEN_MAX: usize = 50_000;
/// Old documents of a kind that are deleted at once.
const OLD_MAX: usize = 100;
/// A notice whose receiver is not configured here is refused after this time: another hub may
/// have the newer configuration.
const UNKNOWN_GRACE_US: i64 = 60_000_000;
/// Steps of one call, so that others get the ledger in between.
const STEPS_MAX: usize = 64;
/// Conflicts with other hubs in one call.
const CONFLICTS_MAX: usize = 8;

/// An attempt that this process may make.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) record: NoticeRecord,
    pub(crate) version: i64,
    /// The receiver's name for the first message of the incident.
    pub(crate) thread: Option<String>,
    /// Before the claim was committed.
    pub(crate) since: Moment,
    /// Whether the message is marked as a repeat.
    pub(crate) is_marked: bool,
    /// Where the person acts on the incident; its grant is in the ledger.
    pub(crate) act_link: Option<ActLink>,
}

/// What a receiver's task does next.
#[derive(Debug)]
pub(crate) enum Advance {
    /// Make this attempt.
    Claimed(Box<Claim>),
    /// Call again.
    Again,
    /// Wait for this long, or for a change.
    Wait(Option<Duration>),
}

/// The ledger and the board, both locked, at one moment.
pub(crate) struct LedgerWork<'a> {
    pub(crate) ledger: &'a mut dyn LedgerBackend,
    pub(crate) board: &'a mut Board,
    pub(crate) now: Moment,
    /// Name of this instance.
    pub(crate) owner: &'a str,
    pub(crate) receivers: &'a BTreeMap<String, Arc<dyn Receiver>>,
    /// Address of the page; empty when not known.
    pub(crate) page_url: &'a str,
    pub(crate) reports: Vec<NoticeChange>,
    /// Whether the receivers' tasks may have something to do.
    pub(crate) must_wake: bool,
    /// Whether the ledger has new notices, which enter the board by a reading of all.
    pub(crate) must_read: bool,
}

impl LedgerWork<'_> {
    /// Inserts those of the notices that are not there yet, in one transaction with the documents;
    /// returns their number.
    pub(crate) fn commit(
        &mut self,
        documents: &[Change],
        notices: &[Notice],
    ) -> Result<usize, LedgerError> {
        let mut ids = HashSet::new();
        let mut missing: Vec<Notice> =
            notices.iter().filter(|notice| ids.insert(&notice.id)).cloned().collect();
        loop {
            let changes = [documents, &insert_changes(&missing)].concat();
            let conflict = match self.ledger.apply(&changes) {
                Ok(()) => break,
                Err(error) => error,
            };
            let count = missing.len();
            if matches!(&conflict, LedgerError::Conflict { kind, .. } if kind == NOTICE_KIND) {
                missing = self.not_in_ledger(missing)?;
            }
            if missing.len() == count {
                return Err(conflict);
            }
        }
        let count = missing.len();
        for notice in missing {
            let record = NoticeRecord::new(notice);
            self.report(&record, NoticeState::Queued, None);
        }
        Ok(count)
    }

    fn not_in_ledger(&mut self, notices: Vec<Notice>) -> Result<Vec<Notice>, LedgerError> {
        let mut missing = Vec::new();
        for notice in notices {
            if self.ledger.get(NOTICE_KIND, &notice.id)?.is_none() {
                missing.push(notice);
            }
        }
        Ok(missing)
    }

    /// Reads all open notices; returns the number of documents that this weir cannot read.
    pub(crate) fn refresh(&mut self) -> Result<usize, LedgerError> {
        let documents = self.ledger.due(NOTICE_KIND, i64::MAX, OPEN_MAX)?;
        let (is_changed, unreadable) = self.board.replace(&documents, self.now);
        self.must_wake |= is_changed;
        for key in self.board.unread_lanes() {
            self.load_thread(&key)?;
        }
        self.delete_old(THREAD_KIND)?;
        self.delete_old(links::LINK_KIND)?;
        self.delete_old(links::DEVICE_KIND)?;
        self.refuse_unknown_receivers()?;
        Ok(unreadable)
    }

    pub(crate) fn load_thread(
        &mut self,
        key: &LaneKey,
    ) -> Result<(ThreadRecord, i64), LedgerError> {
        let document = self.ledger.get(THREAD_KIND, &key.document_key())?;
        let thread = document.as_ref().map(ThreadRecord::parse).unwrap_or_default();
        let version = document.map_or(0, |document| document.version);
        if let Some(lane) = self.board.lane_mut(key) {
            lane.thread = Some(thread.clone());
        }
        Ok((thread, version))
    }

    /// Deletes documents of a kind that are due when they are of no use any more.
    fn delete_old(&mut self, kind: &str) -> Result<(), LedgerError> {
        for document in self.ledger.due(kind, self.now.now_us, OLD_MAX)? {
            let (kind, key, expected) = (document.kind, document.key, document.version);
            match self.ledger.apply(&[Change { kind, key, expected, body: None }]) {
                Ok(()) | Err(LedgerError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn refuse_unknown_receivers(&mut self) -> Result<(), LedgerError> {
        let (names, receivers) = (self.board.receivers(), self.receivers);
        for name in names.iter().filter(|name| !receivers.contains_key(*name)) {
            for (key, _) in self.board.steps(name, true, self.now) {
                match self.checked_step(&key)? {
                    LaneStep::Wait => {}
                    LaneStep::Finish(id, state, reason) => self.finish(&id, state, reason)?,
                    LaneStep::Send(id) => {
                        let due_us = self.board.notice(&id).map_or(i64::MAX, |it| it.due_us());
                        if self.now.now_us.saturating_sub(due_us) >= UNKNOWN_GRACE_US {
                            let reason = format!("receiver `{name}` is not configured");
                            self.finish(&id, NoticeState::Failed, &reason)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes one receiver's notices forward.
    pub(crate) fn advance(&mut self, name: &str, may_send: bool) -> Result<Advance, LedgerError> {
        for _ in 0..STEPS_MAX {
            let Some((key, _)) = self.board.steps(name, may_send, self.now).into_iter().next()
            else {
                return Ok(Advance::Wait(self.board.pause(name, self.now)));
            };
            // Pages are first in the list: they never wait for a digest.
            let has_page = self.board.lane(&key).is_some_and(Lane::has_page);
            if may_send && !has_page && self.fold(name) {
                return Ok(Advance::Again);
            }
            match self.checked_step(&key)? {
                LaneStep::Send(id) if may_send => {
                    if let Some(claim) = self.claim(&id)? {
                        return Ok(Advance::Claimed(Box::new(claim)));
                    }
                }
                LaneStep::Finish(id, state, reason) => self.finish(&id, state, reason)?,
                LaneStep::Send(_) | LaneStep::Wait => {}
            }
        }
        Ok(Advance::Again)
    }

    /// The lane's step by what the ledger has of its thread now.
    fn checked_step(&mut self, key: &LaneKey) -> Result<LaneStep, LedgerError> {
        self.load_thread(key)?;
        Ok(self.board.lane(key).map_or(LaneStep::Wait, |lane| lane.next_step(self.now)))
    }

    /// Commits `sending`; `None` when another hub was first.
    fn claim(&mut self, id: &str) -> Result<Option<Claim>, LedgerError> {
        let Some(open) = self.board.notice(id) else { return Ok(None) };
        let (mut record, version) = (open.record.clone(), open.version);
        let is_abandoned = record.state == NoticeState::Sending;
        if is_abandoned {
            record.is_repeat = true;
            record.enter(NoticeState::Uncertain, self.now.now_us);
        }
        record.attempt += 1;
        record.owner = Some(self.owner.to_owned());
        let lease_us = i64::try_from(LEASE.as_micros()).unwrap_or(i64::MAX);
        record.lease_until_us = Some(self.now.now_us.saturating_add(lease_us));
        record.enter(NoticeState::Sending, self.now.now_us);
        let (act_link, grant) =
            links::grant(&record.notice, self.page_url, self.now.now_us).unzip();
        if !self.replace(&record, version, grant)? {
            return Ok(None);
        }
        self.board.enter(record.clone(), version + 1, self.now);
        if is_abandoned {
            self.report(&record, NoticeState::Uncertain, None);
        }
        self.report(&record, NoticeState::Sending, None);
        // Letters are about no incident: one that answers the first letter of all is overlooked.
        let lane = self.board.lane(&LaneKey::of(&record.notice));
        let lane = lane.filter(|_| !record.notice.is_letter());
        let thread = lane.and_then(|lane| lane.thread.as_ref());
        Ok(Some(Claim {
            thread: thread.and_then(|thread| thread.external_id.clone()),
            version: version + 1,
            since: self.now,
            is_marked: self.is_marked(&record),
            act_link,
            record,
        }))
    }

    /// Writes the record over its version, with the grant of its link; false when another hub was
    /// first.
    fn replace(
        &mut self,
        record: &NoticeRecord,
        version: i64,
        grant: Option<Change>,
    ) -> Result<bool, LedgerError> {
        let changes: Vec<Change> = grant.into_iter().chain([record.change(version)]).collect();
        match self.ledger.apply(&changes) {
            Ok(()) => Ok(true),
            Err(LedgerError::Conflict { .. }) => self.reload(&record.notice.id).map(|()| false),
            Err(error) => Err(error),
        }
    }

    fn reload(&mut self, id: &str) -> Result<(), LedgerError> {
        let document = self.ledger.get(NOTICE_KIND, id)?;
        let version = document.as_ref().map_or(0, |document| document.version);
        match document.as_ref().and_then(NoticeRecord::parse) {
            Some(record) => self.board.enter(record, version, self.now),
            None => self.board.remove(id),
        }
        Ok(())
    }

    /// Ends an open notice without a message.
    fn finish(&mut self, id: &str, state: NoticeState, reason: &str) -> Result<(), LedgerError> {
        let Some(open) = self.board.notice(id) else { return Ok(()) };
        let (mut record, version) = (open.record.clone(), open.version);
        record.is_repeat = record.may_have_arrived();
        record.lease_until_us = None;
        record.answer = Some(reason.to_owned());
        record.enter(state, self.now.now_us);
        let is_expired = self.now.now_us >= record.notice.expires_us;
        let falls_back = state == NoticeState::Failed && !is_expired;
        self.write(&record, version, falls_back, None).map(drop)
    }

    /// Ends a notice that a silence covers; false when it is not waiting any more.
    pub(crate) fn silence(&mut self, id: &str, reason: &str) -> Result<bool, LedgerError> {
        self.refresh()?;
        let waiting = [NoticeState::Queued, NoticeState::Uncertain];
        let is_waiting =
            self.board.notice(id).is_some_and(|open| waiting.contains(&open.record.state));
        if is_waiting {
            self.finish(id, NoticeState::Silenced, reason)?;
        }
        Ok(is_waiting && self.board.notice(id).is_none())
    }

    /// Writes the result of an attempt; nothing when another hub took the notice over.
    pub(crate) fn conclude(
        &mut self,
        claim: &Claim,
        result: &AttemptResult,
        pause: Duration,
    ) -> Result<(), LedgerError> {
        let record = result.applied_to(&claim.record, pause, self.now.now_us);
        let latency = self.now.monotonic.saturating_sub(claim.since.monotonic);
        let falls_back = record.state == NoticeState::Failed;
        let latency_seconds = (!result.is_unsent()).then_some(latency.as_secs_f64());
        if !self.write(&record, claim.version, falls_back, latency_seconds)? {
            return Ok(());
        }
        let text = record.answer.unwrap_or_default();
        let note = DeliveryNote { ts_us: self.now.now_us, text };
        let receiver = &record.notice.receiver;
        match result {
            AttemptResult::Accepted(_) => self.board.note_success(receiver, note),
            AttemptResult::Unsent => {}
            AttemptResult::Refused(_) | AttemptResult::TimedOut => {
                self.board.note_failure(receiver, note);
            }
        }
        Ok(())
    }

    /// Writes a record with all that follows from its end, in one transaction; false when another
    /// hub was first.
    fn write(
        &mut self,
        record: &NoticeRecord,
        version: i64,
        falls_back: bool,
        latency_seconds: Option<f64>,
    ) -> Result<bool, LedgerError> {
        let id = &record.notice.id;
        for _ in 0..CONFLICTS_MAX {
            let (mut changes, follow_ups) = self.consequences(record, falls_back)?;
            changes.push(record.change(version));
            match self.ledger.apply(&changes) {
                Ok(()) => {
                    self.board.enter(record.clone(), version + 1, self.now);
                    self.report(record, record.state, latency_seconds);
                    self.must_read |= !follow_ups.is_empty();
                    for follow_up in follow_ups {
                        self.report(&follow_up, NoticeState::Queued, None);
                    }
                    return Ok(true);
                }
                Err(LedgerError::Conflict { kind, key }) if kind == NOTICE_KIND && key == *id => {
                    self.reload(id)?;
                    return Ok(false);
                }
                Err(LedgerError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(LedgerError::Unusable(format!("cannot write notice `{id}`: its thread keeps changing")))
    }

    /// Changes that a finished notice brings: its thread, and notices for those that take over.
    fn consequences(
        &mut self,
        record: &NoticeRecord,
        falls_back: bool,
    ) -> Result<(Vec<Change>, Vec<NoticeRecord>), LedgerError> {
        let notice = &record.notice;
        if !record.state.is_final() {
            return Ok((Vec::new(), Vec::new()));
        }
        let key = LaneKey::of(notice);
        let (before, version) = self.load_thread(&key)?;
        let mut thread = before.clone();
        let mut targets = Vec::new();
        let lane = self.board.lane(&key);
        let is_needed = notice.kind != NoticeKind::Page
            || lane.is_none_or(|lane| !lane.is_overtaken(notice, self.now));
        let fallback = notice.fallbacks.first().filter(|_| falls_back && is_needed);
        if let Some(target) = fallback {
            targets.push(target.clone());
            if !thread.moved_to.contains(target) {
                thread.moved_to.push(target.clone());
            }
        } else if matches!(notice.kind, NoticeKind::Ack | NoticeKind::Resolved)
            && record.state != NoticeState::Silenced
        {
            // Where a page went elsewhere, its end goes there too.
            targets.clone_from(&thread.moved_to);
        }
        if record.state == NoticeState::Sent {
            thread.note_sent(record);
        }
        thread.is_reached |= record.is_repeat;
        let mut changes = Vec::new();
        if thread != before && notice.kind != NoticeKind::Test {
            changes.push(thread.change(key.document_key(), version, self.now.now_us));
        }
        let mut follow_ups = Vec::new();
        for target in &targets {
            let follow_up = derived(notice, target, self.now.now_us);
            if self.ledger.get(NOTICE_KIND, &follow_up.notice.id)?.is_none() {
                changes.push(follow_up.change(0));
                follow_ups.push(follow_up);
            }
        }
        Ok((changes, follow_ups))
    }

    fn is_marked(&self, record: &NoticeRecord) -> bool {
        let receiver = self.receivers.get(&record.notice.receiver);
        record.is_repeat && receiver.is_some_and(|receiver| !receiver.is_idempotent())
    }

    pub(crate) fn report(
        &mut self,
        record: &NoticeRecord,
        state: NoticeState,
        latency_seconds: Option<f64>,
    ) {
        let is_repeat = self.is_marked(record);
        self.reports.push(NoticeChange {
            notice: record.notice.clone(),
            state,
            attempt: record.attempt,
            is_repeat,
            answer: record.answer.clone(),
            latency_seconds,
            ts_us: self.now.now_us,
        });
    }
}
