//! `weir wire` on captures whose truth is known: what is counted, how long it took, and who is
//! blamed.
//!
//! The captures are simulated (`weir-bench capture` writes the same), so what they hold is exact to
//! the nanosecond.

use std::fs::File;
use std::io::BufWriter;

use serde_json::Value;
use weir_bench::capture::{self, Format, Link, Recipe, Story, Summary};

use super::harness::{text, weir};

/// The simulated traffic, and weir's answer.
struct WireAnswer {
    story: Story,
    summary: Summary,
    /// Durations of answered requests to port 80 in nanoseconds, sorted.
    durations: Vec<i64>,
    answer: Value,
}

fn tell(recipe: Recipe, format: Format) -> WireAnswer {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("capture");
    let file = BufWriter::new(File::create(&path).expect("it can be written"));
    let mut truth = Vec::new();
    let summary = capture::write(recipe, format, file, &mut truth).expect("it can be written");
    let mut durations: Vec<i64> = text(&truth)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|request| request["port"] == 80)
        .filter_map(|request| {
            Some(request["resp_last_ns"].as_i64()? - request["req_first_ns"].as_i64()?)
        })
        .collect();
    durations.sort_unstable();
    let output = weir(&["wire", "--format", "json", &path.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{recipe:?}: {}", text(&output.stderr));
    let answer = serde_json::from_slice(&output.stdout).expect("JSON");
    WireAnswer { story: recipe.story, summary, durations, answer }
}

/// Every story at a size of a few seconds on the wire.
fn recipe(story: Story) -> Recipe {
    let own = Recipe::of(story);
    Recipe { seconds: own.seconds.min(21), rate: own.rate.min(300), ..own }
}

impl WireAnswer {
    fn tier(&self, port: u64) -> &Value {
        let tiers = self.answer["tiers"].as_array().expect("an array");
        tiers.iter().find(|tier| tier["port"] == port).unwrap_or(&Value::Null)
    }

    fn number(&self, port: u64, name: &str) -> u64 {
        self.tier(port)[name].as_u64().unwrap_or(u64::MAX)
    }

    /// Wrong counts, as text.
    fn miscounted(&self) -> Vec<String> {
        let Summary { requests, unanswered, upstream_requests, .. } = self.summary;
        let mut expected =
            vec![(80, "requests", requests), (80, "responses", requests - unanswered)];
        if upstream_requests > 0 {
            expected.push((8080, "requests", upstream_requests));
        }
        let wrong =
            expected.into_iter().filter(|(port, name, count)| self.number(*port, name) != *count);
        wrong
            .map(|(port, name, count)| {
                let found = self.number(port, name);
                format!("{}: {found} {name} of port {port}, truth {count}", self.story.as_str())
            })
            .collect()
    }

    /// Quantiles that are further from the truth than a round trip, 2 ms and the histogram's 2 %.
    fn mistimed(&self, round_trip_seconds: f64) -> Vec<String> {
        let quantiles = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];
        let wrong = quantiles.into_iter().filter_map(|(name, share)| {
            let found = self.tier(80)[format!("duration_seconds_{name}")].as_f64();
            let found = found.expect("requests were answered");
            let truth = self.quantile(share);
            let is_near = (found - truth).abs() <= round_trip_seconds + 0.002 + truth * 0.02;
            (!is_near).then(|| {
                format!("{}: {name} of durations {found}, truth {truth}", self.story.as_str())
            })
        });
        wrong.collect()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a few thousand"
    )]
    fn quantile(&self, share: f64) -> f64 {
        let rank = (self.durations.len() as f64 * share).ceil() as usize;
        self.durations[rank.max(1) - 1] as f64 / 1e9
    }

    /// The blame, when it is wrong.
    fn misjudged(&self) -> Option<String> {
        let right = self.story.verdict()?;
        let found = self.answer["verdict"].as_str().unwrap_or_default();
        // A lone request that is lost leaves no hole in the sequence numbers, and a skipped
        // identification alone may be a packet that was sent elsewhere: the answer mentions it.
        let is_lone_loss = matches!(self.story, Story::LossBefore | Story::LossBeforeFar);
        let why = self.answer["why"].as_str().unwrap_or_default();
        let is_mentioned = is_lone_loss && found == "smooth" && why.contains("without a hole");
        (found != right && !is_mentioned).then(|| {
            format!("{}: {found}, truth {right}: {}", self.story.as_str(), self.answer["why"])
        })
    }
}

/// A round trip, at least as long as the story's.
fn story_rtt_seconds(story: Story) -> f64 {
    let is_far = matches!(story, Story::LossAfterFar | Story::LossBeforeFar | Story::ClientRace);
    if is_far { 0.04 } else { 0.002 }
}

