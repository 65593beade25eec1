//! The grid as a table for people and as CSV.

use std::fmt::Write as _;

use super::cell::{Measured, alone};

/// A line for each measurement; `of ideal` compares with as many reads as if each took as long as one alone.
pub(super) fn text(measured: &[Measured]) -> String {
    let mut out = format!(
        "{:>6} {:>11} {:>9} {:>11} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}",
        "nodes",
        "concurrency",
        "bytes",
        "lookups/s",
        "of ideal",
        "p50 ms",
        "p90 ms",
        "p95 ms",
        "p99 ms",
        "failed",
        "errors",
    );
    for one in measured {
        let cell = &one.cell;
        let of_ideal = one.of_ideal(alone(measured, cell.range_bytes));
        let [p50, p90, p95, p99] = [50, 90, 95, 99].map(|part| one.counts.quantile(part) * 1e3);
        let _ = write!(
            out,
            "\n{:>6} {:>11} {:>9} {:>11.1} {:>8.2} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>7} {:>7}",
            cell.nodes,
            cell.concurrency,
            cell.range_bytes,
            one.rate(),
            of_ideal,
            p50,
            p90,
            p95,
            p99,
            one.counts.failed,
            one.counts.errors,
        );
    }
    out
}

/// The same for programs, in SI units.
pub(super) fn csv(measured: &[Measured]) -> String {
    let mut out = "nodes,concurrency,range_bytes,lookups_per_second,p50_seconds,p90_seconds,p95_seconds,p99_seconds,failed,errors\n".to_owned();
    for one in measured {
        let cell = &one.cell;
        let [p50, p90, p95, p99] = [50, 90, 95, 99].map(|part| one.counts.quantile(part));
        let _ = writeln!(
            out,
            "{},{},{},{:.3},{p50:.6},{p90:.6},{p95:.6},{p99:.6},{},{}",
            cell.nodes,
            cell.concurrency,
            cell.range_bytes,
            one.rate(),
            one.counts.failed,
            one.counts.errors,
        );
    }
    out
}
