//! Runs checks when they are due, each on a thread of its own, and collects their rows.
//!
//! ```text
//!   due ──► quick lane (32) ──┐                    a check that took more than 1 s last time
//!      └──► slow lane  (32) ──┴─► row, next turn   waits for other slow ones only
//! ```
//! A check runs at most once at a time: a run that takes longer than its interval skips turns. The
//! surprising thing: 40 checks that hang at the same moment fill the quick lane once, for one
//! timeout; from then on they are slow.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use weir_tables::{Batch, Micros};

use super::check_row::{CheckOrigin, CheckSubject, RowWriter};
use super::digest_poll::{DigestReply, poll};
use super::digest_target::DigestTarget;
use super::polled_digest::{ABSENT_PAUSE, PolledDigest};
use super::{CheckHost, CheckOutcome, CheckSpec, CheckState, CheckWork, PluginControl, run_check};

/// Checks of one lane that run at the same time.
const LANE_CHECKS: usize = 32;
/// A check that took longer is in the slow lane at its next turn.
const SLOW: Duration = Duration::from_secs(1);
/// First runs are spread over this time, so that a start is no burst.
const SPREAD: Duration = Duration::from_secs(5);
/// Longest wait for a result within one step.
const STEP: Duration = Duration::from_millis(500);
/// How long killed plugins may take at the end.
const END_WAIT: Duration = Duration::from_secs(2);
/// How long a digest whose listener is gone is remembered, and a trial.
const GONE_KEPT: Duration = Duration::from_secs(3600);
/// Listeners that are remembered; further trials are forgotten as soon as they are gone.
const DIGESTS_MAX: usize = 1_000;
/// TLS needs more than a thread's smallest stack.
const STACK_BYTES: usize = 512 << 10;

/// A check or an application that is queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobKey {
    Check(usize),
    Digest(SocketAddr),
}

/// The result of a run.
#[derive(Debug)]
enum JobResult {
    Check(CheckOutcome),
    Digest(DigestReply),
}

#[derive(Debug)]
struct FinishedJob {
    key: JobKey,
    result: JobResult,
    duration: Duration,
}

/// When a job runs.
#[derive(Debug)]
struct JobTurn {
    due: Micros,
    is_running: bool,
    is_slow: bool,
}

#[derive(Debug)]
struct ScheduledCheck {
    spec: Arc<CheckSpec>,
    turn: JobTurn,
    control: PluginControl,
}

#[derive(Debug)]
struct ScheduledDigest {
    digest: PolledDigest,
    turn: JobTurn,
    /// When its listener was gone; a restart must not forget that there was a digest.
    gone: Option<Micros>,
}

/// Runs checks and collects their rows.
#[derive(Debug)]
pub struct CheckLoop {
    checks: Vec<ScheduledCheck>,
    digests: BTreeMap<SocketAddr, ScheduledDigest>,
    sender: Sender<FinishedJob>,
    finished: Receiver<FinishedJob>,
    stop: Arc<AtomicBool>,
    writer: RowWriter,
}

impl CheckLoop {
    /// A loop of these checks; the first runs are within 5 s.
    pub fn new(origin: CheckOrigin, specs: Vec<CheckSpec>, now: Micros) -> Self {
        let (sender, finished) = channel();
        let count = u32::try_from(specs.len().max(1)).unwrap_or(u32::MAX);
        let stop = Arc::default();
        let checks = specs.into_iter().zip(0..).map(|(spec, number)| {
            let first = SPREAD.min(spec.interval) * number / count;
            let control = PluginControl { stop: Arc::clone(&stop), ..PluginControl::default() };
            ScheduledCheck { spec: Arc::new(spec), turn: JobTurn::at(now + first), control }
        });
        let checks = checks.collect();
        Self {
            checks,
            digests: BTreeMap::new(),
            sender,
            finished,
            stop,
            writer: RowWriter::new(origin),
        }
    }

    /// Replaces the listeners that are queried for digests.
    pub fn set_digest_targets(&mut self, targets: Vec<DigestTarget>, now: Micros) {
        for (address, digest) in &mut self.digests {
            let is_there = targets.iter().any(|target| target.address == *address);
            digest.gone = digest.gone.or(Some(now)).filter(|_| !is_there);
        }
        let has_place = self.digests.len() < DIGESTS_MAX;
        self.digests.retain(|_, known| match known.gone {
            Some(gone) if known.digest.is_expected() || (has_place && known.digest.is_tried()) => {
                now < gone + GONE_KEPT
            }
            Some(_) => known.turn.is_running,
            None => true,
        });
        for target in targets {
            match self.digests.get_mut(&target.address) {
                Some(known)
                    if !known.digest.is_of(&target) || known.digest.has_evidence(&target) =>
                {
                    known.digest.restart(target);
                    known.turn.due = now + known.digest.first_pause();
                }
                Some(known) => known.digest.target = target,
                None => {
                    let address = target.address;
                    let digest = PolledDigest::new(target);
                    let turn = JobTurn::at(now + digest.first_pause());
                    self.digests.insert(address, ScheduledDigest { digest, turn, gone: None });
                }
            }
        }
    }

    /// Starts what is due, waits for results at most half a second, and returns their rows.
    pub fn step(&mut self, clock: &dyn Fn() -> Micros) -> Vec<Batch> {
        self.step_within(STEP, clock)
    }

