//! The captures of other tests, read by tshark: requests, their times and retransmissions must be the same
//! where both define them alike. docs/wire-peers.md lists where they differ, and why.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::*;

/// A capture as tshark reads it, and what was found in it here.
struct Recording {
    pcap: Vec<u8>,
    requests: Vec<RequestRow>,
    /// Segments of both sides that were sent again.
    retransmits: u64,
}

thread_local! {
    static RECORDINGS: RefCell<Option<Vec<Recording>>> = const { RefCell::new(None) };
}

/// Keeps a script and its result, if a test of this file runs it.
pub(super) fn record(packets: &[OwnedPacket], rows: &ObservedRows) {
    RECORDINGS.with_borrow_mut(|recordings| {
        let Some(recordings) = recordings else { return };
        let retransmits = rows.connections.iter().flat_map(|one| one.retransmits);
        recordings.push(Recording {
            pcap: pcap(packets),
            requests: rows.requests.clone(),
            retransmits: retransmits.map(u64::from).sum(),
        });
    });
}

/// The captures that a test makes.
fn recordings_of(test: fn()) -> Vec<Recording> {
    RECORDINGS.set(Some(Vec::new()));
    test();
    RECORDINGS.take().expect("nothing else takes them")
}

fn pcap(packets: &[OwnedPacket]) -> Vec<u8> {
    const ETHERNET: u32 = 1;
    let head = [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 1 << 18, ETHERNET];
    let mut out: Vec<u8> = head.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    for packet in packets {
        let frame = frame(packet);
        let second = u32::try_from(packet.ts / 1_000_000_000).expect("before 2106");
        let nanosecond = u32::try_from(packet.ts % 1_000_000_000).expect("a fraction");
        let length = u32::try_from(frame.len()).expect("short");
        for word in [second, nanosecond, length, length] {
            out.extend(word.to_le_bytes());
        }
        out.extend(frame);
    }
    out
}

/// Ethernet, IPv4 and TCP around the payload; checksums are left to offloading.
fn frame(packet: &OwnedPacket) -> Vec<u8> {
    let options = match packet.tick_us {
        0 => Vec::new(),
        _ => {
            let value = view(packet).timestamps.expect("it ticks").value;
            [&[1, 1, 8, 10][..], &value.to_be_bytes(), &[0; 4]].concat()
        }
    };
    let length = u16::try_from(40 + options.len() + packet.payload.len()).expect("short");
    let mut out = [&[2; 12][..], &[8, 0, 0x45, 0], &length.to_be_bytes()].concat();
    out.extend(packet.ip_id.to_be_bytes());
    out.extend([0x40, 0, 64, 6, 0, 0]);
    for end in [packet.from, packet.to] {
        out.extend(&end.address.to_be_bytes()[12..]);
    }
    for end in [packet.from, packet.to] {
        out.extend(end.port.to_be_bytes());
    }
    out.extend(packet.seq.to_be_bytes());
    out.extend(packet.ack.to_be_bytes());
    let words = u8::try_from(5 + options.len() / 4).expect("few");
    out.extend([words << 4, packet.flags.0]);
    out.extend(packet.window.to_be_bytes());
    out.extend([0; 4]);
    [out, options, packet.payload.clone()].concat()
}

/// Rows of tshark's fields.
fn tshark(path: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-Y", filter, "-T", "fields", "-r"]).arg(path);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().expect("it is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// False when this machine lacks tshark; with `WEIR_REQUIRE_ALL=1` that fails.
fn has_tshark() -> bool {
    let is_there = Command::new("tshark").arg("--version").output().is_ok();
    let is_required = std::env::var("WEIR_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(is_there || !is_required, "tshark is missing");
    if !is_there {
        println!("skipped: tshark is missing (cargo xtask setup)");
    }
    is_there
}

/// How many responses there are by status and milliseconds.
type Responses = BTreeMap<(u16, i64), usize>;

/// Compares a capture's responses with tshark's: each that it pairs with a request, and their total.
fn compare_requests(name: &str, path: &Path, recording: &Recording) {
    let mut theirs = Responses::new();
    let fields = ["http.response.code", "http.time"];
    let rows = tshark(path, "http.response.code >= 200", &fields);
    for row in rows.iter().filter(|row| row.len() > 1 && !row[1].is_empty()) {
        let seconds: f64 = row[1].parse().expect("a number");
        #[expect(clippy::cast_possible_truncation, reason = "scripts last seconds")]
        let milliseconds = (seconds * 1000.0).round() as i64;
        *theirs.entry((row[0].parse().expect("a status"), milliseconds)).or_default() += 1;
    }
    let mut ours = Responses::new();
    let answered = recording.requests.iter().filter_map(|row| Some((row.1?, row.3)));
    answered.for_each(|key| *ours.entry(key).or_default() += 1);
    assert_eq!(rows.len(), ours.values().sum::<usize>(), "{name}: number of responses");
    for (key, count) in &theirs {
        assert!(
            ours.get(key) >= Some(count),
            "{name}: tshark has {count} of {key:?}, not {ours:?}"
        );
    }
}

fn compare_retransmits(name: &str, path: &Path, recording: &Recording) {
    let filter = "tcp.analysis.retransmission && tcp.len > 0";
    let theirs = tshark(path, filter, &["frame.number"]).len() as u64;
    assert_eq!(recording.retransmits, theirs, "{name}: retransmissions");
}

type Comparison = fn(&str, &Path, &Recording);

#[track_caller]
fn compare(tests: &[(&str, fn())], comparison: Comparison) {
    if !has_tshark() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    for (name, test) in tests {
        let recordings = recordings_of(*test);
        assert!(!recordings.is_empty(), "{name} makes no capture");
        for (at, recording) in recordings.iter().enumerate() {
            let path = dir.path().join("capture.pcap");
            std::fs::write(&path, &recording.pcap).expect("it can be written");
            comparison(&format!("{name}, capture {at}"), &path, recording);
        }
    }
}

/// Names of tests beside them.
macro_rules! tests {
    ($($module:ident::$test:ident),* $(,)?) => {
        &[$((stringify!($test), super::$module::$test as fn())),*]
    };
}

#[test]
fn tshark_pairs_the_same_requests_and_responses() {
    compare(
        tests![
            odd_connections::a_handshake_with_a_second_attempt_is_one_connection,
            odd_connections::a_port_that_is_used_again_begins_a_connection,
            odd_connections::the_end_of_an_older_connection_turns_no_ends_around,
            odd_http::a_decrypted_copy_is_read_like_the_original,
            verdicts::an_even_crowd_is_smooth,
            verdicts::a_slow_url_is_named,
            whose_fault::one_slow_server_of_many_is_named,
        ],
        compare_requests,
    );
}

#[test]
fn tshark_counts_the_same_retransmissions() {
    compare(
        tests![
            odd_connections::sequence_numbers_wrap_anywhere,
            odd_connections::the_end_of_an_older_connection_turns_no_ends_around,
            odd_http::a_decrypted_copy_is_read_like_the_original,
            verdicts::an_even_crowd_is_smooth,
            verdicts::lost_answers_are_path_loss_and_spurious_ones_are_not,
        ],
        compare_retransmits,
    );
}
