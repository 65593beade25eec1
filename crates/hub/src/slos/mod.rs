//! SLOs: counts requests and checks of each by the minute into `slo_slice`, and reports what is left of their budgets
//! (docs/slo.md).
//!
//! The rule `slo.burning` reads the same rows, so findings, routes and silences are those of any other rule.

mod count;
mod report;
mod source;
#[cfg(test)]
mod store_tests;

pub(crate) use count::keep_always;
pub(crate) use report::report;
