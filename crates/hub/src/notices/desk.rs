//! The desk of incidents with its ledger: each decision is one transaction, and a decision that cannot be kept now is tried
//! again at the next tick.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_actions::{Decisions, Desk, DeskError, Finding, HostLock, Notice, SilenceRequest};
use weir_ledger::{Change, Document, LedgerError};
use weir_tables::Micros;

use super::error::{NoticeError, NoticeErrorKind};
use super::{IncidentContext, Notices, append, blocking, rows};

/// How often the states of incidents are given to the outbox, which repeats them each minute.
const STAND_SECONDS: f64 = 10.0;
/// The kind of what a person entered at another hub.
const COMMAND: &str = "command";
/// How long a person waits for the hub that runs the rules.
const COMMAND_WAIT: Duration = Duration::from_secs(10);
const COMMAND_LOOK: Duration = Duration::from_millis(200);
/// Pause after the ledger could not be used.
const BLOCKED: Duration = Duration::from_secs(10);
/// Seconds between two log lines about a ledger that cannot be used.
const COMPLAIN_SECONDS: f64 = 60.0;
/// Commands older than this are dropped: their sender has given up.
const COMMAND_SECONDS: f64 = 60.0;

/// Key and version of documents.
type Versions = BTreeMap<(String, String), i64>;

/// The desk and what it still has to keep.
#[derive(Default)]
pub(super) struct DeskState {
    /// `None` until the ledger was read.
    desk: Option<Desk>,
    versions: Versions,
    /// Decisions that are not in the ledger yet.
    pending: Decisions,
    complained: Option<Micros>,
    /// The ledger could not be used; it is not tried before.
    blocked_until: Option<Micros>,
    last_kept: Option<Micros>,
    /// When the outbox got the states of incidents last.
    stood: Option<Micros>,
}

/// What a person enters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum WaitingCommand {
    Acknowledge { incident: String, by: String },
    Resolve { incident: String, by: String },
    Silence { rules: Vec<String>, hosts: Vec<String>, reason: String, by: String, until_us: i64 },
    EndSilence { silence: String },
}

/// A command as it waits in the ledger, and its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CommandDocument {
    command: WaitingCommand,
    entered_us: i64,
    /// The id that it made, or the refusal with its hint.
    outcome: Option<Result<String, (String, String)>>,
}

impl DeskState {
    /// Forgets what is in memory; the ledger has it.
    pub(super) fn forget(&mut self) {
        *self = Self { complained: self.complained, ..Self::default() };
    }

    /// What is known of a finding's incident.
    pub(super) fn context(&self, now: Micros, finding: &Finding) -> IncidentContext {
        let Some(desk) = &self.desk else { return IncidentContext::default() };
        let incident = desk.incident_of(finding);
        IncidentContext {
            incident_id: incident.map(|incident| incident.id().to_owned()),
            muted_by: desk.muted_by(now, finding),
            acked_by: incident.and_then(|it| it.acknowledgement()).map(|ack| ack.by.clone()),
        }
    }

    /// Maintenance windows that are on, as locks of repairs.
    pub(super) fn window_locks(&self, now: Micros) -> Vec<HostLock> {
        self.desk.as_ref().map(|desk| desk.window_locks(now)).unwrap_or_default()
    }

    /// When decisions were last in the ledger, all of them.
    pub(super) fn last_kept(&self) -> Option<Micros> {
        self.last_kept
    }

    /// Pauses the ledger, so that the rules do not wait for it, and logs why once a minute.
    pub(super) fn complain(&mut self, error: &TickError) {
        if matches!(error.ledger, LedgerError::Unusable(_)) {
            self.blocked_until = Some(error.at + BLOCKED);
        }
        let is_new = self
            .complained
            .is_none_or(|at| !(0.0..COMPLAIN_SECONDS).contains(&error.at.seconds_since(at)));
        if is_new {
            tracing::error!("cannot keep incidents, will try again: {}", error.ledger);
            self.complained = Some(error.at);
        }
    }

    /// Whether the ledger is paused.
    fn is_blocked(&mut self, now: Micros) -> bool {
        let pause = BLOCKED.as_secs_f64();
        let is_blocked = self.blocked_until.is_some_and(|until| {
            let left = until.seconds_since(now);
            left > 0.0 && left <= pause
        });
        if !is_blocked {
            self.blocked_until = None;
        }
        is_blocked
    }

