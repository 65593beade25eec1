//! Limits and throttling of the control groups that own listeners or have a limit, version 1 and 2.
//!
//! Source: the kernel's `cgroup-v2.rst` and `cgroup-v1/memory.rst`. A hybrid machine (systemd in
//! version 2, controllers in version 1) has both; each figure then comes from the hierarchy that
//! has its controller. The root group is skipped. Version 1 writes "no limit" as a number near
//! 2^63.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_tables::{Batch, CgroupStat, CgroupStatRows, Micros};

use super::cgroup_walk::{NO_LIMIT_BYTES, limited_cgroups};
use super::file::KeptFile;
use super::mounts::read_mounts;
use super::process::Cgroup;
use super::{CollectResult, Collector, View, take, text};

pub(super) const CGROUP_LIMIT: usize = 256;
/// Seconds between two searches for groups with limits.
const WALK_EVERY_SECONDS: f64 = 60.0;

/// Control groups of processes that own listeners, without duplicates.
pub(super) fn listener_cgroups(view: &View) -> Vec<Cgroup> {
    let owners = view.owners.values().flatten();
    let mut found: Vec<Cgroup> = owners.filter_map(|owner| owner.cgroup.clone()).collect();
    found.sort();
    found.dedup_by(|left, right| left.name == right.name);
    found.retain(|cgroup| cgroup.name != "/");
    found.truncate(CGROUP_LIMIT);
    found
}

/// Mount points of the hierarchies; read once, since they do not change while a host runs.
#[derive(Debug, Default)]
pub(super) struct CgroupMounts(Option<BTreeMap<String, PathBuf>>);

impl CgroupMounts {
    /// Directory of a group in the version 2 hierarchy.
    pub(super) fn unified_dir(&mut self, view: &View, path: &str) -> Option<PathBuf> {
        Some(group_dir(self.all(view).get("")?, path))
    }

    /// All hierarchies by controller; version 2 is called "".
    fn all(&mut self, view: &View) -> &BTreeMap<String, PathBuf> {
        self.0.get_or_insert_with(|| hierarchies(view))
    }
}

fn group_dir(hierarchy: &Path, path: &str) -> PathBuf {
    hierarchy.join(path.trim_start_matches('/'))
}

fn hierarchies(view: &View) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for mount in read_mounts(view).unwrap_or_default() {
        let dir = view.path(&mount.point.to_string_lossy());
        match mount.kind.as_str() {
            "cgroup2" => {
                found.entry(String::new()).or_insert(dir);
            }
            "cgroup" => {
                for option in mount.options.split(',') {
                    found.entry(option.to_owned()).or_insert_with(|| dir.clone());
                }
            }
            _ => {}
        }
    }
    found
}

#[derive(Debug, Default)]
pub(super) struct CgroupStatCollector {
    mounts: CgroupMounts,
    groups: BTreeMap<String, CgroupFiles>,
    limited: Vec<Cgroup>,
    last_walk: Option<Micros>,
    rows: CgroupStatRows,
}

impl CgroupStatCollector {
    fn follow(&mut self, view: &View, now: Micros) {
        let age = self.last_walk.map(|last| now.seconds_since(last));
        if age.is_none_or(|age| !(0.0..WALK_EVERY_SECONDS).contains(&age)) {
            self.last_walk = Some(now);
            self.limited = limited_cgroups(self.mounts.all(view));
        }
        let mut wanted = listener_cgroups(view);
        wanted.extend(self.limited.iter().cloned());
        wanted.truncate(CGROUP_LIMIT);
        self.groups.retain(|name, _| wanted.iter().any(|cgroup| cgroup.name == *name));
        for cgroup in wanted {
            if !self.groups.contains_key(&cgroup.name) {
                let group = CgroupFiles::open(&cgroup, view, &mut self.mounts);
                self.groups.insert(cgroup.name, group);
            }
        }
    }
}

impl Collector for CgroupStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        self.follow(view, now);
        for (name, group) in &mut self.groups {
            let mut row = CgroupStat {
                ts: now,
                host: &view.host,
                cgroup: name,
                cgroup_version: if group.is_version_1 { 1 } else { 2 },
                ..CgroupStat::default()
            };
            group.read(&mut row);
            if row.cpu_seconds_total.is_some() || row.memory_used_bytes.is_some() {
                self.rows.push(&row);
            }
        }
        take(&mut self.rows, out);
        Ok(())
    }
}

/// Open files of one group; files of disabled controllers are missing, which is no error.
#[derive(Debug)]
struct CgroupFiles {
    is_version_1: bool,
    cpu: Option<CpuFiles>,
    memory: Option<MemoryFiles>,
}

