//! `weir edge`: its flags, the commands for an edge that runs, and the check before an edge leaves DNS.

pub(crate) mod args;
mod drain_check;
mod run;

pub(crate) use run::{dry_run, run};
