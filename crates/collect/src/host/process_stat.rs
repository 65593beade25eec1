//! Processes behind listening sockets: descriptors, their limit, and state, sampled each second.
//!
//! Source: proc_pid_stat(5), proc_pid_limits(5). Since kernel 6.2 the size of the directory
//! `/proc/PID/fd` is the number of descriptors; before, its entries are counted once a minute.
//! Times are those of the whole process, but the state letter is the main thread's.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use weir_tables::{Batch, Micros, ProcessStat, ProcessStatRows};

use super::process::comm;
use super::{CollectResult, Collector, View, take, text};

const PROCESS_LIMIT: usize = 64;
/// Seconds between rows of a process; one whose descriptor usage crosses a level has a row at once.
const ROW_EVERY_SECONDS: f64 = 5.0;
/// Levels of descriptor usage in percent of the limit; there is a rule for each.
const LEVELS: [i64; 2] = [80, 98];
/// Seconds between reads of limits, and of descriptors where they must be counted.
const SLOW_READ_SECONDS: f64 = 60.0;
/// USER_HZ, 100 on every current Linux architecture.
const TICKS_PER_SECOND: f64 = 100.0;
/// The kernel's longest line in `/proc/PID/stat` is far shorter.
const STAT_BYTES: usize = 2048;

#[derive(Debug, Default)]
pub(super) struct ProcessStatCollector {
    rows: ProcessStatRows,
    watched: BTreeMap<u32, WatchedProcess>,
    last_row: Option<Micros>,
}

#[derive(Debug)]
struct WatchedProcess {
    dir: PathBuf,
    name: String,
    stat: File,
    samples: StateSamples,
    last_slow_read: Option<Micros>,
    open_files: Option<i64>,
    open_files_limit: Option<i64>,
    /// Level shown by the last row.
    reported_level: usize,
}

#[derive(Debug, Default)]
struct StateSamples {
    samples: i64,
    blocked: i64,
    stopped: i64,
    wait_channel: Option<String>,
    last: Option<StatLine>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct StatLine {
    state: u8,
    cpu_seconds: f64,
    threads: i64,
    start_seconds: f64,
    resident_pages: i64,
}

impl Collector for ProcessStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        self.follow(view);
        let mut buffer = [0_u8; STAT_BYTES];
        self.watched.retain(|_, watched| watched.sample(&mut buffer));
        let age = self.last_row.map_or(f64::INFINITY, |last| now.seconds_since(last));
        let is_due = !(0.0..ROW_EVERY_SECONDS - 0.5).contains(&age);
        self.watched.values_mut().for_each(|watched| watched.count_files(now));
        if !is_due && !self.watched.values().any(WatchedProcess::is_filling) {
            return Ok(());
        }
        if is_due {
            self.last_row = Some(now);
        }
        let cgroups: BTreeMap<u32, &str> = owned(view)
            .filter_map(|(id, owner)| Some((id, owner.cgroup.as_ref()?.name.as_str())))
            .collect();
        for (&process_id, watched) in &mut self.watched {
            if !is_due && !watched.is_filling() {
                continue;
            }
            watched.reported_level = watched.level();
            let samples = std::mem::take(&mut watched.samples);
            let Some(stat) = samples.last else { continue };
            self.rows.push(&ProcessStat {
                ts: now,
                host: &view.host,
                process_id: process_id.into(),
                process_name: &watched.name,
                cgroup: cgroups.get(&process_id).copied(),
                start_seconds: stat.start_seconds,
                state: std::str::from_utf8(&[stat.state]).unwrap_or("?"),
                samples: samples.samples,
                blocked_samples: samples.blocked,
                stopped_samples: samples.stopped,
                wait_channel: samples.wait_channel.as_deref(),
                cpu_seconds_total: stat.cpu_seconds,
                threads: stat.threads,
                resident_bytes: stat.resident_pages.saturating_mul(view.page_bytes),
                open_files: watched.open_files,
                open_files_limit: watched.open_files_limit,
            });
        }
        take(&mut self.rows, out);
        Ok(())
    }
}

fn owned(view: &View) -> impl Iterator<Item = (u32, &super::process::SocketOwner)> {
    view.owners
        .values()
        .flatten()
        .flat_map(|owner| owner.process_ids.iter().map(move |&id| (id, owner)))
}

impl ProcessStatCollector {
    /// Adds new processes and drops those without a listening socket.
    fn follow(&mut self, view: &View) {
        let tcp = view
            .listeners
            .iter()
            .filter_map(|listener| view.owners.get(&listener.socket.inode)?.as_ref());
        let mut wanted: Vec<u32> =
            tcp.flat_map(|owner| owner.process_ids.iter().copied()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.truncate(PROCESS_LIMIT);
        // Processes that listen on Unix sockets only follow.
        let mut others: Vec<u32> = owned(view).map(|(id, _)| id).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|id| wanted.binary_search(id).is_err());
        others.truncate(PROCESS_LIMIT - wanted.len());
        wanted.extend(others);
        wanted.sort_unstable();
        self.watched.retain(|id, _| wanted.binary_search(id).is_ok());
        for id in wanted {
            if !self.watched.contains_key(&id)
                && let Ok(watched) = WatchedProcess::open(view.path(&format!("proc/{id}")))
            {
                self.watched.insert(id, watched);
            }
        }
    }
}

