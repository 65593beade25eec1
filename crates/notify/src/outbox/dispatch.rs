//! The tasks of the outbox: one that reads the ledger, and one for each receiver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_actions::Notice;
use weir_ledger::LedgerError;
use weir_tables::Clock;

use super::attempt::AttemptResult;
use super::board::Board;
use super::context::OutboxContext;
use super::journal::{Advance, Claim, LedgerWork};
use super::lane::{Moment, span_us};
use super::pace::{ProbePlan, TokenBucket, backoff};
use super::standing::{RepeatPlan, StandingStates, by_receiver};
use super::status::OutboxStatus;
use crate::receiver::{Accepted, Message, Receiver};

/// How often the ledger is read without a wake-up: another hub may have written.
const POLL: Duration = Duration::from_secs(2);
/// Time for one attempt.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// A claim is not used after this time. Together with the attempt it is shorter than the lease.
const CLAIM_AGE_MAX: Duration = Duration::from_secs(15);
/// Time for one probe of a failing receiver. With the pause between two probes, a receiver that
/// returns is noticed within 5 s.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause after the ledger or a task failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct Dispatcher {
    context: OutboxContext,
    /// Locked after the ledger.
    board: Mutex<Board>,
    status: Mutex<OutboxStatus>,
    /// States of incidents, for receivers that drop what is not repeated.
    standing: Mutex<StandingStates>,
    random: Mutex<fastrand::Rng>,
    /// Wakes the task that reads the ledger.
    reader: Notify,
    /// Wake the receivers' tasks.
    senders: BTreeMap<String, Notify>,
    /// When an error of the ledger was logged last.
    complained: Mutex<Option<Duration>>,
}

impl Dispatcher {
    pub(crate) fn new(context: OutboxContext) -> Self {
        let random = context.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let senders = context.receivers.keys().map(|name| (name.clone(), Notify::new())).collect();
        Self {
            context,
            board: Mutex::default(),
            status: Mutex::default(),
            standing: Mutex::default(),
            random: Mutex::new(random),
            reader: Notify::new(),
            senders,
            complained: Mutex::default(),
        }
    }

    pub(crate) fn wake(&self) {
        self.reader.notify_one();
    }

    pub(crate) fn status(&self) -> OutboxStatus {
        self.status.lock().clone()
    }

