//! Running containers by their processes, and where their standard output goes.
//!
//! Source: cgroups(7), proc(5), conmon(8). Each runtime puts the 64 digits of a container's id into
//! the name of its cgroup: `/docker/ID`, `docker-ID.scope`, `cri-containerd-ID.scope`,
//! `libpod-ID.scope`, `/kubepods/…/ID`. The surprising thing: Podman's log driver is in no file of
//! the container, but on the command line of its monitor, `conmon -l k8s-file:PATH`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::container_names::is_id;

/// Bytes of an id.
const ID_BYTES: usize = 64;

/// A container by its first process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningContainer {
    pub(crate) id: String,
    pub(crate) process_id: u32,
    /// `comm` of the process.
    pub(crate) program: String,
    /// Whether a pod of Kubernetes has it.
    pub(crate) is_of_pod: bool,
    /// Target of the process' standard output: `pipe:[1]`, `/dev/null`, a path; empty if unknown.
    pub(crate) output: String,
}

/// A monitor of Podman or CRI-O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerMonitor {
    pub(crate) id: String,
    pub(crate) name: String,
    /// `journald`, `none`, `k8s-file` …
    pub(crate) driver: String,
    /// File that it writes, as seen from here.
    pub(crate) file: Option<PathBuf>,
}

/// All processes below `root`, by number.
fn processes(root: &Path) -> BTreeMap<u32, PathBuf> {
    let entries = root.join("proc").read_dir().into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect()
}

/// The containers that run, each once, without the one that this process is in.
pub(crate) fn running(root: &Path) -> Vec<RunningContainer> {
    let own = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut found: BTreeMap<String, RunningContainer> = BTreeMap::new();
    for (process_id, directory) in processes(root) {
        let cgroup = std::fs::read_to_string(directory.join("cgroup")).unwrap_or_default();
        let Some(id) = container_id(&cgroup) else { continue };
        let name = std::fs::read_to_string(directory.join("comm")).unwrap_or_default();
        // The monitor is in the container's cgroup under some managers.
        let is_own = container_id(&own) == Some(id);
        if is_own || found.contains_key(id) || matches!(name.trim_end(), "conmon" | "crun" | "runc")
        {
            continue;
        }
        let output = directory.join("fd/1").read_link().unwrap_or_default();
        let container = RunningContainer {
            id: id.to_owned(),
            process_id,
            program: name.trim_end().to_owned(),
            is_of_pod: cgroup.contains("kubepods"),
            output: output.to_string_lossy().into_owned(),
        };
        found.insert(id.to_owned(), container);
    }
    found.into_values().collect()
}

/// The id in the last name of a cgroup that has one.
fn container_id(cgroup: &str) -> Option<&str> {
    let names = cgroup.lines().flat_map(|line| line.rsplit('/'));
    let mut ids = names.filter_map(|name| {
        let name = name.strip_suffix(".scope").unwrap_or(name);
        let id = name.get(name.len().checked_sub(ID_BYTES)?..)?;
        let before = &name[..name.len() - ID_BYTES];
        let is_alone = before.is_empty() || before.ends_with('-');
        // CRI-O's and Podman's monitors run in separate cgroups.
        (is_alone && !before.contains("conmon") && is_id(id)).then_some(id)
    });
    ids.next()
}

/// The monitors that run.
pub(crate) fn monitors(root: &Path) -> Vec<ContainerMonitor> {
    let all = processes(root);
    all.values().filter_map(|directory| monitor(root, directory)).collect()
}

fn monitor(root: &Path, directory: &Path) -> Option<ContainerMonitor> {
    let name = std::fs::read_to_string(directory.join("comm")).ok()?;
    if name.trim_end() != "conmon" {
        return None;
    }
    let command = std::fs::read(directory.join("cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command);
    let arguments: Vec<&str> = command.split('\0').collect();
    let id = option(&arguments, ["-c", "--cid"])?.to_owned();
    let name = option(&arguments, ["-n", "--name"]).unwrap_or_default().to_owned();
    let log = option(&arguments, ["-l", "--log-path"])?;
    let (driver, file) = match log.split_once(':') {
        Some((driver, file)) => (driver, file),
        None if log.starts_with('/') => ("k8s-file", log),
        None => (log, ""),
    };
    // The file of an ordinary account's container is opened with that account's rights.
    let base = if weir_access::is_trusted_process(directory) {
        root.to_owned()
    } else {
        directory.join("root")
    };
    let file = file.strip_prefix('/').map(|file| base.join(file));
    Some(ContainerMonitor { id, name, driver: driver.to_owned(), file })
}

fn option<'a>(arguments: &[&'a str], names: [&str; 2]) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| names.contains(argument))?;
    arguments.get(at + 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_the_cgroups_of_every_runtime() {
        let id = "0123456789abcdef".repeat(4);
        for cgroup in [
            format!("0::/system.slice/docker-{id}.scope\n"),
            format!("12:cpu,cpuacct:/docker/{id}\n1:name=systemd:/docker/{id}\n"),
            format!("0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{id}.scope\n"),
            format!("0::/kubepods/besteffort/pod1-2/{id}\n"),
            format!("0::/machine.slice/libpod-{id}.scope/container\n"),
        ] {
            assert_eq!(container_id(&cgroup), Some(id.as_str()), "{cgroup}");
        }
        for cgroup in [
            "0::/system.slice/nginx.service\n".to_owned(),
            "0::/\n".to_owned(),
            format!("0::/machine.slice/libpod-conmon-{id}.scope\n"),
            format!("0::/x{id}\n"),
            String::new(),
        ] {
            assert_eq!(container_id(&cgroup), None, "{cgroup}");
        }
    }
}
