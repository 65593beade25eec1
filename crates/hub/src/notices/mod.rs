//! Incidents from the findings that fire, and the notices of them: the desk decides, the ledger keeps what it decided, the
//! outbox sends it.
//!
//! ```text
//! rules ─► findings that fire ─► desk ─► one transaction of the ledger: incidents, notices ─► outbox ─► receivers
//!                                 ▲                                                             │
//!                        ack, silence (API)                                    rows of `incident`, `notice`
//! ```
//!
//! In a cluster the hub that runs the rules has the desk; what people enter at another hub waits in the ledger until
//! the next tick.

mod act_page;
mod calendars;
mod check;
mod desk;
mod error;
mod heartbeat;
mod missed;
mod policy;
mod probes;
mod replies;
mod report;
mod rows;
mod templates;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use weir_actions::{
    Desk, DutyReason, Finding, HostLock, Notice, Policy, Silence, TestTarget, test_end,
};
use weir_config::Values;
use weir_ledger::{LastingLedger, LedgerBackend, LedgerError};
use weir_notify::outbox::{
    NOTICE_KIND, NoticeChange, NoticeRecord, NoticeSink, NoticeState, Outbox, OutboxContext,
};
use weir_process::failure::Failure;
use weir_store::{ManifestOptions, SharedLedger, Store};
use weir_tables::{Batch, Clock, Micros, Parcel};

use crate::store_failure;
pub(crate) use act_page::LinkedIncident;
use act_page::OpenDoor;
pub use check::{NoticeReport, ReceiverProbe, check, probe, refuse, test_directly};
use desk::{DeskState, WaitingCommand};
pub(crate) use error::{NoticeError, NoticeErrorKind};
use policy::Receivers;
use probes::ProbeBook;
pub(crate) use rows::{fact, facts};
pub use templates::{errors as template_errors, preview};

/// How long a test waits for the receiver's answer.
const TEST: Duration = Duration::from_secs(15);
/// How often it looks.
const TEST_LOOK: Duration = Duration::from_millis(50);
/// Changes of notices that wait for the store; more are dropped and logged, the ledger has them.
const CHANGES_MAX: usize = 10_000;

/// How long the ledger has notices that are done, and how often older ones are deleted.
const KEPT: Duration = Duration::from_secs(30 * 86_400);
const PRUNE: Duration = Duration::from_secs(3_600);

/// The ledger as it is shared.
type Ledger = Arc<Mutex<dyn LedgerBackend>>;

/// Who gets a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeTest {
    /// A receiver.
    Receiver(String),
    /// The receivers of a person.
    Person(String),
}

impl NoticeTest {
    fn target(&self) -> TestTarget {
        match self {
            Self::Receiver(name) => TestTarget::Receiver(name.clone()),
            Self::Person(name) => TestTarget::Person(name.clone()),
        }
    }
}

/// What is known of a finding's incident.
#[derive(Clone, Debug, Default)]
pub(crate) struct IncidentContext {
    pub(crate) incident_id: Option<String>,
    /// The silence or maintenance window that mutes the finding.
    pub(crate) muted_by: Option<String>,
    /// Who works on the incident.
    pub(crate) acked_by: Option<String>,
}

/// A silence as a person wishes it.
#[derive(Clone, Debug)]
pub(crate) struct SilenceWish {
    pub(crate) rule: String,
    pub(crate) host: Option<String>,
    pub(crate) duration: Duration,
    pub(crate) reason: String,
    pub(crate) by: String,
}

/// Policy and receivers, read and checked before anything is served.
pub(crate) struct PreparedNotices {
    policy: Policy,
    receivers: Receivers,
    /// Where the hubs of a cluster have their ledger.
    manifest: Option<ManifestOptions>,
}

/// Reads the configuration of notices and the secrets of receivers; connects to nothing.
///
/// # Errors
/// What cannot be used, with its line.
pub(crate) fn prepare(
    values: &Values,
    manifest: Option<ManifestOptions>,
) -> Result<PreparedNotices, Failure> {
    refuse(values)?;
    let (policy, receivers) = (policy::policy(values)?, policy::receivers(values)?);
    Ok(PreparedNotices { policy, receivers, manifest })
}

