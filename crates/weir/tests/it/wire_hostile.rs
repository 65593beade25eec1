//! Hostile captures: memory stays bounded, and what is given up is counted.

use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::harness::{text, wait_for};

/// Connections of one packet each: four times as many as are followed at once.
const CONNECTIONS: u32 = 4_000_000;

/// pcap of raw IPv4, one acknowledgement of each connection; as a scan or a flood looks.
fn write_flood(out: impl Write) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        out.write_all(&word.to_le_bytes())?;
    }
    for number in 0..CONNECTIONS {
        for word in [1_700_000_000 + number / 1_000_000, number % 1_000_000, 40, 40] {
            out.write_all(&word.to_le_bytes())?;
        }
        let client = 0x0a00_0000 + number / 50_000;
        let port = u16::try_from(10_000 + number % 50_000).expect("a port");
        out.write_all(&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0])?;
        out.write_all(&client.to_be_bytes())?;
        out.write_all(&[192, 0, 2, 1])?;
        out.write_all(&port.to_be_bytes())?;
        out.write_all(&[0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0])?;
    }
    out.flush()
}

/// The most that a process had resident so far, MiB.
fn peak_mib(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? / 1024)
}

#[test]
fn four_million_connections_of_one_packet_take_no_more_memory_than_a_million() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["wire", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was built");
    let pipe = child.stdin.take().expect("a pipe was asked for");
    write_flood(&pipe).expect("weir reads it");
    // All but what a pipe holds was read by now.
    let peak = wait_for("its memory", Duration::from_secs(10), || peak_mib(child.id()));
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(peak < 640, "{peak} MiB");
    let answer: Value = serde_json::from_str(&text(&output.stdout)).expect("one object");
    assert_eq!(answer["packets"], CONNECTIONS);
    let connections: u64 = answer["tiers"]
        .as_array()
        .expect("an array")
        .iter()
        .filter_map(|tier| tier["connections"].as_u64())
        .sum();
    assert_eq!(connections, u64::from(CONNECTIONS));
    let given_up = answer["connections_given_up"].as_u64();
    assert_eq!(given_up, Some(u64::from(CONNECTIONS) - 1_000_000));
}
