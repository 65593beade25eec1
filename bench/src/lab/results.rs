//! Results of lab runs, one line of JSON each, saved when the run ends, so that a score can be
//! resumed.
//!
//! The file is in the build directory, one per profile, and is append-only: of several lines for
//! the same run, the last one counts. A truncated line comes from a killed session and is dropped.

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

/// A completed run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LabRun {
    pub(super) fault: String,
    /// Number among the runs of its fault.
    pub(super) number: u32,
    /// Seed of the command line.
    pub(super) seed: u64,
    pub(super) parameters: Value,
    pub(super) outcome: Outcome,
    pub(super) began: Micros,
    pub(super) took: Duration,
    /// Load average of the minute before the run.
    pub(super) load: f64,
    pub(super) part: LabSitting,
}

/// Common properties of the runs of one sitting.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LabSitting {
    /// Start of the sitting.
    pub(super) sitting: Micros,
    /// Hash of the code under test.
    pub(super) code: String,
    pub(super) commit: String,
    pub(super) profile: String,
    pub(super) machine: String,
}

impl LabSitting {
    /// Describes this sitting.
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

/// Hashes the code that affects results: programs, dependencies, rules and drills, with uncommitted
/// changes.
fn code() -> anyhow::Result<String> {
    let mut text = git(&["ls-tree", "HEAD"])?;
    text.extend(git(&["status", "--porcelain", "--"])?);
    text.extend(git(&["diff", "HEAD", "--"])?);
    // FNV-1a (Fowler, Noll, Vo 1991) suffices, since the input is not adversarial.
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    Ok(format!("{hash:016x}"))
}

/// Runs git for the directories and files that affect results.
fn git(args: &[&str]) -> anyhow::Result<Vec<u8>> {
    const DECISIVE: [&str; 4] = ["Cargo.lock", "crates", "rules", "parsers"];
    let output = Command::new("git").args(args).args(DECISIVE).output();
    let output = output.context("cannot run `git`")?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    anyhow::ensure!(output.status.success(), "git {}: {error}", args.join(" "));
    Ok(output.stdout)
}

/// Saved runs, and the file for the next ones, if a score is made.
#[derive(Default)]
pub(super) struct RunLog {
    path: Option<PathBuf>,
    pub(super) runs: Vec<LabRun>,
}

impl RunLog {
    /// Reads a file, which may not exist yet. Truncates an incomplete last line, so that the next
    /// one starts a line.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let what = format!("cannot read `{}`", path.display());
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            other => other.context(what.clone())?,
        };
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            let file = OpenOptions::new().write(true).open(path).context(what.clone())?;
            file.set_len(whole as u64).context(what)?;
        }
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        let mut runs: Vec<LabRun> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let run = run(line).with_context(|| {
                format!(
                    "cannot read `{}`, line {}: it is not a run of the lab",
                    path.display(),
                    at + 1
                )
            })?;
            runs.push(run);
        }
        Ok(Self { path: Some(path.to_owned()), runs })
    }

    /// Appends a run and syncs it to disk.
    pub(super) fn add(&mut self, run: LabRun) -> anyhow::Result<()> {
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

    /// The last run of a fault with this number and seed that `is_fit` accepts.
    pub(super) fn find(
        &self,
        fault: &str,
        number: u32,
        seed: u64,
        is_fit: impl Fn(&LabSitting) -> bool,
    ) -> Option<&LabRun> {
        self.runs.iter().rev().find(|run| {
            (run.fault.as_str(), run.number, run.seed) == (fault, number, seed) && is_fit(&run.part)
        })
    }
}

