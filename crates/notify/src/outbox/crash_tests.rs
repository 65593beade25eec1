//! A seeded simulation: hubs over one ledger that die, pause and lose answers at every step.
//!
//! A hub that dies refuses all further calls at once, as a killed process does, and its future is
//! dropped. A pause moves both clocks of all hubs while one call is running.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use weir_actions::{Notice, NoticeKind};
use weir_ledger::{Change, Document, LedgerBackend, LedgerError, SqliteLedger};
use weir_tables::Clock;

use super::doubles::{ChangeLog, MemoryLedger, SECOND_US, START_US, TestClock, incident, notice};
use super::{NOTICE_KIND, NoticeRecord, NoticeState, Outbox, OutboxContext, insert_changes};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};

/// Time with faults, and without afterwards.
const STORM: Duration = Duration::from_secs(240);
const CALM: Duration = Duration::from_secs(400);

type SharedLedger = Arc<Mutex<dyn LedgerBackend>>;

/// What all hubs share.
#[derive(Debug)]
struct World {
    clock: Arc<TestClock>,
    random: Mutex<fastrand::Rng>,
    is_calm: AtomicBool,
    arrivals: Mutex<Vec<Message>>,
    refused: Mutex<Vec<String>>,
}

impl World {
    fn chance(&self, percent: u32) -> bool {
        !self.is_calm.load(Ordering::SeqCst) && self.random.lock().u32(0..100) < percent
    }

    fn below(&self, limit: u64) -> u64 {
        self.random.lock().u64(0..limit)
    }

    /// A process that is stopped, for longer than a claim lives.
    fn pause(&self) {
        let seconds = 16 + self.below(30);
        self.clock.skip(i64::try_from(seconds).unwrap() * SECOND_US);
    }
}

/// One process.
#[derive(Debug, Default)]
struct Life {
    is_over: AtomicBool,
    ended: Notify,
}

impl Life {
    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.ended.notify_one();
    }

    fn check(&self) -> Result<(), LedgerError> {
        if self.is_over.load(Ordering::SeqCst) {
            return Err(LedgerError::Unusable("this process is dead".to_owned()));
        }
        Ok(())
    }
}

struct HubLedger {
    inner: SharedLedger,
    world: Arc<World>,
    life: Arc<Life>,
}

impl HubLedger {
    fn fault(&self, percent: u32) -> Result<(), LedgerError> {
        if self.world.chance(percent) {
            return Err(LedgerError::Unusable("the ledger is away".to_owned()));
        }
        Ok(())
    }

    fn death(&self, percent: u32) -> Result<(), LedgerError> {
        if self.world.chance(percent) {
            self.life.end();
        }
        self.life.check()
    }
}

impl LedgerBackend for HubLedger {
    fn apply(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        self.life.check()?;
        self.death(3)?;
        self.fault(3)?;
        self.inner.lock().apply(changes)?;
        self.death(3)?;
        if self.world.chance(3) {
            self.world.pause();
        }
        // The change was made, and its answer is lost.
        self.fault(3)
    }

    fn get(&mut self, kind: &str, key: &str) -> Result<Option<Document>, LedgerError> {
        self.life.check()?;
        self.fault(1)?;
        self.inner.lock().get(kind, key)
    }

    fn all(&mut self, kind: &str) -> Result<Vec<Document>, LedgerError> {
        self.life.check()?;
        self.inner.lock().all(kind)
    }

    fn due(&mut self, kind: &str, now_us: i64, limit: usize) -> Result<Vec<Document>, LedgerError> {
        self.life.check()?;
        self.fault(1)?;
        self.inner.lock().due(kind, now_us, limit)
    }
}

#[derive(Debug)]
struct HubReceiver {
    world: Arc<World>,
    life: Arc<Life>,
    is_idempotent: bool,
}

