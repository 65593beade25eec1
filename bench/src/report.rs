//! A page in `docs/bench/history/`: figures, command, time, machine, and load.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::Context;
use weir_tables::Micros;

use crate::{meter, requirements, weir};

/// A page in progress, and the state of the machine at its start.
pub(crate) struct Report {
    name: &'static str,
    body: String,
    began: Micros,
    busy_before: f64,
    /// CPU seconds of weir and the benchmark's helpers.
    own_seconds: f64,
}

impl Report {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            body: String::new(),
            began: now(),
            busy_before: meter::machine_busy_seconds(),
            own_seconds: 0.0,
        }
    }

    /// Adds a paragraph or a table.
    pub(crate) fn text(&mut self, text: &str) {
        self.body.push_str(text.trim_end());
        self.body.push_str("\n\n");
    }

    /// Adds a table, whose first row is its header.
    pub(crate) fn table(&mut self, rows: &[Vec<String>]) {
        let mut lines: Vec<String> =
            rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
        let rule = "| --- ".repeat(rows.first().map_or(0, Vec::len)) + "|";
        lines.insert(1.min(lines.len()), rule);
        self.text(&lines.join("\n"));
    }

    /// Counts CPU time of this benchmark, so that the page can report that of other processes.
    pub(crate) fn own(&mut self, seconds: f64) {
        self.own_seconds += seconds;
    }

    /// Prints the page without writing it.
    pub(crate) fn show(self) {
        say(&format!("{}{}", self.body, self.circumstances()));
    }

    /// Writes and prints the page. A release build has a separate page.
    pub(crate) fn write(self) -> anyhow::Result<()> {
        let date = self.began.to_string()[..10].to_owned();
        let release = if is_release() { "-release" } else { "" };
        let path = format!("{}/{date}-{}{release}.md", requirements::PAGES, self.name);
        let page = format!("# {}, {date}\n\n{}{}", self.name, self.body, self.circumstances());
        fs::write(&path, &page).with_context(|| {
            format!("cannot write `{path}`: run this in the root of the repository")
        })?;
        say(&page);
        say(&format!("written to {path}"));
        Ok(())
    }

    fn circumstances(&self) -> String {
        let seconds = now().seconds_since(self.began);
        let self_seconds = meter::cpu_seconds(std::process::id());
        let others =
            (meter::machine_busy_seconds() - self.busy_before - self.own_seconds.max(self_seconds))
                .max(0.0);
        let release = is_release().then(|| "--release".to_owned());
        let arguments: Vec<String> = std::env::args().skip(1).chain(release).collect();
        let mut text = String::from("## Circumstances\n\n");
        let _infallible = write!(
            text,
            "- Command: `cargo xtask bench {}`\n- Begun: {} UTC, took {seconds:.0} s\n- Commit: {}\n- Profile: {}\n- Machine: {}\n\
             - Load average at the end: {}; other processes used {:.2} processors in the mean\n",
            arguments.join(" "),
            &self.began.to_string()[..16],
            commit(),
            profile(),
            machine(),
            first_line("/proc/loadavg"),
            others / seconds.max(1.0),
        );
        text
    }
}

/// Prints to standard output.
#[expect(clippy::print_stdout, reason = "a command line program")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// The current time, to date benchmarks. Their only use of the clock.
#[expect(
    clippy::disallowed_methods,
    reason = "this program is its own main; nothing here is replayed"
)]
pub(crate) fn now() -> Micros {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Micros(0) + since
}

pub(crate) fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: u64 = memory.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let kernel = first_line("/proc/sys/kernel/osrelease");
    format!(
        "{count} × {}, {} GiB, Linux {kernel}",
        model.trim_start_matches([' ', '\t', ':']),
        kib.div_ceil(1 << 20)
    )
}

/// The load average of the last minute.
pub(crate) fn load() -> f64 {
    let line = first_line("/proc/loadavg");
    line.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

fn first_line(path: &str) -> String {
    let content = fs::read_to_string(Path::new(path)).unwrap_or_default();
    content.lines().next().unwrap_or_default().to_owned()
}

pub(crate) fn commit() -> String {
    let hash = String::from_utf8_lossy(&git(&["rev-parse", "--short", "HEAD"])).trim().to_owned();
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"]).is_empty();
    hash + if is_changed { " with changes" } else { "" }
}

fn git(args: &[&str]) -> Vec<u8> {
    Command::new("git").args(args).output().map(|output| output.stdout).unwrap_or_default()
}

pub(crate) fn profile() -> &'static str {
    if is_release() { "release" } else { "dev (the one `cargo xtask run` uses)" }
}

/// Whether weir is a release build, by its directory.
fn is_release() -> bool {
    weir::program()
        .is_ok_and(|path| path.parent().is_some_and(|directory| directory.ends_with("release")))
}
