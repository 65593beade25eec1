//! Processes that wait for a lock on a file: the lines with an arrow in `/proc/locks`.
//!
//! Such a line has the process and the file by device and inode, but no time: a wait counts from the
//! first sample that shows it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read;
use std::path::Path;

use weir_tables::{Batch, FileLockWait, FileLockWaitRows, Micros};

use super::process::comm;
use super::{CollectResult, Collector, View, take, text};
use crate::CollectError;

const ROW_LIMIT: usize = 50;
/// Waiting processes that are looked at; a queue of one lock can be as long as a pool.
const WAITER_LIMIT: usize = 1000;
/// Files whose paths are looked for in a sample.
const PATH_LIMIT: usize = 100;
/// Descriptors of a process among which a file is looked for.
const DESCRIPTOR_LIMIT: usize = 4096;
/// Read of `/proc/locks`, which has about 60 bytes per lock.
const BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Default)]
pub(super) struct FileLockWaitCollector {
    rows: FileLockWaitRows,
    /// First sight of each wait.
    since: HashMap<(u32, String), Micros>,
    /// Paths of files that were waited for in the last sample, by device and inode.
    paths: HashMap<String, Option<String>>,
}

/// A process that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiter {
    process_id: u32,
    kind: &'static str,
    /// Device and inode, as in the file: `fe:01:1573`.
    file: String,
    holder: Option<u32>,
}

/// Waits of processes of one name in one directory.
#[derive(Debug, Default)]
struct Waits<'a> {
    waiters: Vec<(&'a Waiter, f64)>,
}

impl Collector for FileLockWaitCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let proc = view.path("proc");
        let path = proc.join("locks");
        let mut bytes = Vec::new();
        match fs::File::open(&path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes)) {
            Ok(_) => {}
            // Kernels without locks on files have none.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(CollectError::new(path.display(), error)),
        }
        let waiters = waiters(&bytes);
        self.note(&proc, &waiters, now);
        let mut groups: BTreeMap<(String, Option<&str>), Waits<'_>> = BTreeMap::new();
        for waiter in &waiters {
            let name = comm(&proc.join(waiter.process_id.to_string()));
            let key = (waiter.process_id, waiter.file.clone());
            let seconds = self.since.get(&key).map_or(0.0, |since| now.seconds_since(*since));
            let path = self.paths.get(&waiter.file).and_then(Option::as_deref);
            let directory = path.map(|path| path.rsplit_once('/').map_or(path, |(start, _)| start));
            let directory = directory.map(|path| if path.is_empty() { "/" } else { path });
            groups.entry((name, directory)).or_default().waiters.push((waiter, seconds.max(0.0)));
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, waits)| std::cmp::Reverse(waits.waiters.len()));
        for ((name, directory), waits) in groups.iter().take(ROW_LIMIT) {
            let Some((file, longest, seconds)) = waits.summary() else { continue };
            let holder = file.holder.map(|id| (id, comm(&proc.join(id.to_string()))));
            let holder = holder.filter(|(_, name)| !name.is_empty());
            self.rows.push(&FileLockWait {
                ts: now,
                host: &view.host,
                process_name: name,
                directory: *directory,
                path: self.paths.get(&file.file).and_then(Option::as_deref),
                lock_kind: file.kind,
                waiting: i64::try_from(waits.waiters.len()).unwrap_or(i64::MAX),
                longest_seconds: seconds,
                process_id: longest.process_id.into(),
                holder_process_id: holder.as_ref().map(|(id, _)| i64::from(*id)),
                holder_process_name: holder.as_ref().map(|(_, name)| name.as_str()),
            });
        }
        take(&mut self.rows, out);
        Ok(())
    }
}

impl FileLockWaitCollector {
    /// Keeps first sights and paths of waits that last, and adds those of new ones.
    fn note(&mut self, proc: &Path, waiters: &[Waiter], now: Micros) {
        let mut since = std::mem::take(&mut self.since);
        let mut paths = std::mem::take(&mut self.paths);
        for waiter in waiters {
            let key = (waiter.process_id, waiter.file.clone());
            let first = since.remove(&key).filter(|first| *first <= now).unwrap_or(now);
            self.since.insert(key, first);
            if self.paths.contains_key(&waiter.file) || self.paths.len() >= PATH_LIMIT {
                continue;
            }
            let known = paths.remove(&waiter.file).flatten();
            let holder = waiter.holder.into_iter();
            let path = known.or_else(|| {
                [waiter.process_id].into_iter().chain(holder).find_map(|process_id| {
                    path_of(&proc.join(process_id.to_string()), &waiter.file)
                })
            });
            self.paths.insert(waiter.file.clone(), path);
        }
    }
}

