//! Little SQL that asks for much memory or time: refused before it takes it, whatever amplifies.
//!
//! Each of these took gigabytes or minutes, or ended the process.

use std::fmt::Write;
use std::time::Duration;

use weir_store::{ErrorKind, Query, QueryLimits, Store};

use super::{ask, store};

/// 60,000 rows of a text of 20 bytes.
const ROWS: &str =
    "(select value as v, 'abcdefghijklmnopqrst' || value as h from generate_series(1, 60000)) t";
/// Until a query counts as hung: three times its limit, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

async fn run(store: &Store, sql: &str) -> Result<usize, (ErrorKind, String)> {
    let limits = QueryLimits { timeout: Duration::from_secs(10), ..QueryLimits::default() };
    let query = store.query(Query::new(sql).limits(limits));
    let Ok(outcome) = tokio::time::timeout(PATIENCE, query.run()).await else {
        panic!("a query hangs: {sql:.300}")
    };
    outcome.map(|answer| answer.row_count()).map_err(|error| (error.kind, error.to_string()))
}

async fn is_refused(store: &Store, sql: &str, why: &str) {
    let sql = sql.replace("ROWS", ROWS);
    match run(store, &sql).await {
        Ok(rows) => panic!("{rows} rows of: {sql}"),
        Err((kind, text)) => {
            assert!([ErrorKind::BadQuery, ErrorKind::QueryLimit].contains(&kind), "{sql}: {text}");
            assert!(text.contains(why), "{sql}: {text}");
        }
    }
}

#[tokio::test]
async fn functions_that_amplify_are_refused() {
    let store = store();
    for (sql, function) in [
        ("select repeat('x', 2000000000)", "repeat"),
        ("select max(repeat(h, 1000000)) from ROWS", "repeat"),
        ("select max(lpad(h, 1000000000)) from ROWS", "lpad"),
        ("select max(rpad(h, 100000000, 'é')) from ROWS", "rpad"),
        (
            "select max(replace(repeat(h, 1000), 'a', repeat(h, 1000))) from (select * from ROWS limit 100) u",
            "replace",
        ),
        (
            "select max(regexp_replace(repeat(h, 1000), '[a-z]', repeat(h, 1000), 'g')) from (select * from ROWS limit 100) u",
            "regexp_replace",
        ),
        (
            r"select max(regexp_replace(repeat(h, 10000), '(.*)', repeat('\1', 1000))) from (select * from ROWS limit 100) u",
            "regexp_replace",
        ),
        ("select max(array_length(array_repeat(h, 1000000000))) from ROWS", "array_repeat"),
        (
            "select max(array_length(array_resize(make_array(v), 1000000000, 1))) from ROWS",
            "array_resize",
        ),
        ("select max(array_length(range(0, v * 10000000000))) from ROWS", "range"),
        (
            "select array_length(generate_series(timestamp '2020-01-01', timestamp '2026-01-01', interval '1 microsecond'))",
            "generate_series",
        ),
        ("select max(array_length(string_to_array(repeat(h, 1000000), ''))) from ROWS", "repeat"),
        (
            "select max(octet_length(array_to_string(range(0, 10000 + v % 2), repeat(h, 1000)))) from (select * from ROWS limit 100) u",
            "array_to_string",
        ),
        (
            "select max(octet_length(concat(repeat(h, 30000), repeat(h, 30000), repeat(h, 30000)))) from ROWS",
            "",
        ),
    ] {
        is_refused(&store, sql, function).await;
    }
}

/// Templates, JSON and lists whose items are taken one by one.
#[tokio::test]
async fn functions_of_json_and_items_are_refused() {
    let store = store();
    for (sql, function) in [
        ("select octet_length(format(repeat('%1$s', 100000), repeat('x', 1000000)))", "format"),
        (
            "select array_length(array_replace(array_repeat('a', 1000000), 'a', repeat('x', 1000000)))",
            "array_replace",
        ),
        ("select json_array_length(('[' || repeat('1,', 10000000) || '1]')::json)", "json_in"),
        (
            "select ('[' || repeat('1,', 60000) || '1]')::jsonb @> ('[' || repeat('2,', 60000) || '2]')::jsonb",
            "contains_all",
        ),
        ("select to_json(repeat(chr(1), 30000000))", "json_of"),
        ("select 5 = any(range(0, 6000000))", "equals_any"),
        ("select to_char(now(), repeat('Month ', 5000000))", "to_char"),
        ("select string_agg(h, repeat('x', 100000)) from ROWS", "for each row"),
    ] {
        is_refused(&store, sql, function).await;
    }
    for (sql, expected) in [
        ("select format('%s-%5s', 'a', 'b') as x", "a-    b"),
        ("select json_build_object('a', 'b')::text as x", "{\"a\" : \"b\"}"),
        ("select ('[1,2]'::jsonb @> '2'::jsonb)::text as x", "true"),
    ] {
        let answer = ask(&store, sql).await;
        assert!(answer.contains(expected), "{sql}: {answer}");
    }
}

