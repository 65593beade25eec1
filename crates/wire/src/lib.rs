//! Packets to connections, requests and time slices; pure, except for the live tap.
//!
//! ```text
//! Capture ─► Packet ─► Model ─► Report
//!  weir-capture,      flows     verdicts, slices, URLs
//!  live               (flow, http, model)  (judge)
//! ```
//! A reader produces [`packet::Packet`]s, a [`Model`] takes them in time order and returns a
//! [`Report`]; requests and connections go to a [`RowSink`] as they end. Only the readers know the
//! source of packets.

mod database;
mod flow;
mod histogram;
mod http;
mod http2;
mod judge;
pub mod live;
mod model;
mod partial_head;
mod rows;

pub use flow::Protocol;
pub use judge::{
    CompletedSlice, DelayVerdict, Evidence, Quantiles, Report, SliceReport, THRESHOLDS, Threshold,
    TierReport, UrlReport, Usl, UslResult,
};
pub use model::{
    Model, ModelOptions, ObservedConnection, ObservedRequest, RequestEnd, RowSink, WireTier,
};
pub use rows::{RowOrigin, TableSink, slices};
pub use weir_capture::{
    Capture, CaptureFormat, CaptureInput, Decoder, FileOrder, Filter, FilterError, LinkType,
    OrderedFile, Record, SkipCounts, SkipReason, WireError, compat, packet, text,
};
