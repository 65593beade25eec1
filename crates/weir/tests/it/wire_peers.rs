//! Other readers of the same captures: tcpdump, whose text must be the same packets, and tshark,
//! which must find the same requests, retransmits and round trips. docs/wire-peers.md lists where
//! they differ, and why.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use serde_json::Value;
use weir_bench::capture::{self, Format, Link, Recipe, Story};
use weir_wire::packet::{Flags, Packet};
use weir_wire::text::{LocalMinute, TextReader};
use weir_wire::{
    Capture, CaptureInput, Model, ModelOptions, ObservedConnection, ObservedRequest, Report,
    RowSink, WireError,
};

use super::harness::{can_run, text, weir};

/// A capture of some seconds in a separate directory.
fn made(dir: &Path, story: Story, format: Format) -> PathBuf {
    let own = Recipe::of(story);
    let recipe = Recipe { seconds: own.seconds.min(5), rate: own.rate.min(150), ..own };
    let path = dir.join(story.as_str());
    let file = BufWriter::new(File::create(&path).expect("it can be written"));
    capture::write(recipe, format, file, std::io::sink()).expect("it can be written");
    path
}

/// What a program prints of a capture, all times being UTC.
fn run(program: &str, path: &Path, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.arg("-r").arg(path).args(args).env("TZ", "UTC0");
    let output = command.output().expect("it is installed");
    assert!(output.status.success(), "{program} {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn each_packet(path: &Path, mut take: impl FnMut(&Packet<'_>)) -> Result<(), WireError> {
    let mut capture = Capture::new(CaptureInput::open(path)?)?;
    while capture.step(&mut take)? {}
    Ok(())
}

/// A packet as printed in one of the text styles.
#[derive(Clone, Copy)]
struct Style {
    args: &'static [&'static str],
    has_header: bool,
    has_ip_id: bool,
}

const STYLES: &[Style] = &[
    Style { args: &["-nnq", "-tttt"], has_header: false, has_ip_id: false },
    Style { args: &["-nnq", "-tt", "-e"], has_header: false, has_ip_id: false },
    Style { args: &["-nn", "-tttt"], has_header: true, has_ip_id: false },
    Style { args: &["-nn"], has_header: true, has_ip_id: false },
    Style { args: &["-nn", "-tt", "-S"], has_header: true, has_ip_id: false },
    Style { args: &["-nn", "-tt", "-e"], has_header: true, has_ip_id: false },
    Style { args: &["-nn", "-tt", "-v"], has_header: true, has_ip_id: true },
    Style { args: &["-nn", "-tt", "-v", "-e", "-x"], has_header: true, has_ip_id: true },
];

/// A packet as far as a style shows it.
fn shown(packet: &Packet<'_>, style: Style, is_ipv6: bool) -> String {
    let micros = packet.ts_ns / 1000;
    let mut out = format!("{micros} {} > {} {}", packet.from, packet.to, packet.payload_length);
    if style.has_header {
        let Packet { flags, window, window_scale, timestamps, sack_blocks, dsack, .. } = packet;
        out +=
            &format!(" {flags:?} {window} {window_scale:?} {timestamps:?} {sack_blocks} {dsack:?}");
        let is_numbered = packet.payload_length > 0
            || [Flags::SYN, Flags::FIN, Flags::RST].into_iter().any(|flag| flags.has(flag));
        if is_numbered {
            out += &format!(" seq {}", packet.seq);
        }
        if flags.has(Flags::ACK) {
            out += &format!(" ack {}", packet.ack);
        }
    }
    if style.has_ip_id && !is_ipv6 {
        out += &format!(" id {:?}", packet.ip_id);
    }
    out
}

fn utc_reader() -> TextReader {
    // 2026-11-20, the day of all stories.
    TextReader::new(Box::new(utc_seconds), 1_795_132_800, 1)
}

fn utc_seconds(at: LocalMinute) -> Option<i64> {
    let date = jiff::civil::date(
        i16::try_from(at.year).ok()?,
        i8::try_from(at.month).ok()?,
        i8::try_from(at.day).ok()?,
    );
    let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    Some(midnight + i64::from(at.hour) * 3600 + i64::from(at.minute) * 60)
}

