//! Log files: finding them in the servers' own configuration, following them through every kind of rotation.
//!
//! Nothing here parses a line. `discover` says where lines are and how they look, `Tailer` and `Journal` give stretches
//! of whole lines with their place in a stream. Sources of the mechanisms: nginx's, HAProxy's and httpd's manuals,
//! logrotate(8), journalctl(1). The surprising thing: this side keeps no position; the hub knows how far each stream
//! is durable, so a stream's identity must come out the same after a restart (`docs/formats/stream-identity.md`).

mod discover;
mod glob;
mod journal;
mod multiline;
mod objects;
mod tail;

pub use discover::{Discovery, FoundDirective, Problem, discover};
pub use glob::expand;
pub use journal::{Journal, JournalOptions};
pub use multiline::{Multiline, PRESETS, Splitter};
pub use objects::{Object, ObjectLog};
pub use tail::{
    Chunk, Gap, GapReason, Identified, Known, NewStream, ReadFrom, RestOptions, StatusChanges,
    StatusKey, StreamState, StreamStatus, TailEvent, TailOptions, Tailer, is_log_or_part,
};
