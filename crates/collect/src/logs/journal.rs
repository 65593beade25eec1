//! systemd's journal as a stream of JSON lines, read by a child process `journalctl`.
//!
//! Source: journalctl(1), systemd.journal-fields(7). `--follow` shows the current boot only (since
//! systemd 250, and no option changes that on all versions), so one child reads what is stored, of
//! all boots, and when it has ended a second one follows. Journal cursors are not numbers, so the
//! position of an entry is its `__REALTIME_TIMESTAMP` in µs times 4096 plus its index, from 1,
//! among the entries of the same µs; after a restart `--since` seeks to the µs and the entries up
//! to that index are skipped. The surprising thing: after a clock step back, entries get the next
//! free position, and those written before the clock has caught up are read once only while this
//! process lives (`docs/formats/stream-identity.md`).
//! Example: the second entry at 5 µs has position 5 × 4096 + 2 = 20482.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use memchr::memmem;
use rustix::buffer::spare_capacity;
use weir_tables::{LogFormat, LogSource, Micros, Program, StreamId};

use super::tail::{Chunk, StreamState, StreamStatus, hash_of};

const ENTRIES_PER_MICROSECOND: u64 = 1 << 12;

/// Longer entries are skipped. Without `--all`, journalctl omits fields above 4 KiB.
const LINE_LIMIT: usize = 1 << 20;

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Options of a [`Journal`].
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Host name; part of the stream's identity.
    pub host: String,
    /// Program to run, found on `PATH` unless it is a path.
    pub program: PathBuf,
    /// Where the host's root is mounted (`--root=`), such as `/host` in a container; `None`: `/`.
    pub root: Option<PathBuf>,
    /// How far back reading starts when the hub does not know the stream: 1 h.
    pub first_contact: Duration,
    /// Maximum bytes of a chunk: 1 MiB.
    pub chunk_bytes: usize,
    /// Maximum bytes in unacknowledged chunks, since positions are not bytes: 8 MiB.
    pub max_in_flight_bytes: u64,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            host: String::new(),
            program: "journalctl".into(),
            root: None,
            first_contact: Duration::from_secs(3600),
            chunk_bytes: 1 << 20,
            max_in_flight_bytes: 8 << 20,
        }
    }
}

/// Reads the journal. The child lives as long as this value.
#[derive(Debug)]
pub struct Journal {
    options: JournalOptions,
    source: Arc<LogSource>,
    path: Arc<str>,
    stream: StreamId,
    /// `None` until [`Journal::start`].
    cursor: Option<JournalCursor>,
    child: Option<JournalctlChild>,
    /// Whether a child has read what was stored, so that the next one follows.
    is_caught_up: bool,
    retry_at: Option<Micros>,
    retry_after: Duration,
    in_flight: Vec<(u64, u64)>,
    in_flight_bytes: u64,
    skipped_bytes: u64,
    is_known: bool,
    error: Option<String>,
}

impl Journal {
    /// Creates a reader of the journal that `source` names. Nothing runs before [`Journal::start`].
    pub fn new(options: JournalOptions, source: &LogSource) -> Self {
        let key = format!("journal\0{}\0{}", options.host, source.path.display());
        Self {
            source: Arc::new(source.clone()),
            path: source.path.to_string_lossy().into(),
            stream: hash_of(key.as_bytes()),
            cursor: None,
            child: None,
            is_caught_up: false,
            retry_at: None,
            retry_after: FIRST_RETRY,
            in_flight: Vec::new(),
            in_flight_bytes: 0,
            skipped_bytes: 0,
            is_known: false,
            error: None,
            options,
        }
    }

    /// Source for a directory of journal files, for [`Journal::new`].
    pub fn source(directory: &Path) -> LogSource {
        LogSource {
            path: directory.to_owned(),
            program: Program::Journal,
            format: LogFormat::Journal,
            found_in: directory.display().to_string(),
        }
    }

    /// The stream to look up at the hub.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Sets the start position from the hub; `None`: the hub does not know the stream, and reading
    /// starts [`JournalOptions::first_contact`] ago.
    pub fn start(&mut self, position: Option<u64>, now: Micros) {
        self.is_known = position.is_some();
        let position = position.unwrap_or_else(|| {
            micros(now - self.options.first_contact).saturating_mul(ENTRIES_PER_MICROSECOND)
        });
        self.rewind(position);
    }

