//! What became of each run of the lab, a line of JSON each, written as the run ends: so that a score can go on where it stopped.
//!
//! The file is in the build directory, one for each profile, and is only added to: of several lines about the same run the last one
//! counts. A line without its end is what a killed session left; that run has not been.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use weir_drill::Outcome;
use weir_tables::Micros;

use crate::report;

/// A run that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) fault: String,
    /// Its number among those of the same fault.
    pub(super) number: u32,
    /// What the command line said the random parameters begin with.
    pub(super) seed: u64,
    pub(super) parameters: Value,
    pub(super) outcome: Outcome,
    pub(super) began: Micros,
    pub(super) took: Duration,
    /// The machine's load average of the minute before.
    pub(super) load: f64,
    pub(super) part: Part,
}

/// What runs of one sitting have in common.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    /// When the sitting began.
    pub(super) sitting: Micros,
    /// What it ran: runs of the same code belong together.
    pub(super) code: String,
    pub(super) commit: String,
    pub(super) profile: String,
    pub(super) machine: String,
}

impl Part {
    /// This sitting's.
    pub(super) fn now() -> anyhow::Result<Self> {
        Ok(Self {
            sitting: report::now(),
            code: code()?,
            commit: report::commit(),
            profile: report::profile().to_owned(),
            machine: report::machine(),
        })
    }
}

/// The code that decides what comes out: the programs, what they are built with, rules and drills, with what is not committed of them.
fn code() -> anyhow::Result<String> {
    const DECISIVE: [&str; 4] = ["Cargo.lock", "crates", "rules", "parsers"];
    let git = |args: &[&str]| -> anyhow::Result<Vec<u8>> {
        let output = Command::new("git").args(args).args(DECISIVE).output();
        let output = output.context("cannot run `git`")?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(output.status.success(), "git {}: {error}", args.join(" "));
        Ok(output.stdout)
    };
    let mut text = git(&["ls-tree", "HEAD"])?;
    text.extend(git(&["status", "--porcelain", "--"])?);
    text.extend(git(&["diff", "HEAD", "--"])?);
    // No name that somebody chooses: FNV-1a (Fowler, Noll, Vo 1991) tells a few trees apart.
    let hash = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    Ok(format!("{:016x}", text.iter().fold(0xcbf2_9ce4_8422_2325, hash)))
}

/// The runs that were written, and where the next ones go; nowhere when no score is made.
#[derive(Default)]
pub(super) struct Results {
    path: Option<PathBuf>,
    pub(super) runs: Vec<Run>,
}

impl Results {
    /// Reads a file that may not be there yet. A torn end is taken off, so that what is added begins a line.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let what = || format!("cannot read `{}`", path.display());
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            other => other.with_context(what)?,
        };
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            let file = OpenOptions::new().write(true).open(path).with_context(what)?;
            file.set_len(whole as u64).with_context(what)?;
        }
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        let mut runs: Vec<Run> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let run = run(line).with_context(|| {
                format!(
                    "cannot read `{}`, line {}: it is no run of the lab",
                    path.display(),
                    at + 1
                )
            })?;
            runs.push(run);
        }
        Ok(Self { path: Some(path.to_owned()), runs })
    }

    /// Adds a run, on the disk before it comes back.
    pub(super) fn add(&mut self, run: Run) -> anyhow::Result<()> {
        if let Some(path) = &self.path {
            let line = format!("{}\n", object(&run));
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.and_then(|mut file| {
                file.write_all(line.as_bytes()).and_then(|()| file.sync_data())
            })
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        self.runs.push(run);
        Ok(())
    }

    /// The last run with that number of a fault and its seed, of those that `is_fit`.
    pub(super) fn find(
        &self,
        fault: &str,
        number: u32,
        seed: u64,
        is_fit: impl Fn(&Part) -> bool,
    ) -> Option<&Run> {
        self.runs.iter().rev().find(|run| {
            (run.fault.as_str(), run.number, run.seed) == (fault, number, seed) && is_fit(&run.part)
        })
    }
}

