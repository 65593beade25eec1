//! What the heal desk decided: documents to keep, orders to send, changes of runs for tables.

use std::collections::BTreeMap;

use weir_tables::Micros;

use super::run::{HealRun, ORDER_US};
use crate::KeptDocument;

/// Everything that one tick or one act decided.
///
/// The documents must be kept before an order is sent. If that fails, or the program ends in
/// between, the orders are lost and must not be sent: their runs become `unknown`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealDecisions {
    /// Documents that changed.
    pub documents: Vec<KeptDocument>,
    /// Orders to send, each once.
    pub orders: Vec<HealOrder>,
    /// Changes of runs.
    pub changes: Vec<HealChange>,
}

/// What an order is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealOrderKind {
    /// Shows what the action would do.
    DryRun,
    /// Runs the action.
    Run,
    /// Takes it back.
    Undo,
}

/// An order to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealOrder {
    /// 32 hex digits, the same on every hub.
    pub order_id: String,
    /// The run.
    pub run_id: String,
    /// What it is for.
    pub kind: HealOrderKind,
    /// The action.
    pub action: String,
    /// Its parameters.
    pub params: BTreeMap<String, String>,
    /// The host.
    pub host: String,
    /// The finding.
    pub finding_id: String,
    /// The person that approved it; `None` if weir decided alone.
    pub approved_by: Option<String>,
    /// Not begun after; microseconds since 1970.
    pub not_after_us: i64,
}

impl HealOrder {
    pub(crate) fn new(run: &HealRun, order_id: &str, kind: HealOrderKind, now: Micros) -> Self {
        let undone_by = run.undo.as_ref().and_then(|undo| undo.by.clone());
        Self {
            approved_by: undone_by.or_else(|| run.approved_by.clone()),
            order_id: order_id.to_owned(),
            run_id: run.id.clone(),
            kind,
            action: run.action.clone(),
            params: run.params.clone(),
            host: run.host.clone(),
            finding_id: run.finding_id.clone(),
            not_after_us: now.0 + ORDER_US,
        }
    }
}

/// A change of a run: a row of the table `action_run`.
#[derive(Clone, Debug, PartialEq)]
pub struct HealChange {
    /// When.
    pub ts: Micros,
    /// The run after the change.
    pub run: HealRun,
}
