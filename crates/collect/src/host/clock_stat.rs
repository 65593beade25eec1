//! Clock synchronization: adjtimex(2), and the wall clock compared with the monotonic one.
//!
//! `CLOCK_BOOTTIME` keeps counting during suspend, so a resume is not seen as a step.

use rustix::time::ClockId;
use weir_tables::{Batch, ClockStat, ClockStatRows, Micros};

use super::kernel_call::clock_state;
use super::run::seconds;
use super::{CollectResult, Collector, View, take};
use crate::CollectError;

const EVERY_SECONDS: f64 = 10.0;
/// A larger move of the wall clock against the monotonic one is a step.
const STEP_SECONDS: f64 = 0.1;

#[derive(Debug, Default)]
pub(super) struct ClockStatCollector {
    rows: ClockStatRows,
    last_row: Option<Micros>,
    difference: Option<f64>,
}

impl Collector for ClockStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        view.require_live("read the clock")?;
        let difference = seconds(ClockId::Realtime) - seconds(ClockId::Boottime);
        let step = self.difference.replace(difference).map_or(0.0, |before| difference - before);
        let step_seconds = (step.abs() > STEP_SECONDS).then_some(step);
        let age = self.last_row.map_or(f64::INFINITY, |last| now.seconds_since(last));
        if step_seconds.is_none() && (0.0..EVERY_SECONDS - 0.5).contains(&age) {
            return Ok(());
        }
        let state = clock_state().map_err(|error| CollectError::new("call adjtimex(2)", error))?;
        self.last_row = Some(now);
        self.rows.push(&ClockStat {
            ts: now,
            host: &view.host,
            is_synchronized: state.is_synchronized,
            offset_seconds: state.offset_seconds,
            max_error_seconds: state.max_error_seconds,
            estimated_error_seconds: state.estimated_error_seconds,
            step_seconds,
        });
        take(&mut self.rows, out);
        Ok(())
    }
}
