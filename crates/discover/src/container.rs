//! Logs of containers: the files of Kubernetes, Docker, nerdctl and Podman, and containers whose
//! output is in no file.
//!
//! Source: Kubernetes' "Logging Architecture", Docker's "Configure logging drivers", conmon(8),
//! nerdctl's "Logging". Files are named by globs, because a container can start, write and end
//! between two discoveries. The surprising thing: most log drivers leave no file that can be read,
//! and nothing else reports it; those containers are problems with a hint.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use weir_tables::{LogFormat, LogSource, Program};

use crate::container_output::{self, ContainerMonitor, RunningContainer};
use crate::{DiscoveryBuilder, below, docker, glob, syslog};

/// Directories of logs of pods: the kubelet's own, or links to its files.
const PODS: &str = "/var/log/pods";
const POD_LINKS: &str = "/var/log/containers";
const KUBELET: &str = "/var/lib/kubelet/config.yaml";
/// Directories of containers of nerdctl, by address of containerd.
const NERDCTL: &str = "/var/lib/nerdctl";

/// Names in a problem.
const NAMES_MAX: usize = 3;

/// Why the output of a container cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UnreadableOutput {
    Discarded,
    NoJournal,
    Binary,
    Syslog,
    Fluentd,
    Gelf,
    Elsewhere,
    Pipe,
    Null,
    NoPods,
}

impl UnreadableOutput {
    /// What is wrong, behind `cannot read the output of …: `.
    fn reason(self) -> &'static str {
        match self {
            Self::Discarded => "the log driver `none` discards it",
            Self::NoJournal => "the log driver is `journald`, and no journal is readable here",
            Self::Binary => "the log driver `local` writes a format that only Docker reads",
            Self::Syslog => "the log driver `syslog` sends it to another host",
            Self::Fluentd => "the log driver `fluentd` sends it elsewhere",
            Self::Gelf => "the log driver `gelf` sends it elsewhere",
            Self::Elsewhere => "the log driver sends it elsewhere",
            Self::Pipe => "it goes through a pipe, and no runtime that is known here writes a file",
            Self::Null => "it goes to `/dev/null`",
            Self::NoPods => "neither `/var/log/pods` nor `/var/log/containers` is there",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Discarded | Self::Binary | Self::Elsewhere => {
                "create the containers with `--log-driver json-file`"
            }
            Self::NoJournal => {
                "install `journalctl` and let weir read `/var/log/journal`, or use the driver `json-file`"
            }
            Self::Syslog => "set `syslog-address` to a port of `intake.syslog_udp`",
            Self::Fluentd => "set `fluentd-address` to a port of `intake.fluent`",
            Self::Gelf => "set `gelf-address` to a port of `intake.gelf_udp`",
            Self::Pipe => "list the file that its supervisor writes in `collect.tail`",
            Self::Null => {
                "let the program write to its standard output, or list its files in `collect.tail`"
            }
            Self::NoPods => "let weir read the host's `/var/log/pods`",
        }
    }
}

/// What has been found, to tell which containers are missing.
#[derive(Debug, Default)]
struct ContainerReport {
    /// Ids of containers that were dealt with.
    known: HashSet<String>,
    unreadable: BTreeMap<UnreadableOutput, Vec<String>>,
}

impl ContainerReport {
    fn miss(&mut self, why: UnreadableOutput, name: String) {
        self.unreadable.entry(why).or_default().push(name);
    }
}

pub(crate) fn find(found: &mut DiscoveryBuilder) {
    let has_pods = find_pods(found);
    let mut report = ContainerReport::default();
    find_docker(found, &mut report);
    find_nerdctl(found, &mut report);
    for monitor in container_output::monitors(&found.root.clone()) {
        find_monitored(found, monitor, &mut report);
    }
    for container in container_output::running(&found.root.clone()) {
        note_running(&container, has_pods, &mut report);
    }
    for (why, names) in report.unreadable {
        let count = names.len();
        let mut shown: Vec<String> =
            names.iter().take(NAMES_MAX).map(|name| format!("`{name}`")).collect();
        if count > NAMES_MAX {
            shown.push(format!("{} more", count - NAMES_MAX));
        }
        let noun = if count == 1 { "container" } else { "containers" };
        let message =
            format!("cannot read the output of {noun} {}: {}", shown.join(", "), why.reason());
        found.problem("containers".to_owned(), why.hint(), message);
    }
}

fn add_files(found: &mut DiscoveryBuilder, (directory, files): (&Path, &str)) {
    found.source(LogSource {
        path: below(&found.root, directory).join(files),
        program: Program::Other,
        format: LogFormat::Auto,
        found_in: directory.display().to_string(),
    });
}

