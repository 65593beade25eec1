//! `weir compare`: two sets of requests, where they were measured at the same vantage.

pub(crate) mod args;
mod run;

pub(crate) use run::run;
