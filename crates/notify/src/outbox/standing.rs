//! States of incidents that a receiver drops when they are not repeated: Alertmanager ends an alert
//! at its `endsAt`, Icinga a result at its `ttl`.
//!
//! A repeat is not kept in the ledger: it has the content of an accepted message, and the next one
//! follows within a minute. Nothing is repeated while a notice of the same incident is under way, and
//! nothing that a later message replaced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_actions::{Notice, NoticeKind};
use weir_ledger::LedgerError;

use super::dispatch::Dispatcher;
use super::journal::LedgerWork;
use super::record::{LaneKey, THREAD_KIND, ThreadRecord};
use super::status::DeliveryNote;
use crate::receiver::{Message, Receiver};
use crate::replies::SentMessage;

/// A repeat that takes longer is given up: a notice of the same receiver could wait behind it.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(3);

/// States of incidents by receiver: what the latest message said or would say.
pub(super) type StandingStates = BTreeMap<String, Vec<Notice>>;

/// States by receiver.
pub(super) fn by_receiver(notices: Vec<Notice>) -> StandingStates {
    let mut states = StandingStates::new();
    for notice in notices {
        states.entry(notice.receiver.clone()).or_default().push(notice);
    }
    states
}

/// When the states of a receiver are sent again.
#[derive(Debug)]
pub(super) struct RepeatPlan {
    every: Option<Duration>,
    next: Instant,
}

impl RepeatPlan {
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Self {
        Self { every, next: now + every.unwrap_or_default() }
    }

    /// The time of the next repeat; `None` for a receiver that keeps what it got.
    pub(super) fn next(&self) -> Option<Instant> {
        self.every.map(|_| self.next)
    }

    fn advance(&mut self, now: Instant) {
        self.next = now + self.every.unwrap_or_default();
    }
}

impl LedgerWork<'_> {
    /// The receiver's name for the first message about a state, if the state is what this address
    /// was sent last.
    fn repeatable(&mut self, state: &Notice) -> Result<Option<Option<String>>, LedgerError> {
        let key = LaneKey::of(state);
        if self.board.is_busy(&key) {
            return Ok(None);
        }
        let Some(document) = self.ledger.get(THREAD_KIND, &key.document_key())? else {
            return Ok(None);
        };
        let thread = ThreadRecord::parse(&document);
        let is_over = state.kind == NoticeKind::Resolved;
        let is_last = thread.last.is_some_and(|(order, _)| order <= state.order);
        let is_same = is_last && thread.is_resolved == is_over;
        Ok(is_same.then_some(thread.external_id))
    }
}

impl LedgerWork<'_> {
    /// What people may answer about these states.
    pub(super) fn answerable(
        &mut self,
        states: &[Notice],
    ) -> Result<Vec<SentMessage>, LedgerError> {
        let mut sent = Vec::new();
        for state in states {
            let is_wanted = state.kind != NoticeKind::Resolved && state.incident.acked_by.is_none();
            let key = LaneKey::of(state).document_key();
            let Some(document) =
                is_wanted.then(|| self.ledger.get(THREAD_KIND, &key)).transpose()?
            else {
                continue;
            };
            let thread = document.as_ref().map(ThreadRecord::parse).unwrap_or_default();
            if thread.is_reached {
                sent.push(SentMessage {
                    incident: state.incident.id.clone(),
                    address: state.address.clone(),
                    external_ids: thread.answerable,
                });
            }
        }
        Ok(sent)
    }
}

impl Dispatcher {
    /// Sends all states of a receiver again, up to the first failure.
    pub(super) async fn repeat_states(
        self: &Arc<Self>,
        name: &str,
        receiver: &Arc<dyn Receiver>,
        plan: &mut RepeatPlan,
    ) {
        let states = self.states_of(name);
        for state in states {
            let asked = state.clone();
            let thread = self.work_aside(move |work| work.repeatable(&asked)).await;
            let Ok(Some(thread)) = thread else { continue };
            let message = Message { thread, ..self.message_of(state) };
            let sent = tokio::time::timeout(REPEAT_TIMEOUT, receiver.send(&message)).await;
            let (is_sent, text) = match sent {
                Ok(Ok(accepted)) => (true, accepted.answer),
                Ok(Err(error)) => (false, error.message),
                Err(_) => (false, "no answer within 3 s".to_owned()),
            };
            self.note_repeat(name, is_sent, text);
            if !is_sent {
                break;
            }
        }
        plan.advance(Instant::now());
    }

    fn note_repeat(&self, name: &str, is_sent: bool, text: String) {
        let note = DeliveryNote { ts_us: self.now().now_us, text };
        let mut board = self.board();
        if is_sent { board.note_success(name, note) } else { board.note_failure(name, note) }
    }
}
