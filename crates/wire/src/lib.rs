//! Packets to connections, requests and time slices; pure, except for the live tap.
//!
//! ```text
//! Input ─► Capture ─► Packet ─► Model ─► Report
//!  file    records    decode    flows    verdicts, slices, URLs
//!  pipe    (capture)  (decode)  (flow, http, model)  (judge)
//! ```
//! A reader produces [`packet::Packet`]s, a [`Model`] takes them in time order and returns a
//! [`Report`]; requests and connections go to a [`RowSink`] as they end. Only the readers know the
//! source of packets.

mod capture;
pub mod compat;
mod database;
mod decode;
mod error;
mod filter;
mod flow;
mod histogram;
mod http;
mod judge;
pub mod live;
mod model;
pub mod packet;
mod rows;
mod skip;
pub mod text;

pub use capture::{Capture, Format, Input, Record};
pub use decode::{Decoder, LinkType};
pub use error::WireError;
pub use filter::{Filter, FilterError};
pub use flow::Protocol;
pub use judge::{
    Evidence, Quantiles, Report, RipeSlice, SliceReport, TierReport, UrlReport, Usl, UslAnswer,
    Verdict,
};
pub use model::{ConnectionSeen, End, Model, Options, RequestSeen, Sink, WireTier};
pub use rows::{Origin, TableSink, slices};
pub use skip::{Skip, Skipped};
