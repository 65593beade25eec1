//! Compares pt-tcp-model's two stages with slow, plain models on random traffic.
//!
//! Stage 2 has no event loop here: each integral is a sum over all requests of their overlap with a
//! row, in whole units of 2^-22 s. Times between 2^30 and 2^31 s are multiples of that, so doubles
//! add them without rounding, and both must agree to the last digit.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use weir_capture::compat::{
    EndStamp, RequestExtractor, RequestOptions, SliceAggregator, SliceOptions, StartStamp,
};

/// 2011-04-04 22:57:43 UTC, in microseconds.
const BEGIN: u64 = 1_301_957_863_000_000;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// A packet: time in microseconds, client, and whether it goes to the server.
type Segment = (u64, String, bool);

fn traffic(u: &mut Unstructured<'_>) -> Result<Vec<Segment>> {
    let mut now = BEGIN;
    let clients = u.int_in_range(1..=5_u8)?;
    (0..u.int_in_range(0..=60)?)
        .map(|_| {
            now += u.int_in_range(0..=700_000)?;
            let client = u.int_in_range(1..=clients)?;
            Ok((now, format!("10.0.0.{client}.{}", 40_000 + u32::from(client)), u.arbitrary()?))
        })
        .collect()
}

fn as_text(segments: &[Segment]) -> Vec<String> {
    let line = |(at, client, is_asking): &Segment| {
        // 22:57:43, and the traffic stays in that hour.
        let since = at - BEGIN + 57 * 60_000_000 + 43_000_000;
        let clock = format!(
            "22:{:02}:{:02}.{:06}",
            since / 60_000_000,
            since / 1_000_000 % 60,
            since % 1_000_000
        );
        let (from, to) = if *is_asking {
            (client.as_str(), "192.0.2.1.80")
        } else {
            ("192.0.2.1.80", client.as_str())
        };
        format!("2011-04-04 {clock} IP {from} > {to}: tcp 77")
    };
    segments.iter().map(line).collect()
}

fn stage_one(lines: &[String], start: StartStamp, end: EndStamp) -> String {
    let options = RequestOptions { port: "80".to_owned(), start, end };
    let hour = 1_301_954_400; // 2011-04-04 22:00 UTC
    let zone =
        Box::new(move |at: weir_capture::text::LocalMinute| Some(hour + i64::from(at.minute) * 60));
    let (mut requests, mut out) = (RequestExtractor::new(options, zone, 7), Vec::new());
    lines.iter().for_each(|line| requests.line(line.as_bytes(), &mut out).expect("few sessions"));
    requests.finish(&mut out);
    text(out)
}

/// Each client separately: a run of packets to the server, then a run of packets from it, is a
/// request.
fn requests_by_client(segments: &[Segment], start: StartStamp, end: EndStamp) -> BTreeSet<String> {
    let mut by_client: BTreeMap<&str, Vec<(usize, &Segment)>> = BTreeMap::new();
    for (place, segment) in segments.iter().enumerate() {
        by_client.entry(&segment.1).or_default().push((place, segment));
    }
    // Index of the first packet, and the rest of the line.
    let mut found: Vec<(usize, Option<String>)> = Vec::new();
    for (client, own) in by_client {
        let first_asked = own.iter().position(|(_, segment)| segment.2).unwrap_or(own.len());
        let runs: Vec<&[(usize, &Segment)]> =
            own[first_asked..].chunk_by(|one, other| one.1.2 == other.1.2).collect();
        for run in runs.chunks(2) {
            let asked = run[0];
            let line = run.get(1).map(|answer| {
                let from = match start {
                    StartStamp::First => asked[0].1.0,
                    StartStamp::Last => asked[asked.len() - 1].1.0,
                };
                let to = match end {
                    EndStamp::First => answer[0].1.0,
                    EndStamp::Last => answer[answer.len() - 1].1.0,
                };
                let (address, port) = client.rsplit_once('.').expect("a port");
                format!(
                    "{} {} {:>9} {address}:{port}",
                    seconds(from),
                    seconds(to),
                    seconds(to - from)
                )
            });
            found.push((asked[0].0, line));
        }
    }
    found.sort();
    let numbered = found.into_iter().enumerate();
    numbered.filter_map(|(id, (_, line))| Some(format!("{id:6} {}", line?))).collect()
}

#[test]
fn stage_one_is_what_each_client_by_itself_says() {
    arbtest(|u| {
        let segments = traffic(u)?;
        for (start, end) in [
            (StartStamp::Last, EndStamp::First),
            (StartStamp::First, EndStamp::Last),
            (StartStamp::Last, EndStamp::Last),
        ] {
            let printed = stage_one(&as_text(&segments), start, end);
            let lines: BTreeSet<String> = printed.lines().map(str::to_owned).collect();
            assert_eq!(lines.len(), printed.lines().count(), "no line twice");
            assert_eq!(lines, requests_by_client(&segments, start, end), "{segments:?}");
        }
        Ok(())
    });
}