#[derive(Debug)]
struct CpuFiles {
    stat: KeptFile,
    /// Version 2 `cpu.max`, version 1 `cpu.cfs_quota_us`.
    quota: KeptFile,
    /// Version 1 `cpuacct.usage`.
    usage: Option<KeptFile>,
}

#[derive(Debug)]
struct MemoryFiles {
    used: KeptFile,
    stat: KeptFile,
    limit: KeptFile,
    /// Version 2 `memory.events`, version 1 `memory.oom_control`.
    events: KeptFile,
    /// Version 1 `memory.failcnt`.
    hits: Option<KeptFile>,
}

impl CgroupFiles {
    fn open(cgroup: &Cgroup, view: &View, mounts: &mut CgroupMounts) -> Self {
        let mut dir = |controller: &str| {
            let path = cgroup.controllers.get(controller).filter(|path| *path != "/")?;
            Some(group_dir(mounts.all(view).get(controller)?, path))
        };
        let (cpu, usage, memory) = (dir("cpu"), dir("cpuacct"), dir("memory"));
        let is_version_1 = cpu.is_some() || usage.is_some() || memory.is_some();
        let unified = cgroup.unified.as_deref().filter(|path| *path != "/" && !is_version_1);
        let unified = unified.and_then(|path| mounts.unified_dir(view, path));
        let usage = usage.or_else(|| cpu.clone());
        let cpu = cpu.or_else(|| usage.clone());
        match unified {
            Some(dir) => Self {
                is_version_1,
                cpu: Some(CpuFiles::version_2(&dir)),
                memory: Some(MemoryFiles::version_2(&dir)),
            },
            None => Self {
                is_version_1,
                cpu: cpu.zip(usage).map(|(cpu, usage)| CpuFiles::version_1(&cpu, &usage)),
                memory: memory.as_deref().map(MemoryFiles::version_1),
            },
        }
    }

    fn read(&mut self, row: &mut CgroupStat<'_>) {
        if let Some(cpu) = &mut self.cpu {
            cpu.read(row);
        }
        if let Some(memory) = &mut self.memory {
            memory.read(row);
        }
    }
}

impl CpuFiles {
    fn version_1(cpu: &Path, usage: &Path) -> Self {
        Self {
            stat: KeptFile::new(cpu.join("cpu.stat")),
            quota: KeptFile::new(cpu.join("cpu.cfs_quota_us")),
            usage: Some(KeptFile::new(usage.join("cpuacct.usage"))),
        }
    }

    fn version_2(dir: &Path) -> Self {
        Self {
            stat: KeptFile::new(dir.join("cpu.stat")),
            quota: KeptFile::new(dir.join("cpu.max")),
            usage: None,
        }
    }

    fn read(&mut self, row: &mut CgroupStat<'_>) {
        let stat = self.stat.read_if_any().unwrap_or_default();
        let usage = text::value_of(stat, "usage_usec");
        row.cpu_seconds_total = usage.map(|micros| seconds(micros, 1e6));
        let quota = self.quota.read_if_any().unwrap_or_default();
        if text::fields(quota).next().and_then(|field| text::int(field.trim_ascii())) > Some(0) {
            row.cpu_periods_total = text::value_of(stat, "nr_periods");
            row.cpu_throttled_periods_total = text::value_of(stat, "nr_throttled");
            let version_2 = text::value_of(stat, "throttled_usec");
            let version_1 = text::value_of(stat, "throttled_time");
            row.cpu_throttled_seconds_total = version_2
                .map(|micros| seconds(micros, 1e6))
                .or_else(|| version_1.map(|nanos| seconds(nanos, 1e9)));
        }
        if let Some(usage) = self.usage.as_mut().and_then(KeptFile::read_if_any) {
            row.cpu_seconds_total = text::int(usage.trim_ascii()).map(|value| seconds(value, 1e9));
        }
    }
}

impl MemoryFiles {
    fn version_1(dir: &Path) -> Self {
        Self {
            used: KeptFile::new(dir.join("memory.usage_in_bytes")),
            stat: KeptFile::new(dir.join("memory.stat")),
            limit: KeptFile::new(dir.join("memory.limit_in_bytes")),
            events: KeptFile::new(dir.join("memory.oom_control")),
            hits: Some(KeptFile::new(dir.join("memory.failcnt"))),
        }
    }

    fn version_2(dir: &Path) -> Self {
        Self {
            used: KeptFile::new(dir.join("memory.current")),
            stat: KeptFile::new(dir.join("memory.stat")),
            limit: KeptFile::new(dir.join("memory.max")),
            events: KeptFile::new(dir.join("memory.events")),
            hits: None,
        }
    }