/// Queries that ended or stalled other databases.
#[tokio::test]
async fn queries_of_public_reports_are_refused() {
    let store = store();
    for (sql, function) in [
        // apache/datafusion#5415
        ("select max(rpad('a', 1073741824, 'a')) from ROWS", "rpad"),
        // cockroachdb/cockroach#24967
        ("select lpad('12345', 9223372036854775807)", "lpad"),
        // duckdb/duckdb#12017
        ("select repeat(repeat('0', 24), 4611686018427387904)", "repeat"),
        // duckdb/duckdb#21873
        ("select array_repeat(make_array(1, 2, 3), 6148914691236517206)", "array_repeat"),
        // apache/datafusion#12919
        ("select generate_series(9876543210)", "generate_series"),
        // cockroachdb/cockroach#18070
        ("select generate_series(-5191672249363875821, 2)", "generate_series"),
    ] {
        is_refused(&store, sql, function).await;
    }
    for sql in [
        // risingwavelabs/risingwave#4318
        "select count(*) from generate_series(0, 5, 0)",
        // apache/datafusion#22208
        "select * from generate_series(9223372036854775806, 9223372036854775807, 2)",
        // risingwavelabs/risingwave#10769
        "select count(*) from generate_series(1, 50000000000)",
        // Recursion without an end.
        "with recursive t as (select 1 as n union all select n + 1 from t) select max(n) from t",
        "with recursive t as (select 'a' as s union all select s || s from t) select count(*) from t",
    ] {
        if let Err((kind, text)) = run(&store, sql).await {
            assert!([ErrorKind::BadQuery, ErrorKind::QueryLimit].contains(&kind), "{sql}: {text}");
        }
    }
}

/// apache/datafusion#16517, PR 23207: no operator reserves what a window function returns.
#[tokio::test]
async fn results_of_window_functions_are_bounded() {
    let store = store();
    for (sql, function) in [
        ("select h, array_agg(h) over () from ROWS limit 1", "array_agg"),
        ("select string_agg(h, ',') over (order by v) from ROWS limit 1", "string_agg"),
        ("select array_agg(h) over (partition by v % 2) from ROWS limit 1", "array_agg"),
        (
            "select array_agg(h) over (order by v rows between 5000 preceding and current row) from ROWS",
            "",
        ),
        ("select count(x) from (select array_agg(h) over () as x from ROWS) s", "array_agg"),
        (
            "select max(octet_length(x)) from (select first_value(repeat(h, 10000)) over () as x from (select * from ROWS limit 400) u) s",
            "",
        ),
        (
            "select max(octet_length(x)) from (select max(w) over () as x from (select repeat(h, 100000) as w from ROWS where v < 20 union all select h from ROWS) u) s",
            "max",
        ),
        (
            "select max(octet_length(x)) from (select lag(w) over (order by v) as x from (select v, case when v = 1 then repeat(h, 1000000) else h end as w from ROWS) u) s",
            "",
        ),
    ] {
        let outcome = run(&store, &sql.replace("ROWS", ROWS)).await;
        if !function.is_empty() {
            let (_, text) = outcome.expect_err(sql);
            assert!(text.contains(&format!("`{function}` as a window function")), "{sql}: {text}");
        }
    }
}