#[test]
fn tcpdumps_text_of_every_style_is_the_same_packets() {
    if !can_run("text of tcpdump", "tcpdump (`cargo xtask setup`)", is_there("tcpdump")) {
        return;
    }
    let plain = Format::default();
    let dir = tempfile::tempdir().expect("a directory");
    for (story, format) in [
        (Story::NetworkHold, plain),
        (Story::AcceptQueue, Format { link: Link::Sll2, ..plain }),
        (Story::LossAfter, Format { link: Link::Vlan, is_pcapng: true, ..plain }),
        (Story::ClientRace, Format { is_ipv6: true, ..plain }),
        (Story::SlowReader, Format { snap_bytes: 96, is_nanosecond: true, ..plain }),
    ] {
        let path = made(dir.path(), story, format);
        for style in STYLES {
            let mut expected = Vec::new();
            each_packet(&path, |packet| expected.push(shown(packet, *style, format.is_ipv6)))
                .expect("it can be read");
            let (mut reader, mut found) = (utc_reader(), Vec::new());
            for line in run("tcpdump", &path, style.args).lines() {
                let packet = reader.line(line.as_bytes());
                found.extend(packet.map(|packet| shown(&packet, *style, format.is_ipv6)));
            }
            let place = expected.iter().zip(&found).position(|(one, other)| one != other);
            if let Some(place) = place {
                let (expected, found) = (&expected[place], &found[place]);
                panic!("{story:?} {:?}: packet {place}\n{expected}\n{found}", style.args);
            }
            assert_eq!(expected.len(), found.len(), "{story:?} {:?}", style.args);
        }
    }
}

#[test]
fn requests_of_a_capture_are_those_of_its_text() {
    if !can_run("text of tcpdump", "tcpdump (`cargo xtask setup`)", is_there("tcpdump")) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = made(dir.path(), Story::NetworkHold, Format::default());
    let data = "tcp port 80 and ip[2:2] - ((ip[0]&15)<<2) - ((tcp[12]&240)>>2) != 0";
    let dated = dir.path().join("dated");
    std::fs::write(&dated, run("tcpdump", &path, &["-nnq", "-tttt", data]))
        .expect("it can be written");
    let requests = compat(&path);
    assert!(requests.lines().count() > 500);
    assert_eq!(requests, compat(&dated));
}

fn compat(path: &Path) -> String {
    let path = path.display().to_string();
    let output = Command::new(super::harness::WEIR)
        .args(["wire", "--compat", "pt-tcp-model", "--watch-server", ":80", &path])
        .env("TZ", "UTC0")
        .output();
    text(&output.expect("weir can be started").stdout)
}

