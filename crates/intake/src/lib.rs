//! Rows from other people's shippers: their protocols, read and answered in their own way.
//!
//! Each protocol is one file: bytes to lines and rows ([`harvest`]), pure and with limits. Success is said only after
//! [`Hub::keep`] said that the rows are durable; a sender that is refused is told why, in its protocol's own way, and
//! it is counted in `intake_run`. The room knows no store and no parser: `weir` hands them in as a [`Hub`].

mod access;
mod attrs;
mod counts;
mod datagram;
mod document;
mod elastic;
mod elastic_questions;
mod exposition;
mod fluent;
mod gelf;
mod graphite;
mod harvest;
mod http;
mod hub;
mod intake;
mod jsonl;
mod listen;
mod loki;
mod lumberjack;
mod msgpack;
mod number;
mod otlp;
mod protobuf;
mod remote_write;
mod scrape;
mod statsd;
mod stream;
mod syslog;
mod tls;
mod unpack;
mod window;

#[cfg(test)]
mod check;

pub use access::{Access, Network};
pub use datagram::bind_udp;
pub use http::{Answer, BodyFault, Sender};
pub use hub::{Hub, Kept, Lines, NotKept, Parsed};
pub use intake::{Intake, Settings};
pub use listen::{OverTcp, OverUdp};
pub use scrape::{Failed, Scraped, Text};
pub use tls::Tls;
pub use window::MAX_KNOWN;
