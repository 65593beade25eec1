//! The SQL that counts requests or checks of an SLO by the minute.

use std::time::Duration;

use weir_config::slos::{SloKind, SloSpec};
use weir_tables::Micros;

/// A span of whole minutes, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MinuteSpan {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl MinuteSpan {
    /// The begins of its minutes.
    pub(super) fn minutes(self) -> impl Iterator<Item = i64> {
        (self.from..self.to).step_by(60)
    }

    /// The condition on `ts`.
    pub(super) fn condition(self) -> String {
        format!("ts >= {} and ts < {}", literal(self.from), literal(self.to))
    }

    /// The span of this length that ends where this one begins or ends: at `to`.
    pub(super) fn before(to: i64, length: Duration) -> Self {
        Self { from: to - i64::try_from(length.as_secs()).unwrap_or(0), to }
    }
}

/// A time as SQL.
pub(super) fn literal(seconds: i64) -> String {
    format!("timestamp '{}'", Micros(seconds.saturating_mul(1_000_000)))
}

/// A text as SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Counts of each minute that has requests: `minute` (seconds since 1970), `total`, `failed`, `hosts`, `upstreams`.
pub(super) fn counts_sql(slo: &SloSpec, span: MinuteSpan) -> String {
    let (table, failed, mut conditions) = parts(slo);
    conditions.push(span.condition());
    let upstreams = if table == "request" {
        format!("string_agg(distinct case when {failed} then upstream_address end, ',')")
    } else {
        "cast(null as varchar)".to_owned()
    };
    format!(
        "select cast(date_part('epoch', date_bin(interval '1 minute', ts)) as bigint) as minute, count(*) as total, \
         count(*) filter (where {failed}) as failed, \
         string_agg(distinct case when {failed} then host end, ',') as hosts, {upstreams} as upstreams \
         from {table} where {} group by 1",
        conditions.join(" and ")
    )
}

/// The table, the condition of a failure, and the conditions of what counts.
fn parts(slo: &SloSpec) -> (&'static str, String, Vec<String>) {
    let mut conditions = Vec::new();
    if slo.kind == SloKind::Checks {
        // What could not be done says nothing.
        conditions.push("status <> 'unknown'".to_owned());
        if !slo.checks.is_empty() {
            let names = slo.checks.iter().map(|name| matches_sql("check", name));
            conditions.push(format!("({})", names.collect::<Vec<_>>().join(" or ")));
        }
        conditions.extend(slo.target.as_ref().map(|target| format!("target = {}", quoted(target))));
        return ("check_result", "status = 'critical'".to_owned(), conditions);
    }
    conditions.push(format!("tier = {}", quoted(&slo.tier)));
    let patterns = [
        ("lower(server_address)", &slo.site),
        ("proxy_backend", &slo.pool),
        ("url_path", &slo.path),
    ];
    for (column, pattern) in patterns {
        conditions.extend(pattern.as_ref().map(|pattern| matches_sql(column, pattern)));
    }
    match slo.below_seconds {
        // A quick error is no good answer, and counts against availability.
        Some(below) => {
            conditions.push("duration_seconds is not null".to_owned());
            conditions.push("coalesce(http_response_status_code, 599) < 500".to_owned());
            ("request", format!("duration_seconds > {below:?}"), conditions)
        }
        // Clients that leave before the answer are no failure of the server.
        None => {
            conditions.push(
                "not (http_response_status_code is null and (coalesce(failure, '') like 'client%' \
                 or coalesce(termination_state, '') like 'C%'))"
                    .to_owned(),
            );
            let failed = "coalesce(http_response_status_code, 599) >= 500".to_owned();
            ("request", failed, conditions)
        }
    }
}

/// Whether a column matches a pattern in which `*` matches any text.
fn matches_sql(column: &str, pattern: &str) -> String {
    if !pattern.contains('*') {
        return format!("{column} = {}", quoted(pattern));
    }
    let mut like = String::new();
    for letter in pattern.chars() {
        match letter {
            '*' => like.push('%'),
            '%' | '_' | '\\' => like.extend(['\\', letter]),
            letter => like.push(letter),
        }
    }
    format!("{column} like {}", quoted(&like))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;
    use weir_config::Config;

    use super::*;

    fn sql(block: &str) -> String {
        let text = format!("[[slos]]\nname = \"a\"\nobjective = 99.9\n{block}");
        let config = Config::read(Path::new("weir.toml"), &text).expect("a good file");
        counts_sql(&config.values.slos[0], MinuteSpan { from: 0, to: 120 })
    }

    #[test]
    fn counts_of_requests_name_failures_and_what_counts() {
        expect![[r#"select cast(date_part('epoch', date_bin(interval '1 minute', ts)) as bigint) as minute, count(*) as total, count(*) filter (where coalesce(http_response_status_code, 599) >= 500) as failed, string_agg(distinct case when coalesce(http_response_status_code, 599) >= 500 then host end, ',') as hosts, string_agg(distinct case when coalesce(http_response_status_code, 599) >= 500 then upstream_address end, ',') as upstreams from request where tier = 'proxy' and lower(server_address) like '%.o''neil.org' and url_path like '/a\_b/%' and not (http_response_status_code is null and (coalesce(failure, '') like 'client%' or coalesce(termination_state, '') like 'C%')) and ts >= timestamp '1970-01-01T00:00:00.000000Z' and ts < timestamp '1970-01-01T00:02:00.000000Z' group by 1"#]]
            .assert_eq(&sql("site = \"*.O'Neil.org\"\npath = \"/a_b/*\"\n"));
    }

    #[test]
    fn counts_of_checks_leave_out_what_is_unknown() {
        let sql =
            sql("kind = \"checks\"\nchecks = [\"login\", \"pay*\"]\ntarget = \"https://x/\"\n");
        let conditions = "status <> 'unknown' and (check = 'login' or check like 'pay%') and target = 'https://x/'";
        assert!(sql.contains(conditions) && sql.contains("from check_result"), "{sql}");
    }
}
