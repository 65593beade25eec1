//! Log files: finds them in the configuration of servers, and follows them through rotations.
//!
//! Nothing here parses a line. `discover` finds logs and their formats, `Tailer` and `Journal`
//! return stretches of complete lines with their position in a stream. Sources: the manuals of
//! nginx, HAProxy and httpd, logrotate(8), journalctl(1). The surprising thing: this side stores no
//! position; the hub knows how far each stream is durable, so a stream's identity must be the same
//! after a restart (`docs/formats/stream-identity.md`).

mod earlier_line;
mod journal;
#[cfg(test)]
mod nginx_tests;
mod objects;
#[cfg(test)]
mod stranger_tests;
mod tail;

pub use earlier_line::earlier_line;
pub use journal::{Journal, JournalOptions};
pub use objects::{Object, ObjectLog};
pub use tail::{
    Chunk, Gap, GapReason, IdentifiedFile, KnownPositions, NewStream, ReadFrom, RecordLogs,
    RestOptions, StatusChanges, StatusKey, StreamState, StreamStatus, TailEvent, TailOptions,
    Tailer, is_log_or_part,
};
pub use weir_discover::glob::expand;
pub use weir_discover::{Discovery, FoundDirective, Problem, container_attributes, discover};
pub use weir_multiline::{Multiline, PRESETS, Splitter};
