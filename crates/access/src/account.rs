//! An account of the host, and acting as it: effective ids and groups of one short-lived thread.
//!
//! Source: credentials(7), capabilities(7), passwd(5), group(5). The kernel keeps ids for each
//! thread; the C library would set them for all, so the system calls are made directly. Listing
//! files below `/proc/PID/root` needs `CAP_SYS_PTRACE`; an open has no capability at all.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::process::{Gid, Uid, getuid};
use rustix::thread::{
    CapabilitySet, capabilities, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::refusal::refused;

const FILE_LIMIT: u64 = 4 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) user_id: u32,
    pub(crate) group_id: u32,
    pub(crate) groups: Vec<u32>,
}

impl Account {
    /// Looks the groups of a user up; an unknown user is in no group.
    pub(crate) fn of_user(user_id: u32) -> Self {
        let [users, groups] = ["/etc/passwd", "/etc/group"].map(database);
        let user = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields.get(2).and_then(|id| id.parse().ok()) == Some(user_id));
        let name = user.as_ref().map_or("", |fields| fields[0]);
        let group_id = user.as_ref().and_then(|fields| fields.get(3)?.parse().ok());
        let member_of = groups.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let is_member = !name.is_empty() && fields.get(3)?.split(',').any(|it| it == name);
            is_member.then(|| fields[2].parse().ok()).flatten()
        });
        Self { user_id, group_id: group_id.unwrap_or(65_534), groups: member_of.collect() }
    }

    /// `bob` (uid 1000), or `uid 1000` without a name.
    pub(crate) fn name(&self) -> String {
        let users = database("/etc/passwd");
        let of_user = |line: &&str| line.split(':').nth(2) == Some(&*self.user_id.to_string());
        match users.lines().find(of_user).and_then(|line| line.split(':').next()) {
            Some(name) => format!("`{name}` (uid {})", self.user_id),
            None => format!("uid {}", self.user_id),
        }
    }

    /// Runs `action` with the rights of this account on files.
    pub(crate) fn run<T: Send>(&self, action: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.run_with(CapabilitySet::SYS_PTRACE, action)
    }

    fn run_with<T: Send>(
        &self,
        kept: CapabilitySet,
        action: impl FnOnce() -> T + Send,
    ) -> io::Result<T> {
        let acted = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("as-owner".into());
            let thread = thread.spawn_scoped(scope, || self.assume(kept).map(|()| action()))?;
            thread.join().map_err(|_| io::Error::other("the thread that opens it panicked"))
        })?;
        acted.map_err(|error| {
            refused(
                format!("weir cannot act as {} to open it: {error}", self.name()),
                "run weir as root, or with `CAP_SETUID` and `CAP_SETGID`",
            )
        })
    }

    /// Opens `path` within `root` as this account.
    pub(crate) fn open_within(
        &self,
        root: &OwnedFd,
        path: &Path,
        flags: OFlags,
    ) -> io::Result<OwnedFd> {
        self.run_with(CapabilitySet::empty(), || open_in_root(root, path, flags))?
    }

    /// Gives this thread the account's ids, for good.
    fn assume(&self, kept: CapabilitySet) -> rustix::io::Result<()> {
        let mut sets = capabilities(None)?;
        sets.effective = sets.permitted;
        set_capabilities(None, sets)?;
        if getuid().as_raw() != self.user_id {
            let groups: Vec<Gid> = self.groups.iter().map(|id| Gid::from_raw(*id)).collect();
            set_thread_groups(&groups)?;
            set_thread_res_gid(None::<Gid>, Gid::from_raw(self.group_id), None::<Gid>)?;
            set_thread_res_uid(None::<Uid>, Uid::from_raw(self.user_id), None::<Uid>)?;
        }
        sets.effective = sets.permitted & kept;
        set_capabilities(None, sets)
    }
}

/// Links are resolved as within chroot(2), and none of procfs is followed.
pub(crate) fn open_in_root(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)?)
}

fn database(path: &str) -> String {
    let read = crate::read(Path::new(path), FILE_LIMIT).unwrap_or_default();
    String::from_utf8_lossy(&read).into_owned()
}
