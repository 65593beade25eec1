//! Runs a plugin: without a shell, with a deadline, bounded output, and nothing left behind.
//!
//! ```text
//!   spawn in a new group ── ends, or the deadline passes ──► SIGKILL to the group ──► reap
//!          stdout, stderr: read without waiting, the first 64 KiB kept, the rest discarded
//! ```
//! The surprising thing: the group is killed before the plugin is reaped. Until then its id cannot
//! belong to another process, and a helper that it left behind ends as well.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Pause between two reads of the output while the plugin runs.
const READ_PAUSE: Duration = Duration::from_millis(20);
/// How long a killed plugin may take to end; one that waits for a dead disk does not.
const KILL_WAIT: Duration = Duration::from_secs(1);
/// More than a pipe holds: bytes read at once of a process that never stops writing.
const READ_BYTES_MAX: usize = 1 << 20;
/// Plugins get no other environment: texts of another language would not compare.
const ENVIRONMENT: [(&str, &str); 2] =
    [("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("LC_ALL", "C")];

/// Limits of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// After that the plugin and its children are killed.
    pub timeout: Duration,
    /// Bytes of each output that are kept.
    pub output_bytes: usize,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), output_bytes: 64 << 10 }
    }
}

/// An account that a plugin runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginAccount {
    /// The user's id.
    pub user_id: u32,
    /// The id of the user's own group; the plugin has no further groups.
    pub group_id: u32,
}

/// What the caller of a plugin and its runs share.
#[derive(Clone, Debug, Default)]
pub struct PluginControl {
    /// Set by the caller: the plugin is killed.
    pub stop: Arc<AtomicBool>,
    /// Whether a process of an earlier run still has not ended after it was killed: it waits for a
    /// dead disk, or became root. Another run would be one more of them.
    pub is_left_over: Arc<AtomicBool>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginEnding {
    /// The plugin ended with this code.
    Exited(i32),
    /// The plugin was ended by this signal.
    Signalled(i32),
    /// The plugin did not end within this time and was killed.
    TimedOut(Duration),
    /// The plugin could not be started: what, why.
    NotStarted(String),
}

/// One run of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginRun {
    /// How it ended.
    pub ending: PluginEnding,
    /// The plugin's output.
    pub stdout: Vec<u8>,
    /// The plugin's error output.
    pub stderr: Vec<u8>,
    /// Whether one of them was longer than the limit.
    pub is_cut: bool,
    /// How long it took.
    pub seconds: f64,
}

/// Runs a program with its arguments and waits for it, at most a second longer than its timeout.
pub fn run_plugin(argv: &[String], limits: &PluginLimits) -> PluginRun {
    run_plugin_with(argv, limits, None, &PluginControl::default())
}

/// Runs a program as another account, and under control of the caller.
pub fn run_plugin_with(
    argv: &[String],
    limits: &PluginLimits,
    account: Option<PluginAccount>,
    control: &PluginControl,
) -> PluginRun {
    let started = Instant::now();
    match start(argv, account) {
        Ok(child) => follow(child, limits, started, control),
        Err(why) => PluginRun {
            ending: PluginEnding::NotStarted(why),
            stdout: Vec::new(),
            stderr: Vec::new(),
            is_cut: false,
            seconds: started.elapsed().as_secs_f64(),
        },
    }
}

fn start(argv: &[String], account: Option<PluginAccount>) -> Result<Child, String> {
    let (program, arguments) = argv.split_first().ok_or("cannot start a plugin without a name")?;
    let mut command = Command::new(program);
    if let Some(PluginAccount { user_id, group_id }) = account {
        // Root's further groups are dropped with this as well.
        command.uid(user_id).gid(group_id);
    }
    command
        .args(arguments)
        .env_clear()
        .envs(ENVIRONMENT)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start `{program}`: {error}"))
}