    /// The board; not while the ledger is awaited.
    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock()
    }

    pub(super) fn now(&self) -> Moment {
        moment(&*self.context.clock)
    }

    pub(super) fn receiver(&self, name: &str) -> Option<&Arc<dyn Receiver>> {
        self.context.receivers.get(name)
    }

    /// Replaces the states of incidents.
    pub(super) fn stand(&self, states: Vec<Notice>) {
        *self.standing.lock() = by_receiver(states);
    }

    pub(super) fn states_of(&self, receiver: &str) -> Vec<Notice> {
        self.standing.lock().get(receiver).cloned().unwrap_or_default()
    }

    /// A message as it is sent now, without thread and link.
    pub(super) fn message_of(&self, notice: Notice) -> Message {
        Message {
            notice,
            is_repeat: false,
            thread: None,
            page_url: self.context.page_url.clone(),
            now_us: self.now().now_us,
            act_link: None,
            templates: self.context.templates.clone(),
        }
    }

    /// Works on the ledger; blocks.
    pub(crate) fn work<T>(
        &self,
        run: impl FnOnce(&mut LedgerWork<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut ledger = self.context.ledger.lock();
        let mut board = self.board.lock();
        let mut work = LedgerWork {
            ledger: &mut *ledger,
            board: &mut board,
            now: self.now(),
            owner: &self.context.owner,
            receivers: &self.context.receivers,
            page_url: &self.context.page_url,
            reports: Vec::new(),
            must_wake: false,
            must_read: false,
        };
        let result = run(&mut work);
        let LedgerWork { reports, must_wake, must_read, .. } = work;
        let mut status = self.status.lock();
        board.count(&mut status);
        status.ledger_error = match &result {
            Err(LedgerError::Unusable(why)) => Some(why.clone()),
            _ => ledger.trouble(),
        };
        let trouble = status.ledger_error.clone().filter(|_| result.is_ok());
        drop(status);
        drop(ledger);
        if let Some(why) = trouble {
            self.complain(&LedgerError::Unusable(why));
        }
        // The board stays locked, so that changes are reported in their order.
        reports.into_iter().for_each(|change| self.context.sink.record(change));
        drop(board);
        if must_read {
            self.reader.notify_one();
        }
        if must_wake {
            self.senders.values().for_each(Notify::notify_one);
        }
        result
    }

    pub(super) async fn work_aside<T: Send + 'static>(
        self: &Arc<Self>,
        run: impl FnOnce(&mut LedgerWork<'_>) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let this = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || this.work(run)).await;
        done.unwrap_or_else(|error| {
            Err(LedgerError::Unusable(format!("cannot use the ledger: its task ended: {error}")))
        })
    }

    /// Logs an error of the ledger, once a minute.
    fn complain(&self, error: &LedgerError) {
        let now = self.context.clock.monotonic();
        let mut last = self.complained.lock();
        if last.is_none_or(|last| now.saturating_sub(last) >= COMPLAINT_INTERVAL) {
            *last = Some(now);
            tracing::error!("notices are not kept safely: {error}");
        }
    }

    pub(crate) async fn run(self: &Arc<Self>, ended: watch::Receiver<bool>) {
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_running(Arc::clone(self), TaskName::Reader, ended.clone()));
        for name in self.context.receivers.keys() {
            let name = TaskName::Sender(name.clone());
            tasks.spawn(keep_running(Arc::clone(self), name, ended.clone()));
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn read(self: Arc<Self>, mut ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            match self.work_aside(|work| work.refresh()).await {
                Ok(unreadable) => self.status.lock().unreadable = unreadable,
                Err(error) => self.complain(&error),
            }
            tokio::select! {
                () = self.reader.notified() => {}
                () = tokio::time::sleep(POLL) => {}
                _ = ended.wait_for(|ended| *ended) => return,
            }
        }
    }

    async fn send(self: Arc<Self>, name: String, mut ended: watch::Receiver<bool>) {
        let Some(receiver) = self.context.receivers.get(&name) else { return };
        let mut bucket = TokenBucket::new(receiver.rate_limit(), Instant::now());
        let mut plans = SenderPlans {
            probe: ProbePlan::default(),
            repeat: RepeatPlan::new(receiver.refresh_pause(), Instant::now()),
        };
        while !*ended.borrow() {
            let token_pause = bucket.pause(Instant::now());
            let (may_send, lane) = (token_pause.is_zero(), name.clone());
            let pause = match self.work_aside(move |work| work.advance(&lane, may_send)).await {
                Ok(Advance::Claimed(claim)) => {
                    bucket.take();
                    self.attempt(receiver, *claim, &ended).await;
                    continue;
                }
                Ok(Advance::Again) => continue,
                Ok(Advance::Wait(pause)) => pause,
                Err(error) => {
                    self.complain(&error);
                    Some(FAILURE_PAUSE)
                }
            };
            let token_pause = Some(token_pause).filter(|_| !may_send);
            let pause = pause.into_iter().chain(token_pause).min();
            let side_job = self.next_side_job(&name, &mut plans);
            tokio::select! {
                () = self.senders[&name].notified() => continue,
                () = sleep_or_never(pause) => continue,
                _ = ended.wait_for(|ended| *ended) => return,
                () = sleep_until_or_never(side_job.map(|(at, _)| at)) => {}
            }
            let Some((_, job)) = side_job else { continue };
            tokio::select! {
                () = self.do_side_job(job, &name, &mut plans) => {}
                _ = ended.wait_for(|ended| *ended) => return,
            }
        }
    }

    /// What the task of a receiver does beside its notices, and when.
    fn next_side_job(&self, name: &str, plans: &mut SenderPlans) -> Option<(Instant, SideJob)> {
        let need = self.board.lock().probe_need(name, self.now());
        let probe = plans.probe.next(need, Instant::now()).map(|at| (at, SideJob::Probe));
        let repeat = plans.repeat.next().map(|at| (at, SideJob::Repeat));
        probe.into_iter().chain(repeat).min_by_key(|(at, _)| *at)
    }

    async fn do_side_job(self: &Arc<Self>, job: SideJob, name: &str, plans: &mut SenderPlans) {
        let Some(receiver) = self.context.receivers.get(name) else { return };
        match job {
            SideJob::Repeat => self.repeat_states(name, receiver, &mut plans.repeat).await,
            SideJob::Probe => {
                let probed = tokio::time::timeout(PROBE_TIMEOUT, receiver.probe()).await;
                let is_passed = matches!(probed, Ok(Ok(_)));
                self.board.lock().note_probe(name, is_passed);
                plans.probe.note(is_passed, Instant::now());
            }
        }
    }

    /// Sends one message and writes the result, for as long as it takes.
    async fn attempt(
        self: &Arc<Self>,
        receiver: &Arc<dyn Receiver>,
        claim: Claim,
        ended: &watch::Receiver<bool>,
    ) {
        let message = Message {
            is_repeat: claim.is_marked,
            thread: claim.thread.clone(),
            act_link: claim.act_link.clone(),
            ..self.message_of(claim.record.notice.clone())
        };
        // The age is checked in the future that sends: a timeout polls that one first, however
        // long this process was stopped.
        let sending = async {
            if self.is_too_old(claim.since) {
                return AttemptResult::Unsent;
            }
            if let Some(answer) = needless(&message.notice, &**receiver) {
                let (answer, external_id) = (answer.to_owned(), None);
                return AttemptResult::Accepted(Accepted { answer, external_id });
            }
            match receiver.send(&message).await {
                Ok(accepted) => AttemptResult::Accepted(accepted),
                Err(error) => AttemptResult::Refused(error),
            }
        };
        let result = tokio::time::timeout(SEND_TIMEOUT, sending).await;
        let result = Arc::new(result.unwrap_or(AttemptResult::TimedOut));
        let pause = backoff(claim.record.attempt, &mut self.random.lock());
        let claim = Arc::new(claim);
        loop {
            let (claim, result) = (Arc::clone(&claim), Arc::clone(&result));
            let written = self.work_aside(move |work| work.conclude(&claim, &result, pause)).await;
            let Err(error) = written else { return };
            self.complain(&error);
            if *ended.borrow() {
                return;
            }
            tokio::time::sleep(FAILURE_PAUSE).await;
        }
    }

    /// By both clocks: the monotonic one stands still while the machine is suspended.
    fn is_too_old(&self, since: Moment) -> bool {
        let now = self.now();
        let by_wall = span_us(now.now_us.saturating_sub(since.now_us));
        now.monotonic.saturating_sub(since.monotonic).max(by_wall) > CLAIM_AGE_MAX
    }
}

