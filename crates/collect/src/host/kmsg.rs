//! Kernel messages from `/dev/kmsg`; messages of known kinds are classified.
//!
//! Source: the kernel's `Documentation/ABI/testing/dev-kmsg`. Each read returns one record,
//! `prefix;message`; the prefix is priority and facility in one number, sequence, microseconds
//! since boot, flags. A reader that was too slow gets `EPIPE` once and continues at the oldest
//! record. "Possible SYN flooding" is printed once per socket, so its absence proves nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use weir_tables::{Batch, Kmsg, KmsgRows, Micros};

use super::kernel_message::KernelMessage;
use super::{CollectResult, Collector, View, take, text};
use crate::CollectError;

/// Maximum number of records per round; the ring keeps the others until the next.
const RECORD_LIMIT: usize = 2000;
const RECORD_BYTES: usize = 16 << 10;
/// Records that are older when weir starts are skipped.
const START_SECONDS: f64 = 600.0;

const SEVERITIES: [&str; 8] =
    ["emergency", "alert", "critical", "error", "warn", "notice", "info", "debug"];
const FACILITIES: [&str; 12] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp",
];

#[derive(Debug)]
pub(super) struct KmsgCollector {
    path: PathBuf,
    file: Option<File>,
    started: Option<TimeWindow>,
    rows: KmsgRows,
}

#[derive(Clone, Copy, Debug)]
struct TimeWindow {
    boot: Micros,
    oldest: Micros,
    /// When weir started.
    first: Micros,
}

impl KmsgCollector {
    pub(super) fn new(view: &View) -> Self {
        let path = view.path("dev/kmsg");
        Self { path, file: None, started: None, rows: KmsgRows::default() }
    }

    fn open(&mut self) -> Result<&mut File, CollectError> {
        if self.file.is_none() {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
            let opened = options.open(&self.path);
            self.file = Some(opened.map_err(|error| refused(&self.path, &error))?);
        }
        Ok(self.file.as_mut().expect("was opened above"))
    }
}

impl Collector for KmsgCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let start = match self.started {
            Some(start) => start,
            None => *self.started.insert(start(view, now)?),
        };
        let mut buffer = [0_u8; RECORD_BYTES];
        let mut result = Ok(());
        for _ in 0..RECORD_LIMIT {
            match self.open()?.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => push(&buffer[..length], start, &view.host, &mut self.rows),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) => {
                    self.file = None;
                    result = Err(refused(&self.path, &error));
                    break;
                }
            }
        }
        take(&mut self.rows, out);
        result
    }
}

fn refused(path: &std::path::Path, error: &io::Error) -> CollectError {
    let failure = CollectError::reading(path, error);
    match error.kind() {
        io::ErrorKind::PermissionDenied => failure
            .with_hint("run weir as root or with CAP_SYSLOG, or set `kernel.dmesg_restrict` to 0"),
        _ => failure,
    }
}

fn start(view: &View, now: Micros) -> Result<TimeWindow, CollectError> {
    let path = view.path("proc/uptime");
    let bytes = std::fs::read(&path).map_err(|error| CollectError::reading(&path, &error))?;
    let up_seconds = text::fields(&bytes).next().and_then(text::float).unwrap_or(0.0).max(0.0);
    let up = Duration::try_from_secs_f64(up_seconds).unwrap_or_default();
    let oldest = now - Duration::from_secs_f64(START_SECONDS);
    Ok(TimeWindow { boot: now - up, oldest, first: now })
}

/// Appends the rows of one read; lines that begin with a blank are metadata and are dropped.
fn push(bytes: &[u8], start: TimeWindow, host: &str, rows: &mut KmsgRows) {
    for line in text::lines(bytes).filter(|line| !line.starts_with(b" ")) {
        let Some(record) = parse(line) else { continue };
        let ts = start.boot + Duration::from_micros(record.stamp_micros);
        if ts < start.oldest {
            continue;
        }
        let known = KernelMessage::read(&record.body);
        rows.push(&Kmsg {
            ts,
            host,
            sequence: record.sequence,
            severity: SEVERITIES[record.priority % 8],
            facility: FACILITIES.get(record.priority / 8).copied().unwrap_or("other"),
            kind: known.map(|known| known.kind),
            subject: known.and_then(|known| known.subject),
            body: &record.body,
            is_backlog: Some(ts < start.first),
        });
    }
}

struct KmsgRecord<'a> {
    priority: usize,
    sequence: i64,
    stamp_micros: u64,
    body: std::borrow::Cow<'a, str>,
}

/// `6,339,5140900,-;NET: Registered protocol family 10`.
fn parse(line: &[u8]) -> Option<KmsgRecord<'_>> {
    let at = memchr::memchr(b';', line)?;
    let prefix = std::str::from_utf8(&line[..at]).ok()?;
    let mut parts = prefix.split(',');
    Some(KmsgRecord {
        priority: parts.next()?.parse().ok()?,
        sequence: parts.next()?.parse().ok()?,
        stamp_micros: parts.next()?.parse().ok()?,
        body: String::from_utf8_lossy(&line[at + 1..]),
    })
}

#[cfg(test)]
mod tests {
    use weir_tables::Rows;

    use super::*;

    #[test]
    fn broken_records_are_left_out_without_panic() {
        for line in [&b"6,339"[..], b";", b"x,1,2,-;a", b"6,1,-5,-;a", b"\xff,1,1,-;a"] {
            assert!(parse(line).is_none());
        }
    }

    #[test]
    fn records_older_than_ten_minutes_before_the_start_are_left_out() {
        let start =
            TimeWindow { boot: Micros(0), oldest: Micros(5_000_000), first: Micros(6_000_000) };
        let mut rows = KmsgRows::default();
        push(b"6,1,4999999,-;old\n", start, "web1", &mut rows);
        push(b"4,2,5000000,-;new\n SUBSYSTEM=net\n", start, "web1", &mut rows);
        push(b"4,3,6000000,-;now\n", start, "web1", &mut rows);
        let batch = rows.finish();
        use arrow_array::cast::AsArray;
        let column = |name: &str| batch.column_by_name(name).unwrap().as_string::<i32>().clone();
        assert_eq!(column("body").iter().flatten().collect::<Vec<_>>(), ["new", "now"]);
        let backlog = batch.column_by_name("is_backlog").unwrap().as_boolean();
        assert!(backlog.value(0) && !backlog.value(1));
        assert_eq!(column("severity").value(0), "warn");
        assert_eq!(column("facility").value(0), "kern");
    }
}