/// Reads the output until the plugin ends or its time is over, and ends what is left of it.
fn follow(
    mut child: Child,
    limits: &PluginLimits,
    started: Instant,
    control: &PluginControl,
) -> PluginRun {
    let mut stdout = BoundedOutput::new(child.stdout.take(), limits.output_bytes);
    let mut stderr = BoundedOutput::new(child.stderr.take(), limits.output_bytes);
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.expect("a child has a positive id");
    let end = watch_end(pid);
    let has_ended = loop {
        let left = limits.timeout.saturating_sub(started.elapsed());
        match end.recv_timeout(left.min(READ_PAUSE)) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break true,
            Err(RecvTimeoutError::Timeout) if left.is_zero() || control.stop.load(Relaxed) => {
                break false;
            }
            Err(RecvTimeoutError::Timeout) => {
                stdout.read_available();
                stderr.read_available();
            }
        }
    };
    // No such group: the plugin has left it, and `kill` ends the plugin itself.
    let _gone = kill_process_group(pid, Signal::KILL);
    let _ended = child.kill();
    let is_reapable = has_ended || end.recv_timeout(KILL_WAIT) != Err(RecvTimeoutError::Timeout);
    let status = reap(child, is_reapable, &control.is_left_over);
    stdout.read_available();
    stderr.read_available();
    PluginRun {
        ending: ending(status.filter(|_| has_ended), limits.timeout),
        is_cut: stdout.is_cut || stderr.is_cut,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
        seconds: started.elapsed().as_secs_f64(),
    }
}

/// Receives once the process has ended, which is not reaped by that.
fn watch_end(pid: Pid) -> Receiver<()> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), options).err() == Some(rustix::io::Errno::INTR) {}
        let _receiver_gone = sender.send(());
    });
    receiver
}

/// The status of a process that has ended; another is reaped in the background.
fn reap(mut child: Child, has_ended: bool, is_left_over: &Arc<AtomicBool>) -> Option<ExitStatus> {
    if has_ended {
        return child.wait().ok();
    }
    is_left_over.store(true, Relaxed);
    let is_left_over = Arc::clone(is_left_over);
    thread::spawn(move || {
        let _status = child.wait();
        is_left_over.store(false, Relaxed);
    });
    None
}

fn ending(status: Option<ExitStatus>, timeout: Duration) -> PluginEnding {
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => PluginEnding::Exited(code),
        Some((None, Some(signal))) => PluginEnding::Signalled(signal),
        _ => PluginEnding::TimedOut(timeout),
    }
}

/// One output of a plugin, of which the beginning is kept.
struct BoundedOutput<R> {
    pipe: Option<R>,
    bytes: Vec<u8>,
    limit: usize,
    is_cut: bool,
}

impl<R: Read + AsFd> BoundedOutput<R> {
    fn new(pipe: Option<R>, limit: usize) -> Self {
        // A process that inherited the pipe and left the group must not block the reader.
        let pipe = pipe.filter(|pipe| set_nonblocking(pipe).is_ok());
        Self { pipe, bytes: Vec::new(), limit, is_cut: false }
    }

    /// Reads what has been written.
    fn read_available(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut buffer = [0; 8 << 10];
        let mut total = 0;
        while total < READ_BYTES_MAX {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    let kept = count.min(self.limit - self.bytes.len());
                    self.bytes.extend_from_slice(&buffer[..kept]);
                    self.is_cut |= kept < count;
                    total += count;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Nothing there now, or nothing any more.
                Err(_) => break,
            }
        }
    }
}

