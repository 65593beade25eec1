//! Paths below `/proc/PID/root`: the process' owner, its root, and the path within it.
//!
//! Everything is read through one descriptor of `/proc/PID`, which fails after the process has
//! ended; so a reused process id is noticed.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::getuid;

use crate::account::{Account, open_in_root};
use crate::refusal::because;

/// `f_type` of procfs, statfs(2).
const PROC_SUPER_MAGIC: i128 = 0x9fa0;
/// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`, as bits of `CapEff`.
const READS_ALL: u64 = 0b110;

#[derive(Debug)]
pub(crate) struct ProcessPath {
    pub(crate) root: OwnedFd,
    /// Absolute path as the process sees it.
    pub(crate) inner: PathBuf,
    pub(crate) owner: ProcessOwner,
    process: OwnedFd,
}

#[derive(Debug)]
pub(crate) enum ProcessOwner {
    /// Root, or weir's own account.
    Trusted,
    Ordinary(OrdinaryOwner),
}

#[derive(Debug)]
pub(crate) struct OrdinaryOwner {
    pub(crate) account: Account,
    /// Whether it may read all files whose owners its user namespace maps.
    reads_all_mapped: bool,
}

/// Whether the process of a directory such as `/proc/12` runs as root or as weir's own account.
/// A recorded process without a `status` does.
pub fn is_trusted_process(directory: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(process) = rustix::fs::openat(CWD, directory, flags, Mode::empty()) else {
        return false;
    };
    if !is_procfs(&process) {
        return true;
    }
    matches!(owner_of(&process), Ok(ProcessOwner::Trusted))
}

pub(crate) fn is_procfs(file: &OwnedFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|stat| i128::from(stat.f_type) == PROC_SUPER_MAGIC)
}

impl ProcessPath {
    /// Parses a path below `/proc/PID/root`; `None` for other paths, and for recorded processes.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        let parts: Vec<Component<'_>> = path.components().collect();
        let is_root = |window: &[Component<'_>]| {
            let [first, id, last] = [0, 1, 2].map(|at| window[at].as_os_str().as_encoded_bytes());
            first == b"proc" && id.iter().all(u8::is_ascii_digit) && last == b"root"
        };
        let Some(at) = parts.windows(3).position(is_root) else { return Ok(None) };
        let directory: PathBuf = parts[..at + 2].iter().collect();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let process = rustix::fs::openat(CWD, &directory, flags, Mode::empty())?;
        if !is_procfs(&process) {
            return Ok(None);
        }
        let root = rustix::fs::openat(&process, "root", flags, Mode::empty())?;
        let owner = owner_of(&process)?;
        let inner = Path::new("/").join(parts[at + 3..].iter().collect::<PathBuf>());
        Ok(Some(Self { root, inner, owner, process }))
    }
}

impl OrdinaryOwner {
    /// Opens the path as the owner would, within the root of the process.
    pub(crate) fn open(&self, place: &ProcessPath, flags: OFlags) -> io::Result<OwnedFd> {
        let opened = self.account.open_within(&place.root, &place.inner, flags);
        let denied = match opened {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
            other => return other.map_err(|error| self.explain(error)),
        };
        if self.reads_all_mapped
            && let Ok(file) = open_in_root(&place.root, &place.inner, flags)
            && place.maps_owner_of(&file)
        {
            return Ok(file);
        }
        Err(self.explain(denied))
    }

    fn explain(&self, error: io::Error) -> io::Error {
        let owner = self.account.name();
        because(error, &format!("the process that names it runs as {owner}, who may not read it"))
    }
}

impl ProcessPath {
    /// Whether user and group of the file exist in the user namespace of the process.
    fn maps_owner_of(&self, file: &OwnedFd) -> bool {
        let Ok(stat) = rustix::fs::fstat(file) else { return false };
        let maps = |name: &str, id: u32| {
            let text = text_of(&self.process, name).unwrap_or_default();
            text.lines().any(|line| {
                let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
                let [_, outside, count] = numbers[..] else { return false };
                (outside..outside.saturating_add(count)).contains(&u64::from(id))
            })
        };
        maps("uid_map", stat.st_uid) && maps("gid_map", stat.st_gid)
    }
}

fn owner_of(process: &OwnedFd) -> io::Result<ProcessOwner> {
    Ok(parse_owner(&text_of(process, "status")?, getuid().as_raw()))
}

/// Reads `Uid`, `Gid`, `Groups` and `CapEff` of `/proc/PID/status`.
fn parse_owner(status: &str, own_user_id: u32) -> ProcessOwner {
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        value.split_whitespace()
    };
    let numbers = |name| field(name).flat_map(str::parse::<u32>).collect::<Vec<_>>();
    let users = numbers("Uid:");
    let trusted = [0, own_user_id];
    let is_trusted = |id: &u32| users.len() == 4 && users.iter().all(|user| user == id);
    if trusted.iter().any(is_trusted) {
        return ProcessOwner::Trusted;
    }
    // The real id is the account that started it, unless root started it and became another user.
    let at = users.iter().position(|id| *id != 0).unwrap_or(0);
    let capabilities = field("CapEff:").next().and_then(|hex| u64::from_str_radix(hex, 16).ok());
    ProcessOwner::Ordinary(OrdinaryOwner {
        account: Account {
            user_id: users.get(at).copied().unwrap_or(65_534),
            group_id: numbers("Gid:").get(at).copied().unwrap_or(65_534),
            groups: numbers("Groups:"),
        },
        reads_all_mapped: at == 0 && capabilities.unwrap_or(0) & READS_ALL != 0,
    })
}

fn text_of(process: &OwnedFd, name: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::openat(process, name, flags, Mode::empty())?);
    let mut text = String::new();
    file.take(1 << 20).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(users: &str, groups: &str) -> ProcessOwner {
        let status = format!("Name:\tnginx\nUid:\t{users}\nGid:\t{groups}\nGroups:\t4 27 \n");
        parse_owner(&status, 990)
    }

    #[test]
    fn process_of_a_set_user_id_file_belongs_to_whoever_started_it() {
        let ProcessOwner::Ordinary(owner) = parsed("1000 0 0 0", "1000 0 0 0") else {
            panic!("a real user id of 1000 is not root's")
        };
        let expected = Account { user_id: 1000, group_id: 1000, groups: vec![4, 27] };
        assert_eq!(owner.account, expected);
        assert!(matches!(parsed("0 0 0 0", "0 0 0 0"), ProcessOwner::Trusted));
        assert!(matches!(parsed("990 990 990 990", "0 0 0 0"), ProcessOwner::Trusted));
        assert!(matches!(parsed("", ""), ProcessOwner::Ordinary(_)));
    }
}
