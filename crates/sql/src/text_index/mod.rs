//! Which blocks of a data file a query has to read: its conditions become keys, and the file's index is asked for these.

mod ask;
mod read;

pub(crate) use ask::{Probe, probe_of};
pub(crate) use read::{BlockCounts, Selected, select};
