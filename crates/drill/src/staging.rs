//! Faults on a host itself: bounded kinds only, with an explicit yes, undone after a time whatever happens.
//!
//! ```text
//!   weir drill host ──starts──► guard: waits for the end of the time, or of its starter, then undoes
//!         │                        ▲
//!         └── holds the lock of its directory, which says what is to be undone
//! ```
//! What is to be undone stands in the directory before it is done; the guard is there before it as well. When both are killed, the next
//! drill or `weir drill clean` undoes it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::address::free_address;
use crate::error::{DrillError, Result};
use crate::fault::{Held, Parameter, check_parameters, of};
use crate::place::{Place, Undo, is_free, remove};
use crate::scene::{check_tools, output, run};
use crate::{Random, pause};

/// The longest time after which a fault of a host is undone.
pub const LONGEST: Duration = Duration::from_secs(600);
/// What a file must leave of the room of its file system.
const LEAST_LEFT_BYTES: u64 = 64 << 20;
/// The room that a queue of a line has, and how much may pass at once.
const QUEUE: [&str; 4] = ["burst", "16kb", "limit", "60kb"];

/// A fault that a host itself may be given.
pub struct HostFault {
    /// What it is called.
    pub name: &'static str,
    /// What it does, for a person who is to say yes.
    pub doc: &'static str,
    /// The rules that name it rightly.
    pub rules: &'static [&'static [&'static str]],
    /// What can be chosen.
    pub parameters: &'static [Parameter],
    /// Programs that it needs.
    pub tools: &'static [&'static str],
    /// What must be named, as a flag of the command: a directory, a device.
    pub needs: Option<Needs>,
    make: fn(&mut Staging) -> Result<Held>,
}

/// What a fault of a host cannot choose by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// A directory of the file system that is to be filled.
    Directory,
    /// A network interface.
    Device,
}