/// Incidents and notices at work.
pub(crate) struct Notices {
    policy: Policy,
    state: tokio::sync::Mutex<DeskState>,
    ledger: Ledger,
    outbox: Arc<Outbox>,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    /// Whether other hubs use the same ledger.
    is_cluster: bool,
    /// Receivers by name and kind, for the banner.
    shown: Vec<String>,
    /// Own mailboxes of receivers, by name.
    mailboxes: BTreeMap<String, String>,
    /// Bounds requests that need no login.
    door: OpenDoor,
    /// When receivers passed their probes.
    probes: ProbeBook,
    /// This hub, for the column `host`.
    host: String,
}

/// Tasks of the notices.
pub(crate) struct RunningNotices {
    end: watch::Sender<bool>,
    sent: watch::Sender<bool>,
    sending: JoinHandle<()>,
    reporting: JoinHandle<()>,
    /// Tasks that may end at any moment.
    aside: Vec<JoinHandle<()>>,
}

impl RunningNotices {
    /// Ends attempts that run, and writes their rows.
    pub(crate) async fn end(self) {
        let _ = self.end.send(true);
        self.aside.iter().for_each(JoinHandle::abort);
        let _ = self.sending.await;
        let _ = self.sent.send(true);
        let _ = self.reporting.await;
    }
}

/// Hands changes of notices to the task that writes their rows.
struct RowSink(mpsc::Sender<NoticeChange>);

impl NoticeSink for RowSink {
    fn record(&self, change: NoticeChange) {
        if self.0.try_send(change).is_err() {
            tracing::warn!(
                "changes of notices come too fast for the table `notice`: one has no row"
            );
        }
    }
}

impl Notices {
    /// Opens the ledger and starts sending.
    ///
    /// # Errors
    /// When the ledger cannot be used.
    pub(crate) async fn start(
        prepared: PreparedNotices,
        values: &Values,
        store: &Arc<Store>,
        clock: &Arc<dyn Clock>,
    ) -> Result<(Arc<Self>, RunningNotices), Failure> {
        let is_cluster = prepared.manifest.is_some();
        templates::log_errors(values);
        let ledger = open_ledger(prepared.manifest, values, clock).await?;
        let (sink, changes) = mpsc::channel(CHANGES_MAX);
        let owner = format!("{}-{}-{}", values.collect.host, std::process::id(), clock.now().0);
        let outbox = Arc::new(Outbox::new(OutboxContext {
            ledger: Arc::clone(&ledger),
            clock: Arc::clone(clock),
            receivers: prepared.receivers,
            sink: Arc::new(RowSink(sink)),
            owner,
            page_url: values.notify.public_url.trim_end_matches('/').to_owned(),
            templates: templates::set(values),
            seed: None,
        }));
        let notices = Arc::new(Self {
            policy: prepared.policy,
            state: tokio::sync::Mutex::default(),
            ledger,
            outbox: Arc::clone(&outbox),
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            is_cluster,
            shown: shown(values),
            mailboxes: mailboxes(values),
            door: OpenDoor::default(),
            probes: ProbeBook::default(),
            host: values.collect.host.clone(),
        });
        let (end, ended) = watch::channel(false);
        let sending = tokio::spawn(async move { outbox.run(ended).await });
        let host = values.collect.host.clone();
        let (sent, all_sent) = watch::channel(false);
        let reporting = tokio::spawn(report_always(Arc::clone(store), changes, host, all_sent));
        let mut aside = replies::start(&notices);
        aside.push(tokio::spawn(prune_always(Arc::clone(&notices))));
        aside.push(tokio::spawn(probes::probe_always(Arc::clone(&notices))));
        if !values.notify.report_to.is_empty() {
            let target = values.notify.report_to.clone();
            aside.push(tokio::spawn(report::report_always(Arc::clone(&notices), target)));
        }
        aside.extend(heartbeat::start(&values.notify.heartbeat_url, &notices)?);
        Ok((notices, RunningNotices { end, sent, sending, reporting, aside }))
    }