#[tokio::test]
async fn values_that_are_copied_to_each_row_are_bounded() {
    let store = store();
    let literal = "x".repeat(1 << 20);
    for (sql, why) in [
        ("select v, repeat('x', 10000000) from ROWS", "a constant in each row"),
        (
            format!(
                "select max(v), max(octet_length(c)) from (select v, '{literal}' as c from ROWS) s"
            )
            .as_str(),
            "",
        ),
        (format!("select v, '{literal}' as c from ROWS").as_str(), "a constant in each row"),
        (
            format!("select max(case when v > 5 then '{literal}' else h end) from ROWS").as_str(),
            "a constant in each row",
        ),
        (format!("select max(coalesce(nullif(h, 'a'), '{literal}') || h) from ROWS").as_str(), ""),
        (
            "select v, (select repeat(min(h), 1000000) from ROWS) from ROWS",
            "a constant in each row",
        ),
        (
            "select a.w, b.v from (select repeat(h, 1000000) as w from ROWS where v < 3) a cross join ROWS",
            "",
        ),
        (
            "select max(a.w || b.h) from (select repeat(h, 1000000) as w, v % 2 as k from ROWS where v < 3) a join (select h, v % 2 as k from ROWS) b on a.k = b.k",
            "meets a join",
        ),
        (
            "select max(w), max(i) from (select repeat(h, 1000000) as w, unnest(range(0, 100000)) as i from ROWS where v < 3) s",
            "meets a join",
        ),
        ("select null::int[2000000000]", "items in each value"),
        ("select arrow_cast(null, 'FixedSizeBinary(2000000000)')", "items in each value"),
    ] {
        let outcome = run(&store, &sql.replace("ROWS", ROWS)).await;
        if !why.is_empty() {
            let (_, text) = outcome.expect_err(&sql[..sql.len().min(200)]);
            assert!(text.contains(why), "{sql:.200}: {text:.300}");
        }
    }
}

/// Steps that double: by `||`, and by names of `with` (the "billion laughs" of SQL).
#[tokio::test]
async fn chains_that_double_are_bounded() {
    let store = store();
    let chain = |first: &str, each: &dyn Fn(usize) -> String, last: usize| {
        let steps: String = (1..=last).map(|at| format!(", c{at} as ({})", each(at - 1))).collect();
        format!("with c0 as ({first}){steps} select octet_length(max(s)) from c{last}")
    };
    let rows = format!("select h as s from {ROWS}");
    let doubled = chain(&rows, &|at| format!("select s || s as s from c{at}"), 40);
    is_refused(&store, &doubled, "").await;
    let wide = chain(&rows, &|at| format!("select concat(s, s, s, s) as s from c{at}"), 40);
    is_refused(&store, &wide, "").await;
    let joined = chain("select 'a' as s", &|at| format!("select x.s from c{at} x, c{at} y"), 30);
    is_refused(&store, &joined, "once the names of `with`").await;
    let columns = "with c0 as (select 1 as x, 2 as y)".to_owned()
        + &(1..30)
            .map(|at| format!(", c{at} as (select * from c{0} x, c{0} y)", at - 1))
            .collect::<String>()
        + " select 1";
    is_refused(&store, &columns, "once the names of `with`").await;
}

#[tokio::test]
async fn functions_that_take_long_for_one_row_are_refused() {
    let store = store();
    for (sql, why) in [
        ("select levenshtein(repeat('ab', 150000), repeat('ba', 150000))", "levenshtein"),
        (
            "select max(levenshtein(repeat(h, 10000), repeat(h, 10000))) from (select * from ROWS limit 100) u",
            "levenshtein",
        ),
        ("select array_has_all(range(0, 1000000), range(1, 1000000))", "array_has_all"),
        ("select h ~ '(?:(?:a{1000}){1000}){1000}' from ROWS", "instructions"),
        ("select regexp_like(h, '(?:x{500}){500}') from ROWS", "instructions"),
    ] {
        is_refused(&store, sql, why).await;
    }
    // Short texts in many rows: stopped at the query's time, and the thread is free again.
    let many = format!("select sum(levenshtein(repeat(h, 100), repeat('y', 3000))) from {ROWS}");
    let (kind, text) = run(&store, &many).await.expect_err("it takes minutes");
    assert!([ErrorKind::BadQuery, ErrorKind::QueryLimit].contains(&kind), "{text}");
}

