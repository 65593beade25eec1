//! `weir capture`, and the tap of `weir wire -i`.

mod live;
mod run;

pub(crate) use live::watch_for;
pub(crate) use run::{CaptureArgs, run};
