//! Faults on a host itself: bounded kinds only, with an explicit yes, undone after a time limit.
//!
//! ```text
//!   weir drill host ──starts──► guard: waits for the time limit or the end of its starter
//!         │                        ▲
//!         └── holds the lock of its directory, which lists what to undo
//! ```
//! Each change is recorded in the directory before it is made, and the guard starts before it. If
//! both are killed, the next drill or `weir drill clean` undoes the changes.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::address::free_address;
use crate::command::{check_tools, output, run};
use crate::error::{DrillError, Result};
use crate::fault::{FaultGuard, Parameter, parameter};
use crate::namespaces::{TestbedDirectory, UndoStep, is_free, remove};
use crate::{Random, pause};

/// Upper bound for the time limit of a fault.
pub const LONGEST: Duration = Duration::from_secs(600);
/// Free space that filling a file system always leaves.
const LEAST_LEFT_BYTES: u64 = 64 << 20;
/// Arguments of the token bucket filter: burst size and queue length.
const QUEUE: [&str; 4] = ["burst", "16kb", "limit", "60kb"];

/// A fault that may be made on a host itself.
pub struct HostFault {
    /// Name, as on the command line.
    pub name: &'static str,
    /// Effect, for the person who must agree.
    pub doc: &'static str,
    /// Acceptable rules, one group per problem.
    pub rules: &'static [&'static [&'static str]],
    /// Parameters, in the order in which they are drawn from the seed.
    pub parameters: &'static [Parameter],
    /// Programs it needs.
    pub tools: &'static [&'static str],
    /// Target that the user must choose with a flag.
    pub needs: Option<HostFaultTarget>,
    make: fn(&mut HostDrill) -> Result<FaultGuard>,
}

impl HostFault {
    fn refuse(&self, why: &str) -> DrillError {
        DrillError::new(format!("cannot make `{}` on this host: {why}", self.name))
    }
}

/// A target that the user must choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFaultTarget {
    /// A directory of the file system to fill.
    Directory,
    /// A network interface.
    Device,
}

/// All faults of hosts.
pub const HOST_FAULTS: &[HostFault] = &[
    HostFault {
        name: "listener",
        doc: "a drill process listens on a port of 127.0.0.1 with a short accept queue and does not accept; other drill processes connect",
        rules: &[&["tcp.listen_overflow"]],
        parameters: &[
            parameter("backlog", 4..=32, "accept queue, connections"),
            parameter("clients", 80..=160, "clients that connect"),
        ],
        tools: &[],
        needs: None,
        make: |drill| {
            let (backlog, clients) =
                (drill.draw("backlog").to_string(), drill.draw("clients").to_string());
            let address = free_address()?.to_string();
            // The only worker needs an hour for its first request, so nothing is accepted.
            let delay = drill.put("delay", "3600000")?;
            let app = [
                "app",
                "--workers",
                "1",
                "--address",
                &address,
                "--backlog",
                &backlog,
                "--delay",
                &delay,
            ];
            drill.start(&app)?;
            drill.start(&[
                "visit",
                "--address",
                &address,
                "--visitors",
                &clients,
                "--patience-millis",
                "3000",
            ])?;
            Ok(None)
        },
    },
    HostFault {
        name: "processor",
        doc: "a drill server on a port of 127.0.0.1 needs more CPU time than the quota of its own control group",
        rules: &[&["cpu.cgroup_throttled"]],
        parameters: &[parameter("percent", 5..=40, "percent of one CPU in its quota")],
        tools: &[],
        needs: None,
        make: |drill| {
            let quota = drill.draw("percent") * 1000;
            let (address, delay) = (free_address()?.to_string(), drill.put("delay", "200")?);
            let app =
                ["app", "--spin", "--address", &address, "--backlog", "64", "--delay", &delay];
            let process = drill.start(&app)?;
            drill.confine(process, quota)?;
            drill.start(&["visit", "--address", &address, "--visitors", "8"])?;
            Ok(None)
        },
    },
    HostFault {
        name: "disk",
        doc: "a file fills the file system of a directory until a few percent are free, and never the last 64 MiB",
        rules: &[&["disk.full", "disk.fill_eta"]],
        parameters: &[parameter("left", 2..=8, "percent of the file system left free")],
        tools: &["fallocate"],
        needs: Some(HostFaultTarget::Directory),
        make: |drill| {
            let left = drill.draw("left");
            drill.fill(left)?;
            Ok(None)
        },
    },
    HostFault {
        name: "line",
        doc: "a token bucket filter (tc tbf) limits what a network interface sends: all of its traffic is slower",
        rules: &[&["wire.bandwidth_cap"]],
        parameters: &[parameter("rate", 1000..=20_000, "kbit/s of the limit")],
        tools: &["tc"],
        needs: Some(HostFaultTarget::Device),
        make: |drill| {
            let rate = drill.draw("rate");
            drill.limit_rate(rate)?;
            Ok(None)
        },
    },
];