    /// One line for each receiver, for the banner.
    pub(crate) fn lines(&self) -> &[String] {
        &self.shown
    }

    /// Compares the findings that fire with the incidents.
    pub(crate) async fn tick(&self, now: Micros, firing: Vec<Finding>) {
        let mut state = self.state.lock().await;
        if let Err(error) = self.ticked(&mut state, now, firing).await {
            state.complain(&error);
        }
    }

    /// Bounds requests that need no login.
    pub(crate) fn door(&self) -> &OpenDoor {
        &self.door
    }

    /// Forgets the incidents in memory: another hub runs the rules now.
    pub(crate) async fn retire(&self) {
        self.outbox.stand(Vec::new());
        self.state.lock().await.forget();
    }

    /// Acknowledges an incident; what changed.
    pub(crate) async fn acknowledge(&self, id: &str, by: &str) -> Result<String, NoticeError> {
        let command = WaitingCommand::Acknowledge { incident: id.to_owned(), by: by.to_owned() };
        self.command(command).await?;
        Ok(format!("acknowledged by {by}"))
    }

    /// Closes an incident by hand; what changed.
    pub(crate) async fn resolve(&self, id: &str, by: &str) -> Result<String, NoticeError> {
        let command = WaitingCommand::Resolve { incident: id.to_owned(), by: by.to_owned() };
        self.command(command).await?;
        Ok(format!("resolved by {by}"))
    }

    /// Adds a silence, and returns it.
    pub(crate) async fn silence(&self, wish: SilenceWish) -> Result<Value, NoticeError> {
        let until = self.clock.now() + wish.duration;
        let mut answer = json!({
            "rule": wish.rule, "host": wish.host, "reason": wish.reason, "by": wish.by,
            "until": until.to_string(),
        });
        let command = WaitingCommand::Silence {
            rules: vec![wish.rule],
            hosts: wish.host.into_iter().collect(),
            reason: wish.reason,
            by: wish.by,
            until_us: until.0,
        };
        answer["id"] = self.command(command).await?.into();
        Ok(answer)
    }

    /// Ends a silence.
    pub(crate) async fn end_silence(&self, id: &str, by: &str) -> Result<(), NoticeError> {
        tracing::info!("silence {id} is ended by {by}");
        self.command(WaitingCommand::EndSilence { silence: id.to_owned() }).await.map(drop)
    }

    /// The silences that hold, as JSON.
    pub(crate) async fn silences(&self) -> Result<Vec<Value>, NoticeError> {
        let found = self.with_ledger(|ledger| ledger.all("silence")).await?;
        let silences = found.iter().filter_map(|document| {
            let silence: Silence = serde_json::from_str(&document.body).ok()?;
            Some(json!({
                "id": silence.id,
                "rule": silence.rules.join(", "),
                "host": silence.hosts.join(", "),
                "reason": silence.reason,
                "by": silence.by,
                "from": Micros(silence.from_us).to_string(),
                "until": Micros(silence.until_us).to_string(),
            }))
        });
        Ok(silences.collect())
    }

