//! The last moments before a step: this process sets its own session, limits and rights, and then
//! becomes the program, which is open already. Nothing is opened by name.
//!
//! Sources: setsid(2), setrlimit(2), prctl(2), exec by `/proc/self/fd` as fexecve(3) does.

use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal, setrlimit};

use crate::host::Account;

/// First argument of the command.
pub const LAUNCH: &str = "launch";
/// Exit status when the program could not be started, as shells have it.
pub const EXIT_NOT_STARTED: u8 = 126;
/// Open files of a step.
const FILES: u64 = 1024;

/// What a step is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchRequest {
    /// The open program.
    pub descriptor: RawFd,
    /// Account that runs it.
    pub account: Account,
    /// Memory of the process.
    pub memory_bytes: u64,
    /// Processes of the account.
    pub tasks: u64,
}

impl LaunchRequest {
    /// Arguments of the command, without those of the step.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Account { uid, gid } = self.account;
        let numbers = [u64::from(uid), u64::from(gid), self.memory_bytes, self.tasks];
        let numbers = numbers.iter().map(u64::to_string);
        [LAUNCH.to_owned(), self.descriptor.to_string()].into_iter().chain(numbers).collect()
    }

    /// Reads the arguments of a launch after the first; the rest is the step.
    pub fn parse(arguments: &[String]) -> Option<(Self, &[String])> {
        let (numbers, step) = arguments.split_at_checked(5)?;
        let [descriptor, uid, gid, memory, tasks] = numbers else { return None };
        let request = Self {
            descriptor: descriptor.parse().ok()?,
            account: Account { uid: uid.parse().ok()?, gid: gid.parse().ok()? },
            memory_bytes: memory.parse().ok()?,
            tasks: tasks.parse().ok()?,
        };
        (!step.is_empty()).then_some((request, step))
    }

    /// Becomes the step; returns why it cannot.
    pub fn become_step(&self, step: &[String]) -> std::io::Error {
        if let Err(error) = self.confine() {
            return error.into();
        }
        let Some((name, arguments)) = step.split_first() else {
            return std::io::ErrorKind::InvalidInput.into();
        };
        let mut command = Command::new(format!("/proc/self/fd/{}", self.descriptor));
        command.arg0(name).args(arguments).env_clear().current_dir("/");
        if rustix::process::geteuid().is_root() && self.account.uid != 0 {
            // This drops supplementary groups, too.
            command.uid(self.account.uid).gid(self.account.gid);
        } else if rustix::process::geteuid().as_raw() != self.account.uid {
            return std::io::ErrorKind::PermissionDenied.into();
        }
        command.exec()
    }

    fn confine(&self) -> rustix::io::Result<()> {
        rustix::process::setsid()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        limit(Resource::Data, self.memory_bytes)?;
        limit(Resource::Nproc, self.tasks)?;
        limit(Resource::Nofile, FILES)?;
        limit(Resource::Core, 0)?;
        rustix::thread::set_no_new_privs(true)
    }
}

/// Sets a limit, or keeps a lower one.
fn limit(resource: Resource, value: u64) -> rustix::io::Result<()> {
    let most = rustix::process::getrlimit(resource).maximum;
    let value = most.map_or(value, |most| most.min(value));
    setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
}
