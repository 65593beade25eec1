//! Real faults in network namespaces made for the purpose, and the right findings for each.
//!
//! A [`Fault`] builds a [`TestBed`] while nothing is wrong, then makes one thing wrong, with
//! parameters drawn from a seed or given by a person. [`score`] compares the findings of a weir
//! with the rules that are right. A testbed removes what it made: when it is dropped, and after
//! `kill -9` by [`clean`]. Nothing else on the host is touched; [`HostDrill`] is for a host whose
//! owner agreed to that.

mod address;
mod app;
mod cgroups;
mod command;
mod error;
mod fault;
mod faults;
mod host;
mod namespaces;
mod random;
mod score;
mod testbed;
mod traffic;

pub use address::free_address;
pub use app::{AppOptions, VisitOptions, serve, visit};
pub use error::DrillError;
pub use fault::{Fault, FaultGuard, Parameter};
pub use faults::{NameServerOptions, RelayOptions, all, named, relay, serve_names};
pub use host::{
    HOST_FAULTS, HostDrill, HostDrillRequest, HostFault, HostFaultTarget, LONGEST, guard,
};
pub use namespaces::{TESTBEDS, clean};
pub use random::Random;
pub use score::{Outcome, ScoreTiming, score};
pub use testbed::TestBed;
pub use traffic::{FloodOptions, ReceiveOptions, STEP, flood, receive};

/// Sleeps. Pacing and polling have nothing else to wait for.
#[expect(clippy::disallowed_methods, reason = "pacing is about the clock itself")]
pub(crate) fn pause(span: std::time::Duration) {
    std::thread::sleep(span);
}
