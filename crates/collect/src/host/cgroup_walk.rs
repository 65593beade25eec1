//! Control groups with a limit, found by walking the hierarchies.
//!
//! Both versions represent a group as a directory. Without a limit, version 2 has `max`; version 1
//! has a number near 2^63 or, for CPU time, -1.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::process::Cgroup;
use super::text;

const DIRECTORY_LIMIT: usize = 2048;
const DEPTH_LIMIT: usize = 8;
/// Limits at or above this mean "none".
pub(super) const NO_LIMIT_BYTES: i64 = 1 << 60;

/// Groups with a limit below the mount points `hierarchies` (by controller; version 2 is "").
pub(super) fn limited_cgroups(hierarchies: &BTreeMap<String, PathBuf>) -> Vec<Cgroup> {
    let mut found: BTreeMap<String, Cgroup> = BTreeMap::new();
    for (controller, files) in [
        ("", &["memory.max", "cpu.max"][..]),
        ("memory", &["memory.limit_in_bytes"]),
        ("cpu", &["cpu.cfs_quota_us"]),
    ] {
        let Some(top) = hierarchies.get(controller) else { continue };
        for path in walk(top) {
            let dir = top.join(path.trim_start_matches('/'));
            if files.iter().any(|file| has_limit(&dir.join(file))) {
                found.entry(path.clone()).or_insert_with(|| group(hierarchies, &path));
            }
        }
    }
    found.into_values().collect()
}

fn group(hierarchies: &BTreeMap<String, PathBuf>, path: &str) -> Cgroup {
    let mut cgroup = Cgroup { name: path.to_owned(), ..Cgroup::default() };
    cgroup.unified = has_group(hierarchies.get(""), path).then(|| path.to_owned());
    for controller in ["memory", "cpu", "cpuacct"] {
        if has_group(hierarchies.get(controller), path) {
            cgroup.controllers.insert(controller.to_owned(), path.to_owned());
        }
    }
    cgroup
}

fn has_group(hierarchy: Option<&PathBuf>, path: &str) -> bool {
    hierarchy.is_some_and(|top| top.join(path.trim_start_matches('/')).is_dir())
}

/// Paths of all groups below `top`, each with a leading `/`, breadth first.
fn walk(top: &Path) -> Vec<String> {
    let mut paths = vec![String::new()];
    let mut next = 0;
    while next < paths.len() && paths.len() < DIRECTORY_LIMIT {
        let path = paths[next].clone();
        next += 1;
        if path.matches('/').count() >= DEPTH_LIMIT {
            continue;
        }
        let entries = fs::read_dir(top.join(path.trim_start_matches('/')));
        for entry in entries.into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                paths.push(format!("{path}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    paths.truncate(DIRECTORY_LIMIT);
    paths.split_off(1)
}

fn has_limit(file: &Path) -> bool {
    let bytes = fs::read(file).unwrap_or_default();
    let limit = text::fields(bytes.trim_ascii()).next().and_then(text::int);
    limit.is_some_and(|limit| (0..NO_LIMIT_BYTES).contains(&limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_with_a_limit_are_found_and_others_left_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/steal-md-cgroup2");
        let two = BTreeMap::from([(String::new(), root.join("sys/fs/cgroup"))]);
        let found = limited_cgroups(&two);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].unified.as_deref(), Some("/system.slice/nginx.service"));

        let top = tempfile::tempdir().unwrap();
        for (group, limit) in [("a", "1048576"), ("a/b", "9223372036854771712"), ("c", "-1")] {
            fs::create_dir_all(top.path().join(group)).unwrap();
            fs::write(top.path().join(group).join("memory.limit_in_bytes"), limit).unwrap();
        }
        let one = BTreeMap::from([("memory".to_owned(), top.path().to_owned())]);
        let names: Vec<_> = limited_cgroups(&one).into_iter().map(|group| group.name).collect();
        assert_eq!(names, ["/a"]);
        assert_eq!(limited_cgroups(&BTreeMap::new()), []);
    }
}
