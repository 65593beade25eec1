//! Trials as rows of `setting_trial`, for the weir that watches the host; it also puts back what a
//! trial that died had set.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use weir_tables::{Batch, Micros, Rows, SettingTrial, SettingTrialRows};

use super::journal::{self, DeadTrial, IsTryable, JournalLock, Trial, TrialJournal, TrialState};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(2);
/// Trials that are older than that are not told any more.
const TOLD_FOR_SECONDS: f64 = 14.0 * 86_400.0;

/// Trials that were reported since this process started.
pub struct TrialEvents {
    dir: PathBuf,
    is_tryable: IsTryable,
    next: Micros,
    told: BTreeSet<(String, &'static str)>,
    problem: Option<String>,
    /// Why the history cannot be read, as logged.
    unreadable: Option<String>,
}

impl TrialEvents {
    /// Events of the journal in `dir`; reads nothing yet.
    pub fn new(dir: PathBuf, is_tryable: IsTryable) -> Self {
        Self {
            dir,
            is_tryable,
            next: Micros(0),
            told: BTreeSet::new(),
            problem: None,
            unreadable: None,
        }
    }

    /// Trials that changed by `now`; checks at most every two seconds.
    pub fn news(&mut self, host: &str, now: Micros) -> Option<Batch> {
        if now < self.next || !self.dir.is_dir() {
            return None;
        }
        self.next = now + EVERY;
        self.put_back(now);
        let mut trials = self.ended();
        trials.extend(journal::running(&self.dir).ok().flatten());
        let mut rows = SettingTrialRows::default();
        for trial in trials {
            let age_seconds = now.seconds_since(Micros(trial.began_micros));
            let state = trial.state.as_str();
            if age_seconds < TOLD_FOR_SECONDS && self.told.insert((trial.trial_id.clone(), state)) {
                push(&mut rows, host, now, &trial);
            }
        }
        (rows.len() > 0).then(|| Batch { table: SettingTrialRows::SPEC, rows: rows.finish() })
    }

    fn ended(&mut self) -> Vec<Trial> {
        let (trials, unreadable) = match journal::ended(&self.dir) {
            Ok(trials) => (trials, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        if let Some(why) = unreadable.as_ref().filter(|_| self.unreadable != unreadable) {
            tracing::error!("{why}");
        }
        self.unreadable = unreadable;
        trials
    }

    /// A record without a held lock: the program that made the trial died.
    fn put_back(&mut self, now: Micros) {
        if !self.dir.join("running.json").exists() {
            self.problem = None;
            return;
        }
        let found = match TrialJournal::open(&self.dir) {
            Ok(JournalLock::Ours(journal)) => journal.put_back(now, self.is_tryable),
            Ok(JournalLock::Held(_)) => return,
            Err(error) => Err(error),
        };
        let problem = match found {
            Ok(None) => None,
            Ok(Some(DeadTrial::Ended(trial))) => {
                let reason = trial.reason.unwrap_or_default();
                tracing::warn!("`{}` was being tried: {reason}", trial.name);
                None
            }
            Ok(Some(DeadTrial::Elsewhere(trial))) => Some(elsewhere(&trial)),
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem.as_ref().filter(|_| self.problem != problem) {
            tracing::error!("{problem}");
        }
        self.problem = problem;
    }
}

/// A trial that died where this program cannot put anything back.
pub fn elsewhere(trial: &Trial) -> String {
    format!(
        "`{}` is still {} in the network namespace {}, where a trial died\nhint: ip netns exec {} weir tune --try {}={}, \
         or delete the namespace",
        trial.name, trial.value, trial.netns, trial.netns, trial.name, trial.value
    )
}

fn push(rows: &mut SettingTrialRows, host: &str, now: Micros, trial: &Trial) {
    let measures = trial.measures.as_ref().map(ToString::to_string);
    rows.push(&SettingTrial {
        ts: now,
        host,
        trial_id: &trial.trial_id,
        netns: &trial.netns,
        name: &trial.name,
        value_before: &trial.value_before,
        value: &trial.value,
        state: trial.state.as_str(),
        reason: trial.reason.as_deref().filter(|_| trial.state != TrialState::Running),
        began_ts: Micros(trial.began_micros),
        ended_ts: trial.ended_micros.map(Micros),
        user_name: &trial.user_name,
        measures: measures.as_deref(),
    });
}
