//! Measures how many lines of tcpdump per second one core turns into packets: `cargo run -p
//! weir-wire --example text_rate [LINES]`.
//!
//! Each style is read five times and the median printed; times are CPU times
//! (`/proc/self/schedstat`), so that a busy machine changes them little. The lines are generated:
//! 2,000 keep-alive connections from a fixed seed.
#![expect(clippy::print_stdout, reason = "a command that prints its figures")]

use std::fmt::Write as _;

use weir_wire::compat::{EndStamp, RequestExtractor, RequestOptions, StartStamp};
use weir_wire::text::{LineReader, LocalMinute, TextReader, Zone};

fn lines(count: u32, style: &str) -> String {
    let (mut random, mut out, mut micros) = (fastrand::Rng::with_seed(42), String::new(), 0);
    for _ in 0..count {
        micros += random.u64(..60);
        let (second, part) = (micros / 1_000_000 % 60, micros % 1_000_000);
        let minute = micros / 60_000_000;
        let port = 40_000 + random.u64(..2_000);
        let (is_asking, relative, length) =
            (random.u64(..2) == 0, random.u64(..9_000_000), random.u64(..1400));
        let client = format!("10.1.{}.{}.{port}", port % 7, port % 250);
        let (from, to) = if is_asking {
            (client.as_str(), "192.0.2.1.80")
        } else {
            ("192.0.2.1.80", client.as_str())
        };
        let _infallible = write!(out, "2026-11-20 10:{minute:02}:{second:02}.{part:06} ");
        let _infallible = match style {
            "-nnq" => writeln!(out, "IP {from} > {to}: tcp {length}"),
            "-nnq -i any" => writeln!(out, "eth0  In  IP {from} > {to}: tcp {length}"),
            _ => writeln!(
                out,
                "IP {from} > {to}: Flags [P.], seq {relative}:{}, ack 1, win 502, options [nop,nop,TS val {} ecr 77], length {length}",
                relative + length,
                micros / 1000
            ),
        };
    }
    out
}

fn zone() -> Zone {
    Box::new(|at: LocalMinute| Some(i64::from(at.hour) * 3600 + i64::from(at.minute) * 60))
}

/// CPU nanoseconds so far.
fn on_cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

fn measure((name, text): (&str, &str), mut read: impl FnMut(&str) -> u64) {
    let mut spans: Vec<u64> = (0..5)
        .map(|_| {
            let begin = on_cpu();
            assert!(read(text) > 0, "{name}: nothing was read");
            on_cpu() - begin
        })
        .collect();
    spans.sort_unstable();
    let seconds = spans[2] as f64 / 1e9;
    let count = text.lines().count() as f64;
    println!(
        "{name:24} {:6.2} million lines/s {:8.1} MB/s",
        count / seconds / 1e6,
        text.len() as f64 / seconds / 1e6
    );
}

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    for style in ["-nnq", "-nnq -i any", "-nn"] {
        measure((&format!("packets of {style}"), &lines(count, style)), |text| {
            let mut reader = TextReader::new(zone(), 0, 1);
            let (mut lines, mut bytes) = (LineReader::new(b"", text.as_bytes()), 0);
            while let Ok(Some(line)) = lines.next_line() {
                bytes += reader.line(line).map_or(0, |packet| u64::from(packet.payload_length));
            }
            bytes
        });
    }
    measure(("pt-tcp-model, stage 1", &lines(count, "-nnq")), |text| {
        let options =
            RequestOptions { port: "80".to_owned(), start: StartStamp::Last, end: EndStamp::First };
        let mut requests = RequestExtractor::new(options, zone(), 1);
        let mut out = Vec::with_capacity(1 << 20);
        let mut bytes = 0;
        let mut lines = LineReader::new(b"", text.as_bytes());
        while let Ok(Some(line)) = lines.next_line() {
            assert!(requests.line(line, &mut out).is_ok(), "few sessions");
            if out.len() > 1 << 16 {
                bytes += out.len() as u64;
                out.clear();
            }
        }
        requests.finish(&mut out);
        bytes + out.len() as u64
    });
}