    /// Reads the next complete lines without blocking; `None` when there are none.
    pub fn read(&mut self, now: Micros) -> Option<Chunk> {
        self.cursor.as_ref()?;
        if self.in_flight_bytes >= self.options.max_in_flight_bytes || !self.ensure_child(now) {
            return None;
        }
        let (child, cursor) = (self.child.as_mut()?, self.cursor.as_mut()?);
        let is_open = match child.fill(self.options.chunk_bytes) {
            Ok(is_open) => is_open,
            Err(error) => {
                self.error = Some(format!("cannot read from journalctl: {error}"));
                false
            }
        };
        let from = cursor.position;
        let (bytes, skipped_bytes) = child.take_lines(cursor);
        let to = cursor.position;
        if !is_open && bytes.is_empty() {
            self.child_ended(now);
        }
        self.skipped_bytes += skipped_bytes;
        if to == from {
            return None;
        }
        self.retry_after = FIRST_RETRY;
        self.in_flight.push((to, bytes.len() as u64));
        self.in_flight_bytes += bytes.len() as u64;
        Some(Chunk {
            stream: self.stream,
            path: self.path.clone(),
            source: self.source.clone(),
            from,
            to,
            bytes,
            skipped_bytes,
            is_lost: false,
            events: None,
            is_first: !self.is_known,
            modified: None,
        })
    }

    /// Confirms that the stream is durable up to `to`.
    pub fn acknowledge(&mut self, to: u64) {
        self.is_known = true;
        self.in_flight.retain(|(end, length)| {
            let is_open = *end > to;
            self.in_flight_bytes -= if is_open { 0 } else { *length };
            is_open
        });
    }

    /// Status; file sizes are unknown, so they are those of the data in flight.
    pub fn status(&self) -> StreamStatus {
        let position = self.cursor.as_ref().map_or(0, |cursor| cursor.position);
        let state = match (&self.error, &self.cursor) {
            (Some(_), _) => StreamState::Failed,
            (None, None) => StreamState::Starting,
            (None, Some(_)) => StreamState::Reading,
        };
        StreamStatus {
            stream: Some(self.stream),
            path: self.path.clone(),
            program: Program::Journal,
            position,
            acknowledged: position,
            size: position,
            lag_bytes: self.in_flight_bytes,
            modified: None,
            lost_bytes: self.skipped_bytes,
            state,
            error: self.error.clone(),
        }
    }

    /// Restarts at `to`, the position of the hub, with a new child.
    pub fn rewind(&mut self, to: u64) {
        self.child = None;
        self.is_caught_up = false;
        self.retry_at = None;
        self.in_flight.clear();
        self.in_flight_bytes = 0;
        self.cursor = Some(JournalCursor::new(to));
    }

    fn ensure_child(&mut self, now: Micros) -> bool {
        if self.child.is_some() {
            return true;
        }
        if self.retry_at.is_some_and(|at| now < at) {
            return false;
        }
        let Some(cursor) = &mut self.cursor else { return false };
        *cursor = JournalCursor::new(cursor.position);
        let since = cursor.position / ENTRIES_PER_MICROSECOND;
        match JournalctlChild::spawn(&self.options, since, self.is_caught_up) {
            Ok(child) => {
                self.child = Some(child);
                self.error = None;
                true
            }
            Err(error) => {
                let program = self.options.program.display();
                let hint = "hint: install systemd's journalctl, or read log files instead";
                self.error = Some(format!("cannot run `{program}`: {error}\n{hint}"));
                self.retry_later(now);
                false
            }
        }
    }

    fn child_ended(&mut self, now: Micros) {
        // A child that cannot be read may live on: it is killed when it is dropped.
        let ended = self.child.take().filter(|_| self.error.is_none());
        let status = ended.and_then(|mut child| child.child.wait().ok());
        self.is_caught_up = !self.is_caught_up && status.is_some_and(|status| status.success());
        if self.is_caught_up {
            return;
        }
        self.error.get_or_insert_with(|| {
            "cannot follow the journal: journalctl has exited\nhint: run `journalctl -f`; weir's user must be in group \
             `systemd-journal`"
                .into()
        });
        self.retry_later(now);
    }

    fn retry_later(&mut self, now: Micros) {
        self.retry_at = Some(now + self.retry_after);
        self.retry_after = (self.retry_after * 2).min(LAST_RETRY);
    }
}

fn micros(time: Micros) -> u64 {
    u64::try_from(time.0).unwrap_or(0)
}

#[derive(Debug)]
struct JournalCursor {
    /// Position after the last returned entry.
    position: u64,
    /// Entries up to this position were read by an earlier child; `None` once a later one has come.
    resume: Option<u64>,
    /// µs of the previous entry, and its index within it.
    last: (u64, u64),
}

impl JournalCursor {
    fn new(position: u64) -> Self {
        Self { position, resume: Some(position), last: (0, 0) }
    }

