//! Rows of `agent_link`: who is connected, and how far its clock is from the hub's.

use std::collections::HashMap;
use std::time::Duration;

use weir_link::ConnectedAgent;
use weir_tables::{AgentLink, AgentLinkRows, Batch, Micros, Rows};

/// How often an agent has a row while its clock does not move.
const REPEAT: Duration = Duration::from_secs(60);
/// A clock that moved by more has a row at once.
const MOVED_MICROS: u64 = 100_000;

/// Knows what was written of each agent.
#[derive(Default)]
pub(super) struct ClockLog {
    /// By name: time of connecting, time of the measurement, and offset.
    written: HashMap<String, (Micros, Micros, i64)>,
}

impl ClockLog {
    /// Due rows of connected agents.
    pub(super) fn rows(&mut self, connected: &[ConnectedAgent]) -> Option<Batch> {
        self.written.retain(|name, _| connected.iter().any(|agent| agent.name == *name));
        let mut rows = AgentLinkRows::default();
        for agent in connected {
            let Some(clock) = agent.clock else { continue };
            let is_known = self.written.get(&agent.name).is_some_and(|(since, at, offset)| {
                *since == agent.since
                    && clock.at < *at + REPEAT
                    && clock.offset_micros.abs_diff(*offset) <= MOVED_MICROS
            });
            if is_known {
                continue;
            }
            let written = (agent.since, clock.at, clock.offset_micros);
            self.written.insert(agent.name.clone(), written);
            rows.push(&AgentLink {
                ts: clock.at,
                host: &agent.name,
                address: &agent.address,
                program: &agent.program,
                connected_ts: agent.since,
                clock_offset_seconds: Micros(clock.offset_micros).seconds_since(Micros(0)),
                round_trip_seconds: clock.round_trip.as_secs_f64(),
            });
        }
        (!rows.is_empty()).then(|| Batch { table: AgentLinkRows::SPEC, rows: rows.finish() })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    use weir_link::ClockOffset;

    use super::*;

    fn agent(second: i64, name: &str, offset_micros: i64) -> ConnectedAgent {
        let at = Micros(second * 1_000_000);
        ConnectedAgent {
            name: name.into(),
            address: "192.0.2.7:4000".into(),
            since: Micros(5),
            program: "weir 0.1.0".into(),
            clock: Some(ClockOffset { at, offset_micros, round_trip: Duration::from_millis(2) }),
        }
    }

    fn offsets(log: &mut ClockLog, connected: &[ConnectedAgent]) -> Vec<f64> {
        let Some(batch) = log.rows(connected) else { return Vec::new() };
        let offsets = batch.rows.column_by_name("clock_offset_seconds").expect("a column");
        offsets.as_primitive::<Float64Type>().values().to_vec()
    }

    #[test]
    fn a_clock_has_a_row_a_minute_and_one_at_once_when_it_moves() {
        let mut log = ClockLog::default();
        assert_eq!(offsets(&mut log, &[agent(100, "web1", -40_000_000)]), [-40.0]);
        assert_eq!(offsets(&mut log, &[agent(110, "web1", -40_050_000)]), [0.0; 0]);
        let both = [agent(120, "web1", -40_050_000), agent(120, "web2", 1_000)];
        assert_eq!(offsets(&mut log, &both), [0.001]);
        assert_eq!(offsets(&mut log, &[agent(130, "web1", 2_000_000)]), [2.0]);
        assert_eq!(offsets(&mut log, &[agent(190, "web1", 2_000_000)]), [2.0]);
        // An agent that reconnected, and one that never reports.
        let again = ConnectedAgent { since: Micros(9), ..agent(191, "web1", 2_000_000) };
        assert_eq!(offsets(&mut log, &[again]), [2.0]);
        assert_eq!(
            offsets(&mut log, &[ConnectedAgent { clock: None, ..agent(1, "old", 0) }]),
            [0.0; 0]
        );
    }
}