#[tokio::test]
async fn usual_calls_of_bounded_functions_are_as_before() {
    let store = store();
    for (sql, expected) in [
        ("select 'a' || 1 || null is null as x, 'a' || 1 || 'c' as y", "true | a1c"),
        (
            "select count(distinct h || '-' || v) as x, max(octet_length(replace(h, 'a', 'xyz'))) as y from ROWS",
            "60000 | 27",
        ),
        (
            "select max(regexp_replace(h, '([a-z]+)', '<\\1>')) as x, max(octet_length(lpad(h, 200))) as y from ROWS",
            "<abcdefghijklmnopqrst>9999 | 200",
        ),
        (
            "select sum(octet_length(repeat(h, 40))) as x, sum(levenshtein(h, 'abc')) as y from ROWS",
            "59555760 | 1308894",
        ),
        (
            "select sum(array_length(string_to_array(repeat(h || ',', 30), ','))) as x, sum(array_length(range(0, v % 10))) as y from ROWS",
            "1860000 | 270000",
        ),
        (
            "select max(array_length(a)) as x, sum(octet_length(s)) as y from (select array_agg(h) over (partition by v / 10) as a, string_agg(h, '') over (partition by v / 10) as s from (select * from ROWS where v < 1000) t) u",
            "10 | 228501",
        ),
        (
            "select max(p) as x, count(n) as y from (select lag(h) over (order by v) as p, lead(h) over (order by v) as n from ROWS) u",
            "abcdefghijklmnopqrst9999 | 59999",
        ),
        (
            "select array_has(make_array('a', 'b'), 'b') as x, strpos(h, 'z') as y from ROWS where v = 7",
            "true | 0",
        ),
        (
            "select array_concat(make_array(1), make_array(2)) as x, to_char(timestamp '2026-11-20 12:00:00', '%Y') as y",
            "[1, 2] | 2026",
        ),
    ] {
        let answer = ask(&store, &sql.replace("ROWS", ROWS)).await;
        let row: Vec<_> =
            answer.lines().nth(3).unwrap_or(&answer).split('|').map(str::trim).collect();
        assert_eq!(row.join(" | ").trim_matches(['|', ' ']), expected, "{sql}\n{answer}");
    }
    let named = ask(&store, &format!("select 'a' || h from {ROWS} limit 1")).await;
    assert!(named.contains("|| t.h"), "{named}");
}

/// apache/datafusion#17857 (`||` in a recursion) for bytes, lists and windows as well: `||` and
/// functions of bytes and lists, windows that collect, and recursion that doubles.
#[tokio::test]
async fn bytes_lists_and_recursion_are_bounded_like_texts() {
    let store = store();
    let steps: String =
        (1..=40).map(|at| format!(", c{at} as (select b || b as b from c{})", at - 1)).collect();
    let chain = format!(
        "with c0 as (select h::bytea as b from ROWS){steps} select max(octet_length(b)) from c40"
    );
    is_refused(&store, &chain, "").await;
    for sql in [
        "select max(octet_length(repeat(h, 30000)::bytea || repeat(h, 30000)::bytea)) from ROWS",
        "select max(array_length(array_concat(array_repeat(h, 100000), array_repeat(h, 100000)))) from ROWS",
        "select string_agg(h, ',') over (order by v rows between unbounded preceding and current row) from ROWS",
        "select max(octet_length(string_agg(h, h) over ())) from (select * from ROWS limit 50000) u",
        "with recursive t as (select 'a'::bytea as b union all select b || b from t) select count(*) from t",
        "with recursive t as (select make_array(1) as a union all select array_concat(a, a) from t) select count(*) from t",
        "with recursive t as (select 1 as n union all select a.n from t a, (select * from ROWS) b) select count(*) from t",
        "with recursive t as (select repeat('a', 1000) as s union all select concat(s, s, s) from t) select max(octet_length(s)) from t",
    ] {
        is_refused(&store, sql, "").await;
    }
    let joined =
        ask(&store, "select encode('ab'::bytea || 'c'::bytea || 'd'::bytea, 'hex') as x").await;
    assert!(joined.contains("61626364"), "{joined}");
    let none = ask(&store, "select ('ab'::bytea || null::bytea) is null as x").await;
    assert!(none.contains("true"), "{none}");
    assert_eq!(run(&store, "select 1").await, Ok(1));
}

/// Writes hostile queries: deep, wide and amplifying, also those without sense.
struct HostileGrammar {
    chance: fastrand::Rng,
}

