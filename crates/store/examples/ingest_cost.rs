//! Measures what a stored request costs: CPU-seconds per million rows, bytes per row and memory,
//! from `append` to synced Parquet. `cargo run -p weir-store --example ingest_cost -- [ROWS] [DIR]
//! [ENDPOINT]`.
//!
//! With the endpoint of an S3 service, such as the example `far_objects` of weir-bench, all files
//! then move to its bucket `rows`, and the example measures needle queries there.
//!
//! The generated rows have the distribution of a busy nginx: random request ids, two million
//! addresses, a few thousand paths of which few are frequent. Generation is timed separately and
//! not counted.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use weir_store::{
    BucketOptions, Query, SlowBucketOptions, SlowOptions, SlowPlace, SlowRule, Store, StoreOptions,
};
use weir_tables::{
    Batch, FixedClock, Micros, Parcel, Request, RequestRows, Rows, StreamId, StreamRange,
};

/// Rows per parcel: what a tailer delivers in one call.
const PARCEL_ROWS: u64 = 2000;
/// 2026-11-20T00:00:00Z.
const START: i64 = 1_795_132_800_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let row_count: u64 = arguments.next().map_or(Ok(2_000_000), |count| count.parse())?;
    let dir = arguments
        .next()
        .unwrap_or_else(|| std::env::temp_dir().join("weir-ingest-cost").display().to_string());
    drop(std::fs::remove_dir_all(&dir));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(row_count, Path::new(&dir)))?;
    if let Some(endpoint) = arguments.next() {
        runtime.block_on(measure_far(row_count, Path::new(&dir), endpoint))?;
    }
    drop(std::fs::remove_dir_all(&dir));
    Ok(())
}

async fn measure(row_count: u64, dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(StoreOptions::new(dir, Arc::new(FixedClock::new(Micros(START)))))?;
    let mut random = Rng::with_seed(7);
    let mut builder = RequestRows::default();
    let mut making = 0.0;
    let (started, cpu_before) = (Instant::now(), cpu_seconds());
    for at in (0..row_count).step_by(usize::try_from(PARCEL_ROWS)?) {
        let before = thread_seconds();
        let rows = PARCEL_ROWS.min(row_count - at);
        (0..rows).for_each(|row| push(&mut builder, &mut random, at + row));
        let range = StreamRange { stream: StreamId(1), from: at, to: at + rows };
        let parcel = Parcel {
            range: Some(range),
            batches: vec![Batch { table: RequestRows::SPEC, rows: builder.finish() }],
        };
        making += thread_seconds() - before;
        store.append(parcel).await?;
    }
    let appended = cpu_seconds() - cpu_before - making;
    store.flush().await?;
    let all = cpu_seconds() - cpu_before - making;
    let stats = store.stats();
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (millions, bytes_per_row) =
        (row_count as f64 / 1e6, stats.file_bytes as f64 / row_count as f64);
    report("rows", row_count);
    report("elapsed_seconds", format!("{:.3}", started.elapsed().as_secs_f64()));
    report(
        "making_rows_cpu_seconds_per_million (not counted)",
        format!("{:.3}", making / millions),
    );
    report("store_cpu_seconds_per_million", format!("{:.3}", all / millions));
    report(
        "store_cpu_seconds_per_million (while appending)",
        format!("{:.3}", appended / millions),
    );
    report("file_bytes_per_row", format!("{:.3}", bytes_per_row));
    report("files", stats.file_count);
    report("peak_rss_mebibytes", peak_rss_kibibytes() / 1024);
    for sql in [
        "select count(*) from request",
        "select http_response_status_code, count(*) from request group by 1 order by 2 desc",
        "select date_bin(interval '1 minute', ts) as minute, count(*) from request group by 1",
        "select * from request where http_response_status_code >= 500 order by ts desc limit 100",
        "select * from request where request_id = 'absent'",
    ] {
        let before = cpu_seconds();
        let answer = store.query(Query::new(sql)).run().await?;
        let cost = cpu_seconds() - before;
        report(
            sql,
            format!(
                "{:.3} s, {cost:.3} CPU-s, {} rows",
                answer.elapsed.as_secs_f64(),
                answer.row_count()
            ),
        );
    }
    store.close().await?;
    Ok(())
}

