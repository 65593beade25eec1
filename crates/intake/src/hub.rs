//! What `weir` hands to this room: the parser of lines, the store, the clock.

use std::future::Future;
use std::pin::Pin;

use weir_tables::{Batch, Micros};

/// The answer of [`Hub::keep`].
pub type Kept<'a> = Pin<Box<dyn Future<Output = Result<(), NotKept>> + Send + 'a>>;

/// Parses and keeps what shippers send.
pub trait Hub: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Micros;

    /// This hub's own host name, for rows about the intake itself.
    fn host(&self) -> &str;

    /// Lines to rows; one row for each line that is not blank.
    fn parse(&self, lines: &Lines, observed: Micros) -> Parsed;

    /// Rows that a protocol made without lines, as they may be kept: without what is to be redacted.
    fn clean(&self, batch: Batch) -> Batch;

    /// Keeps all batches or none; `Ok` means that they survive a loss of power.
    fn keep(&self, batches: Vec<Batch>) -> Kept<'_>;
}

/// Whole lines of one host and one source.
#[derive(Debug, Default)]
pub struct Lines {
    /// The column `host`.
    pub host: String,
    /// The column `source`.
    pub source: String,
    /// The lines, each with its `\n`.
    pub bytes: Vec<u8>,
    /// By line: its first byte, and its number among the items of the request.
    pub(crate) items: Vec<(usize, usize)>,
}

/// What [`Hub::parse`] made of lines.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The rows.
    pub batches: Vec<Batch>,
    /// Lines that became rows of `reject`: first byte, and the reason.
    pub rejected: Vec<(usize, String)>,
}

/// Why rows were not kept. The sender still has them and is told so.
#[derive(Clone, Debug)]
pub struct NotKept {
    /// One word for the counts: `busy`, `full`, `closed`, `failed`.
    pub reason: &'static str,
    /// What went wrong, for a person.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}
