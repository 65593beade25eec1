//! What the ledger keeps: a document for each notice, and one for each thread of messages.
//!
//! ```text
//!            ┌────────── retry ──────────┐
//!            ▼                           │
//!  insert ► queued ──► sending ──────────┼──► sent
//!            │            │ no answer    │
//!            │            ▼              └──► failed (refused, expired)
//!            │         uncertain ──► sending, marked as a repeat
//!            └──► superseded, silenced
//! ```

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use weir_actions::{Notice, NoticeKind};
use weir_ledger::{BODY_BYTES_MAX, Change, Document};

/// Kind of the notices' documents in the ledger.
pub const NOTICE_KIND: &str = "notice";
/// Kind of the documents of threads: what one address received about one incident.
pub const THREAD_KIND: &str = "notice_thread";

/// Steps of a notice's history that are kept: the first 8 and the newest.
const HISTORY_MAX: usize = 32;
const HISTORY_HEAD: usize = 8;

/// Where a notice is on its path to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoticeState {
    /// Waits for its time, its turn, or the next attempt.
    Queued,
    /// An attempt is running, or its process ended in the middle.
    Sending,
    /// The receiver accepted it.
    Sent,
    /// An attempt may have arrived; the next one is marked as a repeat.
    Uncertain,
    /// The receiver refused it for good, or it expired.
    Failed,
    /// A later notice of the incident made it pointless.
    Superseded,
    /// A silence covers it.
    Silenced,
}

impl NoticeState {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Uncertain => "uncertain",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
            Self::Silenced => "silenced",
        }
    }

    /// Whether nothing is left to do.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Sent | Self::Failed | Self::Superseded | Self::Silenced)
    }
}

/// One step of a notice's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryStep {
    /// The state that began.
    pub state: NoticeState,
    /// Its beginning, microseconds since 1970.
    pub ts_us: i64,
}

/// Body of a notice's document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoticeRecord {
    /// The notice.
    pub notice: Notice,
    /// Its state.
    pub state: NoticeState,
    /// Number of attempts so far.
    pub attempt: u32,
    /// The instance that made the last attempt.
    pub owner: Option<String>,
    /// End of that attempt's lease, microseconds since 1970.
    pub lease_until_us: Option<i64>,
    /// Earliest time of the next attempt, microseconds since 1970.
    pub next_try_us: i64,
    /// Whether the receiver itself set that time (`Retry-After`).
    pub is_pause_ordered: bool,
    /// The last answer or error of the receiver.
    pub answer: Option<String>,
    /// The receiver's name for the message.
    pub external_id: Option<String>,
    /// Whether an earlier attempt may have arrived.
    pub is_repeat: bool,
    /// Times of the states, oldest first.
    pub history: Vec<HistoryStep>,
}

impl NoticeRecord {
    pub(crate) fn new(notice: Notice) -> Self {
        Self {
            state: NoticeState::Queued,
            attempt: 0,
            owner: None,
            lease_until_us: None,
            next_try_us: notice.due_us,
            is_pause_ordered: false,
            answer: None,
            external_id: None,
            is_repeat: false,
            history: Vec::new(),
            notice,
        }
    }

    /// The record in a document; `None` when another program or a newer weir wrote it.
    pub fn parse(document: &Document) -> Option<Self> {
        serde_json::from_str(&document.body).ok()
    }

    /// Enters a state.
    pub(crate) fn enter(&mut self, state: NoticeState, ts_us: i64) {
        self.state = state;
        if self.history.len() >= HISTORY_MAX {
            self.history.remove(HISTORY_HEAD);
        }
        self.history.push(HistoryStep { state, ts_us });
    }

    /// Whether some attempt may have reached the receiver.
    pub(crate) fn may_have_arrived(&self) -> bool {
        self.is_repeat || matches!(self.state, NoticeState::Sending | NoticeState::Sent)
    }

    /// When something has to be done next.
    pub(crate) fn due_us(&self) -> Option<i64> {
        match self.state {
            NoticeState::Queued | NoticeState::Uncertain => Some(self.next_try_us),
            NoticeState::Sending => Some(self.lease_until_us.unwrap_or(self.next_try_us)),
            _ => None,
        }
    }

    /// Writes the record over version `expected`.
    pub(crate) fn change(&self, expected: i64) -> Change {
        Change {
            kind: NOTICE_KIND.to_owned(),
            key: self.notice.id.clone(),
            expected,
            body: Some((self.body(), self.due_us())),
        }
    }

    /// JSON within the ledger's limit: a notice whose evidence is too large goes without it.
    fn body(&self) -> String {
        let body = json(self);
        if body.len() <= BODY_BYTES_MAX {
            return body;
        }
        let mut smaller = self.clone();
        "[]".clone_into(&mut smaller.notice.incident.evidence);
        json(&smaller)
    }
}

