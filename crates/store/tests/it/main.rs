//! The store from outside: appends, queries, restarts, crashes, full disks.
#![expect(clippy::unwrap_used, reason = "tests")]

mod memory;
mod tool;
