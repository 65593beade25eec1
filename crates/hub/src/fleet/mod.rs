//! Agents at a hub, over `weir_link`: where they connect, the store as their intake, and their
//! clocks.

mod clocks;
pub(crate) mod intake;
mod listen;
pub(crate) mod speakers;

pub use listen::link_dir;
pub(crate) use listen::{AgentListener, Fleet, LinkService};
