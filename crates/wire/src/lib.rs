//! Packets to connections, requests and time slices; pure, plus capture.

mod capture;
mod decode;
mod error;
pub mod packet;
mod skip;

pub use capture::{Capture, Format, Input, Record};
pub use decode::{Decoder, LinkType};
pub use error::WireError;
pub use skip::{Skip, Skipped};
