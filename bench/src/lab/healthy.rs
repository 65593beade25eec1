//! Hours on a loaded, healthy host, in pieces that add up: false alarms.
//!
//! A machine is rarely free for hours, so each piece is saved when it ends, and the page has all of
//! them. Parallel fleets share the machine, so each is load for the others.

use std::thread;

use anyhow::Context;
use serde_json::json;
use weir_drill::named;

use super::results::{LabRun, LabSitting, RunLog};
use super::{LabArgs, one, path};
use crate::report;

/// Name of the drill.
const DRILL: &str = "none: healthy and busy";
/// Name of the page, and of the file of pieces.
const NAME: &str = "healthy";

/// Runs pieces of this many minutes, then writes the page of all pieces.
pub(super) fn run(args: &LabArgs, minutes: u64) -> anyhow::Result<()> {
    let mut page = report::Report::new(NAME);
    let fault = named(DRILL).context("the drill is missing")?;
    let mut results = RunLog::open(&path(args, NAME)?)?;
    let first = results.runs.iter().map(|run| run.number + 1).max().unwrap_or(0);
    let (span, part) = (format!("{minutes}m"), LabSitting::now()?);
    let ended: Vec<anyhow::Result<LabRun>> = thread::scope(|scope| {
        let (part, more) = (&part, ["--for", &*span]);
        let fleets = (first..first + args.fleets)
            .map(|number| scope.spawn(move || one(fault, number, (args.seed, part), &more)));
        let fleets: Vec<_> = fleets.collect();
        let results = fleets.into_iter().map(|fleet| {
            fleet.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the thread of a fleet panicked")))
        });
        results.collect()
    });
    // A failure affects only its own fleet's piece.
    let mut failure = None;
    for piece in ended {
        match piece {
            Ok(mut run) => {
                run.parameters["minutes"] = json!(minutes);
                run.parameters["at_once"] = json!(args.fleets);
                results.add(run)?;
            }
            Err(error) => failure = Some(error),
        }
    }
    if let Some(error) = failure {
        return Err(error.context("a fleet failed; the pieces of the others are saved"));
    }
    let pieces: Vec<&LabRun> = results.runs.iter().collect();
    page.text(
        "A fleet in namespaces of its own, loaded and healthy (`weir drill run none healthy-and-busy --for …`), in pieces: findings about it and about \
         the host are looked at four times a second. Fleets at once share the machine; each has a hub, an agent and visitors of its own. *Paged*: rules \
         that paged at any look; *mailed*: roots that mail.",
    );
    page.table(&table(&pieces));
    page.text(&sum(&pieces));
    if args.score {
        return page.write();
    }
    page.show();
    Ok(())
}

fn minutes(run: &LabRun) -> u64 {
    run.parameters["minutes"].as_u64().unwrap_or_default()
}

/// Number of parallel fleets.
fn at_once(run: &LabRun) -> u64 {
    run.parameters["at_once"].as_u64().unwrap_or(1)
}

/// Rules that only mailed.
fn mails(run: &LabRun) -> Vec<&str> {
    run.outcome.others.difference(&run.outcome.paged).map(String::as_str).collect()
}

/// The table of pieces, with a header.
fn table(pieces: &[&LabRun]) -> Vec<Vec<String>> {
    let heads = [
        "begun (UTC)",
        "minutes",
        "at once",
        "visitors",
        "paged",
        "mailed",
        "commit",
        "load average before",
    ];
    let rows = pieces.iter().map(|run| {
        vec![
            run.began.to_string()[..16].to_owned(),
            minutes(run).to_string(),
            at_once(run).to_string(),
            run.parameters["visitors"].to_string(),
            run.outcome.paged.iter().cloned().collect::<Vec<_>>().join(", "),
            mails(run).join(", "),
            run.part.commit.clone(),
            format!("{:.1}", run.load),
        ]
    });
    std::iter::once(heads.map(str::to_owned).to_vec()).chain(rows).collect()
}

fn sum(pieces: &[&LabRun]) -> String {
    let total: u64 = pieces.iter().map(|run| minutes(run)).sum();
    let paged: usize = pieces.iter().map(|run| run.outcome.paged.len()).sum();
    let mailed: usize = pieces.iter().map(|run| mails(run).len()).sum();
    format!("In all {} h {} min of fleets: {paged} paged, {mailed} mailed.", total / 60, total % 60)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::samples::{ended, part};
    use super::*;

    fn piece(number: u32, minutes: u64, [others, paged]: [&[&str]; 2]) -> LabRun {
        let mut run = ended(DRILL, number, 1, &part(1_763_769_600_000_000, "a"));
        run.parameters["minutes"] = json!(minutes);
        let names = [others, paged].map(|rules| rules.iter().map(|rule| (*rule).to_owned()));
        [run.outcome.others, run.outcome.paged] = names.map(BTreeSet::from_iter);
        run
    }

    #[test]
    fn pieces_add_up_and_a_page_is_not_counted_as_mail() {
        let pieces =
            [piece(0, 50, [&[], &[]]), piece(1, 40, [&["app.slow", "disk.full"], &["app.slow"]])];
        let pieces: Vec<&LabRun> = pieces.iter().collect();
        assert_eq!(sum(&pieces), "In all 1 h 30 min of fleets: 1 paged, 1 mailed.");
        assert_eq!(table(&pieces)[2][1..6], ["40", "1", "7", "app.slow", "disk.full"]);
    }
}
