//! Answers one order: the checks in their order, the journal, the steps, the report.
//!
//! ```text
//!   peer ─► signature ─► agent ─► seen? ─► switch ─► time ─► list ─► parameters ─► programs ─► lock ─► limits
//!        └────────── refused, without a record ─────┘└────────── refused, and recorded ──────────────────┘
//!   ─► journal (synced) ─► steps ─► journal ─► report
//! ```
//! An order that was verified and refused is recorded too: replaying it while it is still valid
//! must not run what its hub has recorded as refused.

use std::io::{Read, Write};
use std::time::Duration;

use crate::action::Action;
use crate::error::ActError;
use crate::execute::{PreparedStep, RunOutcome, StepRunner};
use crate::host::{Account, ActHost};
use crate::journal::{JournalEntry, OrderJournal, RepairLock, subject_of};
use crate::order::{ORDER_SPAN_MICROS, Order, order_id_text};
use crate::reply::{OrderCode, OrderReply, RunReport, RunState};
use crate::sign::{OrderVerifier, PublicKey, SIGNED_BYTES_MAX, SignedOrder};

/// How far the hub's clock may be ahead, in microseconds.
const CLOCK_SLACK_MICROS: i64 = 2_000_000;
/// How long a client may take to send its order.
pub const READ_PATIENCE: Duration = Duration::from_secs(5);

/// The host's clock.
pub trait WallClock {
    /// Microseconds since 1970.
    fn now_micros(&self) -> i64;
}

/// Answers orders on a host.
pub struct OrderServer<'a> {
    /// The host's files.
    pub host: &'a ActHost,
    /// Starts steps.
    pub runner: &'a StepRunner,
    /// The host's clock.
    pub clock: &'a dyn WallClock,
}

/// An order that runs now.
struct AdmittedOrder {
    order: Order,
    action: Action,
    account: Account,
    steps: Vec<PreparedStep>,
    entry: JournalEntry,
    /// `None` for a dry run that runs nothing.
    _lock: Option<RepairLock>,
}

/// What becomes of an order.
enum Admission {
    Admitted(Box<AdmittedOrder>),
    Seen(OrderReply, Option<RunReport>),
    Refused(ActError),
}

/// What an action makes of an order.
struct RunPlan {
    action: Action,
    account: Account,
    steps: Vec<PreparedStep>,
}

impl OrderServer<'_> {
    /// Reads one order up to the end of `input`, answers on `output`, and runs it.
    ///
    /// A client that is gone by then changes nothing: the journal has the outcome.
    pub fn serve(&self, input: impl Read, mut output: impl Write, peer_uid: u32) {
        let admission = self.read(input, peer_uid).unwrap_or_else(Admission::Refused);
        match admission {
            Admission::Refused(error) => {
                let why = error.line();
                let refused = OrderReply { code: OrderCode::Refused, why, has_report: false };
                write_line(&mut output, &refused);
            }
            Admission::Seen(reply, report) => {
                write_line(&mut output, &reply);
                if let Some(report) = report {
                    write_line(&mut output, &report);
                }
            }
            Admission::Admitted(admitted) => {
                let (code, why) = (OrderCode::Taken, String::new());
                write_line(&mut output, &OrderReply { code, why, has_report: true });
                write_line(&mut output, &self.run(*admitted));
            }
        }
    }

    fn read(&self, input: impl Read, peer_uid: u32) -> Result<Admission, ActError> {
        // Reading comes first: a client that is still writing would not get the answer.
        let mut bytes = Vec::new();
        let limit = SIGNED_BYTES_MAX as u64 + 1;
        input
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(|error| ActError::new(format!("cannot read the order: {error}")))?;
        let pin = self.host.pin()?;
        if peer_uid != 0 && peer_uid != self.host.owner_uid() && Some(peer_uid) != pin.agent_uid {
            return Err(ActError::new(format!("uid {peer_uid} may not send orders")).hint(
                "run the agent as the account that was pinned: `weir-act trust FILE --user ACCOUNT`",
            ));
        }
        let verifier = OrderVerifier::new(PublicKey::parse(&pin.key)?);
        let order = verifier.verify(&SignedOrder::from_bytes(bytes)?)?;
        if order.agent != pin.agent {
            let shown: String = order.agent.escape_debug().take(80).collect();
            let why = format!("the order is for the agent `{shown}`, and this is `{}`", pin.agent);
            return Err(ActError::new(why));
        }
        self.admit(order)
    }

    /// Decides on an order of the pinned hub, and writes that down before it returns.
    fn admit(&self, order: Order) -> Result<Admission, ActError> {
        let state = self.host.state_dir()?;
        let mut journal = OrderJournal::open(&state)?;
        if let Some(entry) = journal.seen(&order.id) {
            let is_running = entry.refused.is_none()
                && entry.report.as_ref().is_some_and(|report| report.state == RunState::Unknown)
                && RepairLock::take(&state)?.is_none();
            return Ok(seen(entry, is_running));
        }
        let now = self.clock.now_micros();
        let mut entry = JournalEntry {
            id: order_id_text(&order.id),
            at: now,
            subject: subject_of(&order),
            action: order.action.clone(),
            mode: order.mode,
            refused: None,
            report: None,
        };
        match self.check(&order, &journal, now) {
            Ok((plan, lock)) => {
                let argv = plan.steps.iter().map(|step| step.argv.clone()).collect();
                let planned = RunReport::planned(&order, argv);
                let runs = plan.action.runs_in(order.mode);
                entry.report = Some(if runs { unknown(planned) } else { planned });
                journal.record(entry.clone())?;
                let RunPlan { action, account, steps } = plan;
                let admitted = AdmittedOrder { order, action, account, steps, entry, _lock: lock };
                Ok(Admission::Admitted(Box::new(admitted)))
            }
            Err(error) => {
                entry.refused = Some(error.line());
                journal.record(entry)?;
                Ok(Admission::Refused(error))
            }
        }
    }

    fn check(
        &self,
        order: &Order,
        journal: &OrderJournal,
        now: i64,
    ) -> Result<(RunPlan, Option<RepairLock>), ActError> {
        if let Some(off) = self.host.off() {
            return Err(off);
        }
        check_time(order, now)?;
        let plan = self.plan(order)?;
        plan.action.allow(order.mode, order.approved_by.as_deref())?;
        if !plan.action.runs_in(order.mode) {
            return Ok((plan, None));
        }
        let lock = RepairLock::take(&self.host.state_dir()?)?.ok_or_else(|| {
            ActError::new("another repair runs on this host").hint("wait until it has ended")
        })?;
        journal.allow(&plan.action, order, now)?;
        Ok((plan, Some(lock)))
    }

    fn plan(&self, order: &Order) -> Result<RunPlan, ActError> {
        let action = self.host.action(&order.action)?;
        let argv = action.argv(order.mode, &order.params)?;
        self.host.check_paths(&action, &order.params)?;
        let account = self.host.account(&action.user)?;
        let steps = action.steps_of(order.mode)?.iter().zip(argv).map(|(step, argv)| {
            let program = self.host.root().open_program(&step.program)?;
            Ok(PreparedStep { program, argv })
        });
        let steps = steps.collect::<Result<_, ActError>>()?;
        Ok(RunPlan { action, account, steps })
    }

    fn run(&self, admitted: AdmittedOrder) -> RunReport {
        let AdmittedOrder { order, action, account, steps, mut entry, _lock } = admitted;
        let argv = steps.iter().map(|step| step.argv.clone()).collect();
        let mut report = RunReport::planned(&order, argv);
        if action.runs_in(order.mode) {
            report.started = Some(self.clock.now_micros());
            let outcome = self.runner.run(&steps, account, &action.limits);
            report.ended = Some(self.clock.now_micros());
            apply(&mut report, outcome);
        }
        entry.report = Some(report.clone());
        // The steps ran: if this fails, the order stays `unknown`, and does not run again.
        let kept = self.host.state_dir().and_then(|dir| OrderJournal::open(&dir));
        if let Err(error) = kept.and_then(|mut journal| journal.record(entry)) {
            report.why = [report.why, error.line()].join(" ").trim().to_owned();
        }
        report
    }

    /// What an order would run, for `weir-act dry-run`: nothing is recorded.
    ///
    /// # Errors
    /// Why the order would be refused.
    pub fn rehearse(&self, order: &Order) -> Result<RunReport, ActError> {
        let plan = self.plan(order)?;
        let argv = plan.steps.into_iter().map(|step| step.argv).collect();
        Ok(RunReport::planned(order, argv))
    }
}

