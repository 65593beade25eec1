//! The text index skips blocks, never rows: files and memory return the same results for random
//! queries.

use arbtest::arbitrary::{Result, Unstructured};
use weir_store::Store;
use weir_tables::{Batch, Micros, Parcel, Request, RequestRows, Rows};

use crate::tool::{NOON, ask, clock, metric, number, options};

/// Rows in files: five blocks and a little more.
const FILED: u64 = 43_000;
/// Rows that stay in memory.
const HOT: u64 = 500;
const WORDS: [&str; 12] = [
    "harbour",
    "Museum",
    "cart",
    "CART",
    "carts",
    "x1",
    "Kelvin",
    "\u{212a}elvin",
    "stra\u{df}e",
    "\u{17f}ail",
    "1234",
    "a_b",
];
const MARKS: [&str; 6] = ["/", "-", "+", " ", "%", "."];

/// Mixes a number, so that every run gets the same rows.
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8
}

pub(crate) fn id(number: u64) -> String {
    format!("{:016x}{:016x}", mix(number), mix(number + 1_000_000))
}

/// Common words, and one that only a range of rows has.
fn path(number: u64) -> String {
    let word = |at: u64| WORDS[usize::try_from(mix(number * 7 + at) % 12).unwrap()];
    let mark = |at: u64| MARKS[usize::try_from(mix(number * 5 + at) % 6).unwrap()];
    format!("/{}{}{}{}stretch{}", word(1), mark(1), word(2), mark(2), number / 3000)
}

pub(crate) fn batch(numbers: std::ops::Range<u64>) -> Batch {
    let mut rows = RequestRows::default();
    for number in numbers {
        let (id, path) = (id(number), path(number));
        rows.push(&Request {
            ts: Micros(NOON.0 + i64::try_from(number).unwrap() * 1000),
            host: "web1",
            tier: "proxy",
            request_id: (number % 7 != 0).then_some(&id),
            url_path: (number % 11 != 0).then_some(&path),
            http_response_status_code: Some(200 + i64::try_from(mix(number) % 4).unwrap()),
            ..Default::default()
        });
    }
    Batch { table: RequestRows::SPEC, rows: rows.finish() }
}

async fn fill(store: &Store, numbers: std::ops::Range<u64>) {
    let batches = vec![batch(numbers)];
    store.append(Parcel { range: None, batches }).await.unwrap();
}

/// A part of an existing path, or two words that may occur.
fn needle(u: &mut Unstructured<'_>) -> Result<String> {
    if u.ratio(1, 4)? {
        return Ok(format!("{}{}{}", u.choose(&WORDS)?, u.choose(&MARKS)?, u.choose(&WORDS)?));
    }
    let path: Vec<char> = path(u.int_in_range(0..=FILED + HOT)?).chars().collect();
    let start = u.int_in_range(0..=path.len() - 1)?;
    let end = u.int_in_range(start + 1..=path.len())?;
    Ok(path[start..end].iter().collect())
}

fn condition(u: &mut Unstructured<'_>, depth: usize) -> Result<String> {
    let inner = |u: &mut Unstructured<'_>| condition(u, depth - 1);
    Ok(match u.int_in_range(0..=if depth == 0 { 11 } else { 14 })? {
        0 => format!("request_id = '{}'", some_id(u)?),
        1 => format!("request_id in ('{}', '{}')", some_id(u)?, some_id(u)?),
        2 => format!("url_path = '{}'", path(u.int_in_range(0..=FILED)?)),
        3 => format!("url_path like '%{}%'", needle(u)?),
        4 => format!("url_path like '{}%{}'", needle(u)?, needle(u)?),
        5 => format!("url_path ilike '%{}%'", needle(u)?.to_uppercase()),
        6 => format!("url_path ~ '{}[a-z]+{}'", some_word(u)?, u.choose(&WORDS)?),
        7 => format!("url_path ~ '(?i){}'", u.choose(&WORDS)?),
        8 => format!("has_token(url_path, '{}')", some_word(u)?),
        9 => format!("has_phrase(url_path, '{}*')", u.choose(&WORDS)?),
        10 => format!("search('{} -{}')", some_word(u)?, u.choose(&WORDS)?),
        11 => format!("contains(url_path, '{}')", needle(u)?),
        12 => format!("({} and {})", inner(u)?, inner(u)?),
        13 => format!("({} or {})", inner(u)?, inner(u)?),
        _ => format!("not ({})", inner(u)?),
    })
}

fn some_word(u: &mut Unstructured<'_>) -> Result<String> {
    Ok(format!("stretch{}", u.int_in_range(0..=16)?))
}

fn some_id(u: &mut Unstructured<'_>) -> Result<String> {
    Ok(id(u.int_in_range(0..=FILED + 2 * HOT)?))
}

#[test]
fn answers_are_the_same_with_and_without_the_index() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let filed = Store::open(options(dir.path())).unwrap();
    let memory = Store::in_memory(clock());
    runtime.block_on(async {
        fill(&filed, 0..FILED).await;
        filed.flush().await.unwrap();
        fill(&filed, FILED..FILED + HOT).await;
        fill(&memory, 0..FILED + HOT).await;
    });
    let (mut runs, mut hits) = (0, 0);
    arbtest::arbtest(|u| {
        let condition = condition(u, 2)?;
        let sql = format!(
            "select count(*), coalesce(sum(cast(ts as bigint)), 0) from request where {condition}"
        );
        let (one, other) =
            runtime.block_on(async { (ask(&filed, &sql).await, ask(&memory, &sql).await) });
        assert_eq!(one, other, "{condition}");
        runs += 1;
        hits += usize::from(!one.contains("| 0 "));
        Ok(())
    })
    .budget_ms(6000)
    .size_min(256)
    .size_max(2048);
    assert!(runs > 20 && hits > 5, "{hits} of {runs} questions found rows");
}

