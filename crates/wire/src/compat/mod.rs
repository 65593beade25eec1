//! What pt-tcp-model computed, to the byte, for those who have scripts on it: packets to requests, requests to slices.
//!
//! Written from measurements of what the tool prints, not from its source. `docs/wire-compat.md` says what each column
//! is and where it is known to be wrong; weir's own model does not share any code with this. Everything is IEEE double
//! arithmetic in the old tool's order, because that is what shows in the last printed digit.

mod line;
mod number;
mod request;
mod slice;

pub use request::{Counts, EndStamp, RequestOptions, Requests, SESSIONS_MAX, StartStamp};
pub use slice::{ARRIVALS_MAX, SliceOptions, Slices};

/// Why the old tool's way cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompatError {
    /// More client ports than [`SESSIONS_MAX`] have a request open.
    TooManySessions,
    /// More requests than [`ARRIVALS_MAX`] arrived in one slice, or are in progress at once.
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