/// Whether there are logs of pods.
fn find_pods(found: &mut DiscoveryBuilder) -> bool {
    let root = found.root.clone();
    let configured = weir_access::read(&below(&root, Path::new(KUBELET)), 1 << 20);
    let configured = String::from_utf8_lossy(&configured.unwrap_or_default()).into_owned();
    let configured = configured.lines().find_map(|line| line.strip_prefix("podLogsDir:"));
    let configured = configured.map(|path| path.trim().trim_matches(['"', '\'']));
    let configured = configured.filter(|path| path.starts_with('/') && *path != PODS);
    let mut has_pods = false;
    for directory in configured.into_iter().chain([PODS]).map(Path::new) {
        if below(&root, directory).is_dir() {
            add_files(found, (directory, "*/*/*.log"));
            has_pods = true;
        }
    }
    if !has_pods && below(&root, Path::new(POD_LINKS)).is_dir() {
        add_files(found, (Path::new(POD_LINKS), "*.log"));
        has_pods = true;
    }
    has_pods
}

fn find_docker(found: &mut DiscoveryBuilder, report: &mut ContainerReport) {
    let root = found.root.clone();
    for directory in docker::container_directories(&root) {
        add_files(found, (&directory, "*/*-json.log"));
        for path in glob::expand(&below(&root, &directory).join("*/config.v2.json")) {
            let Some(container) = path.parent().and_then(docker::read) else { continue };
            report.known.insert(container.id.clone());
            let is_local =
                container.syslog_address.is_empty() || container.syslog_address.starts_with("unix");
            let why = unreadable(found, (&container.driver, is_local));
            if let Some(why) = why.filter(|_| container.is_running) {
                report.miss(why, container.name);
            }
        }
    }
}

fn find_nerdctl(found: &mut DiscoveryBuilder, report: &mut ContainerReport) {
    let root = found.root.clone();
    if !below(&root, Path::new(NERDCTL)).is_dir() {
        return;
    }
    add_files(found, (Path::new(NERDCTL), "*/containers/*/*/*-json.log"));
    let files = below(&root, Path::new(NERDCTL)).join("*/containers/*/*/*-json.log");
    let directories = glob::expand(&files)
        .into_iter()
        .filter_map(|file| Some(file.parent()?.file_name()?.to_str()?.to_owned()));
    report.known.extend(directories);
}

/// A container of Podman or CRI-O.
fn find_monitored(
    found: &mut DiscoveryBuilder,
    monitor: ContainerMonitor,
    report: &mut ContainerReport,
) {
    report.known.insert(monitor.id.clone());
    match monitor.file {
        // The files of pods have been found.
        Some(path) if path.starts_with(below(&found.root, Path::new(PODS))) => {}
        Some(path) => found.source(LogSource {
            path,
            program: Program::Other,
            format: LogFormat::Auto,
            found_in: format!("conmon of {}", monitor.name),
        }),
        None => {
            if let Some(why) = unreadable(found, (&monitor.driver, true)) {
                report.miss(why, monitor.name);
            }
        }
    }
}

/// Why the output of a log driver cannot be read; `None` if it is found elsewhere or in a file.
/// `is_local` says whether the driver `syslog` sends to this host.
fn unreadable(
    found: &DiscoveryBuilder,
    (driver, is_local): (&str, bool),
) -> Option<UnreadableOutput> {
    let has_journal = found.found.sources.iter().any(|source| source.program == Program::Journal);
    match driver {
        "" | "json-file" | "k8s-file" => None,
        "journald" | "passthrough" | "passthrough-tty" => {
            (!has_journal).then_some(UnreadableOutput::NoJournal)
        }
        "syslog" => {
            let is_read = is_local && syslog::is_present(&found.root);
            (!is_read).then_some(UnreadableOutput::Syslog)
        }
        "none" => Some(UnreadableOutput::Discarded),
        "local" => Some(UnreadableOutput::Binary),
        "fluentd" => Some(UnreadableOutput::Fluentd),
        "gelf" => Some(UnreadableOutput::Gelf),
        _ => Some(UnreadableOutput::Elsewhere),
    }
}

/// Reports a container that no runtime's file is known of.
fn note_running(container: &RunningContainer, has_pods: bool, report: &mut ContainerReport) {
    if report.known.contains(&container.id) {
        return;
    }
    let why = match container.output.as_str() {
        _ if container.is_of_pod && has_pods => return,
        _ if container.is_of_pod => UnreadableOutput::NoPods,
        "/dev/null" => UnreadableOutput::Null,
        output if output.starts_with("pipe:") => UnreadableOutput::Pipe,
        // Files, terminals, and sockets such as the journal's.
        _ => return,
    };
    let short = container.id.get(..12).unwrap_or(&container.id);
    let name = format!("{short} ({}, process {})", container.program, container.process_id);
    report.miss(why, name);
}
