//! What a trial leaves on disk: a record that is there before anything is set, and the trials that are over.
//!
//! ```text
//!   DIR/lock            locked by the trial that runs; the kernel lets go of it however the program ends
//!   DIR/running.json    the trial that runs, or that died; synced before the setting is touched
//!   DIR/trials.jsonl    those that are over, a line each, oldest first, the newest 200
//! ```
//! A record without a lock is a trial that died: whoever finds it puts the value back, unless somebody else has set another one
//! meanwhile, the host was started anew, or the namespace is another one.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_rules::TrialSetting;
use weir_tables::Micros;

use super::setting;
use crate::failure::{Failure, read_failure};

/// Trials that are kept.
const KEPT: usize = 200;

/// One trial, as it is on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trial {
    pub(crate) trial_id: String,
    pub(crate) name: String,
    pub(crate) value_before: String,
    pub(crate) value: String,
    pub(crate) netns: String,
    /// Device and inode of the namespace.
    pub(crate) netns_id: String,
    /// The kernel's name for the time since it was started.
    pub(crate) boot_id: String,
    pub(crate) began_micros: i64,
    pub(crate) user_name: String,
    pub(crate) state: State,
    pub(crate) reason: Option<String>,
    pub(crate) ended_micros: Option<i64>,
    pub(crate) measures: Option<Value>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Running,
    Kept,
    Reverted,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Kept => "kept",
            Self::Reverted => "reverted",
        }
    }
}

/// The directory, locked.
pub(crate) struct Book {
    dir: PathBuf,
    _lock: File,
}

/// What came of opening it.
pub(crate) enum Opened {
    Ours(Book),
    /// A trial runs.
    Held(Option<Box<Trial>>),
}

/// What was found of a trial that died.
#[derive(Debug)]
pub(crate) enum Leftover {
    /// It is over now.
    Ended(Trial),
    /// It was in this other namespace, which still is there.
    Elsewhere(Trial),
}

