//! Carries streams of rows from agents to a hub, exactly once, over mutual TLS.
//!
//! `frame` and `message` are the protocol, pure (`docs/formats/link.md`). `hub` and `session` are the hub's side,
//! `courier` and `conversation` the agent's. `authority`, `registry`, `token` and `identity` are about who is who.

mod authority;
mod bandwidth;
mod client;
mod conversation;
mod courier;
mod error;
mod files;
mod frame;
#[cfg(test)]
mod golden;
mod hub;
mod identity;
mod message;
mod registry;
mod secret;
mod session;
mod spool;
mod tls;
mod token;
mod wire;

pub use authority::Authority;
pub use bandwidth::Bandwidth;
pub use client::join;
pub use courier::{Courier, CourierHandle, CourierOptions, CourierStatus, Outcome, Shipment};
pub use error::{Kind, LinkError};
pub use frame::{
    BODY_BYTES_MAX, Decoder, Frame, HEADER_BYTES, Limits, MAY_BE_SKIPPED, STRANGER_BYTES_MAX,
};
pub use hub::{Append, Appended, Claim, ClockOffset, Connected, Hub, HubOptions, Intake, Refusal};
pub use identity::{CERTIFICATE_LIFETIME, Identity};
pub use message::{
    CAPABILITIES, Code, Hello, Message, Position, Reason, STREAMS_A_FRAME, VERSION_MAX,
    VERSION_MIN, Welcome,
};
pub use registry::{Agent, Denial, Invitation, NAME_BYTES_MAX, Registry};
pub use spool::{Record, Spool};
pub use token::JoinToken;
