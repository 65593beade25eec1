//! Runs the steps of an action: programs by descriptor, with an empty environment, one session
//! and limits for each, and one deadline.
//!
//! A step is started by way of this program's own `launch` command, which sets what the kernel
//! allows a process to set for itself only, and then becomes the step (`launch.rs`).
//!
//! ```text
//!   output ─► reader thread ─┐
//!   exit   ─► waiter thread ─┴─► channel ─► this thread, until the deadline
//! ```
//! The waiter leaves the ended leader as a zombie, so that its number still names its group when
//! the group is killed.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::io::FdFlags;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use crate::action::RunLimits;
use crate::host::Account;
use crate::launch::LaunchRequest;

/// Time between SIGTERM and SIGKILL at the deadline.
const GRACE: Duration = Duration::from_secs(2);
/// How long output may still come once a step's processes are gone.
const DRAIN: Duration = Duration::from_millis(500);
const READ_BYTES: usize = 8 << 10;

/// A step that is ready to run.
#[derive(Debug)]
pub(crate) struct PreparedStep {
    /// The open program.
    pub(crate) program: File,
    /// Arguments, the program's path first.
    pub(crate) argv: Vec<String>,
}

/// How steps are started.
#[derive(Clone, Debug)]
pub struct StepRunner {
    /// The program weir-act.
    pub launcher: PathBuf,
    /// Whether this process ends all its descendants after a step. Not in a process with other
    /// children.
    pub is_reaping: bool,
}

/// How the steps ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunOutcome {
    pub(crate) exit: Option<i32>,
    pub(crate) output: Vec<u8>,
    pub(crate) timed_out: bool,
    /// Why it failed; `None` if every step ended with 0.
    pub(crate) failure: Option<String>,
}

enum StepEvent {
    Output(Vec<u8>),
    OutputEnd,
    Exit,
}

impl StepRunner {
    /// Runs steps until one fails or the time is over.
    pub(crate) fn run(
        &self,
        steps: &[PreparedStep],
        account: Account,
        limits: &RunLimits,
    ) -> RunOutcome {
        let deadline = Instant::now() + limits.timeout;
        let mut outcome = RunOutcome::default();
        for step in steps {
            let name = step.argv.first().map_or("", String::as_str);
            if let Err(why) = self.run_step(step, account, limits, deadline, &mut outcome) {
                outcome.failure = Some(format!("cannot run `{name}`: {why}"));
            } else if outcome.timed_out {
                let seconds = limits.timeout.as_secs();
                outcome.failure = Some(format!("`{name}` was ended after {seconds} s"));
            } else if let Some(status) = outcome.exit.filter(|status| *status != 0) {
                outcome.failure = Some(format!("`{name}` ended with exit status {status}"));
            }
            if outcome.failure.is_some() {
                break;
            }
        }
        outcome
    }

    fn run_step(
        &self,
        step: &PreparedStep,
        account: Account,
        limits: &RunLimits,
        deadline: Instant,
        outcome: &mut RunOutcome,
    ) -> std::io::Result<()> {
        let (sender, events) = channel();
        let mut child = self.start(step, account, limits, &sender)?;
        let group = group_of(&child);
        let exiting = sender.clone();
        let waiting = std::thread::spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = waitid(WaitId::Pid(group), options);
            let _ = exiting.send(StepEvent::Exit);
        });
        drop(sender);
        let mut reading = OutputTail { bytes: &mut outcome.output, limit: limits.output_bytes };
        if !reading.until_exit(&events, deadline) {
            outcome.timed_out = true;
            signal(group, Signal::TERM);
            reading.until_exit(&events, Instant::now() + GRACE);
        }
        signal(group, Signal::KILL);
        let _ = waiting.join();
        let status = child.wait()?;
        if self.is_reaping {
            end_descendants();
        }
        reading.until_end(&events, Instant::now() + DRAIN);
        outcome.exit = Some(exit_code(status));
        Ok(())
    }

    /// Starts a step, and a thread that reads its output.
    fn start(
        &self,
        step: &PreparedStep,
        account: Account,
        limits: &RunLimits,
        events: &Sender<StepEvent>,
    ) -> std::io::Result<Child> {
        let (mut read, write) = std::io::pipe()?;
        // The interpreter of a script opens the descriptor again, so it stays open over exec.
        rustix::io::fcntl_setfd(step.program.as_fd(), FdFlags::empty())?;
        let request = LaunchRequest {
            descriptor: step.program.as_raw_fd(),
            account,
            memory_bytes: limits.memory_bytes,
            tasks: limits.tasks,
        };
        let mut command = Command::new(&self.launcher);
        command.args(request.arguments()).args(&step.argv).env_clear().current_dir("/");
        command.stdin(Stdio::null());
        command.stdout(write.try_clone()?).stderr(write);
        let started = command.spawn();
        // The command holds the writing end: without it gone, the output has no end.
        drop(command);
        rustix::io::fcntl_setfd(step.program.as_fd(), FdFlags::CLOEXEC)?;
        let child = started?;
        let events = events.clone();
        std::thread::spawn(move || {
            let mut buffer = vec![0; READ_BYTES];
            while let Ok(count @ 1..) = read.read(&mut buffer) {
                if events.send(StepEvent::Output(buffer[..count].to_vec())).is_err() {
                    return;
                }
            }
            let _ = events.send(StepEvent::OutputEnd);
        });
        Ok(child)
    }
}

fn group_of(child: &Child) -> Pid {
    let raw = i32::try_from(child.id()).expect("process numbers are below 2^22");
    Pid::from_raw(raw).expect("a child's number is not 0")
}

/// Signals a step's group; its leader as well, which may not have made the group yet.
fn signal(leader: Pid, signal: Signal) {
    let _ = kill_process_group(leader, signal);
    let _ = kill_process(leader, signal);
}

/// Exit status as shells have it: 128 and the signal's number for a signal.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// The last bytes of the output of all steps.
struct OutputTail<'a> {
    bytes: &'a mut Vec<u8>,
    limit: usize,
}

impl OutputTail<'_> {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let over = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..over);
    }

    /// Whether the step exited before the deadline.
    fn until_exit(&mut self, events: &Receiver<StepEvent>, deadline: Instant) -> bool {
        loop {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(StepEvent::Output(bytes)) => self.push(&bytes),
                Ok(StepEvent::OutputEnd) => {}
                Ok(StepEvent::Exit) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    fn until_end(&mut self, events: &Receiver<StepEvent>, deadline: Instant) {
        loop {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(StepEvent::Output(bytes)) => self.push(&bytes),
                Ok(StepEvent::Exit) => {}
                Ok(StepEvent::OutputEnd) | Err(_) => return,
            }
        }
    }
}

/// Kills processes that a step left behind in other sessions. They are children of this
/// process, since it is a subreaper.
fn end_descendants() {
    for _ in 0..100 {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = kill_process(child, Signal::KILL);
            let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
        }
    }
}

/// Children of all threads of this process (proc_pid_children(5)).
fn children() -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let numbers: Vec<i32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<_>>())
        .collect();
    numbers.into_iter().filter_map(Pid::from_raw).collect()
}