fn object(run: &Run) -> Value {
    json!({
        "fault": run.fault,
        "run": run.number,
        "seed": run.seed,
        "parameters": run.parameters,
        "detected_seconds": run.outcome.detected.map(|time| time.as_secs_f64()),
        "is_named_right": run.outcome.is_right,
        "others": run.outcome.others,
        "paged": run.outcome.paged,
        "began": run.began.0,
        "took_seconds": run.took.as_secs_f64(),
        "load": run.load,
        "sitting": run.part.sitting.0,
        "code": run.part.code,
        "commit": run.part.commit,
        "profile": run.part.profile,
        "machine": run.part.machine,
    })
}

/// What `weir drill run --format json` and a line of the file say alike.
pub(super) fn outcome(answer: &Value) -> Outcome {
    let names = |name: &str| {
        let rules = answer[name].as_array().into_iter().flatten();
        rules.filter_map(|rule| rule.as_str().map(str::to_owned)).collect::<BTreeSet<_>>()
    };
    Outcome {
        detected: answer["detected_seconds"]
            .as_f64()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        is_right: answer["is_named_right"] == true,
        others: names("others"),
        paged: names("paged"),
    }
}

fn run(line: &str) -> anyhow::Result<Run> {
    let value: Value = serde_json::from_str(line)?;
    let text = |name: &str| value[name].as_str().map(str::to_owned).context(name.to_owned());
    let number = |name: &str| value[name].as_u64().context(name.to_owned());
    let float = |name: &str| value[name].as_f64().context(name.to_owned());
    let time = |name: &str| value[name].as_i64().map(Micros).context(name.to_owned());
    Ok(Run {
        fault: text("fault")?,
        number: u32::try_from(number("run")?)?,
        seed: number("seed")?,
        parameters: value["parameters"].clone(),
        outcome: outcome(&value),
        began: time("began")?,
        took: Duration::try_from_secs_f64(float("took_seconds")?)?,
        load: float("load")?,
        part: Part {
            sitting: time("sitting")?,
            code: text("code")?,
            commit: text("commit")?,
            profile: text("profile")?,
            machine: text("machine")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{ended, part};
    use super::*;

    #[test]
    fn runs_are_read_as_they_were_written_and_a_torn_last_line_is_a_run_that_was_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab.jsonl");
        let this = part(1, "a");
        let mut results = Results::open(&path).unwrap();
        results.add(ended("disk full", 0, 2, &this)).unwrap();
        results.add(ended("disk full", 1, 3, &this)).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in [1, 20, whole.len() / 2 - 1] {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let mut again = Results::open(&path).unwrap();
            assert_eq!(again.runs, [ended("disk full", 0, 2, &this)], "cut {cut}");
            again.add(ended("disk full", 1, 4, &this)).unwrap();
            let both = [ended("disk full", 0, 2, &this), ended("disk full", 1, 4, &this)];
            assert_eq!(Results::open(&path).unwrap().runs, both, "cut {cut}");
        }
    }

    #[test]
    fn a_line_that_is_no_run_is_told_with_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab.jsonl");
        Results::open(&path).unwrap().add(ended("disk full", 0, 2, &part(1, "a"))).unwrap();
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"fault\":\"disk full\"}\n");
        fs::write(&path, text).unwrap();
        let error = format!("{:#}", Results::open(&path).err().unwrap());
        assert!(error.contains("line 2: it is no run of the lab"), "{error}");
    }

    #[test]
    fn the_last_run_of_fitting_code_counts() {
        let dir = tempfile::tempdir().unwrap();
        let mut results = Results::open(&dir.path().join("lab.jsonl")).unwrap();
        let (old, new) = (part(1, "old"), part(2, "new"));
        results.add(ended("disk full", 0, 2, &new)).unwrap();
        results.add(ended("disk full", 0, 3, &new)).unwrap();
        results.add(ended("disk full", 0, 4, &old)).unwrap();
        let seconds =
            |found: Option<&Run>| found.map(|run| run.outcome.detected.unwrap().as_secs());
        let of_new = |part: &Part| part.code == "new";
        assert_eq!(seconds(results.find("disk full", 0, 1, of_new)), Some(3));
        assert_eq!(seconds(results.find("disk full", 0, 1, |_| true)), Some(4));
        assert_eq!(seconds(results.find("disk full", 1, 1, |_| true)), None);
        assert_eq!(seconds(results.find("disk full", 0, 2, |_| true)), None);
    }
}
