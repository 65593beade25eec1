//! The tasks of the outbox: one that reads the ledger, and one for each receiver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_ledger::LedgerError;
use weir_tables::Clock;

use super::attempt::AttemptResult;
use super::board::Board;
use super::context::OutboxContext;
use super::journal::{Advance, Claim, LedgerWork};
use super::lane::{Moment, span_us};
use super::pace::{TokenBucket, backoff};
use super::status::OutboxStatus;
use crate::receiver::{Message, Receiver};

/// How often the ledger is read without a wake-up: another hub may have written.
const POLL: Duration = Duration::from_secs(2);
/// Time for one attempt.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// A claim is not used after this time. Together with the attempt it is shorter than the lease.
const CLAIM_AGE_MAX: Duration = Duration::from_secs(15);
/// Pause after the ledger or a task failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct Dispatcher {
    context: OutboxContext,
    /// Locked after the ledger.
    board: Mutex<Board>,
    status: Mutex<OutboxStatus>,
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
            now: moment(&*self.context.clock),
            owner: &self.context.owner,
            receivers: &self.context.receivers,
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
            _ => None,
        };
        drop(status);
        drop(ledger);
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

    async fn work_aside<T: Send + 'static>(
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
            tracing::error!("notices wait, the ledger cannot be used: {error}");
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
            tokio::select! {
                () = self.senders[&name].notified() => {}
                () = sleep_or_never(pause) => {}
                _ = ended.wait_for(|ended| *ended) => return,
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
            notice: claim.record.notice.clone(),
            is_repeat: claim.is_marked,
            thread: claim.thread.clone(),
            page_url: self.context.page_url.clone(),
            now_us: self.context.clock.now().0,
        };
        // The age is checked in the future that sends: a timeout polls that one first, however
        // long this process was stopped.
        let sending = async {
            if self.is_too_old(claim.since) {
                return AttemptResult::Unsent;
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
        let now = moment(&*self.context.clock);
        let by_wall = span_us(now.now_us.saturating_sub(since.now_us));
        now.monotonic.saturating_sub(since.monotonic).max(by_wall) > CLAIM_AGE_MAX
    }
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

async fn sleep_or_never(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}
