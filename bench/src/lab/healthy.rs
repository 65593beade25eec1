//! Hours on a host that is loaded and healthy, in pieces that add up: whether nobody is woken for nothing.
//!
//! A day has few hours in which a machine does nothing else, so each piece is written down as it ends, and the page is
//! made of all of them. Fleets at once are a host each, and share the machine: what one of them does is load for the others.

use std::thread;

use anyhow::Context;
use serde_json::json;
use weir_drill::named;

use super::results::{Part, Results, Run};
use super::{LabArgs, one, path};
use crate::report;

/// The drill, and the name of the page and of the file that the pieces are written to.
const DRILL: &str = "none: healthy and busy";
const NAME: &str = "healthy";

/// Pieces of so many minutes, then the page of all pieces.
pub(super) fn run(args: &LabArgs, minutes: u64) -> anyhow::Result<()> {
    let mut page = report::Report::new(NAME);
    let fault = named(DRILL).context("the drill is there")?;
    let mut results = Results::open(&path(args, NAME)?)?;
    let first = results.runs.iter().map(|run| run.number + 1).max().unwrap_or(0);
    let (span, part) = (format!("{minutes}m"), Part::now()?);
    let piece = |number| one(fault, number, args.seed, &part, &["--for", &span]);
    let ended: Vec<anyhow::Result<Run>> = thread::scope(|scope| {
        let fleets = (first..first + args.fleets).map(|number| scope.spawn(move || piece(number)));
        let fleets: Vec<_> = fleets.collect();
        let panicked = |_| Err(anyhow::anyhow!("the thread of a fleet panicked"));
        fleets.into_iter().map(|fleet| fleet.join().unwrap_or_else(panicked)).collect()
    });
    // What one fleet's failure ends is its own piece.
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
        return Err(error.context("a fleet has no piece; those of the others are written down"));
    }
    let pieces: Vec<&Run> = results.runs.iter().collect();
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

fn minutes(run: &Run) -> u64 {
    run.parameters["minutes"].as_u64().unwrap_or_default()
}

/// How many fleets there were with this one.
fn at_once(run: &Run) -> u64 {
    run.parameters["at_once"].as_u64().unwrap_or(1)
}

/// Names of the rules that mailed only.
fn mails(run: &Run) -> Vec<&str> {
    run.outcome.others.difference(&run.outcome.paged).map(String::as_str).collect()
}

/// A row for each piece; the first row holds the heads.
fn table(pieces: &[&Run]) -> Vec<Vec<String>> {
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

fn sum(pieces: &[&Run]) -> String {
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

    #[test]
    fn pieces_add_up_and_a_page_is_no_mail() {
        let piece = |number, minutes: u64, others: &[&str], paged: &[&str]| {
            let names =
                |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
            let mut run = ended(DRILL, number, 1, &part(1_763_769_600_000_000, "a"));
            run.parameters["minutes"] = json!(minutes);
            (run.outcome.others, run.outcome.paged) = (names(others), names(paged));
            run
        };
        let pieces =
            [piece(0, 50, &[], &[]), piece(1, 40, &["app.slow", "disk.full"], &["app.slow"])];
        let pieces: Vec<&Run> = pieces.iter().collect();
        assert_eq!(sum(&pieces), "In all 1 h 30 min of fleets: 1 paged, 1 mailed.");
        assert_eq!(table(&pieces)[2][1..6], ["40", "1", "7", "app.slow", "disk.full"]);
    }
}