    fn apply(
        &mut self,
        now: Micros,
        command: &WaitingCommand,
    ) -> Result<(Decisions, String), DeskError> {
        let desk = self.desk.as_mut().expect("it was loaded before");
        let made = match command {
            WaitingCommand::Acknowledge { incident, by } => desk.acknowledge(now, incident, by)?,
            WaitingCommand::Resolve { incident, by } => desk.resolve(now, incident, by)?,
            WaitingCommand::EndSilence { silence } => desk.end_silence(silence)?,
            WaitingCommand::Silence { rules, hosts, reason, by, until_us } => {
                let request = SilenceRequest {
                    rules: rules.clone(),
                    hosts: hosts.clone(),
                    reason: reason.clone(),
                    by: by.clone(),
                    until: Some(Micros(*until_us)),
                    until_resolved: false,
                    class: None,
                };
                desk.silence(now, request)?
            }
        };
        let id = made.documents.first().map(|document| document.key.clone()).unwrap_or_default();
        Ok((made, id))
    }
}

/// Why a tick could not keep what it decided.
pub(super) struct TickError {
    at: Micros,
    ledger: LedgerError,
}

impl Notices {
    /// One tick of the desk, with what people entered at other hubs.
    pub(super) async fn ticked(
        &self,
        state: &mut DeskState,
        now: Micros,
        firing: Vec<Finding>,
    ) -> Result<(), TickError> {
        let failed = |ledger| TickError { at: now, ledger };
        let is_blocked = state.is_blocked(now);
        if !is_blocked {
            self.load(state, now).await.map_err(failed)?;
        }
        let Some(desk) = &mut state.desk else { return Ok(()) };
        let decisions = desk.tick(now, &firing);
        add(&mut state.pending, decisions);
        if is_blocked {
            return Ok(());
        }
        if self.is_cluster {
            self.obey(state, now).await.map_err(failed)?;
        }
        self.keep(state, now).await.map_err(failed)?;
        self.stand(state, now);
        Ok(())
    }

    /// Gives the states of incidents to the outbox, every ten seconds.
    fn stand(&self, state: &mut DeskState, now: Micros) {
        let is_recent =
            state.stood.is_some_and(|at| (0.0..STAND_SECONDS).contains(&now.seconds_since(at)));
        if let (false, Some(desk)) = (is_recent, &state.desk) {
            self.outbox.stand(desk.standing(now));
            state.stood = Some(now);
        }
    }

    /// When all decisions were last in the ledger.
    pub(super) async fn last_kept(&self) -> Option<Micros> {
        self.state.lock().await.last_kept()
    }

    /// Does what a person entered: at once if this hub runs the rules, else through the ledger. The
    /// id of what it made or changed.
    pub(super) async fn command(&self, command: WaitingCommand) -> Result<String, NoticeError> {
        if !self.store.is_leader() {
            return self.command_elsewhere(command).await;
        }
        let now = self.clock.now();
        let mut state = self.state.lock().await;
        self.load(&mut state, now).await?;
        let (decisions, id) = state.apply(now, &command)?;
        add(&mut state.pending, decisions);
        self.keep(&mut state, now).await?;
        Ok(id)
    }

    async fn command_elsewhere(&self, command: WaitingCommand) -> Result<String, NoticeError> {
        let now = self.clock.now();
        let key = format!("{}-{}", now.0, std::process::id());
        let waiting = CommandDocument { command, entered_us: now.0, outcome: None };
        let entered = change(&key, 0, Some(&waiting));
        self.with_ledger(move |ledger| ledger.apply(&[entered])).await?;
        let end = tokio::time::Instant::now() + COMMAND_WAIT;
        while tokio::time::Instant::now() < end {
            tokio::time::sleep(COMMAND_LOOK).await;
            let name = key.clone();
            let found = self.with_ledger(move |ledger| ledger.get(COMMAND, &name)).await?;
            let Some(document) = found else { continue };
            let Some(outcome) = parse(&document).and_then(|document| document.outcome) else {
                continue;
            };
            let done = change(&key, document.version, None);
            self.with_ledger(move |ledger| ledger.apply(&[done])).await?;
            let kind = NoticeErrorKind::Bad;
            return outcome.map_err(|(message, hint)| NoticeError { kind, message, hint });
        }
        Err(NoticeError {
            kind: NoticeErrorKind::Unusable,
            message: "the hub that runs the rules did not answer in 10 s".to_owned(),
            hint: "it is done when that hub is back within a minute; else enter it again"
                .to_owned(),
        })
    }