impl HostileGrammar {
    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        let at = self.chance.usize(..choices.len());
        choices[at]
    }

    fn number(&mut self) -> String {
        self.of(&[
            "v",
            "0",
            "1",
            "7",
            "-1",
            "100",
            "5000",
            "1000000",
            "2000000000",
            "9223372036854775807",
            "v * 1000",
            "octet_length(h)",
            "null",
        ])
        .to_owned()
    }

    fn text(&mut self, depth: u64) -> String {
        if depth == 0 {
            return self
                .of(&["h", "h", "'x'", "''", "'é'", "null", "'(a+)+b'", "v::text"])
                .to_owned();
        }
        let (a, b, n) = (self.text(depth - 1), self.text(depth - 1), self.number());
        match self.chance.u64(..18) {
            16 => format!("encode({}, 'hex')", self.bytes(depth - 1)),
            17 => format!("(select string_agg({a}, {b}) from u)"),
            0 => format!("repeat({a}, {n})"),
            1 => format!("lpad({a}, {n}, {b})"),
            2 => format!("rpad({a}, {n})"),
            3 => format!("replace({a}, {b}, {a})"),
            4 => format!("regexp_replace({a}, '[a-z]', {b}, 'g')"),
            5 => format!("concat({a}, {b}, {a})"),
            6 => format!("({a} || {b} || {a})"),
            7 => format!("translate({a}, 'abc', 'éèà')"),
            8 => format!("overlay({a} placing {b} from 1)"),
            9 => format!("array_to_string({}, {b})", self.list(depth - 1)),
            10 => format!("case when v % 3 = 0 then {a} else {b} end"),
            11 => format!("coalesce({a}, {b})"),
            12 => format!("upper(reverse({a}))"),
            13 => format!("(select max({a}) from u)"),
            14 => format!("substr({a}, 1, 100)"),
            _ => format!("concat_ws({a}, {b}, {b}, {b})"),
        }
    }

    fn bytes(&mut self, depth: u64) -> String {
        if depth == 0 {
            return self.of(&["h::bytea", "'x'::bytea", "null::bytea", "''::bytea"]).to_owned();
        }
        let (a, b) = (self.bytes(depth - 1), self.bytes(depth - 1));
        match self.chance.u64(..6) {
            0 => format!("({a} || {b} || {a} || {b})"),
            1 => format!("{}::bytea", self.text(depth - 1)),
            2 => format!("coalesce({a}, {b})"),
            3 => format!("repeat({a}, {})", self.number()),
            4 => format!("decode(encode({a}, 'hex'), 'hex')"),
            _ => format!("(select max({a} || {b}) from u)"),
        }
    }

    fn list(&mut self, depth: u64) -> String {
        let (a, n, m) = (self.text(depth.min(1)), self.number(), self.number());
        match self.chance.u64(..11) {
            8 => format!("array_concat({0}, {0})", self.list_of(depth)),
            9 => format!("array_remove(array_repeat({a}, {n}), {a})"),
            10 => format!("(select array_agg({a}) from u)"),
            0 => format!("range(0, {n})"),
            1 => format!("array_repeat({a}, {n})"),
            2 => format!("string_to_array({a}, '')"),
            3 => format!("make_array({a}, {a}, {a})"),
            4 => format!("array_resize(make_array({a}), {n})"),
            5 => format!("generate_series({n}, {m})"),
            6 => format!("array_concat(make_array({a}), array_repeat({a}, {n}))"),
            _ => format!("array_append(array_repeat({a}, 10), {a})"),
        }
    }

    /// A list in a list.
    fn list_of(&mut self, depth: u64) -> String {
        if depth == 0 { "make_array(h, h)".to_owned() } else { self.list(depth - 1) }
    }

    fn size(&mut self) -> String {
        let (a, b) = (self.text(2), self.text(1));
        match self.chance.u64(..7) {
            6 => format!("octet_length({})", self.bytes(3)),
            0 => format!("levenshtein({a}, {b})"),
            1 => format!("strpos({a}, {b})"),
            2 => format!("array_length({})", self.list(2)),
            3 => format!("case when {a} ~ {b} then 1 else 0 end"),
            4 => format!("case when {a} like '%' || {b} || '%' then 1 else 0 end"),
            _ => format!("octet_length({a})"),
        }
    }

    /// A recursive name, which grows with each step, and a query of it.
    fn recursion(&mut self, list: &str) -> String {
        let text = self.text(1).replace('h', "t");
        let grown = self.of(&["b || b", "b || 'x'::bytea", "repeat(b, 9)", "h::bytea || b"]);
        match self.chance.u64(..3) {
            0 => format!(
                ", r as (select v, h as t from u union all select v, {text} from r, u) select max(octet_length(t)) from r"
            ),
            1 => format!(
                ", r as (select 1 as n, h::bytea as b, h from u union all select n + 1, {grown}, h from r) select max(n), max(octet_length(b)) from r"
            ),
            _ => format!(
                ", r as (select {list} as a from u union all select array_concat(a, a) from r) select count(*), max(array_length(a)) from r"
            ),
        }
    }

    fn query(&mut self) -> String {
        let rows = self.of(&["1", "100", "20000"]);
        let table = format!(
            "(select value as v, 'abcdefghij' || value as h from generate_series(1, {rows}))"
        );
        let mut sql = format!("with recursive u as {table}");
        let (size, text, list) = (self.size(), self.text(3), self.list(2));
        let frame = self.of(&[
            "",
            "order by v",
            "partition by v % 5",
            "order by v rows between 100 preceding and current row",
            "order by v rows between unbounded preceding and unbounded following",
        ]);
        let tail = match self.chance.u64(..14) {
            0 => format!("select {text} from u"),
            1 => format!("select max({size}), count(*) from u"),
            2 => format!("select {size}, count(*) from u group by 1"),
            3 => format!("select array_agg({text}) over ({frame}) from u"),
            4 => format!("select string_agg({text}, ',') over ({frame}) from u limit 3"),
            5 => format!("select lag({text}) over ({frame}), max({text}) over ({frame}) from u"),
            6 => format!("select h, unnest({list}) from u"),
            7 => format!(
                "select max(a.t || b.h) from (select v, {text} as t from u) a join u b on a.v % 7 = b.v % 7"
            ),
            8 => format!("select count(*) from (select {text} as t from u) a, u b, u c"),
            9 | 12 | 13 => self.recursion(&list),
            10 => {
                for at in 0..self.chance.u64(..30) {
                    let from = if at == 0 { "u".to_owned() } else { format!("d{}", at - 1) };
                    let join = self.of(&["", ", FROM y"]).replace("FROM", &from);
                    write!(sql, ", d{at} as (select x.v, x.h || x.h as h from {from} x{join})")
                        .expect("memory is enough");
                    if self.chance.u64(..8) == 0 {
                        return format!("{sql} select max(octet_length(h)) from d{at}");
                    }
                }
                "select string_agg(h, ',') from u".to_owned()
            }
            _ => format!("select * from u where {size} > 3 order by {text} limit 5"),
        };
        format!("{sql} {tail}")
    }
}

