//! `weir thresholds`: what the thresholds of rules should be by their own past.

mod run;
mod series;

pub(crate) use run::run;