    fn step_within(&mut self, longest: Duration, clock: &dyn Fn() -> Micros) -> Vec<Batch> {
        let wait = self.start_due(clock()).min(longest);
        if let Ok(first) = self.finished.recv_timeout(wait) {
            let more: Vec<FinishedJob> = self.finished.try_iter().collect();
            for job in std::iter::once(first).chain(more) {
                self.finish(job, clock());
            }
        }
        self.writer.finish()
    }

    /// Kills the plugins that run, and waits until they have ended.
    pub fn end(self) {
        self.stop.store(true, Relaxed);
        let mut plugins = self
            .checks
            .iter()
            .filter(|check| check.turn.is_running)
            .filter(|check| matches!(check.spec.work, CheckWork::Plugin(_)))
            .count();
        while plugins > 0 {
            match self.finished.recv_timeout(END_WAIT) {
                Ok(FinishedJob { key: JobKey::Check(index), .. }) => {
                    let work = &self.checks[index].spec.work;
                    plugins -= usize::from(matches!(work, CheckWork::Plugin(_)));
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// Starts the jobs that are due; returns the time until the next one is.
    fn start_due(&mut self, now: Micros) -> Duration {
        let mut running = [0, 0];
        for turn in self.turns().filter(|turn| turn.is_running) {
            running[usize::from(turn.is_slow)] += 1;
        }
        let mut next = STEP;
        for (index, check) in self.checks.iter_mut().enumerate() {
            if check.turn.begins(now, check.spec.interval, &mut running, &mut next) {
                let (spec, control) = (Arc::clone(&check.spec), check.control.clone());
                spawn(JobKey::Check(index), &self.sender, move || {
                    JobResult::Check(run_check(&spec, &CheckHost { now, control: &control }))
                });
            }
        }
        for (address, ScheduledDigest { digest, turn, gone }) in &mut self.digests {
            let is_polled = gone.is_none() && !digest.is_foreign;
            if is_polled && turn.begins(now, ABSENT_PAUSE, &mut running, &mut next) {
                let (target, path) = (digest.target.clone(), digest.known_path());
                spawn(JobKey::Digest(*address), &self.sender, move || {
                    JobResult::Digest(poll(&target, path))
                });
            }
        }
        next
    }

    fn turns(&self) -> impl Iterator<Item = &JobTurn> {
        let checks = self.checks.iter().map(|check| &check.turn);
        checks.chain(self.digests.values().map(|digest| &digest.turn))
    }

    fn finish(&mut self, job: FinishedJob, now: Micros) {
        let FinishedJob { key, result, duration } = job;
        match (key, result) {
            (JobKey::Check(index), JobResult::Check(outcome)) => {
                let check = &mut self.checks[index];
                check.turn.ends(duration);
                let CheckSpec { interval, timeout, .. } = *check.spec;
                let expires = now + interval + timeout + interval.max(Duration::from_secs(30));
                let subject = CheckSubject {
                    check: &check.spec.name,
                    kind: check.spec.work.kind(),
                    target: &check.spec.work.target(),
                    service: check.spec.service.as_deref(),
                    scope: None,
                    duration: Some(duration),
                    expires: Some(expires),
                };
                self.writer.push(now, &subject, &outcome);
            }
            (JobKey::Digest(address), JobResult::Digest(reply)) => {
                if let Some(ScheduledDigest { digest, turn, .. }) = self.digests.get_mut(&address) {
                    turn.ends(duration);
                    turn.due = now + digest.take(reply, now, &mut self.writer);
                }
            }
            _ => {}
        }
    }
}

impl JobTurn {
    fn at(due: Micros) -> Self {
        Self { due, is_running: false, is_slow: false }
    }

    /// Whether it begins now; then its next turn is after `interval`. Else `next` gets the time
    /// until it is due, if that is shorter.
    fn begins(
        &mut self,
        now: Micros,
        interval: Duration,
        running: &mut [usize; 2],
        next: &mut Duration,
    ) -> bool {
        if self.is_running {
            return false;
        }
        // After a clock step back it would be due much later.
        self.due = self.due.min(now + interval);
        let left = Duration::try_from_secs_f64(self.due.seconds_since(now)).unwrap_or_default();
        if !left.is_zero() {
            *next = (*next).min(left);
            return false;
        }
        let lane = &mut running[usize::from(self.is_slow)];
        if *lane >= LANE_CHECKS {
            return false;
        }
        *lane += 1;
        self.is_running = true;
        self.due = now + interval;
        true
    }

    fn ends(&mut self, duration: Duration) {
        self.is_running = false;
        self.is_slow = duration > SLOW;
    }
}

/// Runs a job on a thread of its own.
fn spawn(
    key: JobKey,
    sender: &Sender<FinishedJob>,
    work: impl FnOnce() -> JobResult + Send + 'static,
) {
    let reply = sender.clone();
    let started = thread::Builder::new()
        .name("weir-check".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let started = Instant::now();
            let result = catch_unwind(AssertUnwindSafe(work));
            let result = result.unwrap_or_else(|_| undone(key, "the check panicked".to_owned()));
            let _loop_gone = reply.send(FinishedJob { key, result, duration: started.elapsed() });
        });
    if let Err(error) = started {
        let result = undone(key, format!("cannot start a thread: {error}"));
        let _loop_gone = sender.send(FinishedJob { key, result, duration: Duration::ZERO });
    }
}

fn undone(key: JobKey, why: String) -> JobResult {
    match key {
        JobKey::Check(_) => JobResult::Check(CheckOutcome::new(CheckState::Unknown, why)),
        JobKey::Digest(_) => JobResult::Digest(DigestReply::Silent(why)),
    }
}

#[cfg(test)]
mod tests;
