//! Units of columns: the last word of a column's name decides the unit that docs and UI print.

/// The unit in a column's name: `"s"`, `"B"`, `"ratio"`, `"count"`, `"ts"`, or `""` for names and
/// ids.
///
/// `read_seconds_total` is a counter of seconds, so `_total` is stripped first.
pub fn unit_of(column: &str) -> &'static str {
    let is_counter = column.ends_with("_total");
    let base = column.strip_suffix("_total").unwrap_or(column);
    if base.ends_with("seconds") {
        "s"
    } else if base.ends_with("bytes") {
        "B"
    } else if base.ends_with("ratio") {
        "ratio"
    } else if base == "ts" || base.ends_with("_ts") {
        "ts"
    } else if is_counter {
        "count"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::unit_of;

    #[test]
    fn unit_is_read_from_the_last_word() {
        assert_eq!(unit_of("duration_seconds"), "s");
        assert_eq!(unit_of("read_seconds_total"), "s");
        assert_eq!(unit_of("rx_bytes_total"), "B");
        assert_eq!(unit_of("rx_drops_total"), "count");
        assert_eq!(unit_of("some_avg10_ratio"), "ratio");
        assert_eq!(unit_of("started_ts"), "ts");
        assert_eq!(unit_of("host"), "");
    }
}
