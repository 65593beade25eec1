//! A store without files: appends, positions, SQL.

use expect_test::{Expect, expect};
use weir_store::{ErrorKind, Query, Store};
use weir_tables::{Parcel, StreamId};

use crate::tool::{ask, clock, numbered, parcel};

async fn check(sql: &str, answer: Expect) {
    let store = Store::in_memory(clock());
    store.append(parcel(7, 0..5)).await.unwrap();
    answer.assert_eq(&ask(&store, sql).await);
}

#[tokio::test]
async fn appended_rows_are_seen_by_the_next_query() {
    check(
        "select ts, body, attrs['level'] as level from log where source_offset >= 3 order by ts",
        expect![[r#"
            +--------------------------+------+-------+
            | ts                       | body | level |
            +--------------------------+------+-------+
            | 2026-11-20T12:00:00.003Z | 3    | low   |
            | 2026-11-20T12:00:00.004Z | 4    | low   |
            +--------------------------+------+-------+"#]],
    )
    .await;
}

#[tokio::test]
async fn every_table_can_be_asked_and_the_schema_too() {
    check(
        "select count(*) as n from tcp_stat",
        expect![[r#"
        +---+
        | n |
        +---+
        | 0 |
        +---+"#]],
    )
    .await;
    check(
        "select column_name, data_type from information_schema.columns where table_name = 'reject' limit 2",
        expect![[r#"
            +-------------+-------------------------+
            | column_name | data_type               |
            +-------------+-------------------------+
            | ts          | Timestamp(µs, "+00:00") |
            | host        | Utf8                    |
            +-------------+-------------------------+"#]],
    )
    .await;
    check(
        "select now() > timestamp '2020-01-01' as is_later",
        expect![[r#"
        +----------+
        | is_later |
        +----------+
        | true     |
        +----------+"#]],
    )
    .await;
}

#[tokio::test]
async fn writing_by_sql_is_refused() {
    for sql in [
        "create table t (a int)",
        "insert into log values (1)",
        "delete from log",
        "drop table log",
        "copy log to '/tmp/x.parquet'",
        "set datafusion.execution.batch_size = 1",
        "create external table t stored as parquet location '/'",
        "select 1; select 2",
    ] {
        let store = Store::in_memory(clock());
        let error = store.query(Query::new(sql)).run().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadQuery, "{sql}");
    }
}

#[tokio::test]
async fn a_stream_goes_on_where_it_stands() {
    let store = Store::in_memory(clock());
    assert_eq!(store.positions(&[StreamId(7)]), []);
    let first = store.append(parcel(7, 10..20)).await.unwrap();
    assert_eq!((first.rows, first.position), (10, Some(20)));
    assert_eq!(store.positions(&[StreamId(7), StreamId(8)]), [(StreamId(7), 20)]);

    let again = store.append(parcel(7, 10..20)).await.unwrap();
    assert_eq!((again.rows, again.position), (0, Some(20)));
    let overlap = store.append(parcel(7, 15..25)).await.unwrap();
    assert_eq!((overlap.rows, overlap.position), (5, Some(25)));
    let gap = store.append(parcel(7, 30..40)).await.unwrap_err();
    assert_eq!(gap.kind, ErrorKind::Behind { expected: 25 });

    let counted = ask(&store, "select count(*) as n, count(distinct body) as d from log").await;
    expect![[r#"
        +----+----+
        | n  | d  |
        +----+----+
        | 15 | 15 |
        +----+----+"#]]
    .assert_eq(&counted);
}

#[tokio::test]
async fn rows_without_a_stream_are_always_new() {
    let store = Store::in_memory(clock());
    let parcel = Parcel { range: None, batches: vec![numbered(0..3)] };
    for _ in 0..2 {
        let answer = store.append_encoded(parcel.encode(true)).await.unwrap();
        assert_eq!((answer.rows, answer.position), (3, None));
    }
    assert!(ask(&store, "select count(*) from log").await.contains("| 6 "));
}

#[tokio::test]
async fn many_small_appends_stay_complete_and_in_few_batches() {
    let store = Store::in_memory(clock());
    for number in 0..2000 {
        store.append(parcel(7, number..number + 1 + number % 3)).await.ok();
    }
    let sql =
        "select count(distinct body) = count(*) as is_once, min(source_offset) as min from log";
    expect![[r#"
        +---------+-----+
        | is_once | min |
        +---------+-----+
        | true    | 0   |
        +---------+-----+"#]]
    .assert_eq(&ask(&store, sql).await);
}

#[tokio::test]
async fn bytes_that_are_no_parcel_are_refused() {
    let store = Store::in_memory(clock());
    let error = store.append_encoded(b"nonsense".to_vec()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadParcel);
}

#[tokio::test]
async fn answers_are_cut_at_the_limit_and_say_so() {
    let store = Store::in_memory(clock());
    store.append(parcel(7, 0..100)).await.unwrap();
    let limits = weir_store::QueryLimits { rows: 30, ..Default::default() };
    let answer =
        store.query(Query::new("select body from log").limits(limits)).run().await.unwrap();
    assert!(answer.is_truncated);
    assert_eq!(answer.row_count(), 30);
    let answer = store
        .query(Query::new("select body from log limit 30").limits(limits))
        .run()
        .await
        .unwrap();
    assert!(!answer.is_truncated);
}

#[tokio::test]
async fn functions_for_words_addresses_and_parameters() {
    check(
        "select concat('10.0.0.', body) as address, \
           ip_in(concat('10.0.0.', body), '10.0.0.0/30, 2001:db8::/32') as inside, \
           ip_network(concat('10.0.0.', body), 31, 64) as network, \
           has_token(concat('took ', body, 'ms at ', body), body) as unknown \
         from log where source_offset < 1",
        expect!["BadQuery: only the first argument of has_token may be a column, the others are constants"],
    )
    .await;
    check(
        "select body, ip_in(concat('10.0.0.', body), '10.0.0.0/31, 2001:db8::/32') as inside, \
           ip_network(concat('10.0.0.', body), 31, 64) as network, \
           has_token(concat('took ', body, 'ms at ', body), '3') as three, \
           url_parameter(concat('/p?a=1&page=%2', body), 'page') as page, ip_in(body, '::/0') as none \
         from log order by body",
        expect![[r#"
            +------+--------+-------------+-------+------+------+
            | body | inside | network     | three | page | none |
            +------+--------+-------------+-------+------+------+
            | 0    | true   | 10.0.0.0/31 | false |      |      |
            | 1    | true   | 10.0.0.0/31 | false | !    |      |
            | 2    | false  | 10.0.0.2/31 | false | "    |      |
            | 3    | false  | 10.0.0.2/31 | true  | #    |      |
            | 4    | false  | 10.0.0.4/31 | false | $    |      |
            +------+--------+-------------+-------+------+------+"#]],
    )
    .await;
    check(
        "select ip_in('10.1.2.3', '10.0.0/8') as wrong",
        expect![
            "BadQuery: ip_in: `10.0.0/8` is not a network; write `10.0.0.0/8` or `2001:db8::/32`"
        ],
    )
    .await;
    check("select has_token('a b', 'a b') as wrong", expect!["BadQuery: has_token: `a b` is not one word of letters, digits and `_`; ask for each word, joined by `and`"]).await;
    check("select ip_network('::ffff:10.1.2.3', 24, 48) as v4, ip_network('2001:db8:1:2::3', 24, 48) as v6", expect![[r#"
        +-------------+-----------------+
        | v4          | v6              |
        +-------------+-----------------+
        | 10.1.2.0/24 | 2001:db8:1::/48 |
        +-------------+-----------------+"#]]).await;
}
