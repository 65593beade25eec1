//! Traffic of known truth: what the crate says of it is compared with what happened.

#![expect(clippy::print_stdout, reason = "skips belong into the test's output")]

mod compat;
mod hostile;
mod lab;