impl HubReceiver {
    async fn death(&self, percent: u32) {
        if self.world.chance(percent) {
            self.life.end();
        }
        if self.life.is_over.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    fn refusal(&self, message: &Message) -> Option<RetryAdvice> {
        if self.world.chance(8) {
            return Some(RetryAdvice::Backoff);
        }
        if self.world.chance(3) {
            return Some(RetryAdvice::After(Duration::from_secs(3)));
        }
        self.world.chance(6).then(|| {
            self.world.refused.lock().push(message.notice.id.clone());
            RetryAdvice::Never
        })
    }
}

#[async_trait]
impl Receiver for HubReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        self.death(4).await;
        let text = "cannot send: scripted".to_owned();
        if let Some(retry) = self.refusal(message) {
            return Err(SendError { message: text, retry });
        }
        self.world.arrivals.lock().push(message.clone());
        self.death(6).await;
        if self.world.chance(5) {
            std::future::pending::<()>().await;
        }
        if self.world.chance(5) {
            return Err(SendError { message: text, retry: RetryAdvice::Unclear });
        }
        if self.world.chance(6) {
            self.world.pause();
        }
        if self.world.chance(20) {
            tokio::time::sleep(Duration::from_millis(self.world.below(9_000))).await;
        }
        Ok(Accepted { answer: "ok".to_owned(), external_id: Some(message.notice.id.clone()) })
    }

    async fn probe(&self) -> Result<String, SendError> {
        Ok(String::new())
    }

    fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 20.0, per_second: 20.0 }
    }
}

/// A hub that starts again whenever it dies.
async fn run_hub(world: Arc<World>, inner: SharedLedger) {
    loop {
        let life = Arc::new(Life::default());
        let outbox = Outbox::new(context(&world, &life, &inner));
        let (_end, ended) = watch::channel(false);
        tokio::select! {
            () = outbox.run(ended) => panic!("it runs until it dies"),
            () = life.ended.notified() => {}
        }
        tokio::time::sleep(Duration::from_millis(world.below(5_000))).await;
    }
}

fn context(world: &Arc<World>, life: &Arc<Life>, inner: &SharedLedger) -> OutboxContext {
    let (inner, world, life) = (Arc::clone(inner), Arc::clone(world), Arc::clone(life));
    let receivers = ["chat", "push"].map(|name| {
        let (world, life) = (Arc::clone(&world), Arc::clone(&life));
        let receiver = HubReceiver { world, life, is_idempotent: name == "push" };
        (name.to_owned(), Arc::new(receiver) as Arc<dyn Receiver>)
    });
    OutboxContext {
        clock: Arc::clone(&world.clock) as _,
        seed: Some(world.below(u64::MAX)),
        ledger: Arc::new(Mutex::new(HubLedger { inner, world, life })),
        receivers: receivers.into(),
        sink: Arc::new(ChangeLog::default()),
        owner: "hub".to_owned(),
        page_url: String::new(),
        templates: None,
    }
}

/// Pages, an acknowledgement and an end for some incidents, and when each is inserted.
fn plan(random: &mut fastrand::Rng) -> Vec<(Duration, Vec<Notice>)> {
    let mut plan = Vec::new();
    for number in 0..8 {
        let mut at = random.u64(0..120_000);
        let has_end = random.u32(0..4) > 0;
        let kinds = [NoticeKind::Page, NoticeKind::Page, NoticeKind::Ack, NoticeKind::Resolved];
        for (order, kind) in (1..).zip(kinds) {
            if kind == NoticeKind::Resolved && !has_end {
                continue;
            }
            let notices = ["chat", "push"].map(|receiver| {
                let mut notice = notice(receiver, kind, order, "sim");
                notice.id = format!("{receiver} {number} {order}");
                notice.incident = incident(&format!("inc{number}"));
                if receiver == "chat" {
                    notice.fallbacks = vec![("push".to_owned(), Some("home".to_owned()))];
                }
                notice
            });
            plan.push((Duration::from_millis(at), notices.to_vec()));
            at += random.u64(0..60_000);
        }
    }
    plan.sort_by_key(|(at, _)| *at);
    plan
}