    /// Advances to the next entry; `false` when it was read before.
    fn take(&mut self, time: u64) -> bool {
        let index = if self.last.0 == time { self.last.1 + 1 } else { 1 };
        self.last = (time, index);
        let position =
            time.saturating_mul(ENTRIES_PER_MICROSECOND) + index.min(ENTRIES_PER_MICROSECOND - 1);
        if self.resume.is_some_and(|resume| position <= resume) {
            return false;
        }
        self.resume = None;
        self.position = position.max(self.position + 1);
        true
    }
}

#[derive(Debug)]
struct JournalctlChild {
    child: Child,
    output: ChildStdout,
    pending: Vec<u8>,
    /// Whether the remainder of an overlong line is being skipped.
    is_skipping: bool,
}

impl JournalctlChild {
    fn spawn(options: &JournalOptions, since: u64, follows: bool) -> io::Result<Self> {
        let mut command = Command::new(&options.program);
        command.args(["--output=json", "--all", "--no-pager", "--quiet"]);
        command.args(["--follow", "--no-tail"].iter().filter(|_| follows));
        command.arg(format!("--since=@{}.{:06}", since / 1_000_000, since % 1_000_000));
        if let Some(root) = &options.root {
            command.arg(format!("--root={}", root.display()));
        }
        command
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let output = child.stdout.take().expect("its stdout is piped");
        rustix::io::ioctl_fionbio(&output, true)?;
        Ok(Self { child, output, pending: Vec::new(), is_skipping: false })
    }