impl WatchedProcess {
    fn open(dir: PathBuf) -> std::io::Result<Self> {
        Ok(Self {
            name: comm(&dir),
            stat: File::open(dir.join("stat"))?,
            dir,
            samples: StateSamples::default(),
            last_slow_read: None,
            open_files: None,
            open_files_limit: None,
            reported_level: 0,
        })
    }

    /// Takes one sample; false when the process is gone.
    fn sample(&mut self, buffer: &mut [u8]) -> bool {
        let Ok(length) = self.stat.read_at(buffer, 0) else { return false };
        let Some(stat) = parse(&buffer[..length]) else { return true };
        self.samples.samples += 1;
        self.samples.stopped += i64::from(matches!(stat.state, b'T' | b't'));
        if stat.state == b'D' {
            self.samples.blocked += 1;
            self.samples.wait_channel =
                wait_channel(&self.dir).or(self.samples.wait_channel.take());
        }
        self.samples.last = Some(stat);
        true
    }

    /// Whether the descriptor usage has crossed a level since the last row.
    fn is_filling(&self) -> bool {
        self.level() > self.reported_level
    }

    /// Number of [`LEVELS`] that the descriptor usage exceeds.
    fn level(&self) -> usize {
        let Some((open, limit)) = self.open_files.zip(self.open_files_limit) else { return 0 };
        LEVELS
            .iter()
            .filter(|level| open.saturating_mul(100) > limit.saturating_mul(**level))
            .count()
    }

    fn count_files(&mut self, now: Micros) {
        let fd = self.dir.join("fd");
        let size = std::fs::metadata(&fd).map_or(0, |found| found.len());
        let is_slow_due = self
            .last_slow_read
            .is_none_or(|last| !(0.0..SLOW_READ_SECONDS).contains(&now.seconds_since(last)));
        if size > 0 {
            self.open_files = i64::try_from(size).ok();
        } else if is_slow_due {
            let counted = std::fs::read_dir(&fd).ok().map(Iterator::count);
            self.open_files = counted.and_then(|count| i64::try_from(count).ok());
        }
        if is_slow_due {
            self.last_slow_read = Some(now);
            let limits = std::fs::read(self.dir.join("limits")).unwrap_or_default();
            self.open_files_limit = parse_limit(&limits);
        }
    }
}

/// Readable by root only; some kernels return `0`.
fn wait_channel(dir: &Path) -> Option<String> {
    let bytes = std::fs::read(dir.join("wchan")).ok()?;
    let name = text::trimmed(&bytes);
    (!name.is_empty() && name != "0").then(|| name.into_owned())
}

/// The name may contain anything, so fields are counted from the last `)`: the state is next.
#[expect(clippy::cast_precision_loss, reason = "ticks stay far below 2^53")]
fn parse(bytes: &[u8]) -> Option<StatLine> {
    let end = bytes.iter().rposition(|&byte| byte == b')')?;
    let fields: Vec<&[u8]> = text::fields(bytes[end + 1..].trim_ascii_end()).collect();
    // Field 3 of the manual page is index 0 here.
    let number = |field: usize| text::int(fields.get(field - 3)?);
    Some(StatLine {
        state: *fields.first()?.first()?,
        cpu_seconds: (number(14)? + number(15)?) as f64 / TICKS_PER_SECOND,
        threads: number(20)?,
        start_seconds: number(22)? as f64 / TICKS_PER_SECOND,
        resident_pages: number(24)?,
    })
}

/// `Max open files  1024  1048576  files`: the soft limit, none when unlimited.
fn parse_limit(bytes: &[u8]) -> Option<i64> {
    let line = text::lines(bytes).find(|line| line.starts_with(b"Max open files"))?;
    text::int(text::fields(&line[b"Max open files".len()..]).next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let line = b"42 (a) b (c) D 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 7 0 12345 1000000 256 18446744073709551615\n";
        let expected = StatLine {
            state: b'D',
            cpu_seconds: 2.0,
            threads: 7,
            start_seconds: 123.45,
            resident_pages: 256,
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse(b"42 (a) S 1"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn soft_limit_is_read_and_unlimited_is_none() {
        let line = b"Limit  Soft Limit  Hard Limit  Units\nMax open files            40                   4096                 files\n";
        assert_eq!(parse_limit(line), Some(40));
        assert_eq!(parse_limit(b"Max open files            unlimited  unlimited files\n"), None);
    }

    #[test]
    fn own_process_is_seen_with_its_files_and_limit() {
        let mut watched = WatchedProcess::open("/proc/self".into()).unwrap();
        assert!(watched.sample(&mut [0; STAT_BYTES]));
        watched.count_files(Micros(0));
        let open_files = watched.open_files.unwrap();
        assert!(open_files >= 3 && open_files < watched.open_files_limit.unwrap());
        assert!(watched.samples.last.as_ref().unwrap().resident_pages > 0);
        assert_eq!(watched.level(), 0);
        let levels = [80, 81, 98, 99, 101].map(|open_files| {
            (watched.open_files, watched.open_files_limit) = (Some(open_files), Some(100));
            watched.level()
        });
        assert_eq!(levels, [0, 1, 1, 2, 2]);
    }
}
