//! What a process and its children use: processor time and memory, from `/proc/PID/stat` and `/proc/PID/status`.
//!
//! Times are in ticks of 10 ms. Children that have ended and were waited for are in their parent's `cutime`/`cstime`,
//! so the sum over a living tree misses nothing.

use std::fs;
use std::process::Child;

/// Ticks a second that the kernel shows to programs: 100 on every architecture that matters here.
const TICKS_A_SECOND: f64 = 100.0;

/// User and system seconds that process `id`, its living descendants and its ended children have used.
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

/// Id, parent and seconds used (ended children included) of each process.
fn all_processes() -> impl Iterator<Item = (u32, u32, f64)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| {
        stat(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
            .map(|(of, seconds)| (id, of, seconds))
    })
}

/// Parent and seconds from a `stat` line; the name in parentheses may hold anything, so fields count from its end.
fn stat(line: &str) -> Option<(u32, f64)> {
    let fields: Vec<&str> = line.get(line.rfind(')')? + 2..)?.split(' ').collect();
    let ticks =
        fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum::<f64>();
    Some((fields.get(1)?.parse().ok()?, ticks / TICKS_A_SECOND))
}

/// Waits for `child`; the seconds that it and what it waited for used in its whole life.
pub(crate) fn wait(child: Child) -> std::io::Result<f64> {
    wait_of_both(child).map(|[user, system]| user + system)
}

/// The same: in the program itself, and in the kernel for it.
pub(crate) fn wait_of_both(mut child: Child) -> std::io::Result<[f64; 2]> {
    let ended = || {
        let line = fs::read_to_string("/proc/self/stat").ok();
        line.and_then(|line| ended_children(&line)).unwrap_or_default()
    };
    let before = ended();
    child.wait()?;
    let after = ended();
    Ok([0, 1].map(|at| after[at] - before[at]))
}

fn ended_children(line: &str) -> Option<[f64; 2]> {
    let fields: Vec<&str> = line.get(line.rfind(')')? + 2..)?.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some([ticks(13)? / TICKS_A_SECOND, ticks(14)? / TICKS_A_SECOND])
}

/// Resident memory now and at its highest, MiB.
pub(crate) fn memory_mib(id: u32) -> (f64, f64) {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let field = |name: &str| -> f64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0.0) / 1024.0
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Seconds that all processors together were busy since boot: everything but idle and waiting for I/O.
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
    busy.sum::<f64>() / TICKS_A_SECOND
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
    fn what_a_child_used_is_known_after_its_end() {
        let child = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .spawn();
        assert!(wait(child.unwrap()).unwrap() > 0.0);
        assert!(memory_mib(std::process::id()).1 > 0.0);
    }
}