    /// Does what people entered at other hubs.
    async fn obey(&self, state: &mut DeskState, now: Micros) -> Result<(), LedgerError> {
        let waiting = self.with_ledger(|ledger| ledger.all(COMMAND)).await?;
        for document in waiting {
            let (key, version) = (document.key.clone(), document.version);
            let entered = parse(&document);
            let is_old = entered.as_ref().is_none_or(|entered| {
                let age = now.seconds_since(Micros(entered.entered_us)).abs();
                age > COMMAND_SECONDS
            });
            let answer = match entered {
                Some(entered) if !is_old && entered.outcome.is_none() => {
                    let outcome = match state.apply(now, &entered.command) {
                        Ok((decisions, id)) => {
                            add(&mut state.pending, decisions);
                            Ok(id)
                        }
                        Err(error) => Err((error.message, error.hint)),
                    };
                    self.keep(state, now).await?;
                    change(
                        &key,
                        version,
                        Some(&CommandDocument { outcome: Some(outcome), ..entered }),
                    )
                }
                _ if is_old => change(&key, version, None),
                _ => continue,
            };
            match self.with_ledger(move |ledger| ledger.apply(&[answer])).await {
                // Its sender has read or withdrawn it.
                Ok(()) | Err(LedgerError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the desk's documents, if that was not done since this hub runs the rules.
    async fn load(&self, state: &mut DeskState, now: Micros) -> Result<(), LedgerError> {
        if state.desk.is_some() {
            return Ok(());
        }
        let mut documents = Vec::new();
        for kind in Desk::KINDS {
            documents.extend(self.with_ledger(move |ledger| ledger.all(kind)).await?);
        }
        state.versions = documents
            .iter()
            .map(|document| ((document.kind.clone(), document.key.clone()), document.version))
            .collect();
        let bodies: Vec<(String, String, String)> =
            documents.into_iter().map(|found| (found.kind, found.key, found.body)).collect();
        let desk = Desk::restore(self.policy.clone(), &bodies);
        for bad in desk.unreadable() {
            tracing::error!("cannot read {} `{}` in the ledger: {}", bad.kind, bad.key, bad.reason);
        }
        // A row may be missing if weir ended between ledger and store.
        let known = rows::taken_over(desk.incidents(), now);
        if let Some(known) = known {
            append(&self.store, known).await;
        }
        self.write_missed().await?;
        state.desk = Some(desk);
        Ok(())
    }

    /// Writes all pending decisions in one transaction, then their rows.
    async fn keep(&self, state: &mut DeskState, now: Micros) -> Result<(), LedgerError> {
        if !is_empty(&state.pending) {
            let changes: Vec<Change> = changes(&state.pending, &state.versions);
            let (outbox, notices) = (Arc::clone(&self.outbox), state.pending.notices.clone());
            let kept = changes.clone();
            match blocking(move || outbox.commit(&changes, &notices)).await {
                Ok(_) => {}
                Err(LedgerError::Conflict { kind, key }) => {
                    // Another hub decided: its documents count, and the next tick compares again.
                    state.forget();
                    return Err(LedgerError::Conflict { kind, key });
                }
                Err(error) => return Err(error),
            }
            for change in kept {
                let name = (change.kind, change.key);
                match change.body {
                    Some(_) => state.versions.insert(name, change.expected + 1),
                    None => state.versions.remove(&name),
                };
            }
            let done = std::mem::take(&mut state.pending);
            if !done.changes.is_empty() {
                for change in &done.changes {
                    tracing::info!(
                        incident = change.incident.id,
                        "{}: {}",
                        change.incident.title,
                        change.text
                    );
                }
                append(&self.store, rows::incidents(&done.changes)).await;
            }
        }
        state.last_kept = Some(now);
        Ok(())
    }
}

/// Adds later decisions: a document counts as it is last.
fn add(pending: &mut Decisions, later: Decisions) {
    for document in later.documents {
        pending.documents.retain(|old| (old.kind, &old.key) != (document.kind, &document.key));
        pending.documents.push(document);
    }
    let is_new = |notice: &Notice| pending.notices.iter().all(|old| old.id != notice.id);
    let new: Vec<Notice> = later.notices.into_iter().filter(is_new).collect();
    pending.notices.extend(new);
    pending.changes.extend(later.changes);
}

fn is_empty(decisions: &Decisions) -> bool {
    decisions.documents.is_empty() && decisions.notices.is_empty() && decisions.changes.is_empty()
}

fn changes(decisions: &Decisions, versions: &Versions) -> Vec<Change> {
    let change = |document: &weir_actions::KeptDocument| {
        let name = (document.kind.to_owned(), document.key.clone());
        let expected = versions.get(&name).copied().unwrap_or(0);
        // A document that was never kept needs no deletion.
        let is_needed = expected > 0 || document.body.is_some();
        is_needed.then(|| Change {
            kind: name.0,
            key: name.1,
            expected,
            body: document.body.clone().map(|body| (body, None)),
        })
    };
    decisions.documents.iter().filter_map(change).collect()
}

fn parse(document: &Document) -> Option<CommandDocument> {
    serde_json::from_str(&document.body).ok()
}

fn change(key: &str, expected: i64, document: Option<&CommandDocument>) -> Change {
    let body = document.map(|document| {
        (serde_json::to_string(document).expect("texts and numbers become JSON"), None)
    });
    Change { kind: COMMAND.to_owned(), key: key.to_owned(), expected, body }
}
