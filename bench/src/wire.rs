//! `wire`: cost of `weir wire` on a capture, compared with tcpdump, tcptrace and tshark in the same
//! run.
//!
//! The capture is generated (stories `bulk` and `churn` of [`crate::capture`]) and read once
//! before, so that all tools read memory. tshark keeps the state of all packets, so it gets the
//! first 300,000.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::capture::{self, Format, Link, Recipe, Story};
use crate::{meter, report, wire_threads};

/// Packets for tshark.
const TSHARK_PACKETS: u32 = 300_000;

/// Connections of one packet each, to measure memory: the limit of weir.
const FLOWS: u32 = 1_000_000;
/// Bytes to read through a pipe, to measure memory: the capture, repeated.
const PIPED_BYTES: u64 = 10_000_000_000;

/// Measures `runs` times and reports medians.
pub(crate) fn run([seconds, runs]: [u32; 2]) -> anyhow::Result<()> {
    let mut page = report::Report::new("wire");
    let dir = tempfile::tempdir()?;
    page.text(&format!(
        "`weir wire FILE --format json`: the full model, with connections, requests, slices and verdicts. Medians \
         of {runs} runs: CPU-seconds of user and system, and seconds on the clock; the capture is in the page cache."
    ));
    let text = dir.path().join("bulk.nn.txt");
    let mut files = Vec::new();
    for story in [Story::Bulk, Story::Churn] {
        let path = dir.path().join(format!("{}.pcap", story.as_str()));
        let rate = if story == Story::Bulk { 20_000 } else { 5_000 };
        let packets = make(&path, Recipe { seconds, rate, ..Recipe::of(story) })?;
        measure(&mut page, story, &path, packets, runs)?;
        files.push((format!("`{}`", story.as_str()), path.clone(), packets));
        if story == Story::Bulk {
            text_of(&mut page, &path, packets, runs)?;
            piped(&mut page, &path)?;
            files.push(("text of `bulk`, `-nn -tt`".to_owned(), text.clone(), packets));
        }
    }
    flows(&mut page)?;
    let start = median(runs.max(3), &weir()?, &["wire", first_packet(dir.path())?.as_str()])?.wall;
    wire_threads::measure(&mut page, &weir()?, &files)?;
    page.text(&format!("Of each run of weir {:.0} ms are its start and its end: a capture of one packet takes so long.", start * 1e3));
    page.text(
        "Bars: 4 million packets/s and 1 GB/s of file per core on keep-alive traffic (`bulk`); two threads 1.7 times as fast \
         as one; 5 million lines of text/s; 400 bytes a live connection; bounded memory on 10 GB.",
    );
    page.write()
}

