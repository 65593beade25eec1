//! Doubles for the tests: a ledger in memory, a clock on tokio's paused time, a scripted receiver.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weir_actions::{IncidentSummary, Notice, NoticeKind, Urgency};
use weir_ledger::{Change, Document, LedgerBackend, LedgerError};
use weir_tables::{Clock, Micros};

use super::{NOTICE_KIND, NoticeChange, NoticeRecord, NoticeSink, NoticeState};
use super::{Outbox, OutboxContext};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};

pub(crate) const START_US: i64 = 1_700_000_000_000_000;
pub(crate) const SECOND_US: i64 = 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct MemoryLedger {
    documents: BTreeMap<(String, String), Document>,
    /// Calls that fail from now on.
    pub(crate) outages: u32,
}

impl MemoryLedger {
    fn check(&mut self) -> Result<(), LedgerError> {
        if self.outages == 0 {
            return Ok(());
        }
        self.outages -= 1;
        Err(LedgerError::Unusable("cannot write `memory`: it is scripted to fail".to_owned()))
    }
}

impl LedgerBackend for MemoryLedger {
    fn apply(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        self.check()?;
        let mut documents = self.documents.clone();
        for Change { kind, key, expected, body } in changes {
            let place = (kind.clone(), key.clone());
            let version = documents.get(&place).map_or(0, |document| document.version);
            if version != *expected {
                return Err(LedgerError::Conflict { kind: kind.clone(), key: key.clone() });
            }
            let Some((body, due_us)) = body.clone() else {
                documents.remove(&place);
                continue;
            };
            let (kind, key) = place.clone();
            documents.insert(place, Document { kind, key, version: version + 1, body, due_us });
        }
        self.documents = documents;
        Ok(())
    }

    fn get(&mut self, kind: &str, key: &str) -> Result<Option<Document>, LedgerError> {
        self.check()?;
        Ok(self.documents.get(&(kind.to_owned(), key.to_owned())).cloned())
    }

    fn all(&mut self, kind: &str) -> Result<Vec<Document>, LedgerError> {
        self.check()?;
        Ok(self.documents.values().filter(|document| document.kind == kind).cloned().collect())
    }

    fn due(&mut self, kind: &str, now_us: i64, limit: usize) -> Result<Vec<Document>, LedgerError> {
        let mut due = self.all(kind)?;
        due.retain(|document| document.due_us.is_some_and(|due_us| due_us <= now_us));
        due.sort_by_key(|document| document.due_us);
        due.truncate(limit);
        Ok(due)
    }
}

/// Both clocks follow tokio's paused time. `skip` stops the process for a while; `step` sets the
/// wall clock.
#[derive(Debug)]
pub(crate) struct TestClock {
    pub(crate) start: Instant,
    skipped_us: AtomicI64,
    stepped_us: AtomicI64,
}

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        let (skipped_us, stepped_us) = (AtomicI64::new(0), AtomicI64::new(0));
        Arc::new(Self { start: Instant::now(), skipped_us, stepped_us })
    }

    pub(crate) fn skip(&self, micros: i64) {
        self.skipped_us.fetch_add(micros, Ordering::SeqCst);
    }

    pub(crate) fn step(&self, micros: i64) {
        self.stepped_us.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Micros {
        let monotonic = i64::try_from(self.monotonic().as_micros()).unwrap();
        Micros(START_US + monotonic + self.stepped_us.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        let skipped = self.skipped_us.load(Ordering::SeqCst);
        self.start.elapsed() + Duration::from_micros(skipped.cast_unsigned())
    }
}

/// What the receiver does with one message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    Accept,
    Refuse(RetryAdvice),
    /// Takes the message and never answers.
    Swallow,
    /// Answers after this time.
    Slow(Duration),
    /// Refuses after this time.
    Fail(Duration, RetryAdvice),
    /// Arrives after this time.
    Late(Duration),
    Panic,
}