/// Runs hubs through a storm and the calm after it; returns all records and all arrivals.
async fn simulate(seed: u64, hub_count: usize, ledgers: &[SharedLedger]) -> Verdicts {
    let mut random = fastrand::Rng::with_seed(seed);
    let plan = plan(&mut random);
    let world = Arc::new(World {
        clock: TestClock::new(),
        random: Mutex::new(random),
        is_calm: AtomicBool::new(false),
        arrivals: Mutex::default(),
        refused: Mutex::default(),
    });
    let mut hubs = JoinSet::new();
    for number in 0..hub_count {
        let ledger = Arc::clone(&ledgers[number % ledgers.len()]);
        hubs.spawn(run_hub(Arc::clone(&world), ledger));
    }
    let start = tokio::time::Instant::now();
    for (at, notices) in plan {
        tokio::time::sleep_until(start + at).await;
        ledgers[0].lock().apply(&insert_changes(&notices)).unwrap();
    }
    tokio::time::sleep_until(start + STORM).await;
    world.is_calm.store(true, Ordering::SeqCst);
    tokio::time::sleep(CALM).await;
    hubs.shutdown().await;
    let documents = ledgers[0].lock().all(NOTICE_KIND).unwrap();
    let records = documents.iter().map(|document| NoticeRecord::parse(document).unwrap());
    let (arrivals, refused) = (world.arrivals.lock().clone(), world.refused.lock().clone());
    let records = records.map(|record| (record.notice.id.clone(), record)).collect();
    Verdicts { seed, records, arrivals, refused }
}

/// What a simulation left behind.
struct Verdicts {
    seed: u64,
    records: BTreeMap<String, NoticeRecord>,
    arrivals: Vec<Message>,
    refused: Vec<String>,
}

fn lane(notice: &Notice) -> (&str, Option<&str>, &str) {
    (&notice.receiver, notice.address.as_deref(), &notice.incident.id)
}

impl Verdicts {
    fn arrived<'a>(&'a self, notice: &'a Notice) -> impl Iterator<Item = &'a Notice> {
        let arrivals = self.arrivals.iter().map(|message| &message.notice);
        arrivals.filter(move |other| lane(other) == lane(notice))
    }

    /// No notice is lost: each was sent, was refused for good or left its contact, or has a
    /// successor.
    fn check_ends(&self) {
        for (id, record) in &self.records {
            let (notice, context) =
                (&record.notice, format!("seed {}: {id}: {record:?}", self.seed));
            let has_arrived = self.arrivals.iter().any(|message| message.notice.id == *id);
            match record.state {
                NoticeState::Sent => assert!(has_arrived, "{context}"),
                NoticeState::Failed => {
                    let target = notice.fallbacks.first();
                    // A page leaves a contact that is away.
                    let has_left = notice.kind == NoticeKind::Page && target.is_some();
                    assert!(has_left || self.refused.contains(id), "{context}");
                    let is_followed = target.is_none_or(|(receiver, address)| {
                        self.records.values().any(|other| {
                            let lane_of_target = (
                                receiver.as_str(),
                                address.as_deref(),
                                notice.incident.id.as_str(),
                            );
                            lane(&other.notice) == lane_of_target
                                && other.notice.order == notice.order
                        })
                    });
                    assert!(is_followed || self.is_known_of(notice), "{context}");
                }
                NoticeState::Superseded => assert!(self.is_superseded(notice), "{context}"),
                _ => panic!("not finished: {context}"),
            }
        }
    }

    /// Whether a person works on the incident or it is over, so that no other contact needs a page.
    fn is_known_of(&self, page: &Notice) -> bool {
        self.records.values().map(|record| &record.notice).any(|other| {
            let is_known = match other.kind {
                NoticeKind::Ack => other.incident.acked_by.is_some(),
                kind => kind == NoticeKind::Resolved,
            };
            is_known && lane(other) == lane(page) && other.order > page.order
        })
    }

