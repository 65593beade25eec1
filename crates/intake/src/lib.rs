//! Receives rows from third-party shippers in their own protocols.
//!
//! Each protocol is one file: bytes to lines and rows (`batch_builder`), pure and with limits. A
//! sender gets a success response only after [`Hub::keep`] made the rows durable; a refusal carries
//! its reason in the form of the protocol and is counted in `intake_run`. The crate knows no store
//! and no parser: `weir` passes them as a [`Hub`].

mod access;
mod attrs;
mod batch_builder;
mod body;
pub mod browser;
mod check_book;
mod check_lines;
mod connections;
mod counts;
mod datagram;
mod document;
mod elastic;
mod elastic_stubs;
mod exposition;
mod fluent;
mod gelf;
mod graphite;
mod http;
mod hub;
mod intake;
mod json_scan;
mod jsonl;
mod listen;
mod loki;
mod lumberjack;
mod memory;
mod msgpack;
mod nsca;
mod number;
mod otlp;
mod passive;
mod protobuf;
mod protocol;
mod remote_write;
mod response;
mod scrape;
mod statsd;
mod stream;
mod syslog;
mod tls;
mod unpack;
mod window;

#[cfg(test)]
mod check;
#[cfg(test)]
mod socket_tests;

pub use access::AccessRules;
pub use body::BodySource;
pub use check_book::{CheckName, CheckRules};
pub use connections::{ConnectionPlace, ConnectionRefusal};
pub use datagram::bind_udp;
pub use http::Sender;
pub use hub::{Hub, KeepError, KeepFuture, LineGroup, ParsedLines};
pub use intake::{Intake, IntakeSettings};
pub use listen::{OverTcp, OverUdp};
pub use nsca::{NscaCipher, NscaKey};
pub use response::IntakeResponse;
pub use scrape::{ScrapeBody, ScrapeFailure, ScrapeResult};
pub use tls::TlsServer;
pub use window::MAX_KNOWN;
