//! Pressure stall information: `/proc/pressure/*` and `*.pressure` of version 2 listener cgroups.
//!
//! Averages are percentages in the files and ratios in the table, totals are microseconds and
//! seconds. A kernel built with PSI off by default has no readable files until it is booted with
//! `psi=1`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_tables::{Batch, Micros, Pressure, PressureRows};

use super::cgroup_stat::{CgroupMounts, listener_cgroups};
use super::file::KeptFile;
use super::{CollectResult, Collector, View, take, text};

const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];

#[derive(Debug)]
pub(super) struct PressureCollector {
    host_files: [KeptFile; 3],
    mounts: CgroupMounts,
    cgroup_files: BTreeMap<String, [KeptFile; 3]>,
    rows: PressureRows,
}

impl PressureCollector {
    pub(super) fn new(view: &View) -> Self {
        let dir = view.path("proc/pressure");
        Self {
            host_files: RESOURCES.map(|resource| KeptFile::new(dir.join(resource))),
            mounts: CgroupMounts::default(),
            cgroup_files: BTreeMap::new(),
            rows: PressureRows::default(),
        }
    }

    fn follow_cgroups(&mut self, view: &View) {
        let wanted = listener_cgroups(view);
        self.cgroup_files.retain(|name, _| wanted.iter().any(|cgroup| cgroup.name == *name));
        for cgroup in wanted {
            let Some(path) = cgroup.unified.as_deref().filter(|path| *path != "/") else {
                continue;
            };
            let Some(dir) = self.mounts.unified_dir(view, path) else { continue };
            let file =
                |resource| KeptFile::new(PathBuf::from(&dir).join(format!("{resource}.pressure")));
            self.cgroup_files.entry(cgroup.name.clone()).or_insert_with(|| RESOURCES.map(file));
        }
    }
}

impl Collector for PressureCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        self.follow_cgroups(view);
        let context = Pressure { ts: now, host: &view.host, ..Pressure::default() };
        let mut result = Ok(());
        for (resource, file) in RESOURCES.iter().zip(&mut self.host_files) {
            match file.read() {
                Ok(bytes) => {
                    let context = Pressure { cgroup: "/", resource, ..context };
                    push(bytes, context, &mut self.rows);
                }
                Err(error) => {
                    let hint = "boot the kernel with `psi=1` (needs CONFIG_PSI, Linux 4.20)";
                    result = Err(error.with_hint(hint));
                }
            }
        }
        for (cgroup, files) in &mut self.cgroup_files {
            for (resource, file) in RESOURCES.iter().zip(files) {
                if let Some(bytes) = file.read_if_any() {
                    let context = Pressure { cgroup, resource, ..context };
                    push(bytes, context, &mut self.rows);
                }
            }
        }
        take(&mut self.rows, out);
        result
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct StallLine {
    avg10_ratio: f64,
    avg60_ratio: f64,
    seconds_total: f64,
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn stall(line: &[u8]) -> StallLine {
    let mut stall = StallLine { avg10_ratio: 0.0, avg60_ratio: 0.0, seconds_total: 0.0 };
    for field in text::fields(line) {
        let Some(equals) = memchr::memchr(b'=', field) else { continue };
        let value = text::float(&field[equals + 1..]).unwrap_or(0.0);
        match &field[..equals] {
            b"avg10" => stall.avg10_ratio = value / 100.0,
            b"avg60" => stall.avg60_ratio = value / 100.0,
            b"total" => stall.seconds_total = value / 1e6,
            _ => {}
        }
    }
    stall
}

fn push(bytes: &[u8], context: Pressure<'_>, rows: &mut PressureRows) {
    let [some, full] = [&b"some "[..], b"full "]
        .map(|kind| text::lines(bytes).find(|line| line.starts_with(kind)).map(stall));
    let Some(some) = some else { return };
    rows.push(&Pressure {
        some_avg10_ratio: some.avg10_ratio,
        some_avg60_ratio: some.avg60_ratio,
        some_seconds_total: some.seconds_total,
        full_avg10_ratio: full.map(|full| full.avg10_ratio),
        full_avg60_ratio: full.map(|full| full.avg60_ratio),
        full_seconds_total: full.map(|full| full.seconds_total),
        ..context
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_become_ratios_and_microseconds_seconds() {
        let read = stall(b"some avg10=12.50 avg60=0.48 avg300=1.12 total=2500000");
        let expected = StallLine { avg10_ratio: 0.125, avg60_ratio: 0.0048, seconds_total: 2.5 };
        assert_eq!(read, expected);
        assert_eq!(stall(b"some avg10= x=1").seconds_total, 0.0);
    }
}
