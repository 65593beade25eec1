//! The times at which a rule may have something to say: those at which one of its cheap conditions can be true.

use std::time::Duration;

use weir_tables::Micros;

use crate::Rule;
use crate::rule::literal;

/// What follows the condition in a query that has a row when some row of the last while is so.
const WHILE: &str = " and ts > $now - interval '";
const END: &str = " and ts <= $now limit 1";

/// A condition on single rows: a look at `t` finds it true when a row of the while before `t` is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// `TABLE where CONDITION`.
    rows: String,
    /// How far back a look sees.
    pub window: Duration,
}

impl Gate {
    /// `None` for a query that counts, joins, or bounds the time in another way.
    fn parse(sql: &str) -> Option<Self> {
        let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        let (rows, rest) = sql.strip_prefix("select 1 from ")?.split_once(WHILE)?;
        let (span, end) = rest.split_once('\'')?;
        let is_plain = end == END
            && rows.split_once(' ')?.1.starts_with("where ")
            && ![" join ", "select ", "$now", " group by "].iter().any(|word| rows.contains(word));
        let (number, unit) = span.split_once(' ')?;
        let unit_seconds = match unit.trim_end_matches('s') {
            "second" => 1,
            "minute" => 60,
            "hour" => 3600,
            "day" => 86_400,
            _ => return None,
        };
        let seconds = number.parse::<u64>().ok()?.checked_mul(unit_seconds)?;
        is_plain.then(|| Self { rows: rows.to_owned(), window: Duration::from_secs(seconds) })
    }

    /// The query for the begins, in seconds since 1970, of those `bin`s after `from` and until `to` that have such a row.
    pub fn bins_sql(&self, from: Micros, to: Micros, bin: Duration) -> String {
        let (from, to, bin) = (literal(from), literal(to), bin.as_secs());
        let begin =
            format!("cast(extract(epoch from date_bin(interval '{bin} seconds', ts)) as bigint)");
        let rows = &self.rows;
        format!(
            "select distinct {begin} as bin from {rows} and ts > {from} and ts <= {to} order by 1"
        )
    }
}

impl Rule {
    /// Its conditions on single rows. Where there are some, an answer needs a row for each.
    pub fn gates(&self) -> Vec<Gate> {
        self.when.iter().filter_map(|sql| Gate::parse(sql)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_on_single_rows_are_asked_for_a_long_time_at_once() {
        let gate = Gate::parse(
            "select 1 from request\nwhere status >= 500 and ts > $now - interval '2 minutes' and ts <= $now limit 1",
        );
        let gate = gate.unwrap();
        assert_eq!(gate.window, Duration::from_secs(120));
        let sql = gate.bins_sql(Micros(0), Micros(1_000_000), Duration::from_secs(10));
        let begin = "select distinct cast(extract(epoch from date_bin(interval '10 seconds', ts)) as bigint) as bin from request \
             where status >= 500 and ts > arrow_cast('1970-01-01T00:00:00.000000Z', ";
        assert!(sql.starts_with(begin), "{sql}");
    }

    #[test]
    fn what_counts_or_looks_elsewhere_is_none() {
        for sql in [
            "select host from disk_stat where ts > $now - interval '60 seconds' and ts <= $now group by host limit 1",
            "select 1 from a where x and ts > $now - interval '1 day' - interval '5 minutes' and ts <= $now - interval '1 day' limit 1",
            "select 1 from a where x and ts > $now - interval '9 seconds' and ts <= $now group by b having count(*) > 1 limit 1",
            "select 1 from a join b on a.c = b.c where x and ts > $now - interval '9 seconds' and ts <= $now limit 1",
        ] {
            assert_eq!(Gate::parse(sql), None, "{sql}");
        }
    }
}