/// A number from the environment.
fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// 200 queries; `WEIR_ROUNDS=200` runs 10,000. `WEIR_SEED` replays others.
#[tokio::test]
async fn hostile_queries_are_answered_or_refused() {
    let rounds = set("WEIR_ROUNDS").map_or(200, |rounds| rounds * 50);
    let seed = set("WEIR_SEED").unwrap_or(20_261_127);
    println!("WEIR_SEED={seed}");
    let store = store();
    let mut grammar = HostileGrammar { chance: fastrand::Rng::with_seed(seed) };
    let limits = QueryLimits { timeout: Duration::from_millis(200), ..QueryLimits::default() };
    for round in 0..rounds {
        let sql = grammar.query();
        let query = store.query(Query::new(&sql).limits(limits));
        let Ok(outcome) = tokio::time::timeout(PATIENCE, query.run()).await else {
            panic!("query {round} hangs: {sql}")
        };
        if let Err(error) = outcome {
            let refusals = [ErrorKind::BadQuery, ErrorKind::QueryLimit];
            assert!(refusals.contains(&error.kind), "query {round}: {sql}\n{error}");
        }
    }
    assert_eq!(run(&store, "select 1").await, Ok(1));
}

/// Each of them took a thread for hours.
#[tokio::test]
async fn joins_end_with_their_query() {
    const SERIES: &str =
        "select sum(1) from generate_series(1, 1000000000) a, generate_series(1, 1000000000) b";
    const NEVER_TRUE: &str = "with s as (select value % 2 as k, value as v from generate_series(1, 100000)) \
        select count(*) from s a join s b on a.k = b.k join s c on b.k = c.k where a.v + c.v > 1000000000";
    let store = store();
    for sql in [SERIES, NEVER_TRUE].into_iter().cycle().take(12) {
        let limits = QueryLimits { timeout: Duration::from_millis(500), ..QueryLimits::default() };
        let ended = store.query(Query::new(sql).limits(limits)).run().await;
        assert_eq!(ended.map_err(|error| error.kind).err(), Some(ErrorKind::QueryLimit));
    }
    assert_eq!(run(&store, "select sum(value) from generate_series(1, 1000)").await, Ok(1));
}
