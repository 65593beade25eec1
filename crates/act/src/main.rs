//! The program weir-act: root's helper that runs listed repairs on signed orders.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weir_act::{ActHost, CommandContext, EXIT_NOT_STARTED, LAUNCH, LaunchRequest, WallClock};

const EXIT_USAGE: u8 = 2;

/// The kernel's wall clock.
struct KernelClock;

impl WallClock for KernelClock {
    fn now_micros(&self) -> i64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000)
    }
}

fn main() -> ExitCode {
    let arguments: Result<Vec<String>, _> =
        std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect();
    let Ok(mut arguments) = arguments else {
        complain("error: an argument is not UTF-8");
        return EXIT_USAGE.into();
    };
    if arguments.first().is_some_and(|first| first == LAUNCH) {
        return launch(&arguments[1..]);
    }
    let root = take_root(&mut arguments);
    let root = root.as_deref().unwrap_or(Path::new("/"));
    let context = CommandContext {
        host: ActHost::new(root, owner_of(root)),
        launcher: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe")),
        clock: &KernelClock,
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    match context.run(&arguments) {
        Ok(output) => {
            let _ = std::io::stdout().write_all(output.text.as_bytes());
            if output.problems == 0 {
                return ExitCode::SUCCESS;
            }
            complain(&format!("error: problems: {}", output.problems));
            ExitCode::FAILURE
        }
        Err(error) => {
            complain(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// `--root DIR` before the command: another directory stands for `/`, as in tests.
fn take_root(arguments: &mut Vec<String>) -> Option<PathBuf> {
    (arguments.len() >= 2 && arguments[0] == "--root").then(|| {
        let root = PathBuf::from(&arguments[1]);
        arguments.drain(..2);
        root
    })
}

/// `/` belongs to root; below another root, files may belong to the user that runs the program.
fn owner_of(root: &Path) -> u32 {
    if root == Path::new("/") { 0 } else { rustix::process::geteuid().as_raw() }
}

fn launch(arguments: &[String]) -> ExitCode {
    match LaunchRequest::parse(arguments) {
        Some((request, step)) => {
            let error = request.become_step(step);
            let name = step.first().map_or("", String::as_str);
            complain(&format!("cannot start `{name}`: {error}"));
        }
        None => complain("`launch` is for weir-act itself"),
    }
    EXIT_NOT_STARTED.into()
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
