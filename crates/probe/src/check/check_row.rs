//! Rows of `check_result`.

use std::time::Duration;

use weir_tables::{Batch, CheckResult, CheckResultRows, Micros};

use super::CheckOutcome;

/// Host and zone of the rows.
#[derive(Clone, Debug, Default)]
pub struct CheckOrigin {
    /// The host.
    pub host: String,
    /// The zone of the host.
    pub zone: Option<String>,
}

/// What a result is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckSubject<'a> {
    pub(super) check: &'a str,
    pub(super) kind: &'static str,
    pub(super) target: &'a str,
    pub(super) service: Option<&'a str>,
    pub(super) scope: Option<&'static str>,
    pub(super) duration: Option<Duration>,
    pub(super) expires: Option<Micros>,
}

/// Collects rows of one host.
#[derive(Debug, Default)]
pub(super) struct RowWriter {
    origin: CheckOrigin,
    rows: CheckResultRows,
}

impl RowWriter {
    pub(super) fn new(origin: CheckOrigin) -> Self {
        Self { origin, rows: CheckResultRows::default() }
    }

    pub(super) fn push(&mut self, now: Micros, subject: &CheckSubject<'_>, outcome: &CheckOutcome) {
        let figures: Vec<(&str, &str)> = outcome
            .figures
            .iter()
            .map(|(label, figure)| (label.as_str(), figure.as_str()))
            .collect();
        self.rows.push(&CheckResult {
            ts: now,
            host: &self.origin.host,
            check: subject.check,
            kind: subject.kind,
            target: subject.target,
            service: subject.service,
            status: outcome.state.as_str(),
            scope: subject.scope,
            observed_value: outcome.value,
            observed_unit: outcome.unit.as_deref(),
            threshold: outcome.threshold.as_deref(),
            output: Some(outcome.output.as_str()).filter(|output| !output.is_empty()),
            duration_seconds: subject.duration.map(|duration| duration.as_secs_f64()),
            zone: self.origin.zone.as_deref(),
            expires_ts: subject.expires,
            perfdata: &figures,
        });
    }

    pub(super) fn finish(&mut self) -> Vec<Batch> {
        let mut batches = Vec::new();
        crate::push(&mut self.rows, &mut batches);
        batches
    }
}
