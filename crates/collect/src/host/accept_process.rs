//! Processes that accept from a listening socket, which a master and its workers share.
//!
//! Source: proc_pid_fdinfo(5): an epoll descriptor lists its sockets as `tfd: 6 events: 19 data:
//! 7f… pos:0 ino:61af sdev:9`, where `ino` is hexadecimal. With SO_REUSEPORT nginx' workers hold
//! the sockets of all workers, and only the epoll sets distinguish them. Programs without epoll
//! (prefork servers that block in accept()) accept in children of the process that created the
//! socket. The list of a worker with 10,000 connections has as many lines, so it is read only while
//! connections wait.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use weir_tables::Micros;

use super::process::SocketOwner;
use super::run::{DutyCycle, Stopwatch};
use super::text;

const DUTY_CYCLE: DutyCycle = DutyCycle { cost_ratio: 0.001, pause_seconds: (0.0, 300.0) };
/// Seconds for which an answer is used.
const VALID_SECONDS: f64 = 60.0;
const CACHE_LIMIT: usize = 256;
/// Descriptors checked per process for epoll sets.
const DESCRIPTOR_LIMIT: usize = 512;
/// Lines read per epoll set.
const LINE_LIMIT: usize = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcceptProcess {
    /// The lowest id of them.
    pub(super) process_id: u32,
    pub(super) process_count: i64,
}

/// Accepting processes by inode of the socket, searched at a bounded cost.
#[derive(Debug, Default)]
pub(super) struct AcceptProcesses {
    found: HashMap<u32, (Micros, Option<AcceptProcess>)>,
    next: Option<Micros>,
}

impl AcceptProcesses {
    /// Returns who accepts from the socket `inode` of `owner`, in which connections wait.
    pub(super) fn of(
        &mut self,
        proc: &Path,
        inode: u32,
        owner: &SocketOwner,
        now: Micros,
    ) -> Option<AcceptProcess> {
        if owner.process_count == 1 {
            return Some(AcceptProcess { process_id: owner.process_id, process_count: 1 });
        }
        if let Some((at, found)) = self.found.get(&inode)
            && (0.0..VALID_SECONDS).contains(&now.seconds_since(*at))
        {
            return *found;
        }
        if !DUTY_CYCLE.is_due(self.next, now) {
            return self.found.get(&inode).and_then(|(_, found)| *found);
        }
        let stopwatch = Stopwatch::start();
        let found = search(proc, inode, &owner.process_ids);
        self.next = Some(DUTY_CYCLE.next_run(stopwatch.stop(), now));
        if self.found.len() >= CACHE_LIMIT {
            self.found.clear();
        }
        self.found.insert(inode, (now, found));
        found
    }
}

fn search(proc: &Path, inode: u32, holders: &[u32]) -> Option<AcceptProcess> {
    let mut accepting: Vec<u32> =
        holders.iter().copied().filter(|&id| is_polling(&process_dir(proc, id), inode)).collect();
    if accepting.is_empty() {
        accepting = holders.iter().copied().filter(|&id| has_parent(proc, id, holders)).collect();
    }
    let process_id = accepting.iter().copied().min()?;
    Some(AcceptProcess {
        process_id,
        process_count: i64::try_from(accepting.len()).unwrap_or(i64::MAX),
    })
}

fn process_dir(proc: &Path, process_id: u32) -> PathBuf {
    proc.join(process_id.to_string())
}

fn has_parent(proc: &Path, process_id: u32, holders: &[u32]) -> bool {
    parent(&process_dir(proc, process_id)).is_some_and(|parent| holders.contains(&parent))
}

/// Whether an epoll set of the process has the socket.
fn is_polling(dir: &Path, inode: u32) -> bool {
    let entries = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten();
    let mut sets = entries.take(DESCRIPTOR_LIMIT).filter(|entry| {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        target.to_string_lossy() == "anon_inode:[eventpoll]"
    });
    let wanted = format!("ino:{inode:x}");
    sets.any(|set| {
        let Ok(file) = File::open(dir.join("fdinfo").join(set.file_name())) else { return false };
        let lines = BufReader::new(file).split(b'\n').map_while(Result::ok).take(LINE_LIMIT);
        lines
            .filter(|line| line.starts_with(b"tfd:"))
            .any(|line| text::fields(&line).any(|field| field == wanted.as_bytes()))
    })
}

/// The fourth field of `/proc/PID/stat`; the second, the name, may contain spaces and brackets.
fn parent(dir: &Path) -> Option<u32> {
    let stat = fs::read(dir.join("stat")).ok()?;
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let field = text::fields(stat.get(name_end + 1..)?).nth(1)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host with a master (10) and workers (11, 12) that hold the sockets 255 and 256.
    fn host(sets: &[(u32, &str)]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (id, of) in [(10, 1), (11, 10), (12, 10)] {
            let dir = proc.path().join(id.to_string());
            fs::create_dir_all(dir.join("fd")).unwrap();
            fs::create_dir_all(dir.join("fdinfo")).unwrap();
            fs::write(dir.join("stat"), format!("{id} (a) b) S {of} 1 1")).unwrap();
        }
        for (id, sockets) in sets {
            let dir = proc.path().join(id.to_string());
            std::os::unix::fs::symlink("anon_inode:[eventpoll]", dir.join("fd/8")).unwrap();
            fs::write(dir.join("fdinfo/8"), format!("pos:\t0\nflags:\t02\n{sockets}")).unwrap();
        }
        proc
    }

    fn line(inode: u32) -> String {
        format!("tfd:        6 events: 2001 data: 7fca  pos:0 ino:{inode:x} sdev:9\n")
    }

    #[test]
    fn process_with_the_socket_in_its_epoll_set_accepts() {
        let proc = host(&[(11, &line(255)), (12, &line(256))]);
        let of = |inode| search(proc.path(), inode, &[10, 11, 12]).unwrap();
        assert_eq!(of(255), AcceptProcess { process_id: 11, process_count: 1 });
        assert_eq!(of(256), AcceptProcess { process_id: 12, process_count: 1 });
    }

    #[test]
    fn without_epoll_the_children_of_a_holder_accept() {
        let proc = host(&[]);
        let found = search(proc.path(), 255, &[10, 11, 12]);
        assert_eq!(found, Some(AcceptProcess { process_id: 11, process_count: 2 }));
        assert_eq!(search(proc.path(), 255, &[11, 12]), None);
    }

    #[test]
    fn only_holder_accepts_and_an_answer_is_kept_for_a_minute() {
        let proc = host(&[(11, &line(255))]);
        let mut owner = SocketOwner {
            process_id: 10,
            name: "nginx".into(),
            process_count: 1,
            process_ids: vec![10],
            cgroup: None,
        };
        let mut processes = AcceptProcesses::default();
        let mut of = |owner: &SocketOwner, seconds: i64| {
            processes.of(proc.path(), 255, owner, Micros(seconds * 1_000_000)).unwrap().process_id
        };
        assert_eq!(of(&owner, 0), 10);
        owner.process_ids = vec![10, 11, 12];
        owner.process_count = 3;
        assert_eq!(of(&owner, 1), 11);
        fs::remove_file(proc.path().join("11/fd/8")).unwrap();
        std::os::unix::fs::symlink("anon_inode:[eventpoll]", proc.path().join("12/fd/8")).unwrap();
        fs::write(proc.path().join("12/fdinfo/8"), line(255)).unwrap();
        assert_eq!(of(&owner, 59), 11);
        assert_eq!(of(&owner, 62), 12);
    }
}