fn object(run: &LabRun) -> Value {
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

/// Reads the fields that the output of `weir drill run --format json` and a line of the file share.
pub(super) fn outcome(answer: &Value) -> Outcome {
    let [others, paged] = ["others", "paged"].map(|name| {
        let rules = answer[name].as_array().into_iter().flatten();
        rules.filter_map(|rule| rule.as_str().map(str::to_owned)).collect::<BTreeSet<_>>()
    });
    Outcome {
        detected: answer["detected_seconds"]
            .as_f64()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        is_right: answer["is_named_right"] == true,
        others,
        paged,
    }
}

/// A line's fields; an error is the name of the missing one.
struct Fields<'a>(&'a Value);

impl Fields<'_> {
    fn text(&self, name: &'static str) -> anyhow::Result<String> {
        self.0[name].as_str().map(str::to_owned).context(name)
    }

    fn integer(&self, name: &'static str) -> anyhow::Result<u64> {
        self.0[name].as_u64().context(name)
    }

    fn float(&self, name: &'static str) -> anyhow::Result<f64> {
        self.0[name].as_f64().context(name)
    }

    fn time(&self, name: &'static str) -> anyhow::Result<Micros> {
        self.0[name].as_i64().map(Micros).context(name)
    }
}

fn run(line: &str) -> anyhow::Result<LabRun> {
    let value: Value = serde_json::from_str(line)?;
    let fields = Fields(&value);
    Ok(LabRun {
        fault: fields.text("fault")?,
        number: u32::try_from(fields.integer("run")?)?,
        seed: fields.integer("seed")?,
        parameters: value["parameters"].clone(),
        outcome: outcome(&value),
        began: fields.time("began")?,
        took: Duration::try_from_secs_f64(fields.float("took_seconds")?)?,
        load: fields.float("load")?,
        part: LabSitting {
            sitting: fields.time("sitting")?,
            code: fields.text("code")?,
            commit: fields.text("commit")?,
            profile: fields.text("profile")?,
            machine: fields.text("machine")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{ended, part};
    use super::*;

    #[test]
    fn runs_are_read_as_written_and_a_truncated_last_line_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab.jsonl");
        let this = part(1, "a");
        let mut results = RunLog::open(&path).unwrap();
        results.add(ended("disk full", 0, 2, &this)).unwrap();
        results.add(ended("disk full", 1, 3, &this)).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in [1, 20, whole.len() / 2 - 1] {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let mut again = RunLog::open(&path).unwrap();
            assert_eq!(again.runs, [ended("disk full", 0, 2, &this)], "cut {cut}");
            again.add(ended("disk full", 1, 4, &this)).unwrap();
            let both = [ended("disk full", 0, 2, &this), ended("disk full", 1, 4, &this)];
            assert_eq!(RunLog::open(&path).unwrap().runs, both, "cut {cut}");
        }
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab.jsonl");
        RunLog::open(&path).unwrap().add(ended("disk full", 0, 2, &part(1, "a"))).unwrap();
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"fault\":\"disk full\"}\n");
        fs::write(&path, text).unwrap();
        let error = format!("{:#}", RunLog::open(&path).err().unwrap());
        assert!(error.contains("line 2: it is not a run of the lab"), "{error}");
    }

    #[test]
    fn the_last_run_of_fitting_code_counts() {
        let dir = tempfile::tempdir().unwrap();
        let mut results = RunLog::open(&dir.path().join("lab.jsonl")).unwrap();
        let (old, new) = (part(1, "old"), part(2, "new"));
        results.add(ended("disk full", 0, 2, &new)).unwrap();
        results.add(ended("disk full", 0, 3, &new)).unwrap();
        results.add(ended("disk full", 0, 4, &old)).unwrap();
        let seconds =
            |found: Option<&LabRun>| found.map(|run| run.outcome.detected.unwrap().as_secs());
        assert_eq!(seconds(results.find("disk full", 0, 1, |part| part.code == "new")), Some(3));
        assert_eq!(seconds(results.find("disk full", 0, 1, |_| true)), Some(4));
        assert_eq!(seconds(results.find("disk full", 1, 1, |_| true)), None);
        assert_eq!(seconds(results.find("disk full", 0, 2, |_| true)), None);
    }
}
