//! Follows log files through rotation and truncation; returns complete lines with positions.
//!
//! ```text
//! path ──stat──► Waiting ──first line──► StreamLookup ──answers──► TailFile ──renamed──► rotated
//!             (no identity yet)          (queries the hub)         (is read)  ▲     (read to end)
//!                   ▲                                                │        │
//!                   └────────────── truncated, starts over ──────────┘  copy found beside it
//! ```
//! A [`Tailer`] composes four parts with their own state: `scan` (paths, globs, when each is
//! checked), `resolve` (which stream a file is), `read` (open files) and `preserve` (remnants of
//! deleted files). The modules `check` and `start` move files between them.
//!
//! Files are polled, because that works on network file systems and in other mount namespaces; idle
//! files are left to inotify where possible (`idle`), or checked once a second. The surprising
//! thing: a rotated file is read on through its open descriptor whatever its name has become; names
//! matter only after a restart.

mod byte_order;
mod check;
#[cfg(test)]
mod container_tests;
mod content;
#[cfg(test)]
mod encoding_tests;
#[cfg(test)]
mod event_tests;
mod file;
mod fingerprint;
mod head_directory;
mod identified_file;
mod idle;
mod preserve;
#[cfg(test)]
mod preserve_tests;
#[cfg(test)]
mod quirk_tests;
mod read;
mod remnant;
mod remnant_content;
mod resolve;
mod resolve_stream;
mod rotated;
mod scan;
mod schedule;
#[cfg(test)]
mod simulation;
mod start;
mod status;
#[cfg(test)]
mod tests;
mod types;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{LogSource, Micros, StreamId};

use file::ReadOutcome;
pub(in crate::logs) use fingerprint::hash_of;
pub use identified_file::{IdentifiedFile, KnownPositions};
use preserve::RemnantStore;
use read::OpenFiles;
use resolve::StreamResolver;
pub use rotated::is_log_or_part;
use scan::PathScanner;
pub use scan::RecordLogs;
use status::TailReport;
pub use types::{
    Chunk, Gap, GapReason, NewStream, ReadFrom, RestOptions, StatusChanges, StatusKey, StreamState,
    StreamStatus, TailEvent, TailOptions,
};
use weir_multiline::Multiline;

/// Follows the files of a set of sources.
#[derive(Debug)]
pub struct Tailer {
    options: TailOptions,
    scanned_at: Option<Micros>,
    scanner: PathScanner,
    resolver: StreamResolver,
    files: OpenFiles,
    remnants: RemnantStore,
    report: TailReport,
}

impl Tailer {
    /// Creates a tailer without sources.
    pub fn new(options: TailOptions) -> Self {
        Self {
            report: TailReport::new(options.max_paths),
            options,
            scanned_at: None,
            scanner: PathScanner::default(),
            resolver: StreamResolver::default(),
            files: OpenFiles::default(),
            remnants: RemnantStore::default(),
        }
    }

    /// Sets the rules for events of several lines by path or glob; the first match applies.
    pub fn set_multiline(&mut self, rules: Vec<(PathBuf, Multiline)>) {
        self.scanner.set_multiline(rules);
    }

    /// Sets which further logs have records of several lines that their parser splits by itself: a
    /// reader stops only between records. Rules of [`Tailer::set_multiline`] come first.
    pub fn set_record_logs(&mut self, has_records: RecordLogs) {
        self.scanner.set_record_logs(has_records);
    }

    /// Replaces the sources; files of removed sources are read to their end.
    pub fn set_sources(&mut self, sources: Vec<LogSource>) {
        self.scanner.set_sources(sources);
    }

    /// Checks paths and files, every 100 ms; returns the streams to look up at the hub.
    pub fn scan(&mut self, now: Micros) -> Vec<NewStream> {
        if self.scanned_at.replace(now).is_some_and(|at| now < at) {
            self.files.hasten_all(now);
            self.scanner.hasten_all(now);
        }
        self.scanner.listings.clear();
        self.expand(now);
        self.check_files(now);
        self.check_orphans(now);
        self.check_paths(now);
        self.resolve(now);
        self.scanner.listings.clear();
        let mut new = self.remnants.queries(self.options.rests.as_ref(), &mut self.report);
        new.extend(self.resolver.queries(&self.scanner.paths, &self.options.host));
        new
    }

    /// Sets the hub's position of a stream that [`Tailer::scan`] returned; `None` if unknown.
    pub fn start(&mut self, stream: StreamId, position: Option<u64>) {
        if !self.start_remnant(stream, position) {
            self.resolver.answer(stream, position);
        }
    }

    /// Reads the next lines of any stream, in turn; `None` if none, or if too much is in flight.
    pub fn read(&mut self, now: Micros) -> Option<Chunk> {
        if let Some(chunk) = self.next_registration() {
            return Some(chunk);
        }
        while !self.is_full() {
            let key = self.files.next_to_read(now, &self.options)?;
            let Some(outcome) = self.files.read(key, now, &self.options) else { continue };
            match outcome {
                Ok(ReadOutcome::Lines { chunk, .. }) => {
                    if let Some(gap) = chunk.gap() {
                        self.report.count_lost(&gap);
                    }
                    return Some(chunk);
                }
                Ok(ReadOutcome::Nothing) => {}
                Ok(ReadOutcome::Again) => return None,
                Ok(ReadOutcome::Replaced) => self.replaced(key, now),
                Err(error) => self.reopen(key, &error, now),
            }
        }
        None
    }

    /// Whether too much is in flight to read on.
    pub fn is_full(&self) -> bool {
        self.in_flight_bytes() >= self.options.max_in_flight_bytes
    }

    /// Returns the buffer of a chunk for reuse.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.files.recycle(bytes);
    }

    /// Confirms that a stream is durable up to `to`.
    pub fn acknowledge(&mut self, stream: StreamId, to: u64) {
        if !self.files.acknowledge(stream, to) {
            self.resolver.confirm_registration(stream, to, &mut self.files);
        }
    }

    /// Moves a stream back to `to`, the position of the hub.
    pub fn rewind(&mut self, stream: StreamId, to: u64) {
        if self.files.rewind(stream, to)
            || self.resolver.register_again(stream, to, &mut self.files)
        {
            return;
        }
        self.report.gap(Gap {
            path: "".into(),
            stream,
            from: to,
            to: None,
            lost_bytes: 0,
            is_exact: false,
            unwatched: None,
            reason: GapReason::StreamGone,
        });
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<TailEvent> {
        self.report.take_events()
    }

    /// Bytes returned and not yet acknowledged.
    pub fn in_flight_bytes(&self) -> u64 {
        self.files.in_flight_bytes()
    }

    fn next_registration(&mut self) -> Option<Chunk> {
        self.resolver.next_registration(&self.files)
    }
}

fn cannot_read(path: &str, error: &std::io::Error) -> String {
    if let Some(hint) = weir_access::hint_of(error) {
        return format!("cannot read `{path}`: {error}\nhint: {hint}");
    }
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "\nhint: add weir's user to the group that owns the file, such as `adm`, or run weir as root"
        }
        _ if error.raw_os_error() == Some(24) => {
            "\nhint: raise `LimitNOFILE` (`ulimit -n`) of weir"
        }
        _ => "",
    };
    format!("cannot read `{path}`: {}{hint}", error.to_string().to_lowercase())
}

/// Time from `since` to `now`, 0 after a clock step back.
fn elapsed(since: Micros, now: Micros) -> Duration {
    Duration::from_micros(u64::try_from(now.0 - since.0).unwrap_or(0))
}

fn label(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}
