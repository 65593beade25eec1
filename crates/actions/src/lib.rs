//! Incidents from findings, who is notified of them (routes, rotas, silences, escalation), and
//! which repairs are ordered.
//!
//! Pure: findings and the time go in, notices, orders and documents to keep come out, so that a
//! month replays in a test.

mod calendar;
mod check;
mod civil_time;
mod decisions;
mod desk;
mod digest;
mod error;
mod heal;
mod hours;
mod identity;
mod incident;
mod notice;
mod pattern;
mod policy;
mod roster;
mod rota;
mod silence;
mod target;
mod title;
mod turn_count;
mod window;

pub use calendar::calendar;
pub use check::{PolicyProblem, check};
pub use civil_time::is_night;
pub use decisions::{Decisions, IncidentChange, IncidentEvent, KeptDocument, UnreadableDocument};
pub use desk::{Desk, LetterText, TestTarget, test_end};
pub use digest::digest;
pub use error::DeskError;
pub use heal::{
    DeployLock, DryRunRecord, HEAL_KINDS, HarmReport, HealChange, HealDecisions, HealDesk,
    HealEntry, HealFacts, HealFinding, HealLadder, HealOrder, HealOrderKind, HealPolicy,
    HealProblem, HealRun, HealSettings, HealStep, HealStop, HostLock, HostState, IncidentActor,
    LadderName, LockRequest, OrderOutcome, OrderReport, OrderResult, RefusalReason, RuleTiming,
    RunState, UndoRecord, check_heal,
};
pub use incident::{Acknowledgement, Incident, IncidentState};
pub use notice::{Finding, IncidentSummary, Notice, NoticeKind, SymptomLine, Urgency};
pub use policy::{
    Contact, DeskSettings, Person, Policy, QuietHours, Rota, Route, ShiftOverride, Window,
};
pub use rota::{DutyReason, OnCall};
pub use silence::{Silence, SilenceRequest};