    /// The people on call at a time, by rota.
    pub(crate) fn on_call(
        &self,
        rota: Option<&str>,
        at: Micros,
    ) -> Result<Vec<Value>, NoticeError> {
        let names = self.policy.rotas.iter().map(|rota| rota.name.as_str());
        let wanted: Vec<&str> =
            names.clone().filter(|name| rota.is_none_or(|rota| rota == *name)).collect();
        if let (Some(rota), true) = (rota, wanted.is_empty()) {
            let hint = weir_tables::nearest(rota, names).map_or_else(
                || "`weir oncall` lists all rotas".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            let message = format!("cannot show who is on call: there is no rota `{rota}`");
            return Err(NoticeError { kind: NoticeErrorKind::Unknown, message, hint });
        }
        let desk = Desk::new(self.policy.clone());
        Ok(wanted.into_iter().map(|rota| on_call(&desk, rota, at)).collect())
    }

    /// Names of the receivers.
    pub(crate) fn receivers(&self) -> &[String] {
        &self.policy.receivers
    }

    /// Sends a test and waits for the answers.
    pub(crate) async fn test(&self, wish: &NoticeTest) -> Result<Vec<Value>, NoticeError> {
        let desk = Desk::new(self.policy.clone());
        let tests = desk.test_notice(self.clock.now(), &wish.target())?;
        let (outbox, sent) = (Arc::clone(&self.outbox), tests.clone());
        blocking(move || outbox.commit(&[], &sent)).await?;
        let end = tokio::time::Instant::now() + TEST;
        loop {
            let mut records = Vec::new();
            for test in &tests {
                let id = test.id.clone();
                let document = self.with_ledger(move |ledger| ledger.get(NOTICE_KIND, &id)).await?;
                records.extend(document.as_ref().and_then(NoticeRecord::parse));
            }
            // A person gets each kind of message, so one refusal must not wait for retries.
            let is_tried = |record: &NoticeRecord| {
                record.state.is_final() || record.attempt > 0 && record.state == NoticeState::Queued
            };
            if records.iter().all(is_tried) || tokio::time::Instant::now() > end {
                self.withdraw(&records).await?;
                self.end_tests(&records).await?;
                return Ok(records.iter().map(shown_record).collect());
            }
            tokio::time::sleep(TEST_LOOK).await;
        }
    }

    /// Takes back tests that were not accepted, which would otherwise arrive late.
    async fn withdraw(&self, records: &[NoticeRecord]) -> Result<(), NoticeError> {
        for record in records.iter().filter(|record| !record.state.is_final()) {
            let (outbox, id) = (Arc::clone(&self.outbox), record.notice.id.clone());
            blocking(move || outbox.silence(&id, "the test is over")).await?;
        }
        Ok(())
    }

    /// Ends the tests that opened an alert somewhere, a minute later.
    async fn end_tests(&self, records: &[NoticeRecord]) -> Result<(), NoticeError> {
        let sent = records.iter().filter(|record| record.state == NoticeState::Sent);
        let opened = sent.filter(|record| {
            let receiver = self.outbox.receiver(&record.notice.receiver);
            receiver.is_some_and(|receiver| !receiver.is_read_by_people())
        });
        let ends: Vec<Notice> = opened.map(|record| test_end(&record.notice)).collect();
        let outbox = Arc::clone(&self.outbox);
        blocking(move || outbox.commit(&[], &ends)).await.map(drop).map_err(NoticeError::from)
    }

    /// Figures for `/api/status`.
    pub(crate) fn status(&self) -> Value {
        let status = self.outbox.status();
        let receivers = status.receivers.iter().map(|(name, receiver)| {
            json!({
                "name": name,
                "failures_in_a_row": receiver.failures_in_a_row,
                "last_error": receiver.last_failure.as_ref().map(|note| note.text.clone()),
                "probe_error": self.probes.of(name).error,
            })
        });
        json!({
            "waiting": status.waiting,
            "oldest_due_ts": status.oldest_due_us.map(|at| Micros(at).to_string()),
            "error": status.ledger_error,
            "receivers": receivers.collect::<Vec<_>>(),
        })
    }

    /// Whether other hubs use the same ledger.
    pub(crate) fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// The incident of each finding, and what mutes it; nothing before the first tick.
    pub(crate) async fn contexts(&self, now: Micros, findings: &[Finding]) -> Vec<IncidentContext> {
        let state = self.state.lock().await;
        findings.iter().map(|finding| state.context(now, finding)).collect()
    }

    /// Maintenance windows that are on, as locks of repairs.
    pub(crate) async fn window_locks(&self, now: Micros) -> Vec<HostLock> {
        self.state.lock().await.window_locks(now)
    }

    /// Works with the ledger, on a thread that may block.
    pub(crate) async fn with_ledger<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn LedgerBackend) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let ledger = Arc::clone(&self.ledger);
        blocking(move || work(&mut *ledger.lock())).await
    }
}