#[test]
fn text_with_sequence_numbers_tells_the_same_story() {
    if !can_run("text of tcpdump", "tcpdump (`cargo xtask setup`)", is_there("tcpdump")) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    for story in [Story::SlowApp, Story::LossAfter, Story::AcceptQueue] {
        let path = made(dir.path(), story, Format::default());
        let lines = dir.path().join("text");
        std::fs::write(&lines, run("tcpdump", &path, &["-nn", "-tt"])).expect("it can be written");
        let told = [&path, &lines].map(|path| {
            let output = weir(&["wire", "--format", "json", &path.display().to_string()]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let mut answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            // Text has no IP identifications, so it knows no losses before the tap; nor full URLs.
            let tiers = answer["tiers"].as_array_mut().expect("an array").drain(..);
            let kept = ["port", "requests", "responses", "connections", "duration_seconds_p99"];
            tiers.map(|tier| kept.map(|name| tier[name].clone())).collect::<Vec<_>>()
        });
        assert_eq!(told[0], told[1], "{story:?}");
        assert!(told[0][0][1].as_u64() > Some(100), "{story:?}: {:?}", told[0]);
    }
}

/// Sends what the model hands out: requests, and by connection the server's port and the segments
/// sent again.
struct Rows(mpsc::Sender<PeerRow>, mpsc::Sender<(u16, u64)>);

/// Ports of client and server, status, when the last byte passed, and how long after the request's
/// last, in µs.
type PeerRow = (u16, u16, u16, i64, i64);

impl RowSink for Rows {
    fn request(&mut self, request: &ObservedRequest<'_>) {
        let Some(answered) = request.answered else { return };
        let last = answered[1] / 1000;
        let _ = self.0.send((
            request.client.port,
            request.server.port,
            request.status.unwrap_or(0),
            last,
            last - request.asked[1] / 1000,
        ));
    }

    fn connection(&mut self, connection: &ObservedConnection) {
        let again = connection.retransmits.into_iter().map(u64::from).sum();
        let _ = self.1.send((connection.server.port, again));
    }
}

/// What weir finds: rows of requests, segments sent again on connections to port 80, and its
/// report.
fn found(path: &Path) -> (BTreeSet<PeerRow>, u64, Report) {
    let (to_rows, rows) = mpsc::channel();
    let (to_again, again) = mpsc::channel();
    let sink = Box::new(Rows(to_rows, to_again));
    let mut model = Model::new(ModelOptions::default(), Some(sink));
    each_packet(path, |packet| model.packet(packet)).expect("it can be read");
    let report = model.report();
    let again = again.try_iter().filter(|(port, _)| *port == 80).map(|(_, count)| count).sum();
    (rows.try_iter().collect(), again, report)
}

/// Rows of tshark's fields, one a line, by tabs.
fn tshark(path: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut args = vec!["-Y", filter, "-T", "fields"];
    fields.iter().for_each(|field| args.extend(["-e", field]));
    let printed = run("tshark", path, &args);
    printed.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn micros(seconds: &str) -> i64 {
    let (whole, part) = seconds.split_once('.').expect("a fraction");
    let part: i64 = part[..6].parse().expect("digits");
    whole.parse::<i64>().expect("digits") * 1_000_000 + part
}

#[test]
fn tshark_finds_the_same_requests() {
    if !can_run("tshark", "tshark (`cargo xtask setup`)", is_there("tshark")) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    for story in [
        Story::Smooth,
        Story::NetworkHold,
        Story::AcceptQueueLinear,
        Story::LossAfter,
        Story::LossBeforeFar,
        Story::UpstreamRace,
        Story::ClientRace,
        Story::SlowReader,
        Story::Framing,
        Story::Churn,
    ] {
        let path = made(dir.path(), story, Format::default());
        let (rows, _, _) = found(&path);
        let fields =
            ["tcp.dstport", "tcp.srcport", "http.response.code", "frame.time_epoch", "http.time"];
        let mut untimed = 0;
        let theirs: BTreeSet<PeerRow> =
            tshark(&path, "http.response && http.response.code >= 200", &fields)
                .into_iter()
                .filter_map(|row| {
                    // Pipelined requests and those behind `100 Continue` tshark does not pair.
                    let Some(span) = row.get(4).filter(|span| !span.is_empty()) else {
                        untimed += 1;
                        return None;
                    };
                    Some((
                        number_at(&row, 0),
                        number_at(&row, 1),
                        number_at(&row, 2),
                        micros(&row[3]),
                        micros(span),
                    ))
                })
                .collect();
        assert!(theirs.len() > 100, "{story:?}: {}", theirs.len());
        assert!(untimed == 0 || story == Story::Framing, "{story:?}: {untimed}");
        let only_theirs: Vec<&PeerRow> = theirs.difference(&rows).take(5).collect();
        assert!(only_theirs.is_empty(), "{story:?}: only tshark has {only_theirs:?}");
        assert_eq!(rows.len(), theirs.len() + untimed, "{story:?}");
    }
}

fn number_at(row: &[String], at: usize) -> u16 {
    row[at].parse::<u16>().expect("a number")
}

#[test]
fn tshark_finds_the_same_retransmits_and_round_trips() {
    if !can_run("tshark", "tshark (`cargo xtask setup`)", is_there("tshark")) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    for story in [Story::Smooth, Story::NetworkHold, Story::LossAfter, Story::LossAfterFar] {
        let path = made(dir.path(), story, Format::default());
        let (_, ours, report) = found(&path);
        let tier = report.tiers.iter().find(|tier| tier.port == 80).expect("it is asked");
        let again = "tcp.analysis.retransmission && tcp.port == 80 && tcp.len > 0";
        let theirs = tshark(&path, again, &["frame.number"]).len() as u64;
        assert_eq!(ours, theirs, "{story:?}");
        assert!(theirs > 0 || story == Story::Smooth, "{story:?}");

        let filter = "tcp.analysis.ack_rtt && tcp.dstport == 80 && !tcp.analysis.flags";
        let mut theirs: Vec<i64> = tshark(&path, filter, &["tcp.analysis.ack_rtt"])
            .iter()
            .map(|row| micros(&row[0]))
            .collect();
        theirs.sort_unstable();
        let median = theirs[theirs.len() / 2];
        let ours = tier.rtt.expect("there were round trips").p50;
        let ours = i64::try_from(ours).expect("it is short");
        assert!((ours - median).abs() * 20 <= median, "{story:?}: {ours} µs, tshark {median}");
    }
}