/// Measures reading the bulk capture as text of tcpdump.
fn text_of(page: &mut report::Report, path: &Path, packets: u64, runs: u32) -> anyhow::Result<()> {
    let heads = [
        "tcpdump's style",
        "lines",
        "threads",
        "CPU-s",
        "s",
        "lines/s of a core",
        "by user time",
        "lines/s",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for style in ["-nnq", "-nn"] {
        let text = path.with_extension(format!("{}.txt", &style[1..]));
        let file = path.to_str().context("paths of temporary files are text")?;
        let status = Command::new("tcpdump")
            .args([style, "-tt", "-r", file])
            .stdout(File::create(&text)?)
            .stderr(Stdio::null())
            .status()?;
        ensure!(status.success(), "tcpdump cannot read the capture");
        let text = text.to_str().context("paths of temporary files are text")?;
        for threads in ["1", "2"] {
            let args = ["wire", text, "--format", "json", "--threads", threads];
            let spent = median(runs, &weir()?, &args)?;
            page.own(spent.cpu * f64::from(runs));
            rows.push(vec![
                format!("`tcpdump {style} -tt`"),
                packets.to_string(),
                threads.to_owned(),
                format!("{:.2}", spent.cpu),
                format!("{:.2}", spent.wall),
                thousands_per_second(packets, spent.cpu),
                thousands_per_second(packets, spent.user),
                thousands_per_second(packets, spent.wall),
            ]);
        }
    }
    page.text("### tcpdump's text of `bulk` through the full model");
    page.table(&rows);
    Ok(())
}

/// Writes a capture of the first packet of `bulk`.
fn first_packet(dir: &Path) -> anyhow::Result<String> {
    let capture = File::open(dir.join("bulk.pcap"))?;
    let path = dir.join("one.pcap");
    let mut begin = Vec::new();
    capture.take(PCAP_HEADER_BYTES as u64 + 16).read_to_end(&mut begin)?;
    let length = begin.get(PCAP_HEADER_BYTES + 8..).and_then(<[u8]>::first_chunk);
    let length = u32::from_le_bytes(*length.context("a capture has a packet")?);
    let mut whole = Vec::new();
    let bytes = begin.len() as u64 + u64::from(length);
    File::open(dir.join("bulk.pcap"))?.take(bytes).read_to_end(&mut whole)?;
    std::fs::write(&path, whole)?;
    path.into_os_string()
        .into_string()
        .map_err(|_| anyhow::anyhow!("paths of temporary files are text"))
}

/// Repeats a capture through a pipe, to check that memory does not grow with the input.
fn piped(page: &mut report::Report, path: &Path) -> anyhow::Result<()> {
    let capture = std::fs::read(path)?;
    let packets = capture.get(PCAP_HEADER_BYTES..).context("a capture has a header")?;
    let times = PIPED_BYTES.div_ceil(packets.len() as u64);
    let mut child = Command::new(weir()?)
        .args(["wire", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let id = child.id();
    let mut pipe = child.stdin.take().context("stdin is piped")?;
    pipe.write_all(&capture[..PCAP_HEADER_BYTES])?;
    let mut early = 0.0;
    for round in 0..times {
        pipe.write_all(packets)?;
        if round == 0 {
            early = meter::memory_mib(id).1;
        }
    }
    let late = meter::memory_mib(id).1;
    drop(pipe);
    page.own(meter::wait(child)?);
    page.text(&format!(
        "### Memory: {:.1} GB through a pipe\n\nAt most {early:.0} MiB resident after the first {} MiB, and {late:.0} MiB after all of it.",
        gigabytes(times * packets.len() as u64),
        packets.len() >> 20
    ));
    Ok(())
}

/// Measures memory of connections of one packet each, compared with as many packets of few
/// connections.
fn flows(page: &mut report::Report) -> anyhow::Result<()> {
    let mut high = Vec::new();
    for count in [1000, FLOWS] {
        let mut child = Command::new(weir()?)
            .args(["wire", "-", "--format", "json", "--threads", "1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let mut pipe = child.stdin.take().context("stdin is piped")?;
        pipe.write_all(&acknowledgements(count))?;
        // weir has read all but the pipe's capacity.
        let id = child.id();
        high.push(meter::memory_mib(id).1);
        drop(pipe);
        page.own(meter::wait(child)?);
    }
    let bytes = (high[1] - high[0]) * 1_048_576.0 / f64::from(FLOWS - 1000);
    page.text(&format!(
        "### Memory: {FLOWS} connections of one packet\n\n{:.0} MiB resident beside {:.0} MiB with as many packets of 1,000 connections: {bytes:.0} bytes each.",
        high[1], high[0]
    ));
    Ok(())
}

const PCAP_HEADER_BYTES: usize = 24;

/// A pcap of raw IPv4 with [`FLOWS`] acknowledgements, from this many connections in turn.
fn acknowledgements(connections: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    for at in 0..FLOWS {
        let number = at % connections;
        for word in [1_700_000_000, at / 10, 40, 40] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let client = 0x0a00_0000 + number / 50_000;
        let port = u16::try_from(10_000 + number % 50_000).unwrap_or(u16::MAX);
        out.extend_from_slice(&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        out.extend_from_slice(&client.to_be_bytes());
        out.extend_from_slice(&[192, 0, 2, 1]);
        out.extend_from_slice(&port.to_be_bytes());
        out.extend_from_slice(&[0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "file sizes are below 2^53")]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn thousands_per_second(count: u64, seconds: f64) -> String {
    format!("{:.0},000", count as f64 / seconds / 1000.0)
}

/// Writes a capture and reads it once. Returns its number of packets.
fn make(path: &Path, recipe: Recipe) -> anyhow::Result<u64> {
    let format = Format {
        is_pcapng: false,
        is_nanosecond: false,
        is_ipv6: false,
        link: Link::Ethernet,
        snap_bytes: 262_144,
        missing_per_mille: 0,
    };
    let file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    capture::write(recipe, format, file, std::io::sink())?;
    let output = Command::new(weir()?).arg("wire").arg(path).args(["--format", "json"]).output()?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let skipped = answer["skipped"].as_array().map_or(0, Vec::len);
    ensure!(skipped == 0, "weir skips packets of the generated capture: {answer}");
    answer["packets"].as_u64().context("the output of weir has no packets")
}

/// Path of weir.
fn weir() -> anyhow::Result<String> {
    Ok(crate::weir::program()?.display().to_string())
}

/// A program that reads the capture: title, name, arguments, and its number of packets.
type ToolCommand = (&'static str, String, String, u64);

fn tools(file: &str, packets: u64) -> anyhow::Result<[ToolCommand; 6]> {
    let weir = weir()?;
    let [one, two, rows] = [
        "--format json --threads 1",
        "--format json --threads 2",
        "--format csv --table tcp_conn --threads 1",
    ]
    .map(|more| format!("wire {file} {more}"));
    let fields = "-e frame.time_epoch -e http.response.code -e http.request.uri -e http.request_in";
    let tshark = format!("-n -c {TSHARK_PACKETS} -r {file} -Y http.response -T fields {fields}");
    let few_packets = packets.min(u64::from(TSHARK_PACKETS));
    let tcpdump = ("tcpdump to text (`-nnq -tttt`)", "tcpdump", format!("-nnq -tttt -r {file}"));
    Ok([
        ("weir wire, one thread", weir.clone(), one, packets),
        ("weir wire, two threads", weir.clone(), two, packets),
        ("weir wire, rows of connections", weir, rows, packets),
        (tcpdump.0, tcpdump.1.to_owned(), tcpdump.2, packets),
        // `-n` disables name resolution.
        ("tcptrace (`-n -q`)", "tcptrace".to_owned(), format!("-n -q {file}"), packets),
        ("tshark, fields of responses", "tshark".to_owned(), tshark, few_packets),
    ])
}

fn measure(
    page: &mut report::Report,
    story: Story,
    path: &Path,
    packets: u64,
    runs: u32,
) -> anyhow::Result<()> {
    let file = path.to_str().context("paths of temporary files are text")?;
    let bytes = std::fs::metadata(path)?.len();
    let heads = [
        "tool",
        "packets",
        "CPU-s",
        "of it user",
        "s",
        "packets/s of a core",
        "by user time",
        "GB/s of a core",
        "times weir's cost",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let mut weir_cost = None;
    for (name, program, args, packets) in tools(file, packets)? {
        // Paths of temporary files have no spaces.
        let args: Vec<&str> = args.split(' ').collect();
        let spent = median(runs, &program, &args)?;
        page.own(spent.cpu * f64::from(runs));
        #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
        let cost = spent.cpu / packets as f64;
        let weir_cost = *weir_cost.get_or_insert(cost);
        let is_whole = !name.starts_with("tshark");
        rows.push(vec![
            name.to_owned(),
            packets.to_string(),
            format!("{:.2}", spent.cpu),
            format!("{:.2}", spent.user),
            format!("{:.2}", spent.wall),
            thousands_per_second(packets, spent.cpu),
            thousands_per_second(packets, spent.user),
            if is_whole {
                format!("{:.2}", gigabytes(bytes) / spent.cpu)
            } else {
                "–".to_owned()
            },
            format!("{:.1}", cost / weir_cost),
        ]);
    }
    page.text(&format!("### `{}`: {packets} packets, {} MiB", story.as_str(), bytes >> 20));
    page.table(&rows);
    Ok(())
}

/// CPU and wall seconds.
struct TimeSpent {
    cpu: f64,
    /// CPU seconds in user mode.
    user: f64,
    wall: f64,
}

/// Medians of several runs, at least the resolution of the clock.
fn median(runs: u32, program: &str, args: &[&str]) -> anyhow::Result<TimeSpent> {
    let spent: Vec<TimeSpent> = (0..runs).map(|_| once(program, args)).collect::<Result<_, _>>()?;
    let picks: [fn(&TimeSpent) -> f64; 3] =
        [|spent| spent.cpu, |spent| spent.user, |spent| spent.wall];
    let [cpu, user, wall] = picks.map(|pick| {
        let mut values: Vec<f64> = spent.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2].max(0.01)
    });
    Ok(TimeSpent { cpu, user, wall })
}

fn once(program: &str, args: &[&str]) -> anyhow::Result<TimeSpent> {
    let begin = Instant::now();
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run `{program}`"))?;
    let [user, system] = meter::wait_split(child)?;
    Ok(TimeSpent { cpu: user + system, user, wall: begin.elapsed().as_secs_f64() })
}
