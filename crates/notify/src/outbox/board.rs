//! The open notices in memory, by lane: a copy of the ledger that this process decides by.
//!
//! The copy may be older than the ledger when another hub writes. Each write names the version that
//! it replaces, so an old copy costs a conflict and a reading, never a wrong message. But it must be
//! whole: notices enter by a reading of all open ones only. With a lane's end and without its page,
//! the end would be dropped as pointless.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use weir_actions::{Notice, NoticeKind};
use weir_ledger::Document;

use super::lane::{LaneStep, Moment, OpenNotice, next_step};
use super::pace::ProbeNeed;
use super::record::{LaneKey, NoticeRecord, ThreadRecord};
use super::status::{DeliveryNote, OutboxStatus, ReceiverStatus};

/// A lane: its open notices by order, and its thread.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    notices: BTreeMap<(u64, String), OpenNotice>,
    /// As it was read last; `None` before the first time.
    pub(crate) thread: Option<ThreadRecord>,
}

impl Lane {
    /// The open notices by order.
    pub(crate) fn notices(&self) -> impl Iterator<Item = &OpenNotice> {
        self.notices.values()
    }

    /// Whether an acknowledgement or the end follows a page, so that no other contact needs it.
    pub(crate) fn is_overtaken(&self, page: &Notice, now: Moment) -> bool {
        let mut later = self.notices.range((page.order + 1, String::new())..);
        later.any(|(_, open)| open.overtakes_pages() && open.is_due(now))
    }

    pub(crate) fn next_step(&self, now: Moment) -> LaneStep {
        let notices: Vec<&OpenNotice> = self.notices.values().collect();
        let unread = ThreadRecord::default();
        next_step(&notices, self.thread.as_ref().unwrap_or(&unread), now)
    }

    pub(crate) fn has_page(&self) -> bool {
        self.notices.values().any(|notice| notice.record.notice.kind == NoticeKind::Page)
    }

    /// Urgent lanes first, then those that are due for longest.
    fn rank(&self) -> (bool, i64) {
        let due_us = self.notices.values().map(|notice| notice.record.notice.due_us).min();
        (!self.has_page(), due_us.unwrap_or(i64::MAX))
    }
}

/// All open notices, and the last results of their receivers.
#[derive(Debug, Default)]
pub(crate) struct Board {
    lanes: BTreeMap<LaneKey, Lane>,
    /// Lane and order of each open notice.
    places: HashMap<String, (LaneKey, u64)>,
    /// Last results by receiver.
    results: BTreeMap<String, ReceiverStatus>,
    /// Notices whose pause a success of another one cut short already. Without this list, a notice
    /// that a working receiver refuses would be tried after each message that it accepts.
    hurried: HashSet<String>,
}

impl Board {
    pub(crate) fn lane(&self, key: &LaneKey) -> Option<&Lane> {
        self.lanes.get(key)
    }

    /// Whether a lane has an open notice.
    pub(crate) fn is_busy(&self, key: &LaneKey) -> bool {
        self.lanes.contains_key(key)
    }

    pub(crate) fn lane_mut(&mut self, key: &LaneKey) -> Option<&mut Lane> {
        self.lanes.get_mut(key)
    }

    pub(crate) fn notice(&self, id: &str) -> Option<&OpenNotice> {
        let (key, order) = self.places.get(id)?;
        self.lanes.get(key)?.notices.get(&(*order, id.to_owned()))
    }

    /// Enters a notice as of a version; one that is finished leaves.
    pub(crate) fn enter(&mut self, record: NoticeRecord, version: i64, now: Moment) {
        let id = record.notice.id.clone();
        if record.state.is_final() {
            return self.remove(&id);
        }
        let (key, order) = (LaneKey::of(&record.notice), record.notice.order);
        let notice = OpenNotice::new(record, version, now);
        self.places.insert(id.clone(), (key.clone(), order));
        self.lanes.entry(key).or_default().notices.insert((order, id), notice);
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.hurried.remove(id);
        let Some((key, order)) = self.places.remove(id) else { return };
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.notices.remove(&(order, id.to_owned()));
        if lane.notices.is_empty() {
            self.lanes.remove(&key);
        }
    }

    /// Takes over what the ledger has: `documents` are all open notices. Returns whether something
    /// changed, and the number of documents that cannot be read.
    pub(crate) fn replace(&mut self, documents: &[Document], now: Moment) -> (bool, usize) {
        let present: HashSet<&str> =
            documents.iter().map(|document| document.key.as_str()).collect();
        let gone: Vec<String> =
            self.places.keys().filter(|id| !present.contains(id.as_str())).cloned().collect();
        gone.iter().for_each(|id| self.remove(id));
        let (mut is_changed, mut unreadable) = (!gone.is_empty(), 0);
        for document in documents {
            if self.notice(&document.key).is_some_and(|known| known.version == document.version) {
                continue;
            }
            let Some(record) = NoticeRecord::parse(document) else {
                unreadable += 1;
                continue;
            };
            is_changed = true;
            self.enter(record, document.version, now);
        }
        (is_changed, unreadable)
    }