fn set_nonblocking(pipe: &impl AsFd) -> rustix::io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    fcntl_setfl(pipe, flags | OFlags::NONBLOCK)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plugin::CheckState;

    fn limits(seconds: u64) -> PluginLimits {
        PluginLimits { timeout: Duration::from_secs(seconds), ..PluginLimits::default() }
    }

    fn shell(script: &str, limits: &PluginLimits) -> PluginRun {
        run_plugin(&["/bin/sh".into(), "-c".into(), script.into()], limits)
    }

    /// Whether a process runs and has not ended (state Z).
    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn exit_code_and_both_outputs_are_returned() {
        let run = shell("echo out; echo err >&2; exit 2", &PluginLimits::default());
        assert_eq!(run.ending, PluginEnding::Exited(2));
        assert_eq!((run.stdout.as_slice(), run.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert!(!run.is_cut);
        let run = shell("kill -SEGV $$", &PluginLimits::default());
        assert_eq!(run.ending, PluginEnding::Signalled(11));
    }

    #[test]
    fn arguments_reach_the_plugin_without_a_shell() {
        let argv = ["/usr/bin/printf", "%s|", "a b", "$HOME", "; exit 1", "*"].map(String::from);
        let run = run_plugin(&argv, &PluginLimits::default());
        assert_eq!(String::from_utf8_lossy(&run.stdout), "a b|$HOME|; exit 1|*|");
        let run = run_plugin(&["/usr/bin/env".into()], &PluginLimits::default());
        let names: Vec<String> = String::from_utf8_lossy(&run.stdout)
            .lines()
            .filter_map(|line| Some(line.split_once('=')?.0.to_owned()))
            .collect();
        assert_eq!(names, ["LC_ALL", "PATH"]);
    }

    #[test]
    fn program_that_is_missing_is_unknown() {
        let run = run_plugin(&["/nonexistent/check".into()], &PluginLimits::default());
        let result = run.result();
        assert_eq!(result.state, CheckState::Unknown);
        assert!(result.summary.starts_with("cannot start `/nonexistent/check`: "), "{result:?}");
        let run = run_plugin(&[], &PluginLimits::default());
        assert!(matches!(run.ending, PluginEnding::NotStarted(_)));
    }

    #[test]
    fn plugin_that_hangs_is_killed_with_its_children() {
        let script = "trap '' TERM; sleep 600 & echo $$ $!; wait";
        let limits = limits(2);
        let run = shell(script, &limits);
        assert_eq!(run.ending, PluginEnding::TimedOut(limits.timeout));
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let pids: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(pids.len(), 2, "{text}");
        wait_until_gone(&pids);
    }

    fn wait_until_gone(pids: &[&str]) {
        let end = Instant::now() + Duration::from_secs(30);
        while pids.iter().any(|pid| is_alive(pid)) {
            assert!(Instant::now() < end, "{pids:?} still run");
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    #[test]
    fn helper_that_a_plugin_leaves_behind_is_ended() {
        let run = shell("sleep 600 & echo $!; exit 1", &PluginLimits::default());
        assert_eq!(run.ending, PluginEnding::Exited(1));
        wait_until_gone(&[String::from_utf8_lossy(&run.stdout).trim()]);
    }

    #[test]
    fn helper_that_left_the_group_does_not_hold_up_the_result() {
        let run = shell("setsid sleep 600 & echo $!; exit 0", &PluginLimits::default());
        assert_eq!(run.ending, PluginEnding::Exited(0));
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        // It may have been killed before it left.
        let _ended = Command::new("kill").args(["-9", text.trim()]).stderr(Stdio::null()).status();
        wait_until_gone(&[text.trim()]);
    }

    #[test]
    fn output_is_read_to_the_end_and_kept_to_the_limit() {
        let limits = PluginLimits { output_bytes: 1_000, ..PluginLimits::default() };
        let run = shell("head -c 3000000 /dev/zero | tr '\\0' a; exit 1", &limits);
        assert_eq!(run.ending, PluginEnding::Exited(1));
        assert_eq!(run.stdout, vec![b'a'; 1_000]);
        assert!(run.is_cut);
    }

    #[test]
    fn plugin_that_writes_without_end_is_killed_in_time() {
        let limits = limits(1);
        let run = shell("exec yes", &limits);
        assert_eq!(run.ending, PluginEnding::TimedOut(limits.timeout));
        assert_eq!(run.stdout.len(), 64 << 10);
    }
}