/// Runs work that blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, LedgerError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(LedgerError::Unusable(format!("the ledger failed: {error}"))))
}

async fn open_ledger(
    manifest: Option<ManifestOptions>,
    values: &Values,
    clock: &Arc<dyn Clock>,
) -> Result<Ledger, Failure> {
    let (dir, clock) = (values.store.dir.clone(), Arc::clone(clock));
    let opening = tokio::task::spawn_blocking(move || match manifest {
        Some(manifest) => {
            let ledger = SharedLedger::open(&manifest).map_err(store_failure)?;
            Ok::<Ledger, Failure>(Arc::new(Mutex::new(ledger)))
        }
        None => {
            let ledger = LastingLedger::open(&dir, clock)
                .map_err(|error| Failure::new(error.to_string()))?;
            Ok(Arc::new(Mutex::new(ledger)) as Ledger)
        }
    });
    opening.await.map_err(|error| Failure::new(format!("cannot open the ledger: {error}")))?
}

/// Deletes notices that ended long ago from the ledger; the table `notice` has its own retention.
async fn prune_always(notices: Arc<Notices>) {
    loop {
        let before = notices.clock.now() - KEPT;
        let pruned = notices.with_ledger(move |ledger| ledger.prune(NOTICE_KIND, before.0)).await;
        if let Err(error) = pruned {
            tracing::warn!("cannot delete old notices: {error}");
        }
        tokio::time::sleep(PRUNE).await;
    }
}

/// Writes a row for each change of a notice, until all are sent and written.
async fn report_always(
    store: Arc<Store>,
    mut changes: mpsc::Receiver<NoticeChange>,
    host: String,
    mut all_sent: watch::Receiver<bool>,
) {
    let mut waiting = Vec::new();
    loop {
        tokio::select! {
            biased;
            count = changes.recv_many(&mut waiting, 1000) => {
                if count == 0 {
                    return;
                }
            }
            _ = all_sent.wait_for(|is_over| *is_over) => return,
        }
        append(&store, rows::notices(&waiting, &host)).await;
        waiting.clear();
    }
}

/// Appends rows of the hub; what cannot be kept is logged.
pub(crate) async fn append(store: &Store, batch: Batch) {
    let table = batch.table.name;
    let parcel = Parcel { range: None, batches: vec![batch] };
    if let Err(error) = store.append(parcel).await {
        tracing::warn!("cannot write rows of `{table}`: {}", error.message);
    }
}

/// Mailboxes of receivers, by the receiver's name.
fn mailboxes(values: &Values) -> BTreeMap<String, String> {
    let pairs =
        values.notices.receivers.iter().filter_map(|entry| {
            Some((entry.text("name")?.to_owned(), entry.text("to")?.to_owned()))
        });
    pairs.collect()
}

fn shown(values: &Values) -> Vec<String> {
    let receivers = values.notices.receivers.iter();
    let line = |entry: &weir_config::entries::Entry| {
        let word = |key| entry.text(key).unwrap_or_default();
        format!("{:<14} {}", word("name"), word("kind"))
    };
    receivers.map(line).collect()
}

fn shown_record(record: &NoticeRecord) -> Value {
    let state = match record.state {
        NoticeState::Queued if record.attempt > 0 => "failed",
        state => state.as_str(),
    };
    json!({
        "receiver": record.notice.receiver,
        "person": record.notice.person,
        "state": state,
        "answer": record.answer.clone().unwrap_or_else(|| "no answer yet".to_owned()),
    })
}

fn on_call(desk: &Desk, rota: &str, at: Micros) -> Value {
    let duty = desk.on_call(rota, at);
    let why = match &duty.reason {
        DutyReason::Override => "override".to_owned(),
        DutyReason::Shift => "shift".to_owned(),
        DutyReason::Otherwise(name) => format!("outside of its hours: {name}"),
        DutyReason::Gap => "coverage gap".to_owned(),
    };
    json!({
        "rota": rota,
        "people": duty.person.iter().collect::<Vec<_>>(),
        "next": duty.following,
        "until": duty.until.to_string(),
        "why": why,
    })
}
