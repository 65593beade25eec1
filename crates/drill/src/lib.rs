//! Faults made for real in namespaces of their own, and what is right to say of each.
//!
//! A [`Fault`] builds a [`Scene`] while nothing is wrong, then makes one thing wrong, with parameters drawn from a seed or given by
//! a person. [`judge`] looks at the findings of a weir from then on. Whatever happens, what a scene made is taken away again: when it is
//! dropped, and after `kill -9` by [`clean`]. Nothing outside of what it made itself is touched; [`Staging`] is for a host whose owner said
//! yes to that.

mod address;
mod app;
mod balance;
mod cascades;
mod disks;
mod edge;
mod error;
mod fault;
mod faults;
mod fleet;
mod ground;
mod hops;
mod judge;
mod limits;
mod lines;
mod names;
mod packets;
mod pairs;
mod place;
mod random;
mod scene;
mod staging;
mod stores;
mod traffic;
mod way;

pub use address::free_address;
pub use app::{App, Visit, serve, visit};
pub use error::DrillError;
pub use fault::{Fault, Held, Parameter, all, named};
pub use fleet::{Relay, relay};
pub use judge::{Outcome, Pace, judge};
pub use names::{Names, names};
pub use place::{PLACES, clean};
pub use random::Random;
pub use scene::Scene;
pub use staging::{HOST_FAULTS, HostFault, LONGEST, Needs, Staging, Wish, guard};
pub use traffic::{Flood, Receive, STEP, flood, receive};

/// Waits for the clock: what paces traffic, or looks again and again, has nothing else to wait for.
#[expect(clippy::disallowed_methods, reason = "pacing is about the clock itself")]
pub(crate) fn pause(span: std::time::Duration) {
    std::thread::sleep(span);
}