#[derive(Debug)]
pub(crate) struct ScriptedReceiver {
    pub(crate) is_idempotent: bool,
    pub(crate) limit: RateLimit,
    /// For the next messages; then all are accepted.
    pub(crate) script: Mutex<VecDeque<Behaviour>>,
    /// Seconds since the start, and the message.
    pub(crate) arrivals: Mutex<Vec<(f64, Message)>>,
    pub(crate) start: Instant,
    /// Whether a probe passes.
    pub(crate) is_reachable: AtomicBool,
    /// Seconds of the probes since the start.
    pub(crate) probes: Mutex<Vec<f64>>,
    pub(crate) refresh: Option<Duration>,
    pub(crate) is_for_people: bool,
}

impl ScriptedReceiver {
    pub(crate) fn new(script: &[Behaviour]) -> Self {
        Self {
            is_idempotent: false,
            limit: RateLimit { burst: 1000.0, per_second: 1000.0 },
            script: Mutex::new(script.iter().copied().collect()),
            arrivals: Mutex::default(),
            start: Instant::now(),
            is_reachable: AtomicBool::new(false),
            probes: Mutex::default(),
            refresh: None,
            is_for_people: true,
        }
    }

    /// `p1` for an arrival of notice `p1`, `p1 again` for one that is marked.
    pub(crate) fn arrived(&self) -> Vec<String> {
        let arrivals = self.arrivals.lock();
        let mark = |is_repeat| if is_repeat { " again" } else { "" };
        arrivals
            .iter()
            .map(|(_, message)| format!("{}{}", message.notice.change, mark(message.is_repeat)))
            .collect()
    }

    /// Seconds of the arrivals, rounded down.
    pub(crate) fn seconds(&self) -> Vec<f64> {
        self.arrivals.lock().iter().map(|(seconds, _)| seconds.floor()).collect()
    }
}

#[async_trait]
impl Receiver for ScriptedReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let behaviour = self.script.lock().pop_front().unwrap_or(Behaviour::Accept);
        if let Behaviour::Refuse(retry) = behaviour {
            let message = format!("cannot send `{}`: refused", message.notice.change);
            return Err(SendError { message, retry });
        }
        if let Behaviour::Fail(pause, retry) = behaviour {
            tokio::time::sleep(pause).await;
            return Err(SendError { message: "cannot send: refused".to_owned(), retry });
        }
        if let Behaviour::Late(pause) = behaviour {
            tokio::time::sleep(pause).await;
        }
        self.arrivals.lock().push((self.start.elapsed().as_secs_f64(), message.clone()));
        match behaviour {
            Behaviour::Swallow => std::future::pending().await,
            Behaviour::Slow(pause) => tokio::time::sleep(pause).await,
            Behaviour::Panic => panic!("scripted"),
            Behaviour::Accept | Behaviour::Fail(..) | Behaviour::Late(_) | Behaviour::Refuse(_) => {
            }
        }
        let external_id = Some(format!("id of {}", message.notice.change));
        Ok(Accepted { answer: "202".to_owned(), external_id })
    }

    async fn probe(&self) -> Result<String, SendError> {
        self.probes.lock().push(self.start.elapsed().as_secs_f64());
        if self.is_reachable.load(Ordering::SeqCst) {
            return Ok("ok".to_owned());
        }
        let message = "cannot send: connection refused".to_owned();
        Err(SendError { message, retry: RetryAdvice::Backoff })
    }

    fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    fn rate_limit(&self) -> RateLimit {
        self.limit
    }

    fn refresh_pause(&self) -> Option<Duration> {
        self.refresh
    }

    fn is_read_by_people(&self) -> bool {
        self.is_for_people
    }
}

/// Keeps all changes.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog(pub(crate) Mutex<Vec<NoticeChange>>);

impl NoticeSink for ChangeLog {
    fn record(&self, change: NoticeChange) {
        self.0.lock().push(change);
    }
}

impl ChangeLog {
    /// States of one notice, in order.
    pub(crate) fn states(&self, name: &str) -> Vec<&'static str> {
        let changes = self.0.lock();
        let of_it = changes.iter().filter(|change| change.notice.change == name);
        of_it.map(|change| change.state.as_str()).collect()
    }
}

