//! The column cache changes the cost of a query, never its result: the same queries run over files
//! through the cache, over files read from end to end, and over rows in memory.

use arbtest::arbitrary::{Result, Unstructured};
use weir_store::{Query, QueryLimits, Store, StoreOptions};
use weir_tables::{Batch, Micros, Parcel, Request, RequestRows, Rows};

use crate::tool::{NOON, ask, clock, number, options};

/// Rows in files, of three flushes whose times overlap.
const FILED: u64 = 30_000;
/// Rows that stay in memory.
const HOT: u64 = 700;

fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

fn batch(numbers: impl Iterator<Item = u64>) -> Batch {
    let mut rows = RequestRows::default();
    for number in numbers {
        let drawn = mix(number);
        let (id, path) = (format!("{drawn:016x}{number:08x}"), format!("/p/{}", drawn % 90));
        let query = format!("q=w{}+x{}&n={number}", drawn % 13, drawn % 7);
        let some = |share: u64| !mix(number + share).is_multiple_of(share);
        let int = |below: u64| i64::try_from(drawn % below).unwrap();
        rows.push(&Request {
            // Several rows with equal times, and times before 1970 as well.
            ts: Micros(if number % 997 == 0 {
                -int(90_000_000)
            } else {
                NOON.0 + int(600) * 1_000_000
            }),
            host: ["web1", "web2", "web3"][usize::try_from(drawn % 3).unwrap()],
            tier: "proxy",
            source_offset: Some(i64::try_from(number).unwrap()),
            request_id: some(9).then_some(&id),
            url_path: some(11).then_some(&path),
            url_query: some(3).then_some(&query),
            http_response_status_code: some(17).then(|| 200 + 100 * int(4) + int(2)),
            response_bytes: some(5).then(|| int(1_000_000)),
            duration_seconds: some(4)
                .then(|| f64::from(u32::try_from(drawn % 5000).unwrap()) / 1e3),
            ..Default::default()
        });
    }
    Batch { table: RequestRows::SPEC, rows: rows.finish() }
}

async fn add(store: &Store, numbers: impl Iterator<Item = u64>) {
    store.append(Parcel { range: None, batches: vec![batch(numbers)] }).await.unwrap();
}

async fn filled(options: StoreOptions) -> std::sync::Arc<Store> {
    let store = Store::open(options).unwrap();
    for part in 0..3 {
        add(&store, (0..FILED).filter(|number| number % 3 == part)).await;
        store.flush().await.unwrap();
    }
    add(&store, FILED..FILED + HOT).await;
    store
}

fn condition(u: &mut Unstructured<'_>, depth: usize) -> Result<String> {
    let drawn = mix(u.int_in_range(0..=FILED + 2 * HOT)?);
    let inner = |u: &mut Unstructured<'_>| condition(u, depth - 1);
    Ok(match u.int_in_range(0..=if depth == 0 { 14 } else { 17 })? {
        0 => "http_response_status_code >= 500".into(),
        1 => format!("host = 'web{}'", drawn % 4),
        2 => format!("url_query like '%w{}+x{}%'", drawn % 13, drawn % 7),
        3 => format!("url_path like '%/{}%'", drawn % 10),
        4 => format!("contains(url_query, 'n={}')", drawn % 300),
        5 => format!("request_id like '{:04x}%'", drawn >> 32),
        6 => format!("ts >= timestamp '2026-11-20T12:0{}:00Z'", drawn % 10),
        7 => "duration_seconds is null".into(),
        8 => format!("duration_seconds > {}", drawn % 6),
        9 => format!("url_path in ('/p/{}', '/p/{}')", drawn % 90, drawn % 91),
        10 => "response_bytes % 7 = 3".into(),
        11 => "response_bytes > duration_seconds * 200000".into(),
        12 => format!("url_query not like '%x{}%'", drawn % 7),
        13 => "coalesce(url_path, host) = 'web2'".into(),
        14 => format!("url_query ilike '%W{}+%'", drawn % 13),
        15 => format!("({} and {})", inner(u)?, inner(u)?),
        16 => format!("({} or {})", inner(u)?, inner(u)?),
        _ => format!("not ({})", inner(u)?),
    })
}

