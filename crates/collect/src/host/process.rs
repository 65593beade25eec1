//! Processes of the host: the network namespace of each, and the holders of a socket.
//!
//! Source: `/proc/PID/ns/net`, `/proc/PID/fd`, `/proc/PID/comm`, `/proc/PID/cgroup`. A new process
//! often changes its namespace right after it was created, so young ones are checked three times
//! and all of them every half minute. Listening sockets are opened early and have low descriptors:
//! checking the first ones of each process finds them without walking all connections of a proxy.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::text;

const PROCESS_LIMIT: usize = 32_768;
/// Descriptors checked per process for the owner of a socket.
const DESCRIPTOR_LIMIT: usize = 512;
const HOLDER_LIMIT: usize = 64;
/// Every n-th scan checks all processes, the others only new ones.
const FULL_SCAN_EVERY: u32 = 15;
const YOUNG_CHECKS: u8 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketOwner {
    pub(crate) process_id: u32,
    pub(crate) name: String,
    pub(crate) process_count: i64,
    /// Ids of all holders, at most [`HOLDER_LIMIT`].
    pub(crate) process_ids: Vec<u32>,
    pub(crate) cgroup: Option<Cgroup>,
}

/// Position of a process in the control groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cgroup {
    /// Path used in tables: the first that is not the root, of the version 1 trees with limits,
    /// version 2, and the other trees. Each tree may have the process in another group.
    pub(crate) name: String,
    pub(crate) unified: Option<String>,
    /// Paths in the version 1 trees by controller.
    pub(crate) controllers: BTreeMap<String, String>,
}

#[derive(Debug)]
struct ProcessEntry {
    netns: u64,
    checks: u8,
}

#[derive(Debug)]
pub(crate) struct ProcessTable {
    proc: PathBuf,
    processes: BTreeMap<u32, ProcessEntry>,
    scan_count: u32,
}

impl ProcessTable {
    pub(crate) fn new(proc: PathBuf) -> Self {
        Self { proc, processes: BTreeMap::new(), scan_count: 0 }
    }

    /// Finds new and dead processes. True when most namespaces could not be read: then weir lacks
    /// the privilege. A process with more capabilities than weir, such as process 1 of some virtual
    /// machines, is refused even to root.
    pub(crate) fn scan(&mut self) -> bool {
        let is_full = self.scan_count.is_multiple_of(FULL_SCAN_EVERY);
        self.scan_count = self.scan_count.wrapping_add(1);
        let mut old = std::mem::take(&mut self.processes);
        let mut refused_count = 0;
        for process_id in process_ids(&self.proc).take(PROCESS_LIMIT) {
            let known = old.remove(&process_id);
            let process = match known {
                Some(process) if !is_full && process.checks >= YOUNG_CHECKS => process,
                known => match netns_of(&self.proc, process_id) {
                    Ok(netns) => {
                        let checks = known.map_or(0, |known| known.checks).saturating_add(1);
                        ProcessEntry { netns, checks }
                    }
                    Err(error) => {
                        let is_refused = error.kind() == std::io::ErrorKind::PermissionDenied;
                        refused_count += usize::from(is_refused);
                        continue;
                    }
                },
            };
            self.processes.insert(process_id, process);
        }
        refused_count > self.processes.len()
    }

    /// Whether the process was alive at the last scan.
    pub(crate) fn is_alive(&self, process_id: u32) -> bool {
        self.processes.contains_key(&process_id)
    }

    pub(crate) fn namespaces(&self) -> BTreeMap<u64, u32> {
        let mut found = BTreeMap::new();
        for (&process_id, process) in &self.processes {
            found.entry(process.netns).or_insert(process_id);
        }
        found
    }

    /// Finds the holders of the sockets in `owners`. True when descriptors could not be read.
    pub(crate) fn find_owners(&self, owners: &mut HashMap<u32, Option<SocketOwner>>) -> bool {
        let mut is_refused = false;
        for process_id in process_ids(&self.proc).take(PROCESS_LIMIT) {
            let dir = self.proc.join(process_id.to_string());
            match fs::read_dir(dir.join("fd")) {
                Ok(entries) => {
                    let mut held: Vec<(u32, PathBuf)> = entries
                        .take(DESCRIPTOR_LIMIT)
                        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
                        .filter_map(|path| Some((socket_inode(&path)?, path)))
                        .filter(|(inode, _)| owners.contains_key(inode))
                        .collect();
                    held.sort_unstable();
                    held.dedup_by_key(|(inode, _)| *inode);
                    if held.is_empty() {
                        continue;
                    }
                    let name = comm(&dir);
                    // A child between fork and exec holds all sockets of its parent.
                    held.retain(|(inode, path)| socket_inode(path) == Some(*inode));
                    for (inode, _) in held {
                        if let Some(owner) = owners.get_mut(&inode) {
                            note_owner(owner, process_id, &name, &dir);
                        }
                    }
                }
                Err(error) => is_refused |= error.kind() == std::io::ErrorKind::PermissionDenied,
            }
        }
        is_refused
    }
}