fn check_time(order: &Order, now: i64) -> Result<(), ActError> {
    let ahead = order.not_after_micros.saturating_sub(now);
    let seconds = ahead as f64 / 1e6;
    if ahead < 0 {
        Err(ActError::new(format!("the order ended {:.1} s ago", -seconds))
            .hint("compare the clocks of hub and host: `timedatectl`"))
    } else if ahead > ORDER_SPAN_MICROS + CLOCK_SLACK_MICROS {
        Err(ActError::new(format!("the order is valid for {seconds:.0} s, over 60"))
            .hint("compare the clocks of hub and host: `timedatectl`"))
    } else {
        Ok(())
    }
}

fn seen(entry: &JournalEntry, is_running: bool) -> Admission {
    let report = entry.report.clone().filter(|_| !is_running && entry.refused.is_none());
    let why = match (&entry.refused, report.as_ref().map(|report| report.state)) {
        (Some(why), _) => format!("it was refused: {why}"),
        _ if is_running => "it runs".to_owned(),
        (None, Some(RunState::Planned)) => "it was a dry run".to_owned(),
        (None, Some(RunState::Ended)) => "it ran".to_owned(),
        (None, Some(RunState::Failed)) => "it ran and failed".to_owned(),
        (None, Some(RunState::Unknown) | None) => {
            "it was taken, and weir-act died before its end: unknown what ran".to_owned()
        }
    };
    let has_report = is_running || report.is_some();
    Admission::Seen(OrderReply { code: OrderCode::Seen, why, has_report }, report)
}

/// The report of an order whose end never comes.
fn unknown(report: RunReport) -> RunReport {
    let why =
        "weir-act died while it ran; unknown which steps ran, and none is repeated".to_owned();
    RunReport { state: RunState::Unknown, why, ..report }
}

fn apply(report: &mut RunReport, outcome: RunOutcome) {
    report.state = if outcome.failure.is_some() { RunState::Failed } else { RunState::Ended };
    report.exit = outcome.exit;
    report.timed_out = outcome.timed_out;
    report.output_tail = String::from_utf8_lossy(&outcome.output).into_owned();
    report.why = outcome.failure.unwrap_or_default();
}

/// Writes a line; the client may be gone.
fn write_line(output: &mut impl Write, line: &impl serde::Serialize) {
    let Ok(mut bytes) = serde_json::to_vec(line) else { return };
    bytes.push(b'\n');
    let _ = output.write_all(&bytes).and_then(|()| output.flush());
}
