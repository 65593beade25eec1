//! Which blocks of a data file a query has to read: its conditions become keys, and the file's index is asked for these.

mod block_selection;
mod key_conditions;

pub(crate) use block_selection::{BlockCounts, BlockSelection, select};
pub(crate) use key_conditions::{IndexProbe, probe_of};