#[test]
fn every_story_is_counted_timed_and_blamed_as_it_was() {
    let mut wrong = Vec::new();
    for story in Story::ALL.into_iter().filter(|story| *story != Story::Bulk) {
        let told = tell(recipe(story), Format::default());
        wrong.extend(told.miscounted());
        wrong.extend(told.mistimed(story_rtt_seconds(story)));
        wrong.extend(told.misjudged());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_format_of_a_capture_changes_nothing() {
    let plain = Format::default();
    let formats = [
        Format { is_pcapng: true, ..plain },
        Format { is_pcapng: true, is_nanosecond: true, ..plain },
        Format { is_nanosecond: true, ..plain },
        Format { link: Link::Vlan, ..plain },
        Format { link: Link::Sll2, ..plain },
    ];
    let wrong = each_of(&formats, |format| {
        let told = tell(Recipe { seconds: 11, ..recipe(Story::Smooth) }, *format);
        told.miscounted().into_iter().chain(told.misjudged()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Answers of two at a time, each with the case that it is for.
fn each_of<T: Sync + std::fmt::Debug>(
    cases: &[T],
    check: impl Fn(&T) -> Vec<String> + Sync,
) -> Vec<String> {
    let check = &check;
    let run = |from: usize| {
        let mine = cases.iter().skip(from).step_by(2);
        mine.flat_map(|case| check(case).into_iter().map(move |what| format!("{case:?}: {what}")))
            .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(move || run(1));
        let mut wrong = run(0);
        wrong.extend(other.join().expect("it does not panic"));
        wrong
    })
}

/// All stories; a slow reader takes so long for a packet that few requests must do.
fn stories() -> impl Iterator<Item = Recipe> {
    let all = Story::ALL.into_iter().filter(|story| *story != Story::Bulk);
    all.map(|story| match recipe(story) {
        slow if story == Story::SlowReader => Recipe { rate: 20, seconds: 6, ..slow },
        other => other,
    })
}

#[test]
fn every_story_is_the_same_in_other_formats() {
    let plain = Format::default();
    let formats = [
        Format { is_pcapng: true, is_nanosecond: true, link: Link::Vlan, ..plain },
        Format { is_ipv6: true, ..plain },
        Format { snap_bytes: 96, ..plain },
        Format { snap_bytes: 96, is_ipv6: true, link: Link::Vlan, ..plain },
    ];
    let cases: Vec<(Recipe, Format)> =
        stories().flat_map(|recipe| formats.map(|format| (recipe, format))).collect();
    let wrong = each_of(&cases, |(recipe, format)| {
        let told = tell(*recipe, *format);
        let is_lone_loss = matches!(told.story, Story::LossBefore | Story::LossBeforeFar);
        let mut wrong = told.miscounted();
        wrong.extend(told.mistimed(story_rtt_seconds(told.story)));
        if format.is_ipv6 && is_lone_loss {
            // A lost request that was sent again looks like a late request: only IP identifications
            // show the difference, and IPv6 has none. The answer mentions it.
            let why = told.answer["why"].as_str().unwrap_or_default();
            wrong.extend(
                (!why.contains("loss before the tap is unknown"))
                    .then(|| format!("{why}: nothing of what is not known")),
            );
        } else {
            wrong.extend(told.misjudged());
        }
        wrong
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One packet of a hundred is missing: so are some requests and answers, but no more than that
/// explains, and the verdict stays.
#[test]
fn missing_packets_cost_no_more_than_themselves() {
    // What the tap loses hides what is lost before it, until there are enough packets to rule
    // chance out.
    let cases: Vec<Recipe> = stories()
        .map(|recipe| match recipe.story {
            Story::LossBefore | Story::LossBeforeFar => Recipe { rate: 300, ..recipe },
            _ => recipe,
        })
        .collect();
    let wrong = each_of(&cases, |recipe| {
        let told = tell(*recipe, Format { missing_per_mille: 10, ..Format::default() });
        let (found, truth) = (told.number(80, "requests"), told.summary.requests);
        assert!(told.summary.missed > 0);
        let is_near = found <= truth && found * 100 >= truth * 97;
        let counted = (!is_near).then(|| format!("{found} requests of {truth}"));
        counted.into_iter().chain(told.misjudged()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Threads change nothing: not the answer, not a row, not the order of rows.
#[test]
fn the_answer_is_the_same_with_any_number_of_threads() {
    let dir = tempfile::tempdir().expect("a directory");
    for (seed, story) in (1..).zip(Story::ALL) {
        let recipe = Recipe { seconds: recipe(story).seconds.min(12), seed, ..recipe(story) };
        let path = dir.path().join(story.as_str());
        let format = Format {
            is_ipv6: seed % 3 == 0,
            missing_per_mille: if seed % 4 == 0 { 10 } else { 0 },
            ..Format::default()
        };
        let file = BufWriter::new(File::create(&path).expect("it can be written"));
        capture::write(recipe, format, file, std::io::sink()).expect("it can be written");
        let path = path.display().to_string();
        let run = |threads: &str, more: &[&str]| {
            let args = ["wire", &path, "--host", "edge", "--threads", threads];
            let output = weir(&[args.as_slice(), more].concat());
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            // When a row was read differs between two readings.
            let lines = text(&output.stdout);
            lines.lines().map(without_observed).collect::<Vec<_>>()
        };
        let all: [&[&str]; 5] = [
            &["--format", "json"],
            &["--format", "csv", "--table", "request"],
            &["--format", "csv", "--table", "wire_request"],
            &["--format", "csv", "--table", "tcp_conn"],
            &["--format", "csv", "--table", "wire_slice"],
        ];
        for more in all {
            let alone = run("1", more);
            for threads in ["2", "5"] {
                assert!(alone == run(threads, more), "{story:?} {more:?}, {threads} threads");
            }
        }
    }
}

/// A line of CSV of `request` without `observed_ts`, its fourth column.
fn without_observed(line: &str) -> String {
    let fields: Vec<&str> = line.split(',').collect();
    match fields.as_slice() {
        [ts, host, tier @ ("wire_edge" | "wire_upstream"), at, rest @ ..] if at.ends_with('Z') => {
            format!("{ts},{host},{tier},{}", rest.join(","))
        }
        _ => line.to_owned(),
    }
}
