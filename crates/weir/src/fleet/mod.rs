//! Agents and hubs over `weir_link`: the store as a hub's intake, a courier as an agent's destination, and the commands
//! that say who belongs to the fleet.

mod clocks;
pub(crate) mod command;
mod courier;
pub(crate) mod intake;
mod listen;

pub(crate) use courier::Couriered;
pub(crate) use listen::{Fleet, Listening, Serving, link_dir};

use weir_link::LinkError;

use crate::failure::Failure;

/// What weir calls itself on the link.
pub(crate) const PROGRAM: &str = concat!("weir ", env!("CARGO_PKG_VERSION"));

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        Self::new(error.message).hint(error.hint.unwrap_or_default())
    }
}
