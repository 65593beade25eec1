//! Selects the blocks of a data file that a query has to scan: conditions become keys, which are
//! looked up in the file's text index.

mod block_selection;
mod key_conditions;

pub(crate) use block_selection::{BlockCounts, BlockSelection, select};
pub(crate) use key_conditions::{IndexProbe, probe_of};
