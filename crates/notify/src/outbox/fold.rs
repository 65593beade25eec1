//! Mails of several incidents that are due at one address at one time: they go out as one digest.
//!
//! The desk gives mails that wait for the end of quiet hours, or for the next hour of a full mailbox,
//! the same time. The digest and the end of what it replaces are one transaction, so a crash in
//! between loses and repeats nothing. A receiver's pages go first, and a digest that cannot be
//! written holds up nothing: its mails go one by one.

use std::collections::BTreeMap;

use weir_actions::{Notice, NoticeKind, Urgency, digest};
use weir_ledger::{Change, LedgerError};

use super::board::{Board, Lane};
use super::journal::LedgerWork;
use super::lane::{LaneStep, Moment, OpenNotice};
use super::record::{LaneKey, NOTICE_KIND, NoticeRecord, NoticeState};

/// Incidents at one address that become a digest.
const INCIDENTS_MIN: usize = 5;
/// Incidents of one digest, so that its transaction is short.
const INCIDENTS_MAX: usize = 200;
const REASON: &str = "sent in a digest";

impl Board {
    /// Lanes of a receiver whose mails may become a digest, by address.
    fn foldable(&self, receiver: &str, now: Moment) -> Vec<Vec<LaneKey>> {
        let mut groups: BTreeMap<Option<&str>, Vec<LaneKey>> = BTreeMap::new();
        for (key, _) in self.lanes_of(receiver).filter(|(_, lane)| is_foldable(lane, now)) {
            groups.entry(key.address.as_deref()).or_default().push(key.clone());
        }
        groups.into_values().filter(|keys| keys.len() >= INCIDENTS_MIN).collect()
    }
}

/// Whether a lane would send a mail now, here only, and has nothing urgent.
fn is_foldable(lane: &Lane, now: Moment) -> bool {
    let is_here = lane.thread.as_ref().is_some_and(|thread| thread.moved_to.is_empty());
    is_here && lane.notices().all(is_calm) && matches!(lane.next_step(now), LaneStep::Send(_))
}

/// Whether it is a mail that did not arrive: one that may have is marked as a repeat.
fn is_calm(open: &OpenNotice) -> bool {
    let NoticeRecord { notice, state, .. } = &open.record;
    let is_mail = matches!(notice.kind, NoticeKind::Mail | NoticeKind::Ack | NoticeKind::Resolved);
    let is_queued = *state == NoticeState::Queued;
    is_mail && is_queued && notice.incident.class < Urgency::Page && !notice.is_letter()
}

/// What a digest replaces, and the documents that say so.
#[derive(Default)]
struct FoldPlan {
    records: Vec<NoticeRecord>,
    changes: Vec<Change>,
    incidents: usize,
}

impl LedgerWork<'_> {
    /// Replaces the mails that are due at one address of a receiver by a digest. Whether one was
    /// written.
    pub(super) fn fold(&mut self, receiver: &str) -> bool {
        let takes_digests =
            |name| self.receivers.get(name).is_some_and(|receiver| receiver.takes_digests());
        if !takes_digests(receiver) {
            return false;
        }
        let groups = self.board.foldable(receiver, self.now);
        // What keeps the ledger from writing is reported by the next mail.
        groups.into_iter().any(|keys| self.fold_lanes(&keys).unwrap_or(false))
    }

    fn fold_lanes(&mut self, keys: &[LaneKey]) -> Result<bool, LedgerError> {
        let plan = self.fold_plan(keys)?;
        if plan.incidents < INCIDENTS_MIN {
            return Ok(false);
        }
        self.fold_by(plan)
    }

    /// The part of these lanes that a digest replaces, by what the ledger has of their threads now.
    fn fold_plan(&mut self, keys: &[LaneKey]) -> Result<FoldPlan, LedgerError> {
        let mut plan = FoldPlan::default();
        for key in keys.iter().take(INCIDENTS_MAX) {
            let (mut thread, version) = self.load_thread(key)?;
            let lane = self.board.lane(key).filter(|lane| is_foldable(lane, self.now));
            let Some(lane) = lane else { continue };
            for open in lane.notices().filter(|open| open.is_due(self.now)) {
                let mut record = open.record.clone();
                record.answer = Some(REASON.to_owned());
                record.enter(NoticeState::Superseded, self.now.now_us);
                thread.note_folded(&record.notice);
                plan.changes.push(record.change(open.version));
                plan.records.push(record);
            }
            plan.changes.push(thread.change(key.document_key(), version, self.now.now_us));
            plan.incidents += 1;
        }
        Ok(plan)
    }

    /// Writes a digest. When another hub was first, nothing is written, and the ledger is read again.
    fn fold_by(&mut self, plan: FoldPlan) -> Result<bool, LedgerError> {
        let FoldPlan { records, mut changes, .. } = plan;
        let notices: Vec<&Notice> = records.iter().map(|record| &record.notice).collect();
        let Some(digest) = digest(self.now.now_us, &notices) else { return Ok(false) };
        let digest = NoticeRecord::new(digest);
        if self.ledger.get(NOTICE_KIND, &digest.notice.id)?.is_none() {
            changes.push(digest.change(0));
        }
        self.must_read = true;
        match self.ledger.apply(&changes) {
            Ok(()) => {}
            Err(LedgerError::Conflict { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        for record in &records {
            self.board.remove(&record.notice.id);
            self.report(record, NoticeState::Superseded, None);
        }
        self.report(&digest, NoticeState::Queued, None);
        Ok(true)
    }
}
