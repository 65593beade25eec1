//! Reads a digest as an agent does, by the loop of checks, to rows of `check_result`.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use weir_probe::check::{CheckLoop, CheckOrigin, DigestTarget};
use weir_tables::{Batch, Clock, FixedClock, Micros};

/// Steps of at most half a second until a poll has ended in any case.
const STEPS_MAX: usize = 8;
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One row of `check_result`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DigestRow {
    pub(crate) check: String,
    pub(crate) status: String,
    pub(crate) scope: String,
    pub(crate) output: String,
    pub(crate) service: String,
    pub(crate) value: Option<f64>,
    pub(crate) unit: String,
    pub(crate) threshold: String,
}

/// The rows of one poll; none if there is no digest.
pub(crate) fn read_digest(port: u16) -> Vec<DigestRow> {
    let clock = FixedClock::new(Micros(1_800_000_000_000_000));
    let mut checks = CheckLoop::new(CheckOrigin::default(), Vec::new(), clock.now());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let target = DigestTarget {
        address,
        host_header: "shop.example".to_owned(),
        process_id: Some(1),
        process_start: None,
        is_trial: false,
    };
    checks.set_digest_targets(vec![target], clock.now());
    for _ in 0..STEPS_MAX {
        let rows = rows(&checks.step(&|| clock.now()));
        if !rows.is_empty() {
            return rows;
        }
    }
    Vec::new()
}

fn rows(batches: &[Batch]) -> Vec<DigestRow> {
    let mut rows = Vec::new();
    for Batch { rows: batch, .. } in batches {
        for row in 0..batch.num_rows() {
            let [check, status, scope, output, service, unit, threshold] =
                ["check", "status", "scope", "output", "service", "observed_unit", "threshold"]
                    .map(|name| {
                        let column = batch.column_by_name(name).expect("the table has it");
                        column.as_string::<i32>().value(row).to_owned()
                    });
            let values = batch.column_by_name("observed_value").expect("the table has it");
            let values = values.as_primitive::<Float64Type>();
            let value = values.iter().nth(row).flatten();
            rows.push(DigestRow { check, status, scope, output, service, value, unit, threshold });
        }
    }
    rows
}

/// The row of one check.
pub(crate) fn row_of<'a>(rows: &'a [DigestRow], check: &str) -> Option<&'a DigestRow> {
    rows.iter().find(|row| row.check == check)
}

/// Polls until the rows are as expected, and returns them.
#[track_caller]
pub(crate) fn wait_for(
    port: u16,
    what: &str,
    is_expected: impl Fn(&[DigestRow]) -> bool,
) -> Vec<DigestRow> {
    let end = Instant::now() + PATIENCE;
    loop {
        let rows = read_digest(port);
        if is_expected(&rows) {
            return rows;
        }
        assert!(Instant::now() < end, "not {what}: {rows:#?}");
        thread::park_timeout(Duration::from_millis(10));
    }
}