/// All of them.
pub const HOST_FAULTS: &[HostFault] = &[
    HostFault {
        name: "listener",
        doc: "a process of its own listens on a port of 127.0.0.1 with a short accept queue and does not accept; others of its own connect",
        rules: &[&["tcp.listen_overflow"]],
        parameters: &[
            of("backlog", 4, 32, "accept queue, connections"),
            of("clients", 80, 160, "clients that connect"),
        ],
        tools: &[],
        needs: None,
        make: |staging| {
            let (backlog, clients) =
                (staging.draw("backlog").to_string(), staging.draw("clients").to_string());
            let address = free_address()?.to_string();
            // One worker, and its only request takes an hour: nobody accepts.
            let delay = staging.put("delay", "3600000")?;
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
            staging.start(&app)?;
            staging.start(&[
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
        doc: "a server of its own on a port of 127.0.0.1, in a control group of its own with a quota, wants more processor time than that",
        rules: &[&["cpu.cgroup_throttled"]],
        parameters: &[of(
            "percent",
            5,
            40,
            "per cent of one processor that its quota lets it have",
        )],
        tools: &[],
        needs: None,
        make: |staging| {
            let quota = staging.draw("percent") * 1000;
            let (address, delay) = (free_address()?.to_string(), staging.put("delay", "200")?);
            let app =
                ["app", "--spin", "--address", &address, "--backlog", "64", "--delay", &delay];
            let process = staging.start(&app)?;
            staging.confine(process, quota)?;
            staging.start(&["visit", "--address", &address, "--visitors", "8"])?;
            Ok(None)
        },
    },
    HostFault {
        name: "disk",
        doc: "a file takes the room of the file system of a directory until a few per cent are left, and never the last 64 MiB",
        rules: &[&["disk.full", "disk.fill_eta"]],
        parameters: &[of("left", 2, 8, "per cent of the file system that are left")],
        tools: &["fallocate"],
        needs: Some(Needs::Directory),
        make: |staging| {
            let left = staging.draw("left");
            staging.fill(left)?;
            Ok(None)
        },
    },
    HostFault {
        name: "line",
        doc: "what a network interface sends goes through a token bucket (tc tbf) of so many kbit/s: all of its traffic is slower",
        rules: &[&["wire.bandwidth_cap"]],
        parameters: &[of("rate", 1000, 20_000, "kbit/s that are left")],
        tools: &["tc"],
        needs: Some(Needs::Device),
        make: |staging| {
            let rate = staging.draw("rate");
            staging.narrow(rate)?;
            Ok(None)
        },
    },
];

/// What a person said yes to.
pub struct Wish {
    /// The fault.
    pub name: String,
    /// The name of the host, as the person typed it.
    pub yes: String,
    /// The time after which it is undone.
    pub span: Duration,
    /// A directory of the file system to be filled.
    pub directory: Option<PathBuf>,
    /// The interface whose line is to be narrow.
    pub device: Option<String>,
    /// Where random parameters begin.
    pub seed: u64,
    /// Parameters instead of drawn ones.
    pub parameters: BTreeMap<String, u64>,
    /// The program that has the hidden commands.
    pub program: PathBuf,
}

/// A fault of a host, undone when it is dropped.
pub struct Staging {
    place: Place,
    random: Random,
    fault: &'static HostFault,
    wish: Wish,
    drawn: Vec<(&'static str, u64)>,
}

impl Staging {
    /// Looks whether all of it may be; nothing is wrong yet.
    ///
    /// # Errors
    /// Without the yes, without root, without what the fault needs, or when the time is too long.
    pub fn begin(wish: Wish) -> Result<Self> {
        let fault = fault_of(&wish)?;
        let place = Place::make()?;
        let random = Random::new(wish.seed);
        Ok(Self { place, random, fault, wish, drawn: Vec::new() })
    }

    /// Starts the guard and makes the fault; it stays until this is dropped, or its time is over.
    ///
    /// # Errors
    /// When it cannot be made; what was done by then is undone.
    pub fn make(&mut self) -> Result<Held> {
        self.guard()?;
        (self.fault.make)(self)
    }

    /// The fault.
    pub fn fault(&self) -> &'static HostFault {
        self.fault
    }

    /// The parameters with their values.
    pub fn parameters(&self) -> &[(&'static str, u64)] {
        &self.drawn
    }

    /// A directory for a weir beside it.
    pub fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// Has a process end with it, whatever happens.
    ///
    /// # Errors
    /// When that cannot be noted.
    pub fn ends_with(&self, process: u32) -> Result<()> {
        self.place.note(&Undo::process(process))
    }

    /// Undoes it. Dropping it does the same, but says nothing when it fails.
    ///
    /// # Errors
    /// When something cannot be undone; [`crate::clean`] tries again.
    pub fn end(self) -> Result<()> {
        self.take_away()
    }

    fn take_away(&self) -> Result<()> {
        if self.place.dir.exists() { remove(&self.place.name, &self.place.dir) } else { Ok(()) }
    }

    /// In a process group of its own, so that what ends this program does not end it.
    fn guard(&self) -> Result<()> {
        let mut command = Command::new(&self.wish.program);
        command.args(["drill", "guard", "--seconds", &self.wish.span.as_secs().to_string()]);
        command.arg("--dir").arg(&self.place.dir).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = command.spawn().map(drop);
        started.map_err(DrillError::of("cannot start what undoes the fault if weir is killed"))
    }

    fn draw(&mut self, name: &'static str) -> u64 {
        let range = self.fault.parameters.iter().find(|one| one.name == name).map(|one| one.range);
        let (from, to) = range.expect("a fault draws only what it declares");
        let drawn = self.random.between(from, to);
        let value = self.wish.parameters.get(name).copied().unwrap_or(drawn);
        self.drawn.push((name, value));
        value
    }

    fn put(&self, name: &str, text: &str) -> Result<String> {
        let path = self.place.dir.join(name);
        fs::write(&path, text)
            .map_err(DrillError::of(format!("cannot write `{}`", path.display())))?;
        Ok(path.display().to_string())
    }

    /// A hidden command of this program, noted before anybody connects to it.
    fn start(&self, args: &[&str]) -> Result<u32> {
        let mut command = Command::new(&self.wish.program);
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
            // Named as the scene's are, so that they go as those do.
            let group = root.join(controller).join(format!("{}s", self.place.name));
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
        let dir = self.wish.directory.as_deref().expect("it was asked for");
        let room = rustix::fs::statvfs(dir)?;
        let (all, free) = (room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize);
        let leave = (all / 100 * left).max(LEAST_LEFT_BYTES);
        let Some(bytes) = free.checked_sub(leave).filter(|bytes| *bytes > 0) else {
            return Err(DrillError::new(format!(
                "cannot fill `{}`: {} MiB of it are free, and {} MiB are to be left",
                dir.display(),
                free >> 20,
                leave >> 20
            )));
        };
        let path = dir.join(&self.place.name).display().to_string();
        self.place.note(&Undo::file(&path))?;
        run("fallocate", &["--length", &bytes.to_string(), &path])
    }

    fn narrow(&self, rate: u64) -> Result<()> {
        let device = self.wish.device.as_deref().expect("it was asked for");
        let queues = output("tc", &["qdisc", "show", "dev", device, "root"])?;
        let kind = queues.split_whitespace().nth(1).unwrap_or_default();
        // What the kernel gives by itself comes back by itself; anything else could not be put back.
        let own = ["", "noqueue", "pfifo_fast", "fq_codel", "mq"];
        if !own.contains(&kind) || queues.lines().filter(|line| line.contains(" root ")).count() > 1
        {
            return Err(DrillError::new(format!(
                "cannot narrow `{device}`: it has a queue that somebody set (`{kind}`), which could not be put back"
            ))
            .hint("name an interface without one, or take it off first: tc qdisc del dev DEVICE root"));
        }
        self.place.note(&Undo::queue(device))?;
        let rate = format!("{rate}kbit");
        run(
            "tc",
            &[&["qdisc", "add", "dev", device, "root", "tbf", "rate", &rate], &QUEUE[..]].concat(),
        )
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _told_by_clean = self.take_away();
    }
}

/// What the guard does: waits until the time is over or its starter is gone, then undoes.
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

/// Refuses before anything is made.
fn fault_of(wish: &Wish) -> Result<&'static HostFault> {
    let Some(fault) = HOST_FAULTS.iter().find(|fault| fault.name == wish.name) else {
        let names: Vec<&str> = HOST_FAULTS.iter().map(|fault| fault.name).collect();
        return Err(DrillError::new(format!(
            "cannot make `{}` on this host: it is no such fault",
            wish.name
        ))
        .hint(names.join(", ")));
    };
    let refused =
        |why: String| DrillError::new(format!("cannot make `{}` on this host: {why}", fault.name));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if wish.yes != host {
        return Err(refused(format!("it does not have a yes for `{host}`: {}", fault.doc))
            .hint(format!("on a staging host: --yes {host}")));
    }
    if wish.span > LONGEST || wish.span < Duration::from_secs(1) {
        return Err(
            refused(format!("it is undone after 1 s to {} s", LONGEST.as_secs())).hint("--for 60s")
        );
    }
    let is_given = match fault.needs {
        Some(Needs::Directory) => wish.directory.as_ref().is_some_and(|dir| dir.is_dir()),
        Some(Needs::Device) => wish.device.as_ref().is_some_and(|device| {
            !device.contains('/') && Path::new("/sys/class/net").join(device).exists()
        }),
        None => true,
    };
    match fault.needs {
        Some(Needs::Directory) if !is_given => {
            return Err(refused("it needs a directory that exists".into()).hint("--dir /srv/data"));
        }
        Some(Needs::Device) if !is_given => {
            return Err(
                refused("it needs a network interface that exists".into()).hint("--device eth1")
            );
        }
        _ => {}
    }
    check_parameters(fault.name, fault.parameters, &wish.parameters)?;
    check_tools(fault.name, fault.tools)?;
    Ok(fault)
}
