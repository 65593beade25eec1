//! `live`: cost of a permanent tap, its drops, and its cost to the watched traffic.
//!
//! A veth pair in a network namespace, then its loopback, carry frames of the story `bulk` at a
//! given rate. Then nginx and wrk communicate over loopback and over the pair, with and without the
//! tap, in turns.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::blaster::FrameSender;
use crate::capture::{self, Format, Link, Recipe, Story};
use crate::data::pause;
use crate::report;
use crate::weir::{Weir, wait_for};

/// Requests per second of the story, whose frames are repeated with changing addresses.
const STORY_RATE: u32 = 20_000;
const STORY_SECONDS: u32 = 5;
/// Timeout of a start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends `rate` packets per second for `seconds`, then measures requests per second `runs` times.
pub(crate) fn run([rate, seconds]: [u64; 2], runs: u32) -> anyhow::Result<()> {
    let mut page = report::Report::new("live");
    let scene = LiveSetup::new()?;
    page.text(
        "`weir up` with `[wire] interfaces` and nothing else to watch: AF_PACKET, TPACKET_V3, the full model, rows into the \
         store. *CPU* is the tap's own thread, in per cent of one processor; the kernel's part is in the traffic's own cost, \
         below. *Drops* is what the kernel's statistics count.",
    );
    for way in [PAIR, LOOPBACK] {
        blast(&mut page, &scene, way, (rate, seconds))?;
    }
    overhead(&mut page, &scene, runs)?;
    page.text("Bars: 300,000 packets/s with 0 drops in the tap at 30 % of a core or less.");
    page.write()
}

/// Two namespaces with a veth pair, and nginx on port 8080 of the first.
struct LiveSetup {
    names: [String; 2],
    nginx: Option<Child>,
    dir: tempfile::TempDir,
}

fn ip(args: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("ip").args(args).status().context("cannot run `ip`")?;
    ensure!(status.success(), "`ip {}` failed; this needs root", args.join(" "));
    Ok(())
}

