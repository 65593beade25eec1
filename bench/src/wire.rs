//! `wire`: what `weir wire` costs on a capture, beside tcpdump, tcptrace and tshark on the same capture in the same run.
//!
//! The capture is made here (stories `bulk` and `churn` of [`crate::capture`]) and read once before, so that all read
//! memory. tshark keeps the state of all packets, so it gets the first 300,000.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::capture::{self, Format, Link, Recipe, Story};
use crate::{meter, report};

/// Packets that tshark gets.
const TSHARK_PACKETS: u32 = 300_000;

/// Measures `runs` times and reports medians.
pub(crate) fn run(seconds: u32, runs: u32) -> anyhow::Result<()> {
    let mut page = report::Report::new("wire");
    let dir = tempfile::tempdir()?;
    page.text(&format!(
        "`weir wire FILE --format json`: the full model, with connections, requests, slices and verdicts; one thread. Medians \
         of {runs} runs, CPU-seconds of user and system, the capture in the page cache."
    ));
    for story in [Story::Bulk, Story::Churn] {
        let path = dir.path().join(format!("{}.pcap", story.as_str()));
        let rate = if story == Story::Bulk { 20_000 } else { 5_000 };
        let packets = make(&path, Recipe { seconds, rate, ..Recipe::of(story) })?;
        measure(&mut page, story, &path, packets, runs)?;
    }
    page.text(
        "Bars: 4 million packets/s and 1 GB/s of file per core on keep-alive traffic (`bulk`).",
    );
    page.write()
}

/// Writes a capture and reads it once; how many packets it holds.
fn make(path: &Path, recipe: Recipe) -> anyhow::Result<u64> {
    let create =
        |path: &Path| File::create(path).map(|file| BufWriter::with_capacity(1 << 20, file));
    let format = Format {
        is_pcapng: false,
        is_nanosecond: false,
        is_ipv6: false,
        link: Link::Ethernet,
        snap_bytes: 262_144,
        missing_per_mille: 0,
    };
    capture::write(recipe, format, create(path)?, std::io::sink())?;
    let output = Command::new(weir()).arg("wire").arg(path).args(["--format", "json"]).output()?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let skipped = answer["skipped"].as_array().map_or(0, Vec::len);
    ensure!(skipped == 0, "weir does not use all of its own benchmark's packets: {answer}");
    answer["packets"].as_u64().context("an answer without packets")
}

fn weir() -> String {
    std::env::var("WEIR_BIN").unwrap_or_else(|_| "weir".to_owned())
}

fn measure(
    page: &mut report::Report,
    story: Story,
    path: &Path,
    packets: u64,
    runs: u32,
) -> anyhow::Result<()> {
    let file = path.to_str().context("paths of temporary files are text")?;
    let weir = weir();
    let count = TSHARK_PACKETS.to_string();
    let fields = "frame.time_epoch http.response.code http.request.uri http.request_in";
    let fields: Vec<&str> = fields.split(' ').flat_map(|field| ["-e", field]).collect();
    let mut tshark = vec!["-n", "-c", &count, "-r", file, "-Y", "http.response", "-T", "fields"];
    tshark.extend(fields);
    let few_packets = packets.min(u64::from(TSHARK_PACKETS));
    let tools: [(&str, &str, Vec<&str>, u64); 5] = [
        ("weir wire", &weir, vec!["wire", file, "--format", "json"], packets),
        (
            "weir wire, rows of connections",
            &weir,
            vec!["wire", file, "--format", "csv", "--table", "tcp_conn"],
            packets,
        ),
        ("tcpdump to text (`-nnq -tttt`)", "tcpdump", vec!["-nnq", "-tttt", "-r", file], packets),
        ("tcptrace (`-q`)", "tcptrace", vec!["-q", file], packets),
        ("tshark, fields of responses", "tshark", tshark, few_packets),
    ];
    let bytes = std::fs::metadata(path)?.len();
    let mut rows = vec![
        ["tool", "packets", "CPU-s", "packets/s of a core", "GB/s", "times weir's cost"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut weir_cost = None;
    for (name, program, args, packets) in tools {
        let mut seconds: Vec<f64> =
            (0..runs).map(|_| once(program, &args)).collect::<Result<_, _>>()?;
        seconds.sort_by(f64::total_cmp);
        let seconds = seconds[seconds.len() / 2].max(0.01);
        page.own(seconds * f64::from(runs));
        #[expect(clippy::cast_precision_loss, reason = "counts and file sizes are below 2^53")]
        let (rate, gigabytes) = (packets as f64 / seconds, bytes as f64 / 1e9);
        let cost = 1.0 / rate;
        let weir_cost = *weir_cost.get_or_insert(cost);
        rows.push(vec![
            name.to_owned(),
            packets.to_string(),
            format!("{seconds:.2}"),
            format!("{:.0},000", rate / 1000.0),
            if name.starts_with("tshark") {
                "–".to_owned()
            } else {
                format!("{:.2}", gigabytes / seconds)
            },
            format!("{:.1}", cost / weir_cost),
        ]);
    }
    page.text(&format!("### `{}`: {packets} packets, {} MiB", story.as_str(), bytes >> 20));
    page.table(&rows);
    Ok(())
}

fn once(program: &str, args: &[&str]) -> anyhow::Result<f64> {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run `{program}`"))?;
    Ok(meter::wait(child)?)
}
