//! What every row means: one spec per table gives the row type, the Arrow schema, the docs page and
//! the UI's schema.
//!
//! This crate does no I/O and depends on no other crate of weir; every other one depends on it. A
//! table is one file under `spec/` and one line in `spec/mod.rs`; views are in `view.rs`. Types
//! that crates exchange ([`Parcel`], [`LogSource`], [`Micros`]) live here too.

#[macro_use]
mod table;

mod clock;
mod container_piece;
mod copied_rows;
mod duration;
mod encoding;
mod health_digest;
mod ip_network;
mod lazy_builder;
mod log_source;
mod message_template;
mod nearest;
mod parcel;
mod spec;
mod unit;
mod view;
mod wildcard;

pub use clock::{Clock, FixedClock, Micros};
pub use container_piece::{ContainerPiece, ContainerStream};
pub use copied_rows::{CopiedRows, LogPosition};
pub use duration::{DurationError, parse_duration, parse_whole_seconds};
pub use encoding::{hex, sql_literal};
pub use health_digest::{CheckScope, HealthCheck, HealthDigest, HealthStatus};
pub use ip_network::IpNetwork;
pub use lazy_builder::{is_null_column, null_column};
pub use log_source::{JsonEscape, LogFormat, LogSource, Program};
pub use message_template::{message_template, unfinished_template};
pub use nearest::{edit_distance, nearest};
pub use parcel::{Batch, DecodeError, Parcel, StreamId, StreamRange};
pub use spec::*;
use spec::{TableWriter, WRITERS};
pub use table::{Column, ColumnBuilder, DataKind, Kind, Rows, TableSpec, kind};
pub use unit::unit_of;
pub use view::{VIEWS, ViewSpec, view};
pub use wildcard::matches_wildcard;

/// Every table of weir, in the order in which the docs list them.
pub const TABLES: &[&TableSpec] = ALL;

/// Whether agents may write rows of this table. The others are written by the hub only, so that no
/// agent can make or judge findings.
pub fn is_open_to_agents(table: &TableSpec) -> bool {
    let at = TABLES.iter().position(|spec| spec.name == table.name);
    at.is_some_and(|at| WRITERS[at] == TableWriter::Agent)
}

/// The spec of the table called `name`, or `None`.
pub fn table(name: &str) -> Option<&'static TableSpec> {
    TABLES.iter().copied().find(|spec| spec.name == name)
}
