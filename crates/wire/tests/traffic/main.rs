//! Traffic with known truth: the crate's results are compared with what happened.

#![expect(clippy::print_stdout, reason = "skips belong into the test's output")]

mod hostile;
mod lab;
