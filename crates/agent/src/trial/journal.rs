//! What a trial leaves on disk: a record that is there before anything is set, and the trials that
//! are over.
//!
//! ```text
//!   DIR/lock            locked by the trial that runs; the kernel lets go of it however the program ends
//!   DIR/running.json    the trial that runs, or that died; synced before the setting is touched
//!   DIR/trials.jsonl    finished trials, one a line, oldest first, the newest 200
//! ```
//! Each line is the CRC-32 of its JSON in hexadecimal digits, a space, and the JSON; lines of older
//! versions have no checksum. A changed digit of an old value would be set otherwise.
//! A record without a lock is a trial that died: the next reader restores the old value, unless the
//! setting has a third value by then, the host was rebooted, or the namespace is a different one.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_process::failure::{Failure, read_failure};
use weir_tables::Micros;

use super::setting::{self, KernelSetting};

/// Trials that are kept.
const KEPT: usize = 200;

/// Whether a setting of this name may be tried; the names are the rules' matter.
pub type IsTryable = fn(&str) -> bool;

/// One trial, as it is on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The trial's id, as in `setting_trial`.
    pub trial_id: String,
    /// The setting, such as `net.core.somaxconn`.
    pub name: String,
    /// The value that it had.
    pub value_before: String,
    /// The value that is tried.
    pub value: String,
    /// The network namespace's name.
    pub netns: String,
    /// Device and inode of the namespace.
    pub netns_id: String,
    /// The kernel's name for the time since it was started.
    pub boot_id: String,
    /// When it began, in microseconds since 1970.
    pub began_micros: i64,
    /// The user who began it.
    pub user_name: String,
    /// What became of it.
    pub state: TrialState,
    /// Why it ended so.
    pub reason: Option<String>,
    /// When it ended, in microseconds since 1970.
    pub ended_micros: Option<i64>,
    /// The measurements before and during the trial.
    pub measures: Option<Value>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialState {
    /// It runs.
    Running,
    /// The new value stays.
    Kept,
    /// The old value is back.
    Reverted,
}

impl TrialState {
    /// As rows have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Kept => "kept",
            Self::Reverted => "reverted",
        }
    }
}

/// The directory, locked.
pub struct TrialJournal {
    dir: PathBuf,
    _lock: File,
}

/// What came of opening it.
pub enum JournalLock {
    /// No other trial runs.
    Ours(TrialJournal),
    /// A trial runs.
    Held(Option<Box<Trial>>),
}

/// The result of finding a trial that died.
#[derive(Debug)]
pub enum DeadTrial {
    /// It is over now.
    Ended(Trial),
    /// It was in this other namespace, which still is there.
    Elsewhere(Trial),
}

/// A file of the journal.
#[derive(Clone, Copy)]
enum JournalFile {
    Running,
    Ended,
}

impl JournalFile {
    fn name(self) -> &'static str {
        match self {
            Self::Running => "running.json",
            Self::Ended => "trials.jsonl",
        }
    }
}

impl TrialJournal {
    /// Opens the directory, and makes it when it is not there.
    pub fn open(dir: &Path) -> Result<JournalLock, Failure> {
        let path = dir.join("lock");
        let lock = std::fs::create_dir_all(dir)
            .and_then(|()| OpenOptions::new().create(true).truncate(false).write(true).open(&path))
            .map_err(|error| writing(&path, &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(JournalLock::Ours(Self { dir: dir.to_owned(), _lock: lock })),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Ok(JournalLock::Held(running(dir)?.map(Box::new)))
            }
            Err(error) => Err(writing(&path, &error.into())),
        }
    }

    /// Writes down that the trial begins; when this returns, it survives a loss of power.
    pub fn begin(&self, trial: &Trial) -> Result<(), Failure> {
        self.replace(JournalFile::Running, &line(trial).unwrap_or_default())
    }