fn requests(u: &mut Unstructured<'_>) -> Result<Vec<(u64, u64)>> {
    let mut now = BEGIN + u.int_in_range(0..=1_000_000)?;
    (0..u.int_in_range(1..=40)?)
        .map(|_| {
            now += match u.int_in_range(0..=9)? {
                0 => u.int_in_range(0..=5_000_000)?,
                1 => 0,
                _ => u.int_in_range(0..=200_000)?,
            };
            let elapsed = match u.int_in_range(0..=5)? {
                0 => u.int_in_range(0..=3_000_000)?,
                1 => 1_000_000 - now % 1_000_000,
                _ => u.int_in_range(0..=300_000)?,
            };
            Ok((now, elapsed))
        })
        .collect()
}

/// Whole units of 2^-22 s.
#[expect(clippy::cast_possible_truncation, reason = "below 2^53")]
fn units(seconds: f64) -> i64 {
    let units = seconds * f64::from(1 << 22);
    assert_eq!(units.fract(), 0.0, "{seconds} is between 2^30 and 2^31");
    units as i64
}

fn from_units(units: i64) -> f64 {
    units as f64 / f64::from(1 << 22)
}

/// A row without the variance.
struct Row {
    number: f64,
    counts: (usize, usize),
    busy: f64,
    weighted: f64,
    sum: u64,
    quantile: u64,
    observed: f64,
}

impl Row {
    fn head(&self) -> String {
        let six = |value: f64| format!("{value:.6}").parse::<f64>().expect("a number");
        let rate = |value: f64| if self.observed == 0.0 { 0.0 } else { six(value / self.observed) };
        let (concurrency, throughput) = (rate(self.weighted), rate(self.counts.0 as f64));
        let number = format!("{:.5}", self.number);
        format!(
            "{} {concurrency:5.2} {throughput:9.3} {:5} {:5} {:.6} {:.6} {}",
            number.trim_end_matches('0').trim_end_matches('.'),
            self.counts.0,
            self.counts.1,
            self.busy,
            self.weighted,
            seconds(self.sum),
        )
    }

    fn tail(&self) -> String {
        format!("{} {:.6}", seconds(self.quantile), self.observed)
    }
}

fn plain_rows(requests: &[(u64, u64)], [length, share]: [f64; 2]) -> Vec<Row> {
    let read = |micros: u64| seconds(micros).parse::<f64>().expect("a number");
    let number = |time: f64| (time / length).trunc() * length;
    let spans: Vec<(f64, f64)> =
        requests.iter().map(|(start, elapsed)| (read(*start), read(start + elapsed))).collect();
    let events = spans.iter().flat_map(|(start, end)| [*start, *end]);
    let numbers: BTreeSet<i64> = events.clone().map(|time| units(number(time))).collect();
    let first = events.clone().map(units).min().expect("a request");
    let last = events.map(units).max().expect("a request");
    let numbers: Vec<i64> = numbers.into_iter().collect();
    let row = |(place, own): (usize, &i64)| {
        let begin = if place == 0 { first } else { *own };
        let end = numbers.get(place + 1).copied().unwrap_or(last);
        let overlap = |(from, to): &(f64, f64)| (units(*from).max(begin), units(*to).min(end));
        let weighted: i64 = spans.iter().map(overlap).map(|(from, to)| (to - from).max(0)).sum();
        let mut parts: Vec<(i64, i64)> =
            spans.iter().map(overlap).filter(|(from, to)| from < to).collect();
        parts.sort_unstable();
        let (mut busy, mut reached) = (0, begin);
        for (from, to) in parts {
            busy += (to - from.max(reached)).max(0);
            reached = reached.max(to);
        }
        let is_own = |time: f64| units(number(time)) == *own;
        let mut arrived: Vec<u64> = requests
            .iter()
            .zip(&spans)
            .filter(|(_, (start, _))| is_own(*start))
            .map(|((_, elapsed), _)| *elapsed)
            .collect();
        let completions = spans.iter().filter(|(_, end)| is_own(*end)).count();
        arrived.sort_unstable();
        let rank: usize =
            format!("{:.0}", arrived.len() as f64 * share).parse().expect("a whole number");
        let quantile = if rank == 0 { arrived.last() } else { arrived.get(rank - 1) };
        Row {
            number: number(from_units(*own) + length / 1000.0),
            counts: (arrived.len(), completions),
            busy: from_units(busy),
            weighted: from_units(weighted),
            sum: arrived.iter().sum(),
            quantile: quantile.copied().unwrap_or(0),
            observed: from_units(end - begin),
        }
    };
    numbers.iter().enumerate().map(row).collect()
}