impl<'a> Waits<'a> {
    /// A waiter for the file with the most of them, and the longest wait.
    fn summary(&self) -> Option<(&'a Waiter, &'a Waiter, f64)> {
        let mut by_file: BTreeMap<&str, (usize, &'a Waiter)> = BTreeMap::new();
        for (waiter, _) in &self.waiters {
            by_file.entry(&waiter.file).or_insert((0, waiter)).0 += 1;
        }
        let (_, file) = by_file.into_values().max_by_key(|(count, _)| *count)?;
        let longest = self.waiters.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((file, longest.0, longest.1))
    }
}

/// Waiting processes and the holders of their locks.
///
/// `1: FLOCK  ADVISORY  WRITE 1234 fe:01:1573 0 EOF`, and with the same number `1: -> FLOCK …` for
/// each that waits. Open file descriptions have the process -1.
fn waiters(bytes: &[u8]) -> Vec<Waiter> {
    let mut found = Vec::new();
    let mut held: Option<(Vec<u8>, Option<u32>)> = None;
    for line in text::lines(bytes) {
        let mut fields = text::fields(line).peekable();
        let Some(number) = fields.next() else { continue };
        let is_waiter = fields.next_if(|field| *field == b"->").is_some();
        let kind = match fields.next() {
            Some(b"FLOCK") => "flock",
            Some(b"POSIX") => "posix",
            Some(b"OFDLCK") => "ofd",
            _ => continue,
        };
        let process_id = fields
            .nth(2)
            .and_then(text::int)
            .and_then(|process_id| u32::try_from(process_id).ok())
            .filter(|process_id| *process_id > 0);
        if !is_waiter {
            held = Some((number.to_owned(), process_id));
            continue;
        }
        let (Some(process_id), Some(file)) = (process_id, fields.next()) else { continue };
        let holder = held.as_ref().filter(|(holds, _)| holds == number).and_then(|(_, id)| *id);
        let file = String::from_utf8_lossy(file).into_owned();
        found.push(Waiter { process_id, kind, file, holder });
        if found.len() >= WAITER_LIMIT {
            break;
        }
    }
    found
}

/// Path of a file that a process has open, by its number in `/proc/locks`. The file itself is not
/// asked: it may be on a server that does not respond.
fn path_of(dir: &Path, file: &str) -> Option<String> {
    let inode = file.rsplit_once(':')?.1;
    let (inode_line, lock) = (format!("ino:\t{inode}\n"), format!(" {file} "));
    let entries = fs::read_dir(dir.join("fdinfo")).ok()?;
    let descriptor = entries.take(DESCRIPTOR_LIMIT).flatten().find(|entry| {
        let info = fs::read_to_string(entry.path()).unwrap_or_default();
        info.contains(&inode_line) || info.contains(&lock)
    })?;
    let target = fs::read_link(dir.join("fd").join(descriptor.file_name())).ok()?;
    let path = target.to_str()?;
    path.starts_with('/').then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn waiters_have_the_holder_of_their_lock() {
        let text = "1: POSIX  ADVISORY  WRITE 70 fe:01:9 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 12 fe:01:1573 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 13 fe:01:1573 0 EOF\n\
            2:  -> FLOCK  ADVISORY  READ 14 fe:01:1573 0 EOF\n\
            3: OFDLCK ADVISORY  WRITE -1 00:1b:77 0 EOF\n\
            3: -> POSIX  ADVISORY  WRITE 15 00:1b:77 0 0\n\
            4: LEASE  ACTIVE    READ 16 fe:01:8 0 EOF\n\
            4: -> OFDLCK ADVISORY  WRITE -1 fe:01:8 0 EOF\n\
            5: -> FLOCK\n";
        let waiter = |process_id, kind, file: &str, holder| Waiter {
            process_id,
            kind,
            file: file.into(),
            holder,
        };
        assert_eq!(
            waiters(text.as_bytes()),
            [
                waiter(13, "flock", "fe:01:1573", Some(12)),
                waiter(14, "flock", "fe:01:1573", Some(12)),
                waiter(15, "posix", "00:1b:77", None),
            ]
        );
    }

    #[test]
    fn wait_for_a_lock_of_the_kernel_is_found_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session");
        let held = fs::File::create(&path).unwrap();
        let other = fs::File::open(&path).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let waiting = std::thread::spawn(move || flock(&other, FlockOperation::LockExclusive));
        let proc = Path::new("/proc");
        let deadline = Instant::now() + Duration::from_mins(1);
        let found = loop {
            let all = waiters(&fs::read(proc.join("locks")).unwrap());
            let ours = all.into_iter().find(|waiter| waiter.process_id == std::process::id());
            match ours {
                Some(ours) => break ours,
                None if Instant::now() > deadline => panic!("no line for this process"),
                None => std::thread::yield_now(),
            }
        };
        assert_eq!((found.kind, found.holder), ("flock", Some(std::process::id())));
        let mut collector = FileLockWaitCollector::default();
        let start = Micros(1_800_000_000_000_000);
        collector.note(proc, std::slice::from_ref(&found), start);
        assert_eq!(collector.paths[&found.file].as_deref(), path.to_str());
        collector.note(proc, std::slice::from_ref(&found), start + Duration::from_secs(4));
        let key = (found.process_id, found.file.clone());
        assert_eq!(collector.since[&key], start);
        collector.note(proc, &[], start + Duration::from_secs(6));
        assert!(collector.since.is_empty() && collector.paths.is_empty());
        drop(held);
        waiting.join().unwrap().unwrap();
    }
}
