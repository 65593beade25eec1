//! Carries streams of rows from agents to a hub, exactly once, over mutual TLS.
//!
//! `frame` and `message` are the protocol, without I/O (`docs/formats/link.md`). `hub` and
//! `hub_session` are the hub's side, `uplink` and `agent_session` the agent's. `authority`,
//! `registry`, `token` and `identity` handle identities.

mod agent_session;
mod authority;
mod bandwidth;
mod client;
mod error;
mod files;
mod frame;
#[cfg(test)]
mod golden;
mod handshakes;
mod hub;
mod hub_session;
mod identity;
mod message;
mod order;
mod registry;
mod secret;
mod spool;
mod spool_segment;
mod tls;
mod token;
mod uplink;
mod wire;

pub use authority::Authority;
pub use bandwidth::Bandwidth;
pub use client::join;
pub use error::{LinkError, LinkErrorKind};
pub use frame::{
    BODY_BYTES_MAX, Decoder, Frame, FrameLimits, HEADER_BYTES, MAY_BE_SKIPPED, STRANGER_BYTES_MAX,
};
pub use hub::{
    AppendFuture, AppendResult, ClaimFuture, ClockOffset, ConnectedAgent, Hub, HubOptions, Intake,
    Refusal,
};
pub use identity::{CERTIFICATE_LIFETIME, Identity};
pub use message::{
    CAPABILITIES, GoodbyeCode, Hello, Message, RefusalReason, STREAMS_A_FRAME, StreamPosition,
    VERSION_MAX, VERSION_MIN, Welcome,
};
pub use order::{
    CarriedOrder, CarryFuture, ORDER_BYTES_MAX, OrderAnswer, OrderAnswerCode, OrderCarrier,
};
pub use registry::{Agent, Denial, Invitation, NAME_BYTES_MAX, Registry};
pub use secret::{SecretBytes, random_secret};
pub use spool::{Spool, SpoolDamage};
pub use spool_segment::Record;
pub use token::JoinToken;
pub use uplink::{DeliveryOutcome, Shipment, Uplink, UplinkHandle, UplinkOptions, UplinkStatus};
