//! The agent: watches a host, runs its edge, and delivers the rows exactly once. It names no store
//! and no SQL engine.
//!
//! ```text
//!   watch, capture, edge ──► Destination ──┬─► courier   over the link to a hub
//!                                          ├─► remote    over HTTP to a hub on this host
//!                                          └─► the store of `weir up`, which the hub's crate brings
//! ```

pub mod args;
pub mod capture;
pub mod client;
mod courier;
pub mod edge;
pub mod hooks;
pub mod join;
mod memory_cap;
pub mod orders;
pub mod parcel_link;
pub mod parsers;
mod remote;
pub mod run;
pub mod trial;
pub mod watch;