/// What a person agreed to.
pub struct HostDrillRequest {
    /// The fault.
    pub name: String,
    /// Host name, as the person typed it.
    pub yes: String,
    /// Time limit after which it is undone.
    pub span: Duration,
    /// Directory of the file system to fill.
    pub directory: Option<PathBuf>,
    /// Network interface to slow down.
    pub device: Option<String>,
    /// Seed of the random parameters.
    pub seed: u64,
    /// Fixed parameters, instead of drawn ones.
    pub parameters: BTreeMap<String, u64>,
    /// Program that has the hidden commands.
    pub program: PathBuf,
}

/// A fault of a host, undone on drop.
pub struct HostDrill {
    directory: TestbedDirectory,
    random: Random,
    fault: &'static HostFault,
    request: HostDrillRequest,
    drawn: Vec<(&'static str, u64)>,
}

impl HostDrill {
    /// Checks the request. Nothing is changed yet.
    ///
    /// # Errors
    /// Without the yes, without root, without what the fault needs, or with an invalid time limit.
    pub fn begin(request: HostDrillRequest) -> Result<Self> {
        let fault = fault_of(&request)?;
        let directory = TestbedDirectory::make()?;
        let random = Random::new(request.seed);
        Ok(Self { directory, random, fault, request, drawn: Vec::new() })
    }

    /// Starts the guard and makes the fault, which lasts until `self` is dropped or the time limit.
    ///
    /// # Errors
    /// When it cannot be made; changes made by then are undone.
    pub fn make(&mut self) -> Result<FaultGuard> {
        self.guard()?;
        (self.fault.make)(self)
    }

    /// The fault.
    pub fn fault(&self) -> &'static HostFault {
        self.fault
    }