    fn is_superseded(&self, notice: &Notice) -> bool {
        let has_end = self.records.values().map(|record| &record.notice).any(|other| {
            lane(other) == lane(notice)
                && other.kind == NoticeKind::Resolved
                && other.order > notice.order
        });
        let is_overtaken = self.arrived(notice).any(|other| other.order > notice.order);
        let is_news = self.arrived(notice).any(|other| other.order < notice.order);
        let is_end = matches!(notice.kind, NoticeKind::Ack | NoticeKind::Resolved);
        has_end || is_overtaken || (is_end && !is_news)
    }

    /// Messages of a lane arrive in their order.
    fn check_order(&self) {
        for record in self.records.values() {
            let orders: Vec<u64> = self.arrived(&record.notice).map(|other| other.order).collect();
            assert!(orders.is_sorted(), "seed {}: {orders:?} of {record:?}", self.seed);
        }
    }

    /// What arrives a second time is marked, unless the receiver recognizes it.
    fn check_marks(&self) -> usize {
        let mut seen = Vec::new();
        let mut repeats = 0;
        for Message { notice, is_repeat, .. } in &self.arrivals {
            let is_second = seen.contains(&&notice.id);
            if notice.receiver == "push" {
                assert!(!is_repeat, "seed {}: {notice:?}", self.seed);
            } else {
                assert!(!is_second || *is_repeat, "seed {}: unmarked: {notice:?}", self.seed);
            }
            repeats += usize::from(is_second);
            seen.push(&notice.id);
        }
        repeats
    }

    fn check(&self) -> usize {
        self.check_ends();
        self.check_order();
        self.check_marks()
    }
}

#[tokio::test(start_paused = true)]
async fn one_hub_that_dies_anywhere_loses_nothing() {
    let mut repeats = 0;
    for seed in 0..60 {
        let ledger: SharedLedger = Arc::new(Mutex::new(MemoryLedger::default()));
        repeats += simulate(seed, 1, &[ledger]).await.check();
    }
    assert!(repeats > 60, "the storm is too weak: {repeats} repeats");
}

#[tokio::test(start_paused = true)]
async fn two_hubs_that_die_and_pause_lose_nothing() {
    let mut repeats = 0;
    for seed in 1_000..1_060 {
        let ledger: SharedLedger = Arc::new(Mutex::new(MemoryLedger::default()));
        repeats += simulate(seed, 2, &[ledger]).await.check();
    }
    assert!(repeats > 60, "the storm is too weak: {repeats} repeats");
}

#[tokio::test(start_paused = true)]
async fn two_hubs_over_one_sqlite_file_lose_nothing() {
    for seed in 2_000..2_006 {
        let dir = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = TestClock::new();
        let ledgers: [SharedLedger; 2] = [0, 1].map(|_| {
            let ledger = SqliteLedger::open(dir.path(), Arc::clone(&clock)).unwrap();
            Arc::new(Mutex::new(ledger)) as SharedLedger
        });
        simulate(seed, 2, &ledgers).await.check();
    }
}

#[tokio::test(start_paused = true)]
async fn without_faults_each_message_arrives_once_with_two_hubs() {
    let ledger: SharedLedger = Arc::new(Mutex::new(MemoryLedger::default()));
    let world = Arc::new(World {
        clock: TestClock::new(),
        random: Mutex::new(fastrand::Rng::with_seed(1)),
        is_calm: AtomicBool::new(true),
        arrivals: Mutex::default(),
        refused: Mutex::default(),
    });
    let mut hubs = JoinSet::new();
    for _ in 0..2 {
        hubs.spawn(run_hub(Arc::clone(&world), Arc::clone(&ledger)));
    }
    let notices: Vec<Notice> = (0..100)
        .map(|number| {
            let mut notice = notice("chat", NoticeKind::Page, 1, "sim");
            notice.id = format!("n{number}");
            notice.incident = incident(&notice.id);
            notice.due_us = START_US + i64::from(number) * SECOND_US / 10;
            notice
        })
        .collect();
    ledger.lock().apply(&insert_changes(&notices)).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let arrivals = world.arrivals.lock();
    assert_eq!(arrivals.len(), 100);
    assert!(arrivals.iter().all(|message| !message.is_repeat));
}
