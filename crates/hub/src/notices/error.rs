//! Why something about incidents or notices cannot be done.

use weir_actions::DeskError;
use weir_ledger::LedgerError;

/// What kind of answer an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeErrorKind {
    /// There is no such incident, silence, rota, receiver or person.
    Unknown,
    /// What was entered cannot be done.
    Bad,
    /// Not now.
    Unusable,
}

/// Why something about incidents or notices cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoticeError {
    pub(crate) kind: NoticeErrorKind,
    pub(crate) message: String,
    /// Empty without one.
    pub(crate) hint: String,
}

impl From<LedgerError> for NoticeError {
    fn from(error: LedgerError) -> Self {
        let (kind, hint) = (NoticeErrorKind::Unusable, String::new());
        Self { kind, message: error.to_string(), hint }
    }
}

impl From<DeskError> for NoticeError {
    fn from(error: DeskError) -> Self {
        Self { kind: NoticeErrorKind::Unknown, message: error.message, hint: error.hint }
    }
}