/// Runs needle queries against a bucket: an existing row id, a missing id, and a word.
async fn measure_far(
    row_count: u64,
    dir: &Path,
    endpoint: String,
) -> Result<(), Box<dyn std::error::Error>> {
    let bucket = BucketOptions {
        bucket: "rows".into(),
        endpoint: Some(endpoint),
        region: Some("us-east-1".into()),
        keys: Some(("key".into(), "secret".into())),
        authority: None,
        timeout: Duration::from_secs(20),
    };
    let place = SlowPlace::Bucket(Box::new(SlowBucketOptions::new(bucket)));
    let rule = SlowRule { after: Duration::ZERO, ..SlowRule::default() };
    let slow = SlowOptions { rule, ..SlowOptions::new(place) };
    let options = StoreOptions {
        slow: Some(slow),
        maintenance_interval: Duration::from_millis(200),
        ..StoreOptions::new(dir, Arc::new(FixedClock::new(Micros(START))))
    };
    let store = Store::open(options.clone())?;
    while store.stats().slow_file_count < store.stats().file_count {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    store.close().await?;
    // Reopen with cold caches, as after a start.
    let store = Store::open(options)?;
    let (files, all) = (store.stats().slow_file_count, store.stats().slow_file_bytes);
    report("files in the bucket", format!("{files}, {all} bytes"));
    let mut random = Rng::with_seed(7);
    let mut builder = RequestRows::default();
    for at in 0..row_count / 3 {
        push(&mut builder, &mut random, at);
        if at % 100_000 == 0 {
            drop(builder.finish());
        }
    }
    let id = format!("{:016x}{:016x}", random.u64(..), random.u64(..));
    drop(builder);
    for (name, condition) in [
        ("needle", format!("request_id = '{id}'")),
        ("the same again", format!("request_id = '{id}'")),
        ("absent id", "request_id = '0123456789abcdef0123456789abcdef'".to_owned()),
        ("rare word", "search('1f3a7')".to_owned()),
    ] {
        let sql = format!("select * from request where {condition}");
        let before = store.stats().bucket.unwrap_or_default();
        let answer = store.query(Query::new(&sql)).run().await?;
        let after = store.stats().bucket.unwrap_or_default();
        let said = store.query(Query::new(&sql)).forecast().await?;
        let (gets, bytes) = (after.gets - before.gets, after.bytes - before.bytes);
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let share = bytes as f64 / all as f64 * 100.0;
        report(
            name,
            format!(
                "{:.3} s, {} rows, {gets} GETs, {bytes} bytes ({share:.3} %), {} asked twice; said: {} reads, {} bytes",
                answer.elapsed.as_secs_f64(),
                answer.row_count(),
                after.hedged - before.hedged,
                said.slow.reads,
                said.slow.bytes,
            ),
        );
    }
    store.close().await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the example's purpose")]
fn report(what: &str, figure: impl std::fmt::Display) {
    println!("{what}: {figure}");
}

fn push(rows: &mut RequestRows, random: &mut Rng, at: u64) {
    let id = format!("{:016x}{:016x}", random.u64(..), random.u64(..));
    // The product of two uniform numbers: few addresses and paths are frequent, many are rare.
    let address = random.u64(..1 << 11) * random.u64(..1 << 10);
    let address = format!("10.{}.{}.{}", address >> 16 & 255, address >> 8 & 255, address & 255);
    let path = format!(
        "/item/{}/{}",
        ["view", "list", "edit"][random.usize(..3)],
        random.u64(..80) * random.u64(..80)
    );
    let query = format!("page={}&ref={:x}", random.u64(..9), random.u64(..1 << 20));
    let milliseconds = random.u64(..30) * random.u64(..30);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let duration = milliseconds as f64 / 1e3;
    let ts = START
        + i64::try_from(at).unwrap_or(0) * 40
        + i64::try_from(random.u64(..1000)).unwrap_or(0);
    rows.push(&Request {
        ts: Micros(ts / 1000 * 1000),
        host: "web1",
        tier: "proxy",
        observed_ts: Micros(ts + 1_500),
        source: "/var/log/nginx/access.json",
        source_offset: i64::try_from(at).ok(),
        program: Some("nginx"),
        request_id: Some(&id),
        client_address: Some(&address),
        client_port: Some(1024 + i64::try_from(random.u64(..60_000)).unwrap_or(0)),
        server_address: Some("shop.example"),
        server_port: Some(443),
        url_scheme: Some("https"),
        http_request_method: Some(if random.u64(..10) == 0 { "POST" } else { "GET" }),
        url_path: Some(&path),
        url_query: (random.u64(..3) == 0).then_some(query.as_str()),
        network_protocol_version: Some("2"),
        http_response_status_code: Some(
            [200, 200, 200, 200, 200, 200, 304, 302, 404, 502][random.usize(..10)],
        ),
        request_bytes: Some(300 + i64::try_from(random.u64(..900)).unwrap_or(0)),
        response_bytes: Some(500 + i64::try_from(random.u64(..60_000)).unwrap_or(0)),
        response_body_bytes: Some(i64::try_from(random.u64(..60_000)).unwrap_or(0)),
        user_agent_original: Some(AGENTS[random.usize(..AGENTS.len())]),
        http_request_header_referer: (random.u64(..2) == 0).then_some("https://shop.example/"),
        duration_seconds: Some(duration),
        upstream_connect_seconds: Some(if random.u64(..9) == 0 { 0.001 } else { 0.0 }),
        upstream_header_seconds: Some(duration),
        upstream_response_seconds: Some(duration),
        upstream_address: Some(["10.0.0.11:8080", "10.0.0.12:8080"][random.usize(..2)]),
        upstream_status_code: Some(200),
        upstream_tries: Some(1),
        connection_requests: Some(1 + i64::try_from(random.u64(..40)).unwrap_or(0)),
        ..Default::default()
    });
}

const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Mobile/15E148",
    "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0",
    "curl/8.16.0",
];

fn cpu_seconds() -> f64 {
    seconds(rustix::time::ClockId::ProcessCPUTime)
}

fn thread_seconds() -> f64 {
    seconds(rustix::time::ClockId::ThreadCPUTime)
}

fn seconds(clock: rustix::time::ClockId) -> f64 {
    let time = rustix::time::clock_gettime(clock);
    #[expect(clippy::cast_precision_loss, reason = "CPU seconds are small")]
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    seconds
}

fn peak_rss_kibibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