impl Book {
    /// Opens the directory, and makes it when it is not there.
    pub(crate) fn open(dir: &Path) -> Result<Opened, Failure> {
        let path = dir.join("lock");
        let lock = std::fs::create_dir_all(dir)
            .and_then(|()| OpenOptions::new().create(true).truncate(false).write(true).open(&path))
            .map_err(|error| writing(&path, &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Opened::Ours(Self { dir: dir.to_owned(), _lock: lock })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(Opened::Held(running(dir)?.map(Box::new))),
            Err(error) => Err(writing(&path, &error.into())),
        }
    }

    /// Writes down that the trial begins; when this returns, it survives a loss of power.
    pub(crate) fn begin(&self, trial: &Trial) -> Result<(), Failure> {
        self.replace("running.json", serde_json::to_string_pretty(trial).as_deref().unwrap_or(""))
    }

    /// Writes down how the trial ended.
    pub(crate) fn end(&self, trial: &Trial) -> Result<(), Failure> {
        let mut all = ended(&self.dir)?;
        if !all.iter().any(|known| known.trial_id == trial.trial_id) {
            all.push(trial.clone());
            let newest = &all[all.len().saturating_sub(KEPT)..];
            let lines = newest.iter().filter_map(|trial| serde_json::to_string(trial).ok());
            self.replace("trials.jsonl", &lines.map(|line| line + "\n").collect::<String>())?;
        }
        let path = self.dir.join("running.json");
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(writing(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Ends a trial that died, if there is one, and puts back what it had set.
    pub(crate) fn put_back(&self, now: Micros) -> Result<Option<Leftover>, Failure> {
        let Some(mut trial) = running(&self.dir)? else { return Ok(None) };
        if ended(&self.dir)?.iter().any(|known| known.trial_id == trial.trial_id) {
            // It died after its end was written down.
            self.end(&trial)?;
            return Ok(None);
        }
        let reason = if setting::boot_id() != trial.boot_id {
            "the host was started anew, which put it back".to_owned()
        } else if setting::netns_id() == trial.netns_id {
            undo(&trial)?
        } else if setting::has_netns(&trial.netns_id) {
            return Ok(Some(Leftover::Elsewhere(trial)));
        } else {
            "its network namespace is gone".to_owned()
        };
        trial.state = State::Reverted;
        trial.reason = Some(format!("the program that tried it died; {reason}"));
        trial.ended_micros = Some(now.0);
        self.end(&trial)?;
        Ok(Some(Leftover::Ended(trial)))
    }

    /// Writes a file whole, or leaves the old one.
    fn replace(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.dir.join(name);
        let draft = self.dir.join(format!("{name}.new"));
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
fn undo(trial: &Trial) -> Result<String, Failure> {
    if TrialSetting::named(&trial.name).is_none() {
        return Ok(format!("`{}` is no setting that can be tried, so it was left", trial.name));
    }
    match setting::read(&trial.name) {
        Ok(now) if now == trial.value => {
            setting::write(&trial.name, &trial.value_before)?;
            Ok(format!("put back to {}", trial.value_before))
        }
        Ok(now) if now == trial.value_before => Ok(format!("it was {now} already")),
        Ok(now) => Ok(format!("somebody set it to {now} meanwhile, so it was left")),
        Err(error) => Err(error),
    }
}

/// The trial that runs, or that died.
pub(crate) fn running(dir: &Path) -> Result<Option<Trial>, Failure> {
    let path = dir.join("running.json");
    let Some(text) = read(&path)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| unreadable(&path, &error))
}

/// The trials that are over, oldest first.
pub(crate) fn ended(dir: &Path) -> Result<Vec<Trial>, Failure> {
    let path = dir.join("trials.jsonl");
    let text = read(&path)?.unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_str(line).map_err(|error| unreadable(&path, &error)))
        .collect()
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
        _ => failure.hint("nothing was set; see whether its disk has room"),
    }
}

fn unreadable(path: &Path, error: &serde_json::Error) -> Failure {
    Failure::new(format!("cannot read `{}`: {error}", path.display())).hint(
        "it was changed by hand; see which setting it names, put that back with `sysctl -w`, and remove the file",
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
            state: State::Running,
            reason: None,
            ended_micros: None,
            measures: None,
        }
    }

    fn open(dir: &Path) -> Book {
        match Book::open(dir).expect("it can be written") {
            Opened::Ours(book) => book,
            Opened::Held(_) => panic!("nobody else has it"),
        }
    }

    #[test]
    fn a_second_trial_learns_which_one_runs() {
        let dir = tempfile::tempdir().expect("a directory");
        let book = open(dir.path());
        book.begin(&trial("a")).expect("it can be written");
        match Book::open(dir.path()).expect("it can be read") {
            Opened::Held(Some(running)) => assert_eq!(*running, trial("a")),
            _ => panic!("one trial runs"),
        }
    }

    #[test]
    fn a_trial_of_before_a_reboot_or_of_a_namespace_that_is_gone_is_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let book = open(dir.path());
        let rebooted = Trial { boot_id: "another".into(), ..trial("a") };
        let gone = Trial { netns_id: "0:1".into(), ..trial("b") };
        for (trial, why) in [(rebooted, "started anew"), (gone, "namespace is gone")] {
            book.begin(&trial).expect("it can be written");
            let found = book.put_back(Micros(7)).expect("it can be ended");
            let Some(Leftover::Ended(ended)) = found else { panic!("it is over") };
            assert!(ended.reason.is_some_and(|reason| reason.contains(why)), "{why}");
            assert!(running(dir.path()).expect("it can be read").is_none());
        }
        assert_eq!(ended(dir.path()).expect("they can be read").len(), 2);
    }

    #[test]
    fn a_trial_that_died_after_its_end_was_written_is_not_ended_twice() {
        let dir = tempfile::tempdir().expect("a directory");
        let book = open(dir.path());
        let kept = Trial { state: State::Kept, ..trial("a") };
        book.end(&kept).expect("it can be written");
        book.begin(&trial("a")).expect("it can be written");
        assert!(book.put_back(Micros(7)).expect("it can be ended").is_none());
        assert_eq!(ended(dir.path()).expect("they can be read"), [kept]);
    }

    #[test]
    fn what_was_changed_by_hand_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let book = open(dir.path());
        std::fs::write(dir.path().join("running.json"), "{}").expect("it can be written");
        let error = book.put_back(Micros(7)).expect_err("it lacks everything").to_string();
        assert!(error.contains("running.json") && error.contains("hint: "), "{error}");
    }
}
