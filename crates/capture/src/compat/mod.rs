//! Reproduces pt-tcp-model byte for byte, for users with scripts on its output: packets to
//! requests, requests to slices.
//!
//! Written from measurements of the tool's output, not from its source. `docs/wire-compat.md`
//! describes each column and its known errors; weir's own model shares no code with this. All
//! arithmetic is in IEEE doubles in the old tool's order, because that determines the last printed
//! digit.

mod line;
mod number;
mod request;
mod slice;

pub use request::{
    EndStamp, RequestCounts, RequestExtractor, RequestOptions, SESSIONS_MAX, StartStamp,
};
pub use slice::{ARRIVALS_MAX, SliceAggregator, SliceOptions};

/// A limit of the compatible mode was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompatError {
    /// More than [`SESSIONS_MAX`] client ports have an open request.
    TooManySessions,
    /// More than [`ARRIVALS_MAX`] requests arrived in one slice, or are in progress at once.
    TooManyRequests,
}

impl std::fmt::Display for CompatError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CompatError::TooManySessions => {
                write!(f, "more than {SESSIONS_MAX} client ports have a request that never closes")
            }
            CompatError::TooManyRequests => {
                write!(f, "more than {ARRIVALS_MAX} requests are in one slice or in progress")
            }
        }
    }
}

impl std::error::Error for CompatError {}