    pub(crate) fn lanes_of<'a>(
        &'a self,
        receiver: &'a str,
    ) -> impl Iterator<Item = (&'a LaneKey, &'a Lane)> {
        let first =
            LaneKey { receiver: receiver.to_owned(), address: None, incident: String::new() };
        self.lanes.range(first..).take_while(move |(key, _)| key.receiver == receiver)
    }

    /// What the lanes of a receiver can do now, the most urgent first. Without `may_send`, only
    /// what ends without a message counts.
    pub(crate) fn steps(
        &self,
        receiver: &str,
        may_send: bool,
        now: Moment,
    ) -> Vec<(LaneKey, LaneStep)> {
        let mut steps: Vec<_> = self
            .lanes_of(receiver)
            .map(|(key, lane)| (lane.rank(), key, lane.next_step(now)))
            .filter(|(_, _, step)| match step {
                LaneStep::Wait => false,
                LaneStep::Send(_) => may_send,
                LaneStep::Finish(..) => true,
            })
            .collect();
        steps.sort_by_key(|(rank, _, _)| *rank);
        steps.into_iter().map(|(_, key, step)| (key.clone(), step)).collect()
    }

    /// Time until something about a receiver's notices changes by itself.
    pub(crate) fn pause(&self, receiver: &str, now: Moment) -> Option<Duration> {
        let notices = self.lanes_of(receiver).flat_map(|(_, lane)| lane.notices.values());
        notices.filter_map(|notice| notice.pause(now)).min()
    }

    /// Lanes whose thread was not read yet.
    pub(crate) fn unread_lanes(&self) -> Vec<LaneKey> {
        let unread = self.lanes.iter().filter(|(_, lane)| lane.thread.is_none());
        unread.map(|(key, _)| key.clone()).collect()
    }

    /// Receivers that have open notices.
    pub(crate) fn receivers(&self) -> Vec<String> {
        let mut names: Vec<String> = self.lanes.keys().map(|key| key.receiver.clone()).collect();
        names.dedup();
        names
    }

    pub(crate) fn note_failure(&mut self, receiver: &str, note: DeliveryNote) {
        let result = self.results.entry(receiver.to_owned()).or_default();
        result.last_failure = Some(note);
        result.failures_in_a_row += 1;
    }

    /// A receiver that accepts messages again: its notices need not wait out their pauses.
    pub(crate) fn note_success(&mut self, receiver: &str, note: DeliveryNote) {
        let result = self.results.entry(receiver.to_owned()).or_default();
        result.last_success = Some(note);
        if std::mem::take(&mut result.failures_in_a_row) == 0 {
            return;
        }
        let lanes = self.lanes.iter_mut().filter(|(key, _)| key.receiver == receiver);
        for notice in lanes.flat_map(|(_, lane)| lane.notices.values_mut()) {
            if notice.is_pausing() && self.hurried.insert(notice.record.notice.id.clone()) {
                notice.is_hurried = true;
            }
        }
    }

    /// Whether a receiver has to be probed: it fails, and a notice waits for its next attempt. While
    /// the receiver itself demands a pause, it is left alone.
    pub(crate) fn probe_need(&self, receiver: &str, now: Moment) -> ProbeNeed {
        let result = self.results.get(receiver);
        if result.is_none_or(|result| result.failures_in_a_row == 0) {
            return ProbeNeed::Works;
        }
        let notices = || self.lanes_of(receiver).flat_map(|(_, lane)| lane.notices.values());
        let is_left_alone = notices().any(|notice| notice.is_pause_demanded(now));
        if !is_left_alone && notices().any(OpenNotice::is_pausing) {
            ProbeNeed::Wanted
        } else {
            ProbeNeed::Idle
        }
    }

    /// Enters the result of a probe. One that passes ends the pause of the most urgent notice; when
    /// that is accepted, the others follow.
    pub(crate) fn note_probe(&mut self, receiver: &str, is_passed: bool) {
        if !is_passed {
            let notices = self.lanes_of(receiver).flat_map(|(_, lane)| lane.notices.values());
            let ids: Vec<String> = notices.map(|open| open.record.notice.id.clone()).collect();
            self.hurried.retain(|id| !ids.contains(id));
            return;
        }
        let lanes = self.lanes.iter_mut().filter(|(key, _)| key.receiver == receiver);
        let pausing = lanes.filter(|(_, lane)| lane.notices.values().any(OpenNotice::is_pausing));
        if let Some((_, lane)) = pausing.min_by_key(|(_, lane)| lane.rank()) {
            for notice in lane.notices.values_mut() {
                notice.is_hurried |= notice.is_pausing();
            }
        }
    }

    /// Writes the figures into `status`.
    pub(crate) fn count(&self, status: &mut OutboxStatus) {
        status.receivers.clone_from(&self.results);
        let notices = self.lanes.values().flat_map(|lane| lane.notices.values());
        status.waiting = self.places.len();
        (status.oldest_due_us, status.oldest_page_due_us) = (None, None);
        for notice in notices.map(|open| &open.record.notice) {
            let oldest = status.oldest_due_us.unwrap_or(i64::MAX);
            status.oldest_due_us = Some(oldest.min(notice.due_us));
            if notice.kind == NoticeKind::Page {
                let oldest = status.oldest_page_due_us.unwrap_or(i64::MAX);
                status.oldest_page_due_us = Some(oldest.min(notice.due_us));
            }
        }
    }
}
