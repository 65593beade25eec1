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

pub use capture::{Capture, CaptureFormat, CaptureInput, Record};
pub use decode::{Decoder, LinkType};
pub use error::WireError;
pub use filter::{Filter, FilterError};
pub use flow::Protocol;
pub use judge::{
    CompletedSlice, DelayVerdict, Evidence, Quantiles, Report, SliceReport, THRESHOLDS, Threshold,
    TierReport, UrlReport, Usl, UslResult,
};
pub use model::{
    Model, ModelOptions, ObservedConnection, ObservedRequest, RequestEnd, RowSink, WireTier,
};
pub use rows::{RowOrigin, TableSink, slices};
pub use skip::{SkipCounts, SkipReason};