    /// Writes down how the trial ended.
    pub fn end(&self, trial: &Trial) -> Result<(), Failure> {
        let mut all = self.readable()?;
        if !all.iter().any(|known| known.trial_id == trial.trial_id) {
            all.push(trial.clone());
            let newest = &all[all.len().saturating_sub(KEPT)..];
            let lines: String = newest.iter().filter_map(line).collect();
            self.replace(JournalFile::Ended, &lines)?;
        }
        let path = self.dir.join(JournalFile::Running.name());
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(writing(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Ends a trial that died, if there is one, and puts back what it had set.
    pub fn put_back(
        &self,
        now: Micros,
        is_tryable: IsTryable,
    ) -> Result<Option<DeadTrial>, Failure> {
        let Some(mut trial) = running(&self.dir)? else { return Ok(None) };
        if self.readable()?.iter().any(|known| known.trial_id == trial.trial_id) {
            // It died after its end was written down.
            self.end(&trial)?;
            return Ok(None);
        }
        let reason = if setting::boot_id() != trial.boot_id {
            "the host was rebooted, which restored it".to_owned()
        } else if setting::netns_id() == trial.netns_id {
            undo(&trial, is_tryable)?
        } else if setting::has_netns(&trial.netns_id) {
            return Ok(Some(DeadTrial::Elsewhere(trial)));
        } else {
            "its network namespace is gone".to_owned()
        };
        trial.state = TrialState::Reverted;
        trial.reason = Some(format!("the program that tried it died; {reason}"));
        trial.ended_micros = Some(now.0);
        self.end(&trial)?;
        Ok(Some(DeadTrial::Ended(trial)))
    }

    /// The trials that are over. A damaged file is set aside: it must not keep a setting from being
    /// put back.
    fn readable(&self) -> Result<Vec<Trial>, Failure> {
        ended(&self.dir).or_else(|failure| {
            let path = self.dir.join(JournalFile::Ended.name());
            let aside = path.with_extension("jsonl.damaged");
            tracing::error!("{failure}; it is set aside as `{}`", aside.display());
            std::fs::rename(&path, &aside).map_err(|error| writing(&path, &error))?;
            Ok(Vec::new())
        })
    }

    /// Writes a file whole, or leaves the old one.
    fn replace(&self, file: JournalFile, text: &str) -> Result<(), Failure> {
        let path = self.dir.join(file.name());
        let draft = self.dir.join(format!("{}.new", file.name()));
        let write = || {
            let mut file = File::create(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(|error| writing(&path, &error))
    }
}

/// Puts the old value back, unless the setting has a third one; what was done.
fn undo(trial: &Trial, is_tryable: IsTryable) -> Result<String, Failure> {
    if !is_tryable(&trial.name) {
        return Ok(format!("`{}` is no setting that can be tried, so it was left", trial.name));
    }
    match KernelSetting(&trial.name).read() {
        Ok(now) if now == trial.value => {
            KernelSetting(&trial.name).write(&trial.value_before)?;
            Ok(format!("put back to {}", trial.value_before))
        }
        Ok(now) if now == trial.value_before => Ok(format!("it was {now} already")),
        Ok(now) => Ok(format!("it was set to {now} meanwhile, so it was left")),
        Err(error) => Err(error),
    }
}

/// The trial that runs, or that died.
pub fn running(dir: &Path) -> Result<Option<Trial>, Failure> {
    let path = dir.join(JournalFile::Running.name());
    let Some(text) = read(&path)? else { return Ok(None) };
    parse(&text).map(Some).map_err(|why| unreadable(&path, &why))
}

/// The trials that are over, oldest first.
pub fn ended(dir: &Path) -> Result<Vec<Trial>, Failure> {
    let path = dir.join(JournalFile::Ended.name());
    let text = read(&path)?.unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| parse(line).map_err(|why| unreadable(&path, &why))).collect()
}

fn line(trial: &Trial) -> Option<String> {
    let json = serde_json::to_string(trial).ok()?;
    Some(format!("{} {json}\n", checksum(&json)))
}

fn checksum(json: &str) -> String {
    format!("{:08x}", crc32fast::hash(json.as_bytes()))
}

fn parse(text: &str) -> Result<Trial, String> {
    let json = match text.split_once(' ') {
        Some((sum, json)) if !text.starts_with('{') => {
            let json = json.trim_end_matches('\n');
            if checksum(json) != sum {
                return Err("a line does not fit its checksum".into());
            }
            json
        }
        _ => text,
    };
    serde_json::from_str(json).map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(read_failure(path, &error)),
    }
}

fn writing(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(format!("cannot write `{}`: {error}", path.display()));
    match error.kind() {
        ErrorKind::PermissionDenied => failure.hint("run it as root, or set `tune.dir`"),
        _ => failure.hint("nothing was set; check the free space of its disk"),
    }
}

fn unreadable(path: &Path, why: &str) -> Failure {
    Failure::new(format!("cannot read `{}`: {why}", path.display())).hint(
        "it was changed by hand, or its disk is damaged; see which setting it names, put that back with `sysctl -w`, and remove the file",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(id: &str) -> Trial {
        Trial {
            trial_id: id.to_owned(),
            name: "net.core.somaxconn".into(),
            value_before: "4096".into(),
            value: "8192".into(),
            netns: "host".into(),
            netns_id: setting::netns_id(),
            boot_id: setting::boot_id(),
            began_micros: 1,
            user_name: "root".into(),
            state: TrialState::Running,
            reason: None,
            ended_micros: None,
            measures: None,
        }
    }

    fn open(dir: &Path) -> TrialJournal {
        match TrialJournal::open(dir).expect("it can be written") {
            JournalLock::Ours(journal) => journal,
            JournalLock::Held(_) => panic!("nobody else has it"),
        }
    }

    #[test]
    fn a_second_trial_learns_which_one_runs() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = open(dir.path());
        journal.begin(&trial("a")).expect("it can be written");
        match TrialJournal::open(dir.path()).expect("it can be read") {
            JournalLock::Held(Some(running)) => assert_eq!(*running, trial("a")),
            _ => panic!("one trial runs"),
        }
    }

    #[test]
    fn a_trial_of_before_a_reboot_or_of_a_namespace_that_is_gone_is_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = open(dir.path());
        let rebooted = Trial { boot_id: "another".into(), ..trial("a") };
        let gone = Trial { netns_id: "0:1".into(), ..trial("b") };
        for (trial, why) in [(rebooted, "rebooted"), (gone, "namespace is gone")] {
            journal.begin(&trial).expect("it can be written");
            let found = journal.put_back(Micros(7), |_| true).expect("it can be ended");
            let Some(DeadTrial::Ended(ended)) = found else { panic!("it is over") };
            assert!(ended.reason.is_some_and(|reason| reason.contains(why)), "{why}");
            assert!(running(dir.path()).expect("it can be read").is_none());
        }
        assert_eq!(ended(dir.path()).expect("they can be read").len(), 2);
    }

    #[test]
    fn a_trial_that_died_after_its_end_was_written_is_not_ended_twice() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = open(dir.path());
        let kept = Trial { state: TrialState::Kept, ..trial("a") };
        journal.end(&kept).expect("it can be written");
        journal.begin(&trial("a")).expect("it can be written");
        assert!(journal.put_back(Micros(7), |_| true).expect("it can be ended").is_none());
        assert_eq!(ended(dir.path()).expect("they can be read"), [kept]);
    }

    #[test]
    fn changed_byte_of_a_record_sets_nothing_and_one_of_the_history_is_set_aside() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = open(dir.path());
        journal.end(&Trial { state: TrialState::Kept, ..trial("a") }).expect("it can be written");
        journal.begin(&trial("b")).expect("it can be written");
        let damage = |name: &str, at: usize, bit: u8| {
            let path = dir.path().join(name);
            let whole = std::fs::read(&path).expect("it can be read");
            let mut changed = whole.clone();
            changed[at] ^= 1 << bit;
            std::fs::write(&path, &changed).expect("it can be written");
            (path, whole)
        };
        let length = std::fs::read(dir.path().join("running.json")).expect("a record").len();
        for at in 0..length - 1 {
            let (path, whole) = damage("running.json", at, u8::try_from(at % 7).expect("a bit"));
            let read = running(dir.path());
            assert!(read.is_err(), "{at}: {read:?}");
            std::fs::write(path, whole).expect("it can be written");
        }
        damage("trials.jsonl", 40, 0);
        assert!(ended(dir.path()).is_err());
        assert!(journal.put_back(Micros(7), |_| false).expect("it can be ended").is_some());
        assert!(dir.path().join("trials.jsonl.damaged").exists());
        assert_eq!(ended(dir.path()).expect("they can be read").len(), 1);
    }

    #[test]
    fn records_of_older_versions_are_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let pretty = serde_json::to_string_pretty(&trial("a")).expect("it is JSON");
        std::fs::write(dir.path().join("running.json"), pretty).expect("it can be written");
        let line = serde_json::to_string(&trial("b")).expect("it is JSON") + "\n";
        std::fs::write(dir.path().join("trials.jsonl"), line).expect("it can be written");
        assert_eq!(running(dir.path()).expect("it can be read"), Some(trial("a")));
        assert_eq!(ended(dir.path()).expect("they can be read"), [trial("b")]);
    }

    #[test]
    fn what_was_changed_by_hand_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = open(dir.path());
        std::fs::write(dir.path().join("running.json"), "{}").expect("it can be written");
        let error =
            journal.put_back(Micros(7), |_| true).expect_err("it lacks everything").to_string();
        assert!(error.contains("running.json") && error.contains("hint: "), "{error}");
    }
}
