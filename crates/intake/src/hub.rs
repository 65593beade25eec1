//! The interface to the rest of `weir`: the line parser, the store, the clock.

use std::future::Future;
use std::pin::Pin;

use weir_tables::{Batch, Micros};

/// The future of [`Hub::keep`].
pub type KeepFuture<'a> = Pin<Box<dyn Future<Output = Result<(), KeepError>> + Send + 'a>>;

/// Parses and stores what shippers send.
pub trait Hub: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Micros;

    /// This hub's own host name, for rows about the intake itself.
    fn host(&self) -> &str;

    /// Parses lines; one row for each line that is not blank.
    fn parse(&self, lines: &LineGroup, observed: Micros) -> ParsedLines;

    /// Redacts rows that a protocol built without the parser.
    fn clean(&self, batch: Batch) -> Batch;

    /// Stores all batches or none; `Ok` means that they survive a power loss.
    fn keep(&self, batches: Vec<Batch>) -> KeepFuture<'_>;
}

/// Whole lines, or messages of several lines, of one host and one source.
#[derive(Debug, Default)]
pub struct LineGroup {
    /// The column `host`.
    pub host: String,
    /// The column `source`.
    pub source: String,
    /// The lines, each with its `\n`.
    pub bytes: Vec<u8>,
    /// Whether some message has several lines.
    pub(crate) has_line_ends_inside: bool,
    /// Per line: the offset of its first byte, and its number among the items of the request.
    pub(crate) items: Vec<(usize, usize)>,
}

impl LineGroup {
    /// Where each message ends in `bytes`; `None` if each is one line.
    pub fn message_ends(&self) -> Option<Vec<usize>> {
        let next = self.items.iter().skip(1).map(|(offset, _)| *offset);
        self.has_line_ends_inside.then(|| next.chain([self.bytes.len()]).collect())
    }
}

/// The result of [`Hub::parse`].
#[derive(Debug, Default)]
pub struct ParsedLines {
    /// The rows.
    pub batches: Vec<Batch>,
    /// Lines that became rows of `reject`: offset of the first byte, and the reason.
    pub rejected: Vec<(usize, String)>,
}

/// Why rows were not stored. The sender gets the reason and still has the rows.
#[derive(Clone, Debug)]
pub struct KeepError {
    /// Reason code for the counts: `busy`, `full`, `closed`, `failed`.
    pub reason: &'static str,
    /// The problem, for people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}
