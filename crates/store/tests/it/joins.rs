//! Joins larger than memory: the same rows as in memory, or a clear limit error.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use weir_store::{Asker, ErrorKind, Query, QueryEnd, QueryLimits, Store, StoreOptions};

use crate::tool::{eventually, options};

fn open(settings: StoreOptions) -> Arc<Store> {
    // Records every ended query; several threads produce rows in parts.
    Store::open(StoreOptions { slow_query: Duration::ZERO, query_threads: 3, ..settings }).unwrap()
}

fn within(memory_bytes: usize) -> QueryLimits {
    QueryLimits { memory_bytes, ..QueryLimits::default() }
}

fn spilled_files(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("spill")).unwrap().count()
}

/// Runs the query in memory, then for a user and for a rule with little memory.
async fn compare(store: &Store, sql: &str, memory_bytes: usize) {
    let in_memory = store.query(Query::new(sql)).run().await.unwrap();
    assert!(in_memory.batches[0].column(0).as_primitive::<Int64Type>().value(0) > 0, "{sql}");
    let limits = within(memory_bytes);
    for limits in [limits, QueryLimits { asker: Asker::Rule, ..limits }] {
        let on_disk = store
            .query(Query::new(sql).limits(limits))
            .run()
            .await
            .unwrap_or_else(|error| panic!("{error}: {sql}"));
        assert_eq!(on_disk.batches, in_memory.batches, "{sql}");
    }
    let (ended, _) = store.take_ended_queries();
    let spilled: Vec<bool> = ended.iter().map(|query| query.spilled_bytes > 0).collect();
    assert_eq!(spilled, [false, true, true], "{sql}");
    // Allocations that cannot wait exceed the limit slightly.
    let most = memory_bytes as u64 * 3 / 2;
    let is_told = |query: &weir_store::EndedQuery| {
        query.end == QueryEnd::Answered && query.memory_bytes <= most
    };
    assert!(ended[1..].iter().all(is_told), "{ended:?}");
}

#[tokio::test]
async fn joins_by_equal_values_go_on_on_disk_with_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(options(dir.path()));
    // Keys occur several times or not at all on either side, and may be NULL.
    let (left, right) = (keys("l", 400_009), keys("r", 800_011));
    let (of_both, of_left) = ("sum(l * r % 1009), sum(b.k), sum(r)", "max(l)");
    let (equal, more) = ("a.k = b.k", "a.k = b.k and l % 3 < r % 5");
    let (texts, nulls) = ("concat('k', a.k) = concat('k', b.k)", "a.k is not distinct from b.k");
    for (kind, condition, sums) in [
        ("join", equal, of_both),
        ("join", texts, of_both),
        ("join", nulls, of_both),
        ("left join", more, of_both),
        ("right join", equal, of_both),
        ("full join", more, of_both),
        ("left semi join", more, of_left),
        ("left anti join", equal, of_left),
    ] {
        let sums = format!("count(*), count(a.k), sum(a.k), sum(l), {sums}");
        let sql = format!("select {sums} from {left} a {kind} {right} b on {condition}");
        // Batches with strings are larger: with 20 MiB, a sort's share was too small for one batch
        // in one run of hundreds.
        let memory_bytes = if condition == texts { 26 << 20 } else { 20 << 20 };
        compare(&store, &sql, memory_bytes).await;
    }
    eventually(async || spilled_files(dir.path()) == 0).await;
}

fn keys(side: &str, times: u32) -> String {
    let key = format!("nullif(value * 7919 % {times}, 5)");
    format!("(select {key} as k, value as {side} from generate_series(1, 1200000))")
}

#[tokio::test]
async fn joins_by_other_conditions_go_on_on_disk_with_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(options(dir.path()));
    let many = "(select value as l, repeat('x', 20) as pad from generate_series(1, 300000) where value % 10 > 0)";
    let few = "(select nullif(value * 3000, 9000) as r from generate_series(1, 50)
        union all select value * 3000 + 7 from generate_series(40, 100))";
    let of_both = "sum(l * r % 1009), sum(r), count(distinct r)";
    let (first, second) = ("l % 1000 < r - 290000 and l % 3 <> r % 7", "r - l between 0 and 1500");
    for (kind, condition, sums) in [
        ("join", first, of_both),
        ("left join", second, of_both),
        ("left semi join", first, "max(l)"),
        ("left anti join", second, "max(l)"),
    ] {
        let sums = format!("count(*), sum(l), sum(length(pad)), {sums}");
        let sql = format!("select {sums} from {many} a {kind} {few} b on {condition}");
        compare(&store, &sql, 8 << 20).await;
    }
    eventually(async || spilled_files(dir.path()) == 0).await;
}

#[tokio::test]
async fn joins_that_cannot_go_on_end_with_their_limit_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(StoreOptions { query_spill_bytes: 4 << 20, ..options(dir.path()) });
    let from = [unequal("a"), unequal("b"), unequal("c")].join(" cross join ");
    // A spilled full join would lose unmatched rows of the right side.
    let full = format!("{} full join {} on a.v < b.v - 1", unequal("a"), unequal("b"));
    for (from, text, end) in [
        (from.clone(), "more than 8 MiB of memory", QueryEnd::Memory),
        (full, "more than 8 MiB of memory", QueryEnd::Memory),
        (
            format!("{from} where a.v < b.v and b.v < c.v"),
            "used up its spill space on disk",
            QueryEnd::Spill,
        ),
    ] {
        let sql = format!("select sum(a.v), sum(b.v) from {from}");
        let error = store.query(Query::new(&sql).limits(within(8 << 20))).run().await.unwrap_err();
        assert!(error.kind == ErrorKind::QueryLimit && error.message.contains(text), "{error}");
        assert!(error.hint.is_some(), "{error}");
        assert_eq!(store.take_ended_queries().0[0].end, end);
    }
    eventually(async || spilled_files(dir.path()) == 0).await;
}

fn unequal(name: &str) -> String {
    format!(
        "(select value * 7 as v from generate_series(1, 2000000) where value % 1000 > 0) {name}"
    )
}
