//! CPU time and memory of a process and its children, from `/proc/PID/stat` and `/proc/PID/status`.
//!
//! Times are in ticks of 10 ms. Reaped children count in their parent's `cutime`/`cstime`, so the
//! sum over a running tree is complete.

use std::fs;
use std::process::Child;

/// Clock ticks per second (`USER_HZ`), 100 on all relevant architectures.
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system seconds of process `id`, its running descendants and its reaped children.
pub(crate) fn cpu_seconds(id: u32) -> f64 {
    let processes: Vec<(u32, u32, f64)> = all_processes().collect();
    let mut tree = vec![id];
    let mut at = 0;
    while let Some(parent) = tree.get(at).copied() {
        tree.extend(processes.iter().filter(|(_, of, _)| *of == parent).map(|(child, ..)| *child));
        at += 1;
    }
    processes
        .iter()
        .filter(|(process, ..)| tree.contains(process))
        .map(|(.., seconds)| seconds)
        .sum()
}

/// User and system seconds of the threads of process `id` whose names begin with `name`.
pub(crate) fn threads_cpu_seconds(id: u32, name: &str) -> f64 {
    let entries = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let named =
        lines.filter(|line| line.split_once('(').is_some_and(|(_, rest)| rest.starts_with(name)));
    named.filter_map(|line| stat(&line)).map(|(_, seconds)| seconds).sum()
}

/// Id, parent and CPU seconds (with reaped children) of each process.
fn all_processes() -> impl Iterator<Item = (u32, u32, f64)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| {
        stat(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
            .map(|(of, seconds)| (id, of, seconds))
    })
}

/// Parent and CPU seconds from a `stat` line. Fields count from the end of the name, which may
/// contain anything.
fn stat(line: &str) -> Option<(u32, f64)> {
    let fields: Vec<&str> = line.get(line.rfind(')')? + 2..)?.split(' ').collect();
    let ticks =
        fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum::<f64>();
    Some((fields.get(1)?.parse().ok()?, ticks / TICKS_PER_SECOND))
}

/// Waits for `child` and returns the CPU seconds of it and its reaped children.
pub(crate) fn wait(child: Child) -> std::io::Result<f64> {
    wait_split(child).map(|[user, system]| user + system)
}

/// Like [`wait`], with user and system seconds apart.
pub(crate) fn wait_split(mut child: Child) -> std::io::Result<[f64; 2]> {
    let before = reaped_children();
    child.wait()?;
    let after = reaped_children();
    Ok([0, 1].map(|at| after[at] - before[at]))
}

/// User and system seconds of this process's reaped children.
fn reaped_children() -> [f64; 2] {
    let line = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = line.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let mut ticks = fields.split(' ').skip(13).map(|field| field.parse().unwrap_or(0.0));
    [(); 2].map(|()| ticks.next().unwrap_or(0.0) / TICKS_PER_SECOND)
}

/// Current and peak resident memory in MiB.
pub(crate) fn memory_mib(id: u32) -> (f64, f64) {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let [current, peak]: [f64; 2] = ["VmRSS:", "VmHWM:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0.0)
    });
    (current / 1024.0, peak / 1024.0)
}

/// Busy seconds of all CPUs since boot, without idle and I/O wait.
pub(crate) fn machine_busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    let busy = fields
        .iter()
        .enumerate()
        .filter(|(at, _)| ![3, 4].contains(at) && *at < 8)
        .map(|(_, ticks)| ticks);
    busy.sum::<f64>() / TICKS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{memory_mib, stat, wait};

    #[test]
    fn stat_is_read_past_a_hostile_name() {
        let line = "7 (a) b) S 3 7 7 0 -1 4194560 1 2 3 4 150 50 20 30 20 0 1 0";
        assert_eq!(stat(line), Some((3, 2.5)));
    }

    #[test]
    fn the_cpu_time_of_a_child_is_known_after_its_end() {
        let child = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .spawn();
        assert!(wait(child.unwrap()).unwrap() > 0.0);
        assert!(memory_mib(std::process::id()).1 > 0.0);
    }
}
