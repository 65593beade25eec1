//! What the outbox reports: each change of a notice, and figures for status pages.

use std::collections::BTreeMap;

use weir_actions::Notice;

use super::record::NoticeState;

/// A change of a notice's state, for a row of the table `notice`.
#[derive(Clone, Debug, PartialEq)]
pub struct NoticeChange {
    /// The notice.
    pub notice: Notice,
    /// The state that began.
    pub state: NoticeState,
    /// Number of attempts so far.
    pub attempt: u32,
    /// Whether the message is marked as a possible repeat.
    pub is_repeat: bool,
    /// The receiver's answer or error, or why the notice was not sent.
    pub answer: Option<String>,
    /// Seconds from the start of the attempt to its end; `None` where none ended.
    pub latency_seconds: Option<f64>,
    /// When it changed, microseconds since 1970.
    pub ts_us: i64,
}

/// Takes the changes of notices, after each is in the ledger. A change whose process ends in
/// between is not reported.
pub trait NoticeSink: Send + Sync {
    /// Takes one change; must not block.
    fn record(&self, change: NoticeChange);
}

/// When something happened, and the receiver's words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryNote {
    /// Microseconds since 1970.
    pub ts_us: i64,
    /// The answer or the error.
    pub text: String,
}

/// Last results of one receiver since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStatus {
    /// The last message that was accepted.
    pub last_success: Option<DeliveryNote>,
    /// The last attempt that failed.
    pub last_failure: Option<DeliveryNote>,
    /// Failures since the last success.
    pub failures_in_a_row: u32,
}

/// Figures of the outbox as of its last look into the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxStatus {
    /// Open notices, including those that are not due yet.
    pub waiting: usize,
    /// The earliest due time among them, microseconds since 1970.
    pub oldest_due_us: Option<i64>,
    /// The earliest due time of a page among them, microseconds since 1970.
    pub oldest_page_due_us: Option<i64>,
    /// Why the ledger cannot be used now; `None` after a success.
    pub ledger_error: Option<String>,
    /// Documents of notices that this weir cannot read.
    pub unreadable: usize,
    /// By the receiver's name.
    pub receivers: BTreeMap<String, ReceiverStatus>,
}