const KEYS: [&str; 17] = [
    "cast(floor((1795435392 - date_part('epoch', ts)) / 5) as bigint)",
    "date_trunc('minute', ts)",
    "date_trunc('second', ts)",
    "date_trunc('hour', ts)",
    "date_trunc('day', ts)",
    "date_bin(interval '90 seconds', ts)",
    "date_bin(interval '7 days 1 minute', ts)",
    "http_response_status_code",
    "http_response_status_code >= 500",
    "host",
    "url_path",
    "upper(substr(url_query, 1, 5))",
    "request_id",
    "coalesce(nullif(url_path, '/p/7'), host)",
    "concat(coalesce(url_path, 'none'), ':', coalesce(http_response_status_code, 0))",
    "case when http_response_status_code >= 500 then url_path else request_id end",
    "response_bytes % 5 = http_response_status_code % 5",
];

const AGGREGATES: [&str; 9] = [
    "count(*)",
    "count(duration_seconds)",
    "sum(response_bytes)",
    "min(duration_seconds)",
    "max(url_path)",
    "percentile(duration_seconds, 0.9)",
    "count(*) filter (where http_response_status_code >= 500)",
    "sum(response_bytes + 1)",
    "count(distinct host)",
];

const ENDS: [&str; 6] = [
    "min(duration_seconds)",
    "max(url_path)",
    "min(response_bytes + 1)",
    "max(ts)",
    "min(request_id)",
    "max(source_offset)",
];

fn some(u: &mut Unstructured<'_>, of: &[&str], most: usize) -> Result<Vec<String>> {
    let count = u.int_in_range(1..=most)?;
    (0..count).map(|_| Ok((*u.choose(of)?).to_owned())).collect()
}

/// A query that uses its groups three times, over computed columns.
fn named_and_named_again(condition: &str) -> String {
    format!(
        "with few as (
           select host, coalesce(nullif(url_path, '/p/7'), host) as place, duration_seconds * 2 as twice, response_bytes % 10 as digit
           from request where {condition}
         ),
         one as (
           select host, place, count(*) as n, sum(digit) as digits, min(twice) as least, max(twice) filter (where digit > 3) as most
           from few group by 1, 2
         ),
         hosts as (select host, sum(n) as total, max(digits) as most_digits from one group by host)
         select one.host, one.place, one.n, one.least, one.most, hosts.total, hosts.most_digits, other.n as again
         from one join hosts on hosts.host = one.host
         join one other on other.host = one.host and other.place = one.place
         order by 1, 2 limit 500"
    )
}

fn question(u: &mut Unstructured<'_>) -> Result<String> {
    let condition = if u.ratio(1, 5)? { "true".into() } else { condition(u, 2)? };
    Ok(match u.int_in_range(0..=7)? {
        0 => {
            let of: &[&str] = if u.arbitrary()? { &AGGREGATES } else { &ENDS };
            let aggregates = some(u, of, 3)?.join(", ");
            format!("select {aggregates}, min(ts) as first from request where {condition}")
        }
        1 | 2 => {
            let mut keys = some(u, &KEYS, 3)?;
            keys.dedup();
            let aggregates = some(u, &AGGREGATES, 3)?.join(", ");
            let places: Vec<String> = (1..=keys.len()).map(|place| place.to_string()).collect();
            let (keys, places) = (keys.join(", "), places.join(", "));
            format!(
                "select {keys}, {aggregates} from request where {condition} group by {places} order by {places} limit 3000"
            )
        }
        3 => format!(
            "select a.host, a.url_path, count(*), max(a.ts) from request a join (select host, url_path, max(duration_seconds) as most from request where {condition} group by 1, 2) b on a.host = b.host and a.url_path = b.url_path and a.duration_seconds = b.most group by 1, 2 order by 1, 2"
        ),
        4 => {
            let not = u.choose(&["", "not "])?;
            format!(
                "select source_offset, url_path, url_query from request where coalesce(url_path, '-') {not}in (select coalesce(url_path, '-') from request where {condition} and source_offset % 50 = 3) and {condition} order by source_offset limit 40"
            )
        }
        5 => named_and_named_again(&condition),
        6 => format!(
            "select host, ts, source_offset, before from (select *, lag(url_path) over (partition by host order by ts, source_offset) as before from request where {condition}) order by source_offset limit 50"
        ),
        _ => {
            let limit = u.choose(&[1, 10, 500])?;
            format!(
                "select ts, host, url_path, duration_seconds, request_id, http_response_status_code, url_query, attrs from request where {condition} order by ts desc, source_offset limit {limit}"
            )
        }
    })
}

