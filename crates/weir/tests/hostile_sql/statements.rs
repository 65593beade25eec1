//! Generated statements of extreme length and depth: each is answered or refused, and the process
//! goes on.

use std::time::Duration;

use weir_store::{ErrorKind, Query, QueryLimits, Store};

use super::{number, store};

/// Start, repeated part and end of a statement.
type Chain = (&'static str, &'static str, &'static str);

/// Kinds of statements that are as deep as they are long.
const CHAINS: &[Chain] = &[
    ("select 1", "::int", ""),
    ("select true", " or true", ""),
    ("select count(*) from log where body = 'x'", " or body = 'y'", ""),
    ("select count(*) from log where source_offset > 1", " and source_offset > 2", ""),
    ("select 1", " union all select 1", ""),
    ("select 1", " union select 2", ""),
    ("select 1", " intersect select 1", ""),
    ("select 1", " + 1", ""),
    ("select count(*) from log where source_offset", " + source_offset", " > 5"),
    ("select 'a'", " || 'b'", ""),
    ("select count(*) from log where body", " || body", " > 'x'"),
    ("select count(*) from log where body || host", " || upper(body || host)", " > 'x'"),
    ("select '{}'", " -> 'a'", ""),
    ("select '{}'", "::jsonb", ""),
    ("select now()", " at time zone 'UTC'", ""),
    ("select interval '1 day'", " * 2", ""),
    ("select array[1]", " @> array[1]", ""),
    ("select 1", " << 1", ""),
    ("select ", "|/ ", "1.0"),
    ("select ", "~ ", "1"),
    ("select 1 = 1", " between false and true", ""),
    ("select 1", " is not distinct from 1", ""),
    ("select ", "coalesce(null, ", "1"),
    ("select ", "array[", "1"),
    ("select 1 where exists ", "(select 1 where exists ", "(select 1)"),
    ("select 1", " is null", ""),
    ("select 1 in (1", ", 2", ")"),
    ("select array_length(make_array(1", ", 2", "))"),
    ("select ", "not ", "true"),
    ("select ", "- ", "1"),
    ("select ", "(", "1"),
    ("select ", "abs(", "1"),
    ("select ", "case when true then ", "1"),
    ("select case", " when 1 = 2 then 3", " end"),
    ("select * from ", "(select * from ", "log"),
    ("select ", "[", "1"),
    ("select ", "sqrt(", "16.0"),
    ("select ", "power(2, ", "1"),
    ("select ", "(array[1, 2])[", "1"),
    ("select true", " > any(array[true, false])", ""),
    ("select count(*) from log where 1 / source_offset > 0", " and 1 / source_offset > 0", ""),
    ("select count(*) from log where 1 / source_offset > 0", " or 1 / source_offset > 0", ""),
    ("select count(*) from log where source_offset", " * 2 - source_offset", " > 5"),
];

fn statement((start, each, end): Chain, count: usize) -> String {
    let opened = each.matches(['(', '[']).count() - each.matches([')', ']']).count();
    let close = match (opened, each.contains('['), each.contains("case when")) {
        (0, _, true) => " end".repeat(count),
        (1, true, _) => "]".repeat(count),
        (1, false, _) => ")".repeat(count),
        _ => String::new(),
    };
    format!("{start}{}{end}{close}", each.repeat(count))
}

async fn answered_or_refused(store: &Store, sql: &str, kind: &str) {
    let limits = QueryLimits { timeout: Duration::from_secs(20), ..QueryLimits::default() };
    let refusals = [ErrorKind::BadQuery, ErrorKind::QueryLimit];
    if let Err(error) = store.query(Query::new(sql).limits(limits)).run().await {
        assert!(refusals.contains(&error.kind), "{kind}: {error}");
        assert!(error.to_string().len() < 2000, "{kind}: {error}");
    }
}

#[tokio::test]
async fn generated_statements_are_answered_or_refused() {
    let store = store();
    for chain in CHAINS {
        for count in [40, 60, 250, 500, 1000, 100_000] {
            let kind = format!("{count} × `{}`", chain.1);
            answered_or_refused(&store, &statement(*chain, count), &kind).await;
        }
    }
    let names = |count: usize| {
        let names = (1..count).map(|at| format!(", c{at} as (select * from c{})", at - 1));
        let names: String = names.collect();
        format!("with c0 as (select 1 as x){names} select * from c{}", count - 1)
    };
    let joins = |count: usize| format!("select 1 from log t0{}", " join log on true".repeat(count));
    for count in [60, 100_000] {
        answered_or_refused(&store, &names(count), "names of `with`").await;
        answered_or_refused(&store, &joins(count), "joins").await;
    }
    assert_eq!(number(&store, "select count(*) from log").await, 0);
}

#[tokio::test]
async fn statements_of_dashboards_still_run() {
    let store = store();
    for (chain, count) in [
        (("select count(*) from log where host = 'a'", " or host = 'b'", ""), 300),
        (("select count(*) from log where host in ('a'", ", 'b'", ")"), 20_000),
        (("select 1", " union all select 1", ""), 200),
        (("select 1", ", 2 + 3", ""), 1),
    ] {
        let sql = statement(chain, count);
        store.query(Query::new(&sql)).run().await.unwrap();
    }
}