    fn read(&mut self, row: &mut CgroupStat<'_>) {
        row.memory_used_bytes = read_int(&mut self.used);
        row.memory_limit_bytes = read_int(&mut self.limit).filter(|limit| *limit < NO_LIMIT_BYTES);
        row.memory_inactive_file_bytes = self.stat.read_if_any().and_then(|stat| {
            // Version 1 reports the group and, as total_, its subtree; usage covers the subtree.
            let total = text::value_of(stat, "total_inactive_file");
            total.or_else(|| text::value_of(stat, "inactive_file"))
        });
        let events = self.events.read_if_any().unwrap_or_default();
        row.oom_kills_total = text::value_of(events, "oom_kill");
        row.memory_limit_hits_total = match &mut self.hits {
            Some(hits) => read_int(hits),
            None => text::value_of(events, "max"),
        };
    }
}

fn read_int(file: &mut KeptFile) -> Option<i64> {
    file.read_if_any().and_then(|bytes| text::int(bytes.trim_ascii()))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 nanoseconds are 104 days; later digits do not matter"
)]
fn seconds(value: i64, per_second: f64) -> f64 {
    value as f64 / per_second
}

#[cfg(test)]
mod tests {
    use super::super::HostOptions;
    use super::super::process::{SocketOwner, parse_cgroup};
    use super::*;

    fn view(root: &Path, cgroup: &[u8]) -> View {
        let mut view = View::new(HostOptions { root: root.into(), ..HostOptions::default() });
        let cgroup = Some(parse_cgroup(cgroup));
        let owner = SocketOwner {
            process_id: 1,
            name: "nginx".into(),
            process_count: 1,
            process_ids: vec![1],
            cgroup,
        };
        view.owners.insert(1, Some(owner));
        view
    }

    fn read<'a>(view: &View) -> CgroupStat<'a> {
        let mut row = CgroupStat::default();
        let cgroup = &listener_cgroups(view)[0];
        let mut group = CgroupFiles::open(cgroup, view, &mut CgroupMounts::default());
        row.cgroup_version = if group.is_version_1 { 1 } else { 2 };
        group.read(&mut row);
        row
    }

    #[test]
    fn version_2_group_with_and_without_limits_is_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/steal-md-cgroup2");
        let row = read(&view(&root, b"0::/system.slice/nginx.service\n"));
        assert_eq!((row.cgroup_version, row.cpu_seconds_total), (2, Some(123.456_789)));
        assert_eq!((row.cpu_periods_total, row.cpu_throttled_periods_total), (Some(52), Some(49)));
        assert_eq!(row.cpu_throttled_seconds_total, Some(4.2));
        assert_eq!(row.memory_used_bytes, Some(1_048_576_000));
        assert_eq!(row.memory_inactive_file_bytes, Some(100_000_000));
        assert_eq!(row.memory_limit_bytes, Some(1_073_741_824));
        assert_eq!((row.memory_limit_hits_total, row.oom_kills_total), (Some(17), Some(1)));

        let row = read(&view(&root, b"0::/system.slice/free.service\n"));
        assert_eq!(row.cpu_seconds_total, Some(1.0));
        assert_eq!((row.cpu_periods_total, row.memory_limit_bytes), (None, None));
    }

    #[test]
    fn version_1_group_is_read_and_controllers_at_the_root_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        write(
            "proc/mounts",
            "cgroup /cg/memory cgroup rw,memory 0 0\ncgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0\n",
        );
        write("cg/memory/web/memory.usage_in_bytes", "5000\n");
        write("cg/memory/web/memory.limit_in_bytes", "9223372036854771712\n");
        write("cg/memory/web/memory.stat", "inactive_file 1\ntotal_inactive_file 2\n");
        write("cg/memory/web/memory.oom_control", "oom_kill_disable 0\noom_kill 4\n");
        write("cg/memory/web/memory.failcnt", "6\n");
        write("cg/cpu/web/cpu.stat", "nr_periods 10\nnr_throttled 3\nthrottled_time 1500000000\n");
        write("cg/cpu/web/cpu.cfs_quota_us", "50000\n");
        write("cg/cpu/web/cpuacct.usage", "2500000000\n");
        let row = read(&view(root.path(), b"4:memory:/web\n2:cpu,cpuacct:/web\n0::/\n"));
        assert_eq!((row.cgroup_version, row.cpu_seconds_total), (1, Some(2.5)));
        assert_eq!(row.cpu_throttled_seconds_total, Some(1.5));
        assert_eq!((row.memory_used_bytes, row.memory_limit_bytes), (Some(5000), None));
        assert_eq!(row.memory_inactive_file_bytes, Some(2));
        assert_eq!((row.memory_limit_hits_total, row.oom_kills_total), (Some(6), Some(4)));

        let row = read(&view(root.path(), b"4:memory:/web\n2:cpu,cpuacct:/\n"));
        assert_eq!((row.cpu_seconds_total, row.memory_used_bytes), (None, Some(5000)));
    }
}