/// A notice with this order for incident `inc`; `name` is in its field `change`, and the id.
pub(crate) fn notice(receiver: &str, kind: NoticeKind, order: u64, name: &'static str) -> Notice {
    Notice {
        id: name.to_owned(),
        kind,
        receiver: receiver.to_owned(),
        address: None,
        person: None,
        fallbacks: Vec::new(),
        due_us: START_US,
        expires_us: START_US + 86_400 * SECOND_US,
        order,
        reason: "ada is on call for rota web".to_owned(),
        change: name.to_owned(),
        on_call: vec!["ada".to_owned()],
        incident: incident("inc"),
    }
}

pub(crate) fn incident(id: &str) -> IncidentSummary {
    IncidentSummary {
        id: id.to_owned(),
        class: Urgency::Page,
        root_rule: "app.down".to_owned(),
        host: "web3".to_owned(),
        tier: "app".to_owned(),
        subject: "app on 10.0.0.7:8080".to_owned(),
        title: "web3 app.down 10.0.0.7:8080 refuses connections".to_owned(),
        summary: "10.0.0.7:8080 refuses connections".to_owned(),
        why: String::new(),
        fix: String::new(),
        evidence: "[]".to_owned(),
        symptoms: Vec::new(),
        finding_count: 1,
        host_count: 1,
        opened_us: START_US,
        resolved_us: None,
        acked_by: None,
    }
}

/// An outbox over a ledger in memory, with two receivers: `chat` and `mail`.
pub(crate) struct Stage {
    pub(crate) ledger: Arc<Mutex<MemoryLedger>>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) chat: Arc<ScriptedReceiver>,
    pub(crate) mail: Arc<ScriptedReceiver>,
    pub(crate) changes: Arc<ChangeLog>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) end: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Stage {
    pub(crate) fn new(chat: ScriptedReceiver) -> Self {
        let ledger = Arc::new(Mutex::new(MemoryLedger::default()));
        let for_outbox: Arc<Mutex<dyn LedgerBackend>> = Arc::<Mutex<MemoryLedger>>::clone(&ledger);
        Self::over(ledger, for_outbox, TestClock::new(), chat)
    }

    /// A stage whose outbox uses a wrapper of the ledger.
    pub(crate) fn over(
        ledger: Arc<Mutex<MemoryLedger>>,
        for_outbox: Arc<Mutex<dyn LedgerBackend>>,
        clock: Arc<TestClock>,
        chat: ScriptedReceiver,
    ) -> Self {
        let (chat, mail) = (Arc::new(chat), Arc::new(ScriptedReceiver::new(&[])));
        let changes = Arc::new(ChangeLog::default());
        let receivers: [(&str, Arc<dyn Receiver>); 2] =
            [("chat", Arc::clone(&chat) as _), ("mail", Arc::clone(&mail) as _)];
        let outbox = Arc::new(Outbox::new(OutboxContext {
            ledger: for_outbox,
            clock: Arc::clone(&clock) as _,
            receivers: receivers.map(|(name, receiver)| (name.to_owned(), receiver)).into(),
            sink: Arc::clone(&changes) as _,
            owner: "hub".to_owned(),
            page_url: "https://weir.example.net".to_owned(),
            templates: None,
            seed: Some(7),
        }));
        let end = watch::Sender::new(false);
        Self { ledger, clock, chat, mail, changes, outbox, end, task: None }
    }

    pub(crate) fn start(&mut self) {
        let (outbox, ended) = (Arc::clone(&self.outbox), self.end.subscribe());
        self.task = Some(tokio::spawn(async move { outbox.run(ended).await }));
    }

    /// Inserts notices, runs the outbox for so many seconds.
    pub(crate) async fn play(&mut self, notices: &[Notice], seconds: u64) {
        self.outbox.commit(&[], notices).unwrap();
        if self.task.is_none() {
            self.start();
        }
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) fn record(&self, id: &str) -> NoticeRecord {
        let document = self.ledger.lock().get(NOTICE_KIND, id).unwrap().unwrap();
        NoticeRecord::parse(&document).unwrap()
    }

    pub(crate) fn state(&self, id: &str) -> NoticeState {
        self.record(id).state
    }

    pub(crate) async fn stop(&mut self) {
        self.end.send_replace(true);
        self.task.take().unwrap().await.unwrap();
    }
}
