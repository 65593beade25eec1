//! The page of all runs: a table by fault, totals, and the parts in which they ran.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_drill::{Fault, Outcome};

use super::results::LabRun;
use super::{FaultKind, LabPlan};

/// A fault with its runs, in their order.
pub(super) type FaultRuns<'a> = (&'static Fault, Vec<&'a LabRun>);

/// Explains the figures, with seed and number of runs.
pub(super) fn head(wanted: &LabPlan) -> String {
    format!(
        "Real faults in network namespaces and file systems of their own, with parameters drawn from a seed, in front of \
         `weir up`. *Detected*: a finding of a right rule (of each, in pairs) fires within 40 s, or within what [drills](../../drill.md) that are \
         named late by design have. *Named right*: it is a root, and no other \
         root of class page or mail began in the same run. *Paged for a moment*: rules that are none of the right ones and \
         paged at some look, although they may have become symptoms later. Times run from the moment at which the fault is made. Where \
         nothing is wrong, *named right* means that nothing pages and mails within 20 s.\n\nSeed {}, {} runs of each.",
        wanted.seed, wanted.runs
    )
}

/// The table of faults, with a header.
pub(super) fn table(made: &[FaultRuns<'_>]) -> Vec<Vec<String>> {
    let heads = [
        "fault",
        "runs",
        "detected",
        "named right",
        "p50 s",
        "worst s",
        "other roots",
        "paged for a moment",
    ];
    std::iter::once(heads.map(str::to_owned).to_vec()).chain(made.iter().map(row)).collect()
}

fn row((fault, runs): &FaultRuns<'_>) -> Vec<String> {
    let mut times: Vec<Duration> = runs.iter().filter_map(|run| run.outcome.detected).collect();
    times.sort_unstable();
    let [median, worst] = [times.get(times.len() / 2), times.last()].map(|time| {
        time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64()))
    });
    let others = runs.iter().flat_map(|run| &run.outcome.others).collect::<BTreeSet<_>>();
    let paged = runs.iter().flat_map(|run| &run.outcome.paged).collect::<BTreeSet<_>>();
    let [others, paged] = [others, paged]
        .map(|rules| rules.into_iter().map(String::as_str).collect::<Vec<_>>().join(", "));
    let detected = if fault.rules.is_empty() { "-".to_owned() } else { times.len().to_string() };
    vec![
        fault.name.to_owned(),
        runs.len().to_string(),
        detected,
        runs.iter().filter(|run| run.outcome.is_right).count().to_string(),
        median,
        worst,
        others,
        paged,
    ]
}

/// Outcomes of the faults of these kinds.
fn outcomes<'a>(made: &[FaultRuns<'a>], kinds: &[FaultKind]) -> Vec<&'a Outcome> {
    let chosen = made.iter().filter(|(fault, _)| kinds.contains(&FaultKind::of(fault)));
    chosen.flat_map(|(_, runs)| runs.iter().map(|run| &run.outcome)).collect()
}

fn right_share(outcomes: &[&Outcome]) -> String {
    format!("{} of {}", outcomes.iter().filter(|one| one.is_right).count(), outcomes.len())
}

/// Seconds at a percentile of sorted times.
fn percentile(times: &[Duration], percent: usize) -> f64 {
    let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(index).map_or(f64::NAN, Duration::as_secs_f64)
}

/// Totals, and the number of missing runs.
pub(super) fn summary(made: &[FaultRuns<'_>], wanted: &LabPlan) -> String {
    let faults = outcomes(made, &[FaultKind::Single, FaultKind::Pair, FaultKind::Cascade]);
    let mut times: Vec<Duration> = faults.iter().filter_map(|one| one.detected).collect();
    times.sort_unstable();
    let mut text = format!(
        "Single faults: {} named right; pairs and cascades: {} named right; all: {} of {} detected, p50 {:.1} s, p95 {:.1} s. \
         Runs in which another rule paged, for a moment at least: {}. Nothing wrong: {} silent.",
        right_share(&outcomes(made, &[FaultKind::Single])),
        right_share(&outcomes(made, &[FaultKind::Pair, FaultKind::Cascade])),
        times.len(),
        faults.len(),
        percentile(&times, 50),
        percentile(&times, 95),
        faults.iter().filter(|one| !one.paged.is_empty()).count(),
        right_share(&outcomes(made, &[FaultKind::None]))
    );
    let there: usize = made.iter().map(|(_, runs)| runs.len()).sum();
    let all = made.len() * wanted.runs as usize;
    if there < all {
        text += &format!(
            "\n\n{} of {all} runs are missing: not made yet, or the drill itself failed.",
            all - there
        );
    }
    text
}

/// The table of sittings in which runs of this page were made, with a header.
pub(super) fn parts(made: &[FaultRuns<'_>]) -> Vec<Vec<String>> {
    let heads = ["begun (UTC)", "ended", "runs", "commit", "profile", "machine", "load average"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let mut runs: Vec<&LabRun> = made.iter().flat_map(|(_, runs)| runs.iter().copied()).collect();
    runs.sort_by_key(|run| (run.part.sitting, run.began));
    for part in runs.chunk_by(|one, other| one.part == other.part) {
        let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
        let loads: Vec<f64> = part.iter().map(|run| run.load).collect();
        let most = loads.iter().copied().fold(0.0, f64::max);
        let mean = loads.iter().sum::<f64>() / f64::from(u32::try_from(loads.len()).unwrap_or(1));
        rows.push(vec![
            first.began.to_string()[..16].to_owned(),
            (last.began + last.took).to_string()[..16].to_owned(),
            part.len().to_string(),
            first.part.commit.clone(),
            first.part.profile.clone(),
            first.part.machine.clone(),
            format!("{mean:.1} (most {most:.1})"),
        ]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use weir_drill::named;
    use weir_tables::Micros;

    use super::super::samples::{ended, part};
    use super::*;

    #[test]
    fn each_part_is_listed_with_its_commit_and_its_load() {
        let (old, new) = (part(1_763_769_600_000_000, "old"), part(1_763_800_000_000_000, "new"));
        let mut runs = [
            ended("disk full", 0, 2, &old),
            ended("disk full", 1, 3, &new),
            ended("none: crawl", 0, 1, &old),
        ];
        runs[2].load = 1.5;
        runs[2].began = Micros(runs[2].began.0 + 60_000_000);
        let (full, crawl) = (named("disk full").unwrap(), named("none: crawl").unwrap());
        let made = [(full, vec![&runs[0], &runs[1]]), (crawl, vec![&runs[2]])];
        let rows = parts(&made);
        assert_eq!(rows.len(), 3, "{rows:?}");
        assert_eq!(rows[1][..4], ["2025-11-22T00:00", "2025-11-22T00:01", "2", "commit of old"]);
        assert_eq!(rows[1][6], "1.0 (most 1.5)");
        assert_eq!(rows[2][2..4], ["1", "commit of new"]);
        let wanted = LabPlan { runs: 2, seed: 1 };
        let text = summary(&made, &wanted);
        assert!(text.contains("2 of 2 detected, p50 3.0 s, p95 3.0 s"), "{text}");
        assert!(text.contains("Nothing wrong: 1 of 1 silent"), "{text}");
        assert!(
            text.ends_with("1 of 4 runs are missing: not made yet, or the drill itself failed.")
        );
        assert_eq!(table(&made)[1][1..6], ["2", "2", "2", "3.0", "3.0"]);
    }
}
