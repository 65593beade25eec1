//! Network namespaces: discovery, and the handles through which each is read.
//!
//! Source: network_namespaces(7), setns(2), `/proc/PID/ns/net`, `/run/netns`. An open `/proc/net`
//! file or netlink socket keeps its namespace alive. So when no process and no name refers to a
//! namespace any more, its handles are closed, and the kernel frees it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::file::KeptFile;
use super::nf_tables::NfTables;
use super::process::{ProcessTable, namespace_inode};
use super::route_link::RouteLink;
use super::sock_diag::SockDiag;
use crate::CollectError;

/// File system type of namespaces, `linux/magic.h`.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;
const NETNS_LIMIT: usize = 64;
/// Rounds until a namespace that could not be entered is tried again.
const RETRY_ROUNDS: u32 = 60;
/// Rounds between two searches for new and vanished namespaces.
const SCAN_EVERY_ROUNDS: u64 = 2;

/// Files of `/proc/net` that are read each second.
#[derive(Debug)]
pub(crate) struct NetFiles {
    pub(crate) netstat: KeptFile,
    pub(crate) snmp: KeptFile,
    pub(crate) sockstat: KeptFile,
    pub(crate) sockstat6: KeptFile,
    pub(crate) dev: KeptFile,
    pub(crate) conntrack: KeptFile,
}