fn note_owner(owner: &mut Option<SocketOwner>, process_id: u32, name: &str, dir: &Path) {
    match owner {
        Some(owner) => {
            owner.process_count += 1;
            if owner.process_ids.len() < HOLDER_LIMIT {
                owner.process_ids.push(process_id);
            }
            if process_id < owner.process_id {
                owner.process_id = process_id;
                name.clone_into(&mut owner.name);
            }
        }
        none => {
            *none = Some(SocketOwner {
                process_id,
                name: name.to_owned(),
                process_count: 1,
                process_ids: vec![process_id],
                cgroup: cgroup(dir),
            });
        }
    }
}

pub(crate) fn process_ids(proc: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(proc).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn netns_of(proc: &Path, process_id: u32) -> std::io::Result<u64> {
    let target = fs::read_link(proc.join(format!("{process_id}/ns/net")))?;
    namespace_inode(&target)
        .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidData, "no namespace"))
}

/// The number in `net:[4026531840]`.
pub(crate) fn namespace_inode(target: &Path) -> Option<u64> {
    bracketed(target, "net:[")
}

fn socket_inode(path: &Path) -> Option<u32> {
    bracketed(&fs::read_link(path).ok()?, "socket:[")
}

fn bracketed<T: std::str::FromStr>(target: &Path, prefix: &str) -> Option<T> {
    target.to_str()?.strip_prefix(prefix)?.strip_suffix(']')?.parse().ok()
}

/// The name of the process whose directory this is.
pub(crate) fn comm(dir: &Path) -> String {
    let bytes = fs::read(dir.join("comm")).unwrap_or_default();
    text::trimmed(&bytes).into_owned()
}

fn cgroup(dir: &Path) -> Option<Cgroup> {
    fs::read(dir.join("cgroup")).ok().map(|bytes| parse_cgroup(&bytes))
}

/// `/proc/PID/cgroup`: lines `number:controllers:path`; no controllers means version 2.
pub(crate) fn parse_cgroup(bytes: &[u8]) -> Cgroup {
    let mut cgroup = Cgroup::default();
    for line in text::lines(bytes) {
        let line = String::from_utf8_lossy(line);
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if controllers.is_empty() {
            cgroup.unified = Some(path.to_owned());
        }
        for controller in controllers.split(',').filter(|controller| !controller.is_empty()) {
            cgroup.controllers.insert(controller.to_owned(), path.to_owned());
        }
    }
    let limited = ["cpu", "memory"].iter().filter_map(|name| cgroup.controllers.get(*name));
    let systemd = cgroup.controllers.get("name=systemd");
    let others = cgroup.controllers.values();
    let name =
        limited.chain(&cgroup.unified).chain(systemd).chain(others).find(|path| *path != "/");
    cgroup.name = name.map_or("/", String::as_str).to_owned();
    cgroup
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_of_both_versions_gets_a_specific_name() {
        let two = parse_cgroup(b"0::/system.slice/nginx.service\n");
        assert_eq!(two.name, "/system.slice/nginx.service");
        let hybrid = parse_cgroup(b"9:name=systemd:/\n4:memory:/web/1\n2:cpu,cpuacct:/\n0::/\n");
        assert_eq!(hybrid.name, "/web/1");
        assert_eq!(hybrid.controllers["cpuacct"], "/");
        let split = parse_cgroup(b"9:name=systemd:/cron.service\n4:memory:/\n2:cpu:/batch\n0::/\n");
        assert_eq!(split.name, "/batch");
        assert_eq!(parse_cgroup(b"8:pids:/jobs\n2:cpu:/\n0::/\n").name, "/jobs");
        assert_eq!(parse_cgroup(b"garbage").name, "/");
    }

    #[test]
    fn own_process_and_its_namespace_are_found() {
        let mut table = ProcessTable::new("/proc".into());
        table.scan();
        assert!(table.is_alive(std::process::id()));
        let own = namespace_inode(&fs::read_link("/proc/self/ns/net").unwrap()).unwrap();
        assert!(table.namespaces().contains_key(&own));
    }

    #[test]
    fn holder_of_a_socket_is_found() {
        use std::os::fd::AsFd;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = rustix::fs::fstat(listener.as_fd()).unwrap().st_ino;
        let inode = u32::try_from(inode).unwrap();
        let mut owners = HashMap::from([(inode, None)]);
        ProcessTable::new("/proc".into()).find_owners(&mut owners);
        let owner = owners[&inode].as_ref().unwrap();
        assert_eq!(owner.process_id, std::process::id());
        assert_eq!(owner.process_count, 1);
    }
}
