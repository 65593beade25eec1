//! What operators and the hub see of an edge, and the control of an HAProxy.

mod config_diff;
pub(crate) mod report;
pub(crate) mod state;