/// Inserts notices, each once by its id: a conflict means that an earlier run or another hub
/// inserted it.
pub fn insert_changes(notices: &[Notice]) -> Vec<Change> {
    notices.iter().map(|notice| NoticeRecord::new(notice.clone()).change(0)).collect()
}

/// One address of a receiver and one incident: notices of a lane go out in their order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LaneKey {
    pub(crate) receiver: String,
    pub(crate) address: Option<String>,
    pub(crate) incident: String,
}

impl LaneKey {
    pub(crate) fn of(notice: &Notice) -> Self {
        Self {
            receiver: notice.receiver.clone(),
            address: notice.address.clone(),
            incident: notice.incident.id.clone(),
        }
    }

    /// Key of the lane's thread in the ledger.
    pub(crate) fn document_key(&self) -> String {
        json(&(&self.receiver, &self.address, &self.incident))
    }
}

/// What one address received about one incident; kept after the notices are deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ThreadRecord {
    /// The receiver's name for the first message.
    pub(crate) external_id: Option<String>,
    /// Whether a message was sent, or may have arrived.
    pub(crate) is_reached: bool,
    /// Order and kind of the latest message.
    pub(crate) last: Option<(u64, NoticeKind)>,
    /// Whether that message was the end of the incident.
    pub(crate) is_resolved: bool,
    /// Receivers and addresses that took over after a refusal.
    pub(crate) moved_to: Vec<(String, Option<String>)>,
    /// The receiver's names for the newest messages that people answer.
    #[serde(default)]
    pub(crate) answerable: Vec<String>,
}

/// Messages of a thread whose answers are read.
const ANSWERABLE_MAX: usize = 8;

/// Time after which a thread is deleted: a resolved incident may come back, and an open one may
/// stay open for long.
const RESOLVED_KEPT_US: i64 = 30 * 86_400_000_000;
const OPEN_KEPT_US: i64 = 400 * 86_400_000_000;

impl ThreadRecord {
    pub(crate) fn parse(document: &Document) -> Self {
        serde_json::from_str(&document.body).unwrap_or_default()
    }

    /// Writes the thread over version `expected`. It is due when it is to be deleted.
    pub(crate) fn change(&self, key: String, expected: i64, now_us: i64) -> Change {
        let kept = if self.is_resolved { RESOLVED_KEPT_US } else { OPEN_KEPT_US };
        let body = Some((json(self), Some(now_us.saturating_add(kept))));
        Change { kind: THREAD_KIND.to_owned(), key, expected, body }
    }

    /// Enters a message that was sent.
    pub(crate) fn note_sent(&mut self, record: &NoticeRecord) {
        self.is_reached = true;
        if self.external_id.is_none() {
            self.external_id.clone_from(&record.external_id);
        }
        if matches!(record.notice.kind, NoticeKind::Page | NoticeKind::Mail) {
            self.answerable.extend(record.external_id.clone());
            let surplus = self.answerable.len().saturating_sub(ANSWERABLE_MAX);
            self.answerable.drain(..surplus);
        }
        let order = record.notice.order;
        if self.last.is_none_or(|(last, _)| last <= order) {
            self.last = Some((order, record.notice.kind));
            self.is_resolved = record.notice.kind == NoticeKind::Resolved;
        }
    }

    /// Enters a message that a digest has.
    pub(crate) fn note_folded(&mut self, notice: &Notice) {
        self.is_reached = true;
        if self.last.is_none_or(|(last, _)| last <= notice.order) {
            self.last = Some((notice.order, notice.kind));
            self.is_resolved = notice.kind == NoticeKind::Resolved;
        }
    }

    /// Whether a later message of the lane makes this one pointless. A mail does not stand in for
    /// a page, and no letter for another one.
    pub(crate) fn is_past(&self, notice: &Notice) -> bool {
        let Some((order, kind)) = self.last else { return false };
        order > notice.order
            && notice.kind != NoticeKind::Test
            && !notice.is_letter()
            && !(notice.kind == NoticeKind::Page && kind == NoticeKind::Mail)
    }
}

/// The notice for another receiver that takes over. Its id derives from the old one, so that it is
/// inserted once.
pub(crate) fn derived(
    notice: &Notice,
    target: &(String, Option<String>),
    now_us: i64,
) -> NoticeRecord {
    let (receiver, address) = target.clone();
    let source = json(&(&notice.id, &receiver, &address));
    let hash = digest(&SHA256, source.as_bytes());
    let id = hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let at = notice.fallbacks.iter().position(|fallback| fallback == target);
    let fallbacks = notice.fallbacks.iter().skip(at.map_or(0, |at| at + 1)).cloned().collect();
    let due_us = notice.due_us.max(now_us);
    NoticeRecord::new(Notice { id, receiver, address, fallbacks, due_us, ..notice.clone() })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("records have string keys and finite numbers only")
}
