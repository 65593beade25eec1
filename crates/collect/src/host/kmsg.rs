//! Kernel messages from `/dev/kmsg`; messages that concern traffic are classified.
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
        let known = recognise(&record.body);
        rows.push(&Kmsg {
            ts,
            host,
            sequence: record.sequence,
            severity: SEVERITIES[record.priority % 8],
            facility: FACILITIES.get(record.priority / 8).copied().unwrap_or("other"),
            kind: known.map(|(kind, _)| kind),
            subject: known.and_then(|(_, subject)| subject),
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

/// The kind of a message, and its subject.
///
/// A process chooses its name, of up to 15 bytes. So words that fit into a name count only where no
/// name can stand.
fn recognise(body: &str) -> Option<(&'static str, Option<&str>)> {
    if let Some((_, rest)) = body.split_once("]: segfault at ") {
        let name = body[..body.len() - rest.len()].rsplit_once('[').map(|(name, _)| name);
        return Some(("segfault", name));
    }
    if body.contains(" invoked oom-killer: ") || body.starts_with("traps: ") {
        return None;
    }
    if let Some((_, rest)) = body.split_once("ossible SYN flooding on port ") {
        // "80", since 6.0 "0.0.0.0:80" or "[::]:80"
        let address = rest.split(". ").next().unwrap_or(rest).trim_end_matches('.');
        return Some(("syn_flood", address.rsplit(':').next()));
    }
    let killed =
        ["Out of memory: ", "Memory cgroup out of memory: ", ""].iter().find_map(|cause| {
            let rest = body.strip_prefix(cause)?;
            rest.strip_prefix("Killed process ").or_else(|| rest.strip_prefix("Kill process "))
        });
    if let Some(rest) = killed {
        return Some(("oom_kill", between(rest, ["(", ")"])));
    }
    if let Some((_, rest)) = body.split_once("I/O error") {
        return Some(("io_error", rest.split_once("dev ").map(|(_, dev)| word(dev))));
    }
    if body.contains("emounting filesystem read-only") {
        let device = between(body, ["(device ", ")"]).or_else(|| between(body, ["(", ")"]));
        return Some(("readonly_remount", device.map(word)));
    }
    if body.contains("nf_conntrack: table full") {
        return Some(("conntrack_full", None));
    }
    if body.contains("blocked for more than") {
        let task = body.split_once("task ").and_then(|(_, task)| task.split(':').next());
        return Some(("hung_task", task));
    }
    if body.contains("too many orphaned sockets") {
        return Some(("orphans", None));
    }
    link_down(body).map(|device| ("link_down", Some(device)))
}

/// "ena 0000:00:05.0 eth0: Link is down", "e1000e: eth0 NIC Link is Down", "eth0: Link Down".
fn link_down(body: &str) -> Option<&str> {
    let at = ["Link is down", "Link is Down", "Link down", "Link Down", "link down"]
        .iter()
        .find_map(|words| body.find(words))?;
    let before = body[..at].trim_end().trim_end_matches("NIC").trim_end().trim_end_matches(':');
    before.rsplit([' ', ':']).find(|word| !word.is_empty())
}

fn between<'a>(text: &'a str, [open, close]: [&str; 2]) -> Option<&'a str> {
    text.split_once(open)?.1.split(close).next()
}

/// The first word, without the comma or colon after it.
fn word(text: &str) -> &str {
    text.split([' ', ',', ':', ')']).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use weir_tables::Rows;

    use super::*;

    #[test]
    fn known_messages_name_their_subject() {
        let known = "
            syn_flood | 80 | TCP: request_sock_TCP: Possible SYN flooding on port 80. Sending cookies.  Check SNMP counters.
            syn_flood | 8080 | TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:8080. Sending cookies.
            syn_flood | 443 | TCP: Possible SYN flooding on port [::]:443. Dropping request.
            oom_kill | java | Out of memory: Killed process 4242 (java) total-vm:1kB, anon-rss:1kB
            oom_kill | python3 | Memory cgroup out of memory: Killed process 7 (python3) total-vm:9kB
            oom_kill | mysqld | Out of memory: Kill process 9 (mysqld) score 5
            io_error | sdb | blk_update_request: I/O error, dev sdb, sector 2048 op 0x0:(READ)
            io_error | dm-0 | Buffer I/O error on dev dm-0, logical block 1
            readonly_remount | sda1 | EXT4-fs (sda1): Remounting filesystem read-only
            conntrack_full | - | nf_conntrack: nf_conntrack: table full, dropping packet
            hung_task | jbd2/sda1-8 | INFO: task jbd2/sda1-8:301 blocked for more than 120 seconds.
            orphans | - | TCP: too many orphaned sockets
            segfault | nginx | nginx[812]: segfault at 0 ip 00 sp 00 error 4
            link_down | eth0 | ena 0000:00:05.0 eth0: Link is down
            link_down | eth1 | e1000e: eth1 NIC Link is Down
";
        for line in known.lines().filter(|line| !line.is_empty()) {
            let [kind, subject, body] = line.trim().splitn(3, " | ").collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let subject = (subject != "-").then_some(subject);
            assert_eq!(recognise(body), Some((kind, subject)), "{body}");
        }
    }

    #[test]
    fn names_of_processes_are_not_taken_for_messages() {
        let crash = "I/O error dev a[7]: segfault at 0 ip 00 sp 00 error 4";
        assert_eq!(recognise(crash), Some(("segfault", Some("I/O error dev a"))));
        for body in [
            "Killed process  invoked oom-killer: gfp_mask=0x100cca, order=0",
            "I/O error dev a invoked oom-killer: gfp_mask=0x100cca, order=0",
            "traps: Link is down[7] general protection fault ip:1 sp:2 error:0",
            "audit: type=1326 comm=\"Killed process \" exe=\"/x (nginx)\"",
        ] {
            assert_eq!(recognise(body), None, "{body}");
        }
    }

    #[test]
    fn other_messages_and_broken_records_are_kept_or_left_out_without_panic() {
        assert_eq!(recognise("NET: Registered PF_INET6 protocol family"), None);
        assert_eq!(recognise("ossible SYN flooding on port "), Some(("syn_flood", Some(""))));
        assert_eq!(recognise("Link is down"), None);
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