impl NetFiles {
    fn with(mut make: impl FnMut(&str) -> KeptFile) -> Self {
        Self {
            netstat: make("netstat"),
            snmp: make("snmp"),
            sockstat: make("sockstat"),
            sockstat6: make("sockstat6"),
            dev: make("dev"),
            conntrack: make("stat/nf_conntrack"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Netns {
    /// Inode; 0 for the own namespace if unknown.
    pub(crate) inode: u64,
    pub(crate) name: Arc<str>,
    /// Whether something listens in it; always true for the own namespace.
    pub(crate) is_sampled: bool,
    /// File for setns(2).
    pub(crate) entrance: PathBuf,
    pub(crate) diag: Option<SockDiag>,
    pub(crate) route: Option<RouteLink>,
    pub(crate) nf_tables: Option<NfTables>,
    pub(crate) files: Option<NetFiles>,
    /// Why it could not be entered, and the rounds until the next attempt.
    refused: Option<(CollectError, u32)>,
}

impl Netns {
    pub(crate) fn is_own(&self) -> bool {
        &*self.name == "host"
    }

    /// Returns the diag socket, opened in the namespace if needed.
    pub(crate) fn diag(&mut self) -> Result<&mut SockDiag, CollectError> {
        self.open_diag()?;
        Ok(self.diag.as_mut().expect("was opened above"))
    }

    pub(crate) fn open_diag(&mut self) -> Result<(), CollectError> {
        if let Some((error, rounds)) = &mut self.refused {
            *rounds = rounds.saturating_sub(1);
            if *rounds > 0 {
                return Err(error.clone());
            }
            self.refused = None;
        }
        if self.diag.is_none() {
            let opened = if self.entrance == Path::new("/proc/self/ns/net") {
                SockDiag::open()
            } else {
                inside(&self.entrance, SockDiag::open).and_then(std::convert::identity)
            };
            self.diag = Some(opened.map_err(|error| {
                let error = entering(&self.name, &error);
                self.refused = Some((error.clone(), RETRY_ROUNDS));
                error
            })?);
        }
        Ok(())
    }

    /// Returns the route socket, opened in the namespace if needed.
    pub(crate) fn route(&mut self) -> io::Result<&mut RouteLink> {
        if self.route.is_none() {
            self.route = Some(if self.entrance == Path::new("/proc/self/ns/net") {
                RouteLink::open()?
            } else {
                inside(&self.entrance, RouteLink::open).and_then(std::convert::identity)?
            });
        }
        Ok(self.route.as_mut().expect("was opened above"))
    }

    /// Returns the nf_tables socket, opened in the namespace if needed.
    pub(crate) fn nf_tables(&mut self) -> io::Result<&mut NfTables> {
        if self.nf_tables.is_none() {
            self.nf_tables = Some(if self.entrance == Path::new("/proc/self/ns/net") {
                NfTables::open()?
            } else {
                inside(&self.entrance, NfTables::open).and_then(std::convert::identity)?
            });
        }
        Ok(self.nf_tables.as_mut().expect("was opened above"))
    }

    /// Opens the `/proc/net` files if they are not open.
    pub(crate) fn open_files(&mut self) -> io::Result<()> {
        if self.files.is_none() {
            self.files = Some(inside(&self.entrance, || {
                let dir = Path::new("/proc/thread-self/net");
                NetFiles::with(|name| {
                    KeptFile::opened(dir.join(name), File::open(dir.join(name)).ok())
                })
            })?);
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct NetnsList {
    root: PathBuf,
    is_live: bool,
    scan_age: u64,
    /// The own namespace comes first.
    pub(crate) namespaces: Vec<Netns>,
}

impl NetnsList {
    /// Creates the list with the own namespace; the others come with the first [`NetnsList::scan`].
    pub(crate) fn new(root: &Path, is_live: bool) -> Self {
        // Another root has another `/proc`, without `self`; process 1 represents the host.
        let own = if is_live && root != Path::new("/") { "proc/1" } else { "proc" };
        let net = root.join(own).join("net");
        let entrance = root.join(if own == "proc" { "proc/self/ns/net" } else { "proc/1/ns/net" });
        let inode = fs::read_link(&entrance).ok().and_then(|target| namespace_inode(&target));
        let own = Netns {
            inode: inode.unwrap_or(0),
            name: "host".into(),
            is_sampled: true,
            entrance,
            diag: None,
            route: None,
            nf_tables: None,
            files: Some(NetFiles::with(|name| KeptFile::new(net.join(name)))),
            refused: None,
        };
        Self { root: root.into(), is_live, scan_age: 0, namespaces: vec![own] }
    }

    /// Finds new namespaces and drops vanished ones, every few rounds, since it is expensive.
    pub(crate) fn scan(&mut self, processes: &mut ProcessTable) -> Result<(), CollectError> {
        self.scan_age += 1;
        if !self.is_live || !(self.scan_age - 1).is_multiple_of(SCAN_EVERY_ROUNDS) {
            return Ok(());
        }
        let is_refused = processes.scan();
        let found = self.found(processes);
        let own = self.namespaces[0].inode;
        self.namespaces.retain(|netns| {
            netns.inode == own || found.iter().any(|(inode, ..)| *inode == netns.inode)
        });
        let mut failure = None;
        for (inode, name, entrance) in found {
            if self.namespaces.iter().any(|netns| netns.inode == inode) {
                continue;
            }
            if self.namespaces.len() >= NETNS_LIMIT {
                failure = Some(CollectError::new(
                    format_args!("sample network namespace `{name}`"),
                    format_args!("the limit of {NETNS_LIMIT} namespaces is reached"),
                ));
                break;
            }
            self.namespaces.push(Netns {
                inode,
                name,
                is_sampled: false,
                entrance,
                diag: None,
                route: None,
                nf_tables: None,
                files: None,
                refused: None,
            });
        }
        failure.or_else(|| is_refused.then(refused)).map_or(Ok(()), Err)
    }

    fn found(&self, processes: &ProcessTable) -> Vec<(u64, Arc<str>, PathBuf)> {
        let mut found = named(&self.root.join("run/netns"));
        for (inode, process_id) in processes.namespaces() {
            if !found.iter().any(|(known, ..)| *known == inode) {
                let entrance = self.root.join(format!("proc/{process_id}/ns/net"));
                found.push((inode, format!("net:[{inode}]").into(), entrance));
            }
        }
        found
    }
}

/// Named namespaces: inode, name, and the file for setns(2).
pub(crate) fn named(dir: &Path) -> Vec<(u64, Arc<str>, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(1024);
    entries.filter_map(named_namespace).collect()
}

fn named_namespace(entry: fs::DirEntry) -> Option<(u64, Arc<str>, PathBuf)> {
    // If not mounted yet, or left over, it is a plain file, and its inode means nothing.
    if rustix::fs::statfs(entry.path()).ok()?.f_type != NSFS_MAGIC {
        return None;
    }
    let inode = fs::metadata(entry.path()).ok()?.ino();
    Some((inode, entry.file_name().to_string_lossy().into(), entry.path()))
}

/// Runs `work` on a new thread that has entered the network namespace of `entrance`, for example
/// `/proc/812/ns/net`.
///
/// # Errors
///
/// The namespace is gone or may not be entered, or no thread can be started.
pub fn inside<T: Send>(entrance: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let entrance = File::open(entrance)?;
    std::thread::scope(|scope| {
        let worker =
            std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, || {
                move_into_link_name_space(entrance.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            })?;
        worker
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}

pub(crate) fn entering(name: &str, error: &io::Error) -> CollectError {
    let failure =
        CollectError::new(format_args!("read sockets of network namespace `{name}`"), error);
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            failure.with_hint("run weir as root, or with CAP_SYS_ADMIN and CAP_SYS_PTRACE")
        }
        _ => failure,
    }
}

fn refused() -> CollectError {
    CollectError::new("read the network namespaces of most processes", "permission denied")
        .with_hint("run weir as root, or with CAP_SYS_PTRACE")
}

/// Counts the rows of each namespace, so that one with many does not crowd out the others.
#[derive(Debug, Default)]
pub(crate) struct NetnsRows(HashMap<Arc<str>, usize>);

impl NetnsRows {
    /// Whether a namespace may have another row below `limit`.
    pub(crate) fn admit(&mut self, netns: &Arc<str>, limit: usize) -> bool {
        let count = self.0.entry(netns.clone()).or_default();
        *count += 1;
        *count <= limit
    }
}