#[test]
fn answers_are_the_same_with_columns_in_memory_and_without() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let (cached, tight, plain, memory) = runtime.block_on(async {
        let with = |at: usize, column_cache_bytes| StoreOptions {
            column_cache_bytes,
            ..options(dirs[at].path())
        };
        let memory = Store::in_memory(clock());
        add(&memory, 0..FILED + HOT).await;
        (
            filled(options(dirs[0].path())).await,
            filled(with(1, 4 << 20)).await,
            filled(with(2, 0)).await,
            memory,
        )
    });
    let plan =
        runtime.block_on(ask(&cached, "explain select host, count(*) from request group by 1"));
    assert!(plan.contains("CodedGroupsExec") && plan.contains(".parquet"), "{plan}");
    let plan =
        runtime.block_on(ask(&plain, "explain select host, count(*) from request group by 1"));
    assert!(!plan.contains("CodedGroupsExec") && plan.contains(".parquet"), "{plan}");
    let sql = format!("explain {}", named_and_named_again("true"));
    let plan = runtime.block_on(ask(&cached, &sql));
    assert_eq!(plan.matches("made once for all that are alike").count(), 3, "{plan}");
    let (mut runs, mut hits) = (0, 0);
    arbtest::arbtest(|u| {
        let sql = question(u)?;
        runtime.block_on(async {
            let expected = ask(&memory, &sql).await;
            assert_eq!(ask(&plain, &sql).await, expected, "{sql}");
            for _ in 0..2 {
                assert_eq!(ask(&cached, &sql).await, expected, "{sql}");
                assert_eq!(ask(&tight, &sql).await, expected, "{sql}");
            }
            runs += 1;
            hits += usize::from(expected.lines().count() > 4);
        });
        Ok(())
    })
    .budget_ms(8000)
    .size_min(256)
    .size_max(2048);
    assert!(runs > 0 && hits * 4 > runs, "{hits} of {runs} answers have rows");
}

#[tokio::test]
async fn groups_without_memory_are_made_by_the_plan_that_spills() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let cached = filled(options(dirs[0].path())).await;
    let without = StoreOptions { column_cache_bytes: 0, ..options(dirs[1].path()) };
    let plain = filled(without).await;
    let sql = "select request_id, url_query, count(*) as n from request group by 1, 2 order by 3 desc, 1, 2 limit 100";
    let (mut answered, mut refused) = (0, 0);
    for mebibytes in [1, 2, 3, 4, 6, 8, 12, 16, 64] {
        let limits = QueryLimits { memory_bytes: mebibytes << 20, ..QueryLimits::default() };
        let Ok(expected) = plain.query(Query::new(sql).limits(limits)).run().await else {
            continue;
        };
        // With barely enough memory, the order of its threads decides whether the plan finishes.
        let Ok(answer) = cached.query(Query::new(sql).limits(limits)).run().await else {
            refused += 1;
            continue;
        };
        assert_eq!(shown(&answer), shown(&expected), "{mebibytes} MiB");
        answered += 1;
    }
    assert!(answered > 0 && refused <= 1, "{answered} {refused}");
}

fn shown(answer: &weir_store::QueryResult) -> String {
    arrow_cast::pretty::pretty_format_batches(&answer.batches).unwrap().to_string()
}

#[tokio::test]
async fn what_a_column_is_read_for_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let opened = StoreOptions { slow_query: std::time::Duration::ZERO, ..options(dir.path()) };
    let store = filled(opened).await;
    let sql = "select count(*) from request where url_query like '%+x3%'";
    let first = number(&store, sql).await;
    assert_eq!(number(&store, sql).await, first);
    let (ended, _) = store.take_ended_queries();
    let read: Vec<u64> = ended.iter().map(|query| query.read_bytes).collect();
    assert!(read[0] > 100_000 && read[1] == 0, "{read:?}");
    let limits = QueryLimits { read_bytes: 1000, ..QueryLimits::default() };
    let refused = store
        .query(Query::new("select max(request_id) from request").limits(limits))
        .run()
        .await
        .unwrap_err();
    assert!(refused.message.contains("read from files"), "{refused}");
    store.query(Query::new(sql).limits(limits)).run().await.unwrap();
}

/// The minimum of an expression is computed even if a column's bound is known sooner.
#[tokio::test]
async fn ends_of_expressions_and_of_columns_are_found_together() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(options(dir.path())).await;
    for end in ENDS {
        let alone = ask(&store, &format!("select {end} as x from request")).await;
        for other in ENDS {
            let both = format!("select x from (select {end} as x, {other} as y from request)");
            assert_eq!(ask(&store, &both).await, alone, "{end} {other}");
            let both = format!("select {end} as x, {other} as y from request");
            let first = alone.lines().nth(3).unwrap().trim_matches(['|', ' ']).to_owned();
            let found = ask(&store, &both).await;
            assert!(found.lines().nth(3).unwrap().contains(&first), "{both}: {found}");
        }
    }
}