    /// The parameters drawn so far with their values.
    pub fn parameters(&self) -> &[(&'static str, u64)] {
        &self.drawn
    }

    /// Directory for a weir beside it.
    pub fn dir(&self) -> &Path {
        &self.directory.dir
    }

    /// Ends a process together with the fault, even after `kill -9`.
    ///
    /// # Errors
    /// When that cannot be recorded.
    pub fn ends_with(&self, process: u32) -> Result<()> {
        self.directory.note(&UndoStep::process(process))
    }

    /// Undoes the fault. Dropping does that too, but hides failures.
    ///
    /// # Errors
    /// When something cannot be undone; [`crate::clean`] tries again.
    pub fn end(self) -> Result<()> {
        self.tear_down()
    }

    fn tear_down(&self) -> Result<()> {
        if self.directory.dir.exists() {
            remove(&self.directory.name, &self.directory.dir)
        } else {
            Ok(())
        }
    }

    /// Starts the guard in a separate process group, out of reach of signals to this program.
    fn guard(&self) -> Result<()> {
        let mut command = Command::new(&self.request.program);
        command.args(["drill", "guard", "--seconds", &self.request.span.as_secs().to_string()]);
        command.arg("--dir").arg(&self.directory.dir).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = command.spawn().map(drop);
        started.map_err(DrillError::of(
            "cannot start the guard that undoes the fault if weir is killed",
        ))
    }

    fn draw(&mut self, name: &'static str) -> u64 {
        let declared = self.fault.parameters.iter().find(|one| one.name == name);
        let declared = declared.expect("a fault draws only what it declares");
        let drawn = self.random.between(&declared.range);
        let value = self.request.parameters.get(name).copied().unwrap_or(drawn);
        self.drawn.push((name, value));
        value
    }

    fn put(&self, name: &str, text: impl fmt::Display) -> Result<String> {
        let path = self.directory.dir.join(name);
        fs::write(&path, text.to_string())
            .map_err(DrillError::of(format!("cannot write `{}`", path.display())))?;
        Ok(path.display().to_string())
    }

    /// Starts a hidden command of this program and records it.
    fn start(&self, args: &[&str]) -> Result<u32> {
        let mut command = Command::new(&self.request.program);
        command.arg("drill").args(args).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child =
            command.spawn().map_err(DrillError::of("cannot start a process of the fault"))?;
        self.ends_with(child.id())?;
        Ok(child.id())
    }

    fn confine(&self, process: u32, quota: u64) -> Result<()> {
        let root = Path::new("/sys/fs/cgroup");
        let is_old = root.join("cpu").is_dir();
        for controller in if is_old { &["memory", "cpuacct", "cpu"][..] } else { &[""] } {
            // Use a testbed's naming, so that `remove` finds the group.
            let group = root.join(controller).join(format!("{}s", self.directory.name));
            fs::create_dir_all(&group)?;
            let limit = match *controller {
                "cpu" => Some(("cpu.cfs_quota_us", quota.to_string())),
                "" => Some(("cpu.max", format!("{quota} 100000"))),
                _ => None,
            };
            if let Some((file, value)) = limit {
                let path = group.join(file);
                fs::write(&path, value)
                    .map_err(DrillError::of(format!("cannot set `{}`", path.display())))?;
            }
            fs::write(group.join("cgroup.procs"), process.to_string())?;
        }
        Ok(())
    }

    fn fill(&self, left: u64) -> Result<()> {
        let dir = self.request.directory.as_deref().expect("the request was checked for it");
        let stat = rustix::fs::statvfs(dir)?;
        let (all, free) = (stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize);
        let leave = (all / 100 * left).max(LEAST_LEFT_BYTES);
        let Some(bytes) = free.checked_sub(leave).filter(|bytes| *bytes > 0) else {
            return Err(DrillError::new(format!(
                "cannot fill `{}`: only {} MiB are free, and {} MiB must stay free",
                dir.display(),
                free >> 20,
                leave >> 20
            )));
        };
        let path = dir.join(&self.directory.name).display().to_string();
        self.directory.note(&UndoStep::file(&path))?;
        run("fallocate", &["--length", &bytes.to_string(), &path])
    }

    fn limit_rate(&self, rate: u64) -> Result<()> {
        let device = self.request.device.as_deref().expect("the request was checked for it");
        let queues = output("tc", &["qdisc", "show", "dev", device, "root"])?;
        let kind = queues.split_whitespace().nth(1).unwrap_or_default();
        // The kernel restores its default by itself; anything else could not be restored.
        let defaults = ["", "noqueue", "pfifo_fast", "fq_codel", "mq"];
        if !defaults.contains(&kind)
            || queues.lines().filter(|line| line.contains(" root ")).count() > 1
        {
            return Err(DrillError::new(format!(
                "cannot limit `{device}`: it has a custom queueing discipline (`{kind}`) that could not be restored"
            ))
            .hint("choose another interface, or remove it first: tc qdisc del dev DEVICE root"));
        }
        self.directory.note(&UndoStep::queue(device))?;
        let rate = format!("{rate}kbit");
        run(
            "tc",
            &[&["qdisc", "add", "dev", device, "root", "tbf", "rate", &rate], &QUEUE[..]].concat(),
        )
    }
}

impl Drop for HostDrill {
    fn drop(&mut self) {
        let _reported_by_clean = self.tear_down();
    }
}

/// Runs the guard: waits for the time limit or the end of its starter, then undoes the fault.
///
/// # Errors
/// When something cannot be undone.
pub fn guard(dir: &Path, span: Duration) -> Result<()> {
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let began = Instant::now();
    while began.elapsed() < span && dir.exists() && !is_free(dir)? {
        pause(Duration::from_millis(200));
    }
    if dir.exists() { remove(&name, dir) } else { Ok(()) }
}

/// Checks the request and returns its fault.
fn fault_of(request: &HostDrillRequest) -> Result<&'static HostFault> {
    let Some(fault) = HOST_FAULTS.iter().find(|fault| fault.name == request.name) else {
        let names: Vec<&str> = HOST_FAULTS.iter().map(|fault| fault.name).collect();
        return Err(DrillError::new(format!(
            "cannot make `{}` on this host: there is no such fault",
            request.name
        ))
        .hint(names.join(", ")));
    };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if request.yes != host {
        return Err(fault
            .refuse(&format!("it needs a yes for `{host}`: {}", fault.doc))
            .hint(format!("on a drill host: --yes {host}")));
    }
    if request.span > LONGEST || request.span < Duration::from_secs(1) {
        return Err(fault
            .refuse(&format!("its time limit must be 1 s to {} s", LONGEST.as_secs()))
            .hint("--for 60s"));
    }
    let is_given = match fault.needs {
        Some(HostFaultTarget::Directory) => {
            request.directory.as_ref().is_some_and(|dir| dir.is_dir())
        }
        Some(HostFaultTarget::Device) => request.device.as_ref().is_some_and(|device| {
            !device.contains('/') && Path::new("/sys/class/net").join(device).exists()
        }),
        None => true,
    };
    match fault.needs {
        Some(HostFaultTarget::Directory) if !is_given => {
            return Err(fault.refuse("it needs a directory that exists").hint("--dir /srv/data"));
        }
        Some(HostFaultTarget::Device) if !is_given => {
            return Err(fault
                .refuse("it needs a network interface that exists")
                .hint("--device eth1"));
        }
        _ => {}
    }
    Parameter::check(fault.name, fault.parameters, &request.parameters)?;
    check_tools(fault.name, fault.tools)?;
    Ok(fault)
}