/// Why a notice is not sent to this receiver; `None` for the usual ones.
fn needless(notice: &Notice, receiver: &dyn Receiver) -> Option<&'static str> {
    match receiver.is_read_by_people() {
        false if notice.is_letter() => Some("not sent: it is about no incident"),
        true if notice.is_test_end() => Some("not sent: a test has no end here"),
        _ => None,
    }
}

/// What the task of a receiver does beside its notices.
#[derive(Clone, Copy, Debug)]
enum SideJob {
    /// Find out whether a failing receiver is back.
    Probe,
    /// Send the states of incidents again.
    Repeat,
}

/// When they are done.
struct SenderPlans {
    probe: ProbePlan,
    repeat: RepeatPlan,
}

/// One of the outbox's tasks.
#[derive(Clone, Debug)]
enum TaskName {
    Reader,
    Sender(String),
}

/// Runs a task, and starts it again after a panic.
async fn keep_running(dispatcher: Arc<Dispatcher>, name: TaskName, ended: watch::Receiver<bool>) {
    loop {
        // A set of one: dropping it ends the task.
        let mut task = JoinSet::new();
        match name.clone() {
            TaskName::Reader => task.spawn(Arc::clone(&dispatcher).read(ended.clone())),
            TaskName::Sender(receiver) => {
                task.spawn(Arc::clone(&dispatcher).send(receiver, ended.clone()))
            }
        };
        match task.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!("outbox task {name:?} panicked and starts again: {error}");
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
            _ => return,
        }
    }
}

fn moment(clock: &dyn Clock) -> Moment {
    Moment { now_us: clock.now().0, monotonic: clock.monotonic() }
}

async fn sleep_until_or_never(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn sleep_or_never(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}
