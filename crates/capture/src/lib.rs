//! Capture files, frames and tcpdump's text to TCP packets; pure.
//!
//! ```text
//! CaptureInput ─► Capture ─► Frame ─► Decoder ─► Packet
//!  file, pipe     records    (frame)   link, IP, TCP
//! ```
//! `weir-wire` turns the packets into connections, requests and verdicts; [`compat`] turns text into
//! what an old tool made of it. Nothing here keeps more
//! than one buffer and the fragments of incomplete datagrams.

pub mod compat;
pub mod kernel_filter;
pub mod packet;
pub mod pcapng;
pub mod text;

mod decode;
mod error;
mod filter;
mod frame;
mod reader;
mod sequence;
mod skip;

pub use decode::Decoder;
pub use error::WireError;
pub use filter::{Filter, FilterError};
pub use frame::{LinkType, Record};
pub use reader::{Capture, CaptureFormat, CaptureInput, FileOrder, OrderedFile, PacketSink};
pub use sequence::SequenceNumber;
pub use skip::{SkipCounts, SkipReason};
