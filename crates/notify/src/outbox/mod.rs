//! The outbox: notices in a ledger, each sent once.
//!
//! Intent is durable before a byte leaves:
//!
//! ```text
//!  commit `sending` (attempt, owner, 30 s lease) ─► send, 10 s at most ─► commit `sent`
//!        │ another hub was first: read again          │ 15 s passed: not sent
//!        ▼                                            ▼
//!  lease over without a result: uncertain, sent again with a mark
//! ```
//!
//! Each write replaces a version of the document, so of two hubs one wins. A message arrives twice
//! only after a crash between sending and noting, or when an answer is lost; then it is marked as a
//! repeat where the receiver itself does not recognize it.
//!
//! In a cluster, the clocks of the hubs should agree within 5 s. When they do not, a lease may be
//! taken over early, and the message is marked: nothing is lost.

mod attempt;
mod board;
mod context;
mod dispatch;
mod fold;
mod journal;
mod lane;
mod pace;
mod record;
mod standing;
mod status;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod doubles;
#[cfg(test)]
mod fold_tests;
#[cfg(test)]
mod kill_tests;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod return_tests;
#[cfg(test)]
mod send_tests;
#[cfg(test)]
mod standing_tests;

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use weir_actions::Notice;
use weir_ledger::{Change, LedgerError};

use crate::receiver::Receiver;
use crate::replies::SentMessage;

pub use self::context::OutboxContext;
use self::dispatch::Dispatcher;
#[cfg(test)]
pub(crate) use self::doubles::MemoryLedger;
pub use self::record::{
    HistoryStep, NOTICE_KIND, NoticeRecord, NoticeState, THREAD_KIND, insert_changes,
};
pub use self::status::{DeliveryNote, NoticeChange, NoticeSink, OutboxStatus, ReceiverStatus};

/// Sends notices, each once.
pub struct Outbox {
    dispatcher: Arc<Dispatcher>,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Outbox {
    /// An outbox that sends nothing before [`run`](Self::run).
    pub fn new(context: OutboxContext) -> Self {
        Self { dispatcher: Arc::new(Dispatcher::new(context)) }
    }

    /// Writes documents and inserts notices in one transaction, and returns the number of notices
    /// inserted. Notices that the ledger has already are left as they are. Blocks: not for threads
    /// of an async runtime.
    ///
    /// # Errors
    /// `Conflict` if one of `documents` has another version; `Unusable`. Nothing was changed then.
    pub fn commit(&self, documents: &[Change], notices: &[Notice]) -> Result<usize, LedgerError> {
        let count = self.dispatcher.work(|work| work.commit(documents, notices))?;
        self.wake();
        Ok(count)
    }

    /// Ends a notice that a silence covers; false when it is not waiting any more. Blocks.
    ///
    /// # Errors
    /// `Unusable`.
    pub fn silence(&self, id: &str, reason: &str) -> Result<bool, LedgerError> {
        self.dispatcher.work(|work| work.silence(id, reason))
    }

    /// Reads the ledger now: for callers that commit [`insert_changes`] themselves.
    pub fn wake(&self) {
        self.dispatcher.wake();
    }

    /// Replaces the states of the incidents that people were notified of. Receivers that drop what is
    /// not repeated get theirs once a minute; answers of people are read for them.
    pub fn stand(&self, states: Vec<Notice>) {
        self.dispatcher.stand(states);
    }

    /// Messages of one receiver that people may answer: those of the incidents of
    /// [`stand`](Self::stand) that are not acknowledged. Blocks.
    ///
    /// # Errors
    /// `Unusable`.
    pub fn answerable(&self, receiver: &str) -> Result<Vec<SentMessage>, LedgerError> {
        let states = self.dispatcher.states_of(receiver);
        self.dispatcher.work(|work| work.answerable(&states))
    }

    /// A receiver by its name.
    pub fn receiver(&self, name: &str) -> Option<&Arc<dyn Receiver>> {
        self.dispatcher.receiver(name)
    }

    /// Sends until `ended` becomes true; then attempts that are running end first (10 s at most).
    /// One task per receiver. Dropping the future is like a crash: safe, with repeats.
    pub async fn run(&self, ended: watch::Receiver<bool>) {
        self.dispatcher.run(ended).await;
    }

    /// The figures now, without access to the ledger.
    pub fn status(&self) -> OutboxStatus {
        self.dispatcher.status()
    }
}
