//! The hub: keeps rows, runs the rules, serves the page and the API, takes other shippers' rows,
//! and copies rows elsewhere.
//!
//! Its parts meet in [`up::run`], for `weir up` and `weir hub`; what commands share with it is
//! public beside that.

mod banner;
mod bind;
pub mod cells;
pub mod cluster;
pub mod compare;
pub mod explain;
mod failure;
pub mod fleet;
pub mod haproxy;
mod heal;
pub mod hooks;
mod intake;
mod local;
mod logins;
pub mod notices;
mod outputs;
mod port_owner;
pub mod precision;
pub mod replay;
pub mod rule_runner;
mod server;
mod slos;
mod slow_query;
pub mod slow_tier;
mod store_faults;
pub mod thresholds;
mod unmonitored;
pub mod up;
pub mod wire;

pub use failure::store_failure;
pub use outputs::check as check_outputs;
