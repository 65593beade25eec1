//! What the rules cost: wall and processor time of each built-in rule over a store with a loaded
//! host's rows.
//!
//! `cargo run -p weir --example rule_cost -- [REQUESTS_PER_SECOND] [MINUTES] [LISTENERS] [ROUNDS]`;
//! defaults 1000 10 50 10.

#![expect(clippy::print_stdout, reason = "a tool for the terminal")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_rules::RuleSet;
use weir_store::{Query, Store};
use weir_tables::{
    Batch, FixedClock, Listener, ListenerRows, Micros, Parcel, Request, RequestRows, Rows, TcpStat,
    TcpStatRows,
};

const NOW: Micros = Micros(1_795_176_000_000_000);

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let number = |place: usize, default: u64| numbers.get(place).copied().unwrap_or(default);
    let (rate, minutes, listeners, rounds) =
        (number(0, 1000), number(1, 10), number(2, 50), number(3, 10));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let store = Store::in_memory(Arc::new(FixedClock::new(NOW)));
    let seconds = minutes * 60;
    for second in 0..seconds {
        let now = NOW - Duration::from_secs(seconds - 1 - second);
        let batches = vec![requests(now, rate), queues(now, listeners), counters(now, second)];
        runtime.block_on(store.append(Parcel { range: None, batches })).expect("memory takes rows");
    }
    println!("{rate} requests/s, {minutes} min, {listeners} listeners, {rounds} rounds");
    println!("{:<32} {:>9} {:>9} {:>12}", "rule", "wall ms", "cpu ms", "% of a core");
    let mut sum = 0.0;
    for rule in RuleSet::built_in().iter() {
        let queries = rule.queries();
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        for _ in 0..rounds {
            for sql in &queries {
                let answer = runtime.block_on(store.query(Query::new(sql).at(NOW)).run());
                let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", rule.id));
                if answer.row_count() == 0 {
                    break;
                }
            }
        }
        let per_run = |seconds: f64| seconds / as_float(rounds);
        let (wall, cpu) = (per_run(wall.elapsed().as_secs_f64()), per_run(cpu_seconds() - cpu));
        let share = cpu / as_float(rule.every_seconds);
        sum += share;
        println!(
            "{:<32} {:>9.2} {:>9.2} {:>11.2} %",
            rule.id,
            wall * 1e3,
            cpu * 1e3,
            share * 100.0
        );
    }
    println!("all together {:.2} % of a core", sum * 100.0);
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn as_float(count: u64) -> f64 {
    count as f64
}

/// Processor time of this process, user and system.
fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
        .as_secs_f64()
}

fn requests(now: Micros, count: u64) -> Batch {
    let mut rows = RequestRows::default();
    for index in 0..count {
        let app = 0.01 + as_float(index % 50) / 1000.0;
        rows.push(&Request {
            ts: now,
            host: "web1",
            tier: "proxy",
            observed_ts: now,
            source: "/var/log/nginx/access.json",
            program: Some("nginx"),
            server_address: Some("www.example.com"),
            url_path: Some(["/", "/a", "/b", "/c"][usize::try_from(index % 4).unwrap_or(0)]),
            upstream_address: Some(
                ["10.0.0.1:80", "10.0.0.2:80"][usize::try_from(index % 2).unwrap_or(0)],
            ),
            duration_seconds: Some(app + 0.001),
            upstream_connect_seconds: Some(0.0),
            upstream_header_seconds: Some(app),
            upstream_response_seconds: Some(app),
            ..Default::default()
        });
    }
    Batch { table: RequestRows::SPEC, rows: rows.finish() }
}

fn queues(now: Micros, count: u64) -> Batch {
    let mut rows = ListenerRows::default();
    for index in 0..count {
        rows.push(&Listener {
            ts: now,
            host: "web1",
            netns: "host",
            server_address: "0.0.0.0",
            server_port: i64::try_from(8000 + index).unwrap_or(0),
            accept_queue_limit: 128,
            process_name: Some("python3"),
            ..Default::default()
        });
    }
    Batch { table: ListenerRows::SPEC, rows: rows.finish() }
}

/// 30 counters that move each second, 350 once a minute.
fn counters(now: Micros, second: u64) -> Batch {
    let mut rows = TcpStatRows::default();
    let count = if second.is_multiple_of(60) { 350 } else { 30 };
    for index in 0..count {
        let name = format!("Counter{index}");
        rows.push(&TcpStat {
            ts: now,
            host: "web1",
            netns: "host",
            protocol: "TcpExt",
            counter: &name,
            value: i64::try_from(second * 10).unwrap_or(0),
            increase: Some(10),
            interval_seconds: Some(1.0),
        });
    }
    Batch { table: TcpStatRows::SPEC, rows: rows.finish() }
}