#[tokio::test]
async fn blocks_without_the_word_are_left_out_and_the_plan_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    fill(&store, 0..FILED).await;
    store.flush().await.unwrap();
    drop(store);
    // After a restart the index is read from the file.
    let store = Store::open(options(dir.path())).unwrap();
    let paths: Vec<String> = (0..FILED).filter(|number| number % 11 != 0).map(path).collect();
    let count = |end: &str| paths.iter().filter(|path| path.ends_with(end)).count();
    let (with_word, with_dot) = (count("stretch2"), count(".stretch2"));
    for (condition, rows) in [
        (format!("request_id = '{}'", id(20_001)), 1),
        ("has_token(url_path, 'stretch2') and tier = 'proxy'".to_owned(), with_word),
        ("search('stretch2')".to_owned(), with_word),
        ("url_path like '%.stretch2'".to_owned(), with_dot),
    ] {
        let rows = i64::try_from(rows).unwrap();
        let sql = format!("select count(*) from request where {condition}");
        assert_eq!(number(&store, &sql).await, rows, "{condition}");
        let left_out = metric(&store, &sql, "text_index_blocks_left_out").await;
        let kept = metric(&store, &sql, "text_index_blocks_kept").await;
        assert_eq!(left_out + kept, 6, "{condition}");
        assert!(left_out >= 3, "{condition}: {left_out} left out, {kept} kept");
    }
    // A word that is in no block needs no file at all.
    let nothing = "select count(*) from request where has_token(url_path, 'absentword')";
    assert_eq!(number(&store, nothing).await, 0);
    assert!(!ask(&store, &format!("explain {nothing}")).await.contains(".parquet"));
}

#[tokio::test]
async fn merged_files_are_indexed_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let opened = weir_store::StoreOptions {
        maintenance_interval: std::time::Duration::from_millis(20),
        small_file_count: 2,
        ..options(dir.path())
    };
    let store = Store::open(opened).unwrap();
    for part in 0..4 {
        fill(&store, part * 9000..(part + 1) * 9000).await;
        store.flush().await.unwrap();
    }
    crate::tool::eventually(async || store.stats().file_count <= 2).await;
    let sql = format!("select count(*) from request where request_id = '{}'", id(20_001));
    assert_eq!(number(&store, &sql).await, 1);
    assert!(metric(&store, &sql, "text_index_blocks_left_out").await >= 2);
}

#[tokio::test]
async fn row_groups_that_were_copied_keep_their_index() {
    let dir = tempfile::tempdir().unwrap();
    let opened = weir_store::StoreOptions {
        maintenance_interval: std::time::Duration::from_millis(20),
        small_file_count: 2,
        gc_grace: std::time::Duration::ZERO,
        ..options(dir.path())
    };
    let store = Store::open(opened).unwrap();
    // The first two are large enough to stay row groups, of 5 blocks each, the last of which has
    // 232 rows.
    for part in [0..33_000, 33_000..66_000, 66_000..66_100] {
        fill(&store, part).await;
        store.flush().await.unwrap();
    }
    crate::tool::eventually(async || store.stats().file_count == 1).await;
    store.close().await.unwrap();
    let found = weir_store::inspect(dir.path(), None, true).unwrap();
    assert_eq!(found.problems, []);
    let store = Store::open(options(dir.path())).unwrap();
    for row in [0, 8191, 32_767, 32_999, 33_000, 40_000, 41_192, 65_998, 66_001, 66_098] {
        let row = if row % 7 == 0 { row + 1 } else { row };
        let sql = format!("select count(*) from request where request_id = '{}'", id(row));
        assert_eq!(number(&store, &sql).await, 1, "{row}");
        let left_out = metric(&store, &sql, "text_index_blocks_left_out").await;
        let kept = metric(&store, &sql, "text_index_blocks_kept").await;
        assert_eq!(left_out + kept, 11, "{row}");
        assert!(left_out >= 9, "{row}: {left_out} left out");
    }
    for stretch in 0..=22_u64 {
        let condition = format!("has_token(url_path, 'stretch{stretch}')");
        let sql = format!("select count(*) from request where {condition}");
        let rows = stretch * 3000..(stretch * 3000 + 3000).min(66_100);
        let wanted = rows.filter(|row| row % 11 != 0).count();
        assert_eq!(number(&store, &sql).await, i64::try_from(wanted).unwrap(), "{condition}");
    }
}

#[tokio::test]
async fn searches_that_cannot_be_understood_say_why() {
    let store = Store::in_memory(clock());
    for (text, says) in [
        ("\"open", "the quote in"),
        ("", "there is no word"),
        ("?", "has no word"),
        ("status:500", "there is no column `status`"),
        ("http_response_status_code:fast", "is not a whole number"),
        ("ts:today", "cannot be searched like this"),
    ] {
        let answer = ask(&store, &format!("select * from request where search('{text}')")).await;
        assert!(answer.starts_with("BadQuery") && answer.contains(says), "{text}: {answer}");
    }
    let answer = ask(&store, "select search('a')").await;
    assert!(answer.contains("nothing here has a text to search"), "{answer}");
    fill(&store, 0..100).await;
    for (condition, rows) in [
        ("search('http_response_status_code:>=200 host:WEB1')", 100),
        ("search('-host:web1')", 0),
        ("search('-absent')", 100),
        ("search('host:web*')", 100),
    ] {
        let sql = format!("select count(*) from request as r where {condition}");
        assert_eq!(number(&store, &sql).await, rows, "{condition}");
    }
}