impl LiveSetup {
    fn new() -> anyhow::Result<Self> {
        let names = ["s", "c"].map(|side| format!("weir-bench-{}{side}", std::process::id()));
        let scene = Self { names, nginx: None, dir: tempfile::tempdir()? };
        let [one, two] = &scene.names;
        ip(&["netns", "add", one])?;
        ip(&["netns", "add", two])?;
        ip(&["-n", one, "link", "add", "veth", "type", "veth", "peer", "veth", "netns", two])?;
        for (name, address) in [(one, "10.78.0.1/24"), (two, "10.78.0.2/24")] {
            ip(&["-n", name, "address", "add", address, "dev", "veth"])?;
            ip(&["-n", name, "link", "set", "veth", "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        scene.with_nginx()
    }

    fn with_nginx(mut self) -> anyhow::Result<Self> {
        let (dir, config) = (self.dir.path().display(), self.dir.path().join("nginx.conf"));
        let text = format!(
            "daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; keepalive_requests 100000000;\n\
               server {{ listen 8080; location / {{ return 200 hello; }} }} }}\n"
        );
        fs::write(&config, text)?;
        let mut command = self.inside(0, "nginx");
        command.arg("-c").arg(&config).arg("-e").arg(self.dir.path().join("error.log"));
        self.nginx = Some(command.stdin(Stdio::null()).spawn().context("cannot run nginx")?);
        Ok(self)
    }

    fn inside(&self, side: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[side], program]);
        command
    }

    /// Starts a weir with a tap on `interface` of nginx's side; 0 means all ports.
    fn watch(&self, interface: &str, port: u16) -> anyhow::Result<Weir> {
        let data = tempfile::tempdir_in(self.dir.path())?.keep();
        let config = data.join("weir.toml");
        let ports = if port == 0 { String::new() } else { port.to_string() };
        let text = format!(
            "[collect]\nsample_host = false\nfind_logs = false\n\
             [wire]\ninterfaces = [\"{}/{interface}\"]\nports = [{ports}]\ncpu_percent = 100\n",
            self.names[0]
        );
        fs::write(&config, text)?;
        let [data, config] = [&data, &config].map(|path| path.display().to_string());
        let weir =
            Weir::serve(&["--config", &config, "up", "--listen", "127.0.0.1:0", "--data", &data])?;
        let ran = "select count(*) from collector_run where collector = 'wire' and is_success";
        wait_for("the tap", PATIENCE, Duration::from_millis(100), || Ok(weir.number(ran)? > 0))?;
        Ok(weir)
    }

    /// Requests per second of wrk against nginx.
    fn load(&self, side: usize, address: &str, seconds: u64) -> anyhow::Result<f64> {
        let url = format!("http://{address}:8080/");
        let span = format!("-d{seconds}s");
        let output = self.inside(side, "wrk").args(["-t1", "-c16", &span, &url]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let rate = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
        rate.and_then(|rate| rate.trim().parse().ok())
            .with_context(|| format!("cannot read the output of wrk: {text}"))
    }
}

impl LiveSetup {
    /// Like [`Self::load`], while tcpdump captures the packets: the cost of any tap.
    fn load_with_tcpdump(
        &self,
        interface: &str,
        side: usize,
        address: &str,
    ) -> anyhow::Result<f64> {
        let mut command = self.inside(0, "tcpdump");
        command.args(["-i", interface, "-s", "128", "-w", "/dev/null", "tcp", "port", "8080"]);
        let mut child = command.stderr(Stdio::null()).spawn().context("cannot run tcpdump")?;
        pause(Duration::from_secs(1));
        let rate = self.load(side, address, LOAD_SECONDS);
        let _gone_already = child.kill();
        let _reaped = child.wait();
        rate
    }
}

impl Drop for LiveSetup {
    fn drop(&mut self) {
        if let Some(mut nginx) = self.nginx.take() {
            if let Some(id) =
                i32::try_from(nginx.id()).ok().and_then(rustix::process::Pid::from_raw)
            {
                let _gone = rustix::process::kill_process(id, rustix::process::Signal::TERM);
            }
            let _reaped = nginx.wait();
        }
        for name in &self.names {
            let _gone = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

/// CPU seconds of the threads called `name` of a process.
fn thread_seconds(id: u32, name: &str) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let ticks = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (head, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let used = fields.get(11..13)?.iter().filter_map(|field| field.parse::<f64>().ok());
        head.ends_with(name).then(|| used.sum::<f64>())
    });
    ticks.sum::<f64>() / 100.0
}

/// Frames of the story, without the file around them.
fn frames(dir: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let path = dir.join("story.pcap");
    let recipe = Recipe { seconds: STORY_SECONDS, rate: STORY_RATE, ..Recipe::of(Story::Bulk) };
    let format = Format {
        is_pcapng: false,
        is_nanosecond: false,
        is_ipv6: false,
        link: Link::Ethernet,
        snap_bytes: 262_144,
        missing_per_mille: 0,
    };
    let file = std::io::BufWriter::new(fs::File::create(&path)?);
    capture::write(recipe, format, file, std::io::sink())?;
    let bytes = fs::read(&path)?;
    let mut rest = bytes.get(24..).context("a capture has a head")?;
    let mut frames = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let frame = behind.get(..length).context("a record is whole")?;
        frames.push(frame.to_vec());
        rest = &behind[length..];
    }
    frames.retain(|frame| frame.len() <= 1514);
    Ok(frames)
}

/// A path of frames: its name, the watched interface, and the sending side.
struct FramePath {
    name: &'static str,
    interface: &'static str,
    sender: usize,
}

const PAIR: FramePath = FramePath { name: "A pair of interfaces", interface: "veth", sender: 1 };
const LOOPBACK: FramePath = FramePath { name: "Loopback", interface: "lo", sender: 0 };

/// Changes both addresses in each round, so that connections do not repeat.
fn set_addresses(round: u32, frames: &mut [Vec<u8>]) {
    let octet = u8::try_from(round % 200).unwrap_or(0) + 1;
    frames.iter_mut().for_each(|frame| (frame[27], frame[31]) = (octet, octet));
}

/// Sends `rate` packets per second for `seconds`.
fn blast(
    page: &mut report::Report,
    scene: &LiveSetup,
    way: FramePath,
    (rate, seconds): (u64, u64),
) -> anyhow::Result<()> {
    let mut frames = frames(scene.dir.path())?;
    let rounds = u32::try_from((rate * seconds).div_ceil(frames.len() as u64).max(1))?;
    let weir = scene.watch(way.interface, 0)?;
    let before = thread_seconds(weir.id(), "weir-wire");
    let namespace = format!("/run/netns/{}", scene.names[way.sender]);
    let sender = std::thread::spawn(move || -> anyhow::Result<(u64, Duration)> {
        let file = fs::File::open(namespace)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        let sender = FrameSender::new(way.interface)?;
        Ok(sender.send(&mut frames, rate, rounds, set_addresses)?)
    });
    let (sent, took) = sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
    pause(Duration::from_secs(5));
    let cpu = thread_seconds(weir.id(), "weir-wire") - before;
    let seen = weir.number("select cast(sum(packets) as bigint) from wire_slice")?;
    let requests = weir.number("select cast(sum(arrivals) as bigint) from wire_slice")?;
    // Each port's row of a second has the same drops.
    let drops = weir.number(
        "select cast(sum(drops) as bigint) from (select ts, max(tap_drops) as drops from wire_slice group by ts)",
    )?;
    let sampled =
        weir.number("select cast(1000 * min(sampled_ratio) as bigint) from wire_slice")?;
    let memory = crate::meter::memory_mib(weir.id()).1;
    page.own(weir.stop()?);
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    let (per_second, share) = (sent as f64 / took.as_secs_f64(), seen as f64 / sent as f64);
    page.text(&format!("### {}, {sent} frames in {} s", way.name, took.as_secs()));
    page.table(&[
        [
            "packets/s",
            "seen",
            "drops",
            "requests",
            "CPU",
            "CPU of a million packets",
            "sampled",
            "memory",
        ]
        .map(str::to_owned)
        .to_vec(),
        vec![
            format!("{per_second:.0}"),
            format!("{:.2} %", 100.0 * share),
            drops.to_string(),
            requests.to_string(),
            format!("{:.1} %", 100.0 * cpu / took.as_secs_f64()),
            format!(
                "{:.2} s",
                cpu * 1e6 / f64::from(u32::try_from(sent.max(1)).unwrap_or(u32::MAX))
            ),
            format!("{:.1} %", f64::from(u32::try_from(sampled).unwrap_or(0)) / 10.0),
            format!("{memory:.0} MiB"),
        ],
    ]);
    Ok(())
}

/// Seconds of a load.
const LOAD_SECONDS: u64 = 5;

fn overhead(page: &mut report::Report, scene: &LiveSetup, runs: u32) -> anyhow::Result<()> {
    let mut rows = vec![
        [
            "way",
            "requests/s alone",
            "with tcpdump",
            "with weir",
            "weir's difference",
            "packets/s",
            "drops",
            "CPU",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for (interface, side, address) in [("lo", 0, "127.0.0.1"), ("veth", 1, "10.78.0.1")] {
        scene.load(side, address, 1)?;
        let (mut without, mut with, mut dumped) = (Vec::new(), Vec::new(), Vec::new());
        let (mut packets, mut drops, mut cpu) = (0, 0, 0.0);
        for _ in 0..runs {
            without.push(scene.load(side, address, LOAD_SECONDS)?);
            dumped.push(scene.load_with_tcpdump(interface, side, address)?);
            let weir = scene.watch(interface, 8080)?;
            let before = thread_seconds(weir.id(), "weir-wire");
            with.push(scene.load(side, address, LOAD_SECONDS)?);
            cpu += thread_seconds(weir.id(), "weir-wire") - before;
            pause(Duration::from_secs(5));
            packets += weir.number("select cast(sum(packets) as bigint) from wire_slice")?;
            drops += weir.number("select cast(sum(tap_drops) as bigint) from wire_slice")?;
            page.own(weir.stop()?);
        }
        let [without, with, dumped] = [&mut without, &mut with, &mut dumped].map(|values| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        });
        let seconds = f64::from(runs) * f64::from(u32::try_from(LOAD_SECONDS)?);
        rows.push(vec![
            interface.to_owned(),
            format!("{without:.0}"),
            format!("{dumped:.0}"),
            format!("{with:.0}"),
            format!("{:+.1} %", 100.0 * (with - without) / without),
            format!("{:.0}", f64::from(u32::try_from(packets)?) / seconds),
            drops.to_string(),
            format!("{:.1} %", 100.0 * cpu / seconds),
        ]);
    }
    page.text(&format!(
        "### nginx and wrk with 16 kept connections, {runs} turns of {LOAD_SECONDS} s each, medians\n\nBoth \
         processors are busy with the traffic alone, so all that is done beside it shows. tcpdump writes 128 bytes of each \
         packet to /dev/null and understands nothing; what it costs is what any tap costs the kernel."
    ));
    page.table(&rows);
    Ok(())
}
