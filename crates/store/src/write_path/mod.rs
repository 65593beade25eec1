//! The write path: from an append to a data file.
//!
//! ```text
//! Store::append ─► adapt ─► writer ─► wal (fsync) ─► memtable ─► flush ─► data files ─► manifest
//!                            │  streams: new, known, behind?        │
//!                            └─ segments: which are still needed ◄──┘
//! ```

pub(crate) mod adapt;
pub(crate) mod damage;
pub(crate) mod log_check;
pub(crate) mod segments;
pub(crate) mod shared;
pub(crate) mod streams;
pub(crate) mod wal;
pub(crate) mod writer;

pub use writer::Appended;
