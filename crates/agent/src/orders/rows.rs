//! Rows of `action_run` from orders and reports.

use serde_json::json;
use weir_act::{Order, RunReport, order_id_text};
use weir_tables::{ActionRun, ActionRunRows, Batch, Micros, Rows};

/// One row, before it has a time.
pub(super) struct RunRow<'a> {
    order: &'a Order,
    order_id: String,
    state: &'a str,
    reason: Option<String>,
    report: Option<&'a RunReport>,
}

impl<'a> RunRow<'a> {
    pub(super) fn of_order(order: &'a Order, state: &'a str) -> Self {
        Self { order, order_id: order_id_text(&order.id), state, reason: None, report: None }
    }

    pub(super) fn reason(self, why: &str) -> Self {
        Self { reason: Some(why.to_owned()).filter(|why| !why.is_empty()), ..self }
    }

    pub(super) fn report(self, report: &'a RunReport) -> Self {
        Self { report: Some(report), ..self.reason(&report.why) }
    }

    pub(super) fn batch(&self, host: &str, ts: Micros) -> Batch {
        let order = self.order;
        let params = json!(order.params).to_string();
        let argv = self.report.map(|report| json!(report.argv).to_string());
        // A dry run that lists no steps ran nothing and has no output.
        let ran = self.report.filter(|report| report.started.is_some());
        let mut rows = ActionRunRows::default();
        rows.push(&ActionRun {
            ts,
            host,
            run_id: &self.order_id,
            order_id: Some(&self.order_id),
            action: &order.action,
            params: &params,
            mode: order.mode.as_str(),
            finding_id: &order.finding_id,
            state: self.state,
            approved_by: order.approved_by.as_deref(),
            reason: self.reason.as_deref(),
            argv: argv.as_deref(),
            exit_status: self.report.and_then(|report| report.exit).map(i64::from),
            output_tail: ran.map(|report| report.output_tail.as_str()),
            duration_seconds: self.report.and_then(|report| {
                let [started, ended] = [report.started?, report.ended?];
                Some((ended - started) as f64 / 1e6)
            }),
            ..Default::default()
        });
        Batch { table: ActionRunRows::SPEC, rows: rows.finish() }
    }
}
