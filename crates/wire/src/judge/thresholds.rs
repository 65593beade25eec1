//! Thresholds of the verdict rules: one table of name, value, unit and source.
//!
//! The rules use the constants; [`THRESHOLDS`] lists the same values for docs and tools. Most are
//! opinions, tuned on captures with a known fault. `docs/wire.md` shows the table.

/// One threshold of the verdict rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Name of the constant.
    pub name: &'static str,
    /// Value, as in the source.
    pub value: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Where the value comes from.
    pub source: &'static str,
}

macro_rules! thresholds {
    ($($name:ident: $kind:ty = $value:literal, $unit:literal, $source:literal;)*) => {
        $(pub(super) const $name: $kind = $value;)*

        /// All thresholds of the verdict rules.
        pub const THRESHOLDS: &[Threshold] = &[$(Threshold {
            name: stringify!($name),
            value: stringify!($value),
            unit: $unit,
            source: $source,
        },)*];
    };
}

thresholds! {
    LATE_SYNS_MIN: u64 = 3, "SYNs", "opinion: fewer may be random loss";
    LATE_SYNS_PERCENT_MIN: u64 = 1, "% of SYNs", "opinion";
    UNOPENED_MIN: f64 = 5.0, "connections", "opinion: fewer may be a scan";
    LOST_SYNACKS_PERCENT_MIN: u64 = 1, "% of connections", "opinion";
    FIRST_TO_LATER_MIN: f64 = 3.0, "× p95 of later requests", "opinion";
    RACES_MIN: u64 = 3, "requests", "opinion: fewer may be chance";
    LOSS_RATIO_MIN: f64 = 0.003, "of data segments", "opinion: well above normal path loss";
    LOST_SEGMENTS_MIN: u64 = 5, "segments", "opinion: fewer may be random loss";
    REFILLED_MIN: u64 = 5, "holes", "opinion: fewer may be chance";
    IDENTIFIED_MIN: u64 = 100, "packets", "statistics: a share of fewer means little";
    DELAY_MS_MIN: f64 = 50.0, "ms", "opinion: far above the jitter of a healthy path";
    DELAY_TO_MEDIAN_MIN: f64 = 5.0, "× median delay variation", "opinion";
    DELAYED_SLICES_MIN: u64 = 2, "slices", "opinion: one slice may be an outlier";
    CONNECTIONS_MIN: u64 = 10, "connections", "statistics: fewer may share one slow client";
    DISPERSION_MIN: f64 = 10.0, "× variance of Poisson arrivals", "opinion";
    CYCLES_MIN: u64 = 2, "pauses", "opinion: one pause may be chance";
    TIMESTAMP_COVERAGE_MIN: f64 = 0.5, "of connections", "statistics: a majority";
    ZERO_WINDOWS_MIN: u64 = 3, "episodes", "opinion";
    ZERO_WINDOW_WAIT_RATIO_MIN: f64 = 0.3, "of transfer time", "opinion";
    CLIENT_WAIT_RATIO_MIN: f64 = 0.5, "of transfer time", "opinion: most of it";
    SERVER_PAUSE_RATIO_MIN: f64 = 0.5, "of transfer time", "opinion: most of it";
    READ_REQUESTS_MIN: u64 = 5, "requests", "opinion";
    REQUESTS_MIN: u64 = 20, "requests", "statistics: the p95 of fewer is their maximum";
    UPSTREAM_COVERAGE_MIN: f64 = 0.5, "of requests", "statistics: a majority";
    OWN_TO_UPSTREAM_MIN: f64 = 3.0, "× upstream think time", "opinion";
    SLOW_MS_MIN: f64 = 200.0, "ms", "opinion: a user notices";
    SLOW_TO_BASELINE_MIN: f64 = 3.0, "× fast requests", "opinion";
    VERY_SLOW_MS_MIN: f64 = 1000.0, "ms", "opinion: slow without any comparison";
    TAP_LOSS_RATIO_MAX: f64 = 0.2, "of data segments", "opinion: more hides too much";
    TAP_LATE_RATIO_MIN: f64 = 0.5, "of the clients' maximum", "statistics: most of it";
    BACKWARD_MS_MIN: f64 = 100.0, "ms", "opinion: several CPUs disorder packets by less";
    TOGETHER_RATIO_MIN: f64 = 0.5, "of slow first requests", "statistics: a majority";
    OWNED_RATIO_MIN: f64 = 0.5, "of slow think time", "statistics: most of it";
    FAILED_RATIO_MIN: f64 = 0.2, "of requests", "opinion: nothing is smooth above it";
    LACKING_RATIO_MAX: f64 = 0.2, "of requests or connections", "opinion: more hides too much";
    ONE_SIDED_RATIO_MIN: f64 = 0.5, "of connections", "statistics: a majority";
    GUESSED_MS_MAX: f64 = 5000.0, "ms", "opinion: longer waits are pushes and long polls, too";
    POLL_MS_P25_MIN: f64 = 2000.0, "ms", "opinion: a poll has hardly any fast answer";
    GUESSED_FIRST_RATIO_MIN: f64 = 0.3, "of the slow think time", "opinion";
    SLICE_FAILED_MIN: u32 = 5, "requests per slice", "statistics: a share of fewer means little";
    SLICE_LATE_SYNS_MIN: u32 = 3, "SYNs per slice", "opinion";
    SLICE_RACES_MIN: u32 = 3, "requests per slice", "opinion";
    SLICE_LOST_MIN: u32 = 5, "segments per slice", "opinion";
    SLICE_LOSS_RATIO_MIN: f64 = 0.005, "of data segments", "opinion: a slice has few segments";
    SLICE_CONNECTIONS_MIN: u32 = 10, "connections per slice", "statistics";
    SLICE_DELAY_US_MIN: u64 = 50_000, "µs", "as DELAY_MS_MIN";
    SLICE_DELAY_TO_USUAL_MIN: u64 = 5, "× usual delay variation", "as DELAY_TO_MEDIAN_MIN";
    SLICE_ZERO_WINDOWS_MIN: u32 = 3, "episodes per slice", "opinion";
    SLICE_THINK_US_MIN: u64 = 200_000, "µs", "as SLOW_MS_MIN";
    SLICE_THINK_TO_USUAL_MIN: u64 = 3, "× usual think time", "as SLOW_TO_BASELINE_MIN";
}

#[cfg(test)]
mod tests {
    use super::{THRESHOLDS, Threshold};

    #[test]
    fn the_docs_show_every_threshold() {
        let docs = include_str!("../../../../docs/wire.md");
        let rows: Vec<&str> = docs.lines().filter(|line| line.contains("_M")).collect();
        for Threshold { name, value, unit, source } in THRESHOLDS {
            let row = format!("| `{name}` | {value} | {unit} | {source} |");
            assert!(docs.contains(&row), "missing in docs/wire.md: {row}");
        }
        let table = rows.iter().filter(|row| row.starts_with("| `")).count();
        assert_eq!(table, THRESHOLDS.len(), "docs/wire.md has rows of removed thresholds");
    }
}