#[test]
fn stage_two_is_what_sums_over_all_requests_say() {
    arbtest(|u| {
        let requests = requests(u)?;
        let length = *u.choose(&[1.0, 0.1, 0.25, 3.0, 60.0])?;
        let share = *u.choose(&[0.99, 0.5, 0.95, 0.0, 1.0])?;
        let options = SliceOptions { run_time_seconds: length, quantile: share };
        let (mut slices, mut out) = (SliceAggregator::new(options), Vec::new());
        for (id, (start, elapsed)) in requests.iter().enumerate() {
            let (from, to) = (seconds(*start), seconds(start + elapsed));
            let line = format!("{id:6} {from} {to} {:>9} 10.0.0.1:9", seconds(*elapsed));
            slices.line(line.as_bytes(), &mut out).expect("few requests");
        }
        slices.finish(&mut out);
        let printed = text(out);
        let rows = plain_rows(&requests, [length, share]);
        assert_eq!(printed.lines().count(), rows.len(), "{printed}");
        for (line, row) in printed.lines().zip(&rows) {
            let (head, tail) = (row.head(), row.tail());
            assert!(line.starts_with(&head), "{line}\n{head}");
            assert!(line.ends_with(&tail), "{line}\n{tail}");
        }
        Ok(())
    });
}

/// The variance over the mean is a rational number; the printed one is the double next to it, up to
/// the last digit.
#[test]
fn variance_is_what_whole_numbers_say() {
    arbtest(|u| {
        let elapsed: Vec<u64> = (0..u.int_in_range(1..=50)?)
            .map(|_| u.int_in_range(0..=2_000_000))
            .collect::<Result<_>>()?;
        let (mut slices, mut out) = (
            SliceAggregator::new(SliceOptions { run_time_seconds: 10.0, quantile: 0.99 }),
            Vec::new(),
        );
        for (id, elapsed) in elapsed.iter().enumerate() {
            let line =
                format!("{id} 100.0 {} {} a:1", seconds(100_000_000 + elapsed), seconds(*elapsed));
            slices.line(line.as_bytes(), &mut out).expect("few requests");
        }
        slices.finish(&mut out);
        let printed = text(out);
        let shown: f64 =
            printed.split_ascii_whitespace().nth(8).expect("a column").parse().expect("a number");
        let (count, sum) = (elapsed.len() as f64, elapsed.iter().sum::<u64>());
        let squares: u64 = elapsed.iter().map(|value| value * value).sum();
        let spread = (elapsed.len() as u64 * squares - sum * sum) as f64;
        let expected = if sum == 0 { 0.0 } else { spread / (count * sum as f64) / 1e6 };
        assert!((shown - expected).abs() < 1.1e-6, "{shown} {expected}");
        Ok(())
    });
}

/// Perl prints the same: its `%.6f`, `%5.2f`, `%9.3f`, and `%s` of a slice's start.
#[test]
fn numbers_look_as_perl_prints_them() {
    let script = r#"
        while (my $line = <STDIN>) {
            my ($start, $elapsed, $length) = split ' ', $line;
            my $six = sprintf '%.6f', $elapsed / $length;
            printf "%s %5.2f %9.3f %.6f\n", int($start / $length) * $length, $six, $six, $six;
        }"#;
    let mut perl = Command::new("perl")
        .args(["-e", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("perl is part of Debian's base");
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let (mut asked, mut expected) = (String::new(), String::new());
    for _ in 0..3000 {
        let start = seconds(BEGIN + draw(1_000_000_000_000));
        let elapsed = seconds(draw(5_000_000));
        let length =
            [1.0, 0.1, 0.25, 0.001, 3.0, 7.5, 60.0][usize::try_from(draw(7)).expect("it is small")];
        asked += &format!("{start} {elapsed} {length}\n");
        // One request that ends with its slice: the row's rates are its response time over the
        // slice's length.
        expected += &perl_row([&start, &elapsed], length);
    }
    let mut stdin = perl.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let printed = perl.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("perl reads all");
    assert_eq!(text(printed.stdout), expected);
}

/// The first column as weir prints it, and the rates in the crate's formats.
fn perl_row([start, elapsed]: [&str; 2], length: f64) -> String {
    let options = SliceOptions { run_time_seconds: length, quantile: 0.99 };
    let (mut slices, mut out) = (SliceAggregator::new(options), Vec::new());
    let line = format!("0 {start} {start} {elapsed} a:1");
    slices.line(line.as_bytes(), &mut out).expect("one request");
    slices.finish(&mut out);
    let row = text(out);
    let number = row.split(' ').next().expect("a column");
    let rate = elapsed.parse::<f64>().expect("a number") / length;
    let six: f64 = format!("{rate:.6}").parse().expect("a number");
    format!("{number} {six:5.2} {six:9.3} {six:.6}\n")
}