    /// Reads output, up to `limit` pending bytes; `false` when the child has closed its end.
    fn fill(&mut self, limit: usize) -> io::Result<bool> {
        while self.pending.len() < limit {
            self.pending.reserve(64 << 10);
            match rustix::io::read(&self.output, spare_capacity(&mut self.pending)) {
                Ok(0) => return Ok(false),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Takes the new complete lines, and the count of skipped bytes.
    fn take_lines(&mut self, cursor: &mut JournalCursor) -> (Vec<u8>, u64) {
        let mut lines = Vec::new();
        let mut skipped = 0;
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', &self.pending) {
            let line = &self.pending[start..=newline];
            start = newline + 1;
            if std::mem::take(&mut self.is_skipping) {
                skipped += line.len() as u64;
            } else if entry_time(line).is_none_or(|time| cursor.take(time)) {
                lines.extend_from_slice(line);
            }
        }
        self.pending.drain(..start);
        if self.pending.len() >= LINE_LIMIT {
            skipped += self.pending.len() as u64;
            self.pending.clear();
            self.is_skipping = true;
        }
        (lines, skipped)
    }
}

impl Drop for JournalctlChild {
    fn drop(&mut self) {
        // The child may have exited by itself; then these calls have no effect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `__REALTIME_TIMESTAMP` of an entry; unambiguous, as quotes in JSON strings are escaped.
fn entry_time(line: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"\"__REALTIME_TIMESTAMP\":\"";
    let start = memmem::find(line, KEY)? + KEY.len();
    let length = line[start..].iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&line[start..start + length]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use super::*;

    /// Writes a real journal file from the export format with systemd's own tool: 20 entries in each
    /// boot, and some messages above 4 KiB.
    fn write_journal(directory: &Path, name: &str, entries: std::ops::Range<u64>) {
        std::fs::create_dir_all(directory).unwrap();
        let mut export = String::new();
        for entry in entries {
            write!(
                export,
                "__REALTIME_TIMESTAMP={}\n__MONOTONIC_TIMESTAMP={}\n_BOOT_ID={:032x}\n\
                 _MACHINE_ID=69d27b356a94476da859461d3a3bc6fd\n_HOSTNAME=web1\nMESSAGE=number {entry}{}\n\n",
                START + entry / 3,
                1000 + entry,
                1 + entry / 20,
                ".".repeat(if entry % 10 == 7 { 5000 } else { 1 }),
            )
            .unwrap();
        }
        let source = directory.join(format!("../{name}.export"));
        std::fs::write(&source, export).unwrap();
        let output = Command::new("/usr/lib/systemd/systemd-journal-remote")
            .arg("-o")
            .arg(directory.join(format!("{name}.journal")))
            .arg(&source)
            .output()
            .expect("systemd-journal-remote is installed");
        assert!(output.status.success(), "{output:?}");
    }

    const START: u64 = 1_700_000_000_000_000;

    fn journal(directory: &Path) -> Journal {
        let options = JournalOptions {
            host: "web1".into(),
            root: directory.ancestors().nth(3).map(Path::to_owned),
            ..JournalOptions::default()
        };
        Journal::new(options, &Journal::source(directory))
    }

    /// Reads until `count` lines have come, or at most 20 s.
    fn read_lines(journal: &mut Journal, count: usize) -> (Vec<String>, u64) {
        let mut lines = Vec::new();
        let mut position = 0;
        for _ in 0..2000 {
            while let Some(chunk) = journal.read(Micros(0)) {
                let text = String::from_utf8(chunk.bytes).unwrap();
                lines.extend(text.lines().map(message));
                position = chunk.to;
                journal.acknowledge(chunk.to);
                if lines.len() >= count {
                    return (lines, position);
                }
            }
            if lines.len() >= count {
                return (lines, position);
            }
            wait_for_child();
        }
        panic!("only {} lines came: {:?}", lines.len(), journal.error);
    }

    #[expect(clippy::disallowed_methods, reason = "waits for another process, with a limit")]
    fn wait_for_child() {
        std::thread::sleep(Duration::from_millis(10));
    }

    fn message(line: &str) -> String {
        let start = line.find("\"number ").unwrap() + 1;
        line[start..].split('.').next().unwrap().to_owned()
    }

    fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
        range.map(|number| format!("number {number}")).collect()
    }

    /// Field cases: elastic/beats#47324, vector#18068, systemd#36102 (entries before the last reboot),
    /// opentelemetry-collector-contrib#30920 (fields above 4 KiB).
    #[test]
    fn entries_are_read_once_over_restarts_even_within_one_microsecond() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("var/log/journal");
        write_journal(&directory, "one", 0..50);
        let mut first = journal(&directory);
        let now = Micros(i64::try_from(START).unwrap() + 60_000_000);
        first.start(None, now);
        let (lines, position) = read_lines(&mut first, 50);
        assert_eq!(lines, numbers(0..50));
        assert_eq!(position, (START + 49 / 3) * ENTRIES_PER_MICROSECOND + 2);
        drop(first);

        // Stopped after the second of three entries of one µs; the third comes first now.
        for stop in [1, 10, 11, 12, 49] {
            let mut second = journal(&directory);
            second.start(
                Some((START + (stop - 1) / 3) * ENTRIES_PER_MICROSECOND + (stop - 1) % 3 + 1),
                now,
            );
            let rest = usize::try_from(50 - stop).unwrap();
            assert_eq!(read_lines(&mut second, rest).0, numbers(stop..50));
        }
    }

    /// Reading resumes at the cursor when journalctl exits while following.
    #[test]
    fn a_killed_journalctl_is_started_again_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("var/log/journal");
        write_journal(&directory, "one", 0..6);
        let mut journal = journal(&directory);
        journal.start(Some(0), Micros(0));
        assert_eq!(read_lines(&mut journal, 6).0, numbers(0..6));
        let mut wait_until = |is_following: bool| {
            let mut reads = (0..2000).map(|_| {
                wait_for_child();
                assert!(journal.read(Micros(0)).is_none());
                journal.is_caught_up && journal.child.is_some()
            });
            assert!(reads.any(|follows| follows == is_following));
            journal.child.iter_mut().for_each(|child| child.child.kill().unwrap());
        };
        wait_until(true);
        wait_until(false);
        write_journal(&directory, "two", 6..12);
        assert!(journal.read(Micros(0)).is_none(), "waits before it tries again");
        journal.retry_at = None;
        assert_eq!(read_lines(&mut journal, 6).0, numbers(6..12));
        assert!(journal.status().error.is_none());
    }

    #[test]
    fn entries_written_later_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("var/log/journal");
        write_journal(&directory, "one", 0..6);
        let mut journal = journal(&directory);
        journal.start(Some(0), Micros(0));
        assert_eq!(read_lines(&mut journal, 6).0, numbers(0..6));
        write_journal(&directory, "two", 6..12);
        assert_eq!(read_lines(&mut journal, 6).0, numbers(6..12));
        journal.rewind(START * ENTRIES_PER_MICROSECOND + 3);
        assert_eq!(read_lines(&mut journal, 9).0, numbers(3..12));
    }

    #[test]
    fn missing_program_is_a_status_and_no_failure() {
        let options = JournalOptions {
            program: "/nonexistent/journalctl".into(),
            ..JournalOptions::default()
        };
        let mut journal = Journal::new(options, &Journal::source(Path::new("/var/log/journal")));
        journal.start(None, Micros(0));
        assert!(journal.read(Micros(0)).is_none());
        assert_eq!(journal.status().state, StreamState::Failed);
        assert!(journal.status().error.unwrap().contains("hint: "));
    }

    #[test]
    fn positions_only_grow_even_when_the_clock_is_stepped_back() {
        let mut cursor = JournalCursor::new(0);
        let mut before = 0;
        for time in [5, 5, 6, 3, 3, 4, 6, 7] {
            assert!(cursor.take(time));
            assert!(cursor.position > before);
            before = cursor.position;
        }
        assert_eq!(before, 7 * ENTRIES_PER_MICROSECOND + 1);
    }
}
