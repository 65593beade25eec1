//! Limits of queries over the API: each ends with an error, leaves its row in `slow_query`, and
//! affects no other query.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::harness::{SeededRandom, Weir, pause, quiet, request, serve, try_rows, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);
const ENDLESS: &str =
    "select count(*) from generate_series(1, 250000) a cross join generate_series(1, 90000000) b
    where a.a % 7 = b.b % 11";
/// Keys in no order: both sides go to files to be sorted.
const JOIN: &str =
    "select count(*) from (select (value * 7919) % 1000003 as k from generate_series(1, 1000000)) a
    join (select (value * 7907) % 1000003 as k from generate_series(1, 1000000)) b on a.k = b.k";
/// All of one side is kept in memory.
const CROSS: &str = "select sum(a.a * b.b) from generate_series(1, 3000000) a cross join generate_series(1, 3000000) b";
const GROUPS: &str = "select count(*) from (select (value * 7919) % 1000003 as k, count(*) from generate_series(1, 1000000) group by 1)";

fn hub(data: &Path, log: &Path) -> Weir {
    let mut command = serve("up", data);
    quiet(&mut command);
    command.arg("--tail").arg(log).env("WEIR_STORE_FLUSH_SECONDS", "1");
    // What rules read is in the cache, and is not read again: they run once, before the lines come.
    command.env("WEIR_RULES_EVERY_SECONDS", "3600");
    for (name, value) in [
        ("QUERY_TIMEOUT_SECONDS", "10"),
        ("ONE_QUERY_MEMORY_BYTES", "16777216"),
        ("QUERY_READ_BYTES", "1048576"),
        ("ANSWER_BYTES", "1000000"),
        ("SLOW_QUERY_MILLISECONDS", "50"),
        ("CONCURRENT_QUERIES", "4"),
        ("USER_QUERIES", "2"),
    ] {
        command.env(format!("WEIR_API_{name}"), value);
    }
    Weir::start(command)
}

/// Lines that hardly pack.
fn write_lines(log: &Path, lines: usize) {
    let mut seeded = SeededRandom::new_from(4);
    let mut letter = || char::from(b'0' + u8::try_from(seeded.below(75)).unwrap_or_default());
    std::fs::write(
        log,
        (0..lines)
            .map(|_| (0..1000).map(|_| letter()).filter(|c| *c != '\\').collect::<String>() + "\n")
            .collect::<String>(),
    )
    .expect("there is room");
}

/// Sends a query of bob and does not wait for its answer.
fn send_as_bob(url: &str, body: &Value) -> TcpStream {
    let address = url.trim_start_matches("http://");
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(
        stream,
        "POST /api/sql HTTP/1.1\r\nhost: {address}\r\nauthorization: Basic Ym9iOng=\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("it reads");
    stream
}

/// Rows of `slow_query` that ended so.
fn ended(weir: &Weir, by: &str) -> Vec<Vec<Value>> {
    weir.rows(&format!(
        "select user_name, query_text, duration_seconds, cpu_seconds, read_bytes, spilled_bytes, error
         from slow_query where ended_by = '{by}' and asker = 'user' order by ts"
    ))
}

/// How a query over a limit ends: words of the error, and the limit in the row.
#[derive(Clone, Copy)]
struct LimitRefusal {
    words: &'static str,
    by: &'static str,
}

fn refused(weir: &Weir, sql: &str, LimitRefusal { words, by }: LimitRefusal) {
    let error = try_rows(&weir.url, sql).expect_err(sql);
    assert!(error.contains(words) && error.contains("\"hint\""), "{error}");
    let row = wait_for(by, PATIENCE, || ended(weir, by).pop());
    assert_eq!(row[0], "127.0.0.1", "{row:?}");
    assert_eq!(row[1], sql);
    assert!(row[6].as_str().is_some_and(|error| error.contains(words)), "{row:?}");
}

#[test]
fn a_query_over_a_limit_ends_with_words_and_a_row_and_others_go_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, log) = (dir.path().join("data"), dir.path().join("app.log"));
    std::fs::write(&log, "").expect("there is room");
    let weir = hub(&data, &log);
    wait_for("the first run of the rules", PATIENCE, || {
        let answer = weir.get("/api/rules");
        let rules = answer["rules"].as_array().expect("rules");
        rules.iter().all(|rule| rule["last_run_ts"].is_string()).then_some(())
    });
    write_lines(&log, 3000);
    let count = "select count(*) from log where source like '%app.log'";
    wait_for("lines in the store", PATIENCE, || (weir.number(count) == 3000).then_some(()));
    let headers = [("content-type", "application/json")];
    let (status, _, told) = request(&weir.url, "POST", "/api/store/flush", &headers, "{}");
    assert_eq!(status, 200, "{told}");

    refused(&weir, CROSS, LimitRefusal { words: "more than 16 MiB of memory", by: "memory" });
    refused(
        &weir,
        "select body from log order by body",
        LimitRefusal { words: "stopped at 1 MiB read", by: "read" },
    );
    let wide = "select repeat('x', 1000) from generate_series(1, 5000)";
    refused(&weir, wide, LimitRefusal { words: "larger than 976.5 KiB", by: "answer_bytes" });
    for (sql, count) in [(GROUPS, 1_000_000), (JOIN, 999_998)] {
        assert_eq!(weir.number(sql), count);
        let row = wait_for("what was spilled", PATIENCE, || {
            ended(&weir, "answer").into_iter().find(|row| row[1] == sql)
        });
        assert!(row[5].as_i64() > Some(1 << 20), "{row:?}");
        assert!(row[3].as_f64() > Some(0.01), "{row:?}");
    }

    // Two of bob's run, his third waits; ann and the log do not.
    let began = Instant::now();
    let bobs: Vec<TcpStream> =
        (0..3).map(|_| send_as_bob(&weir.url, &json!({"sql": ENDLESS}))).collect();
    let mut file = std::fs::File::options().append(true).open(&log).expect("it is ours");
    writeln!(file, "one more line").expect("there is room");
    wait_for("a line beside big queries", Duration::from_secs(15), || {
        (weir.number(count) == 3001).then_some(())
    });
    let headers = [("authorization", "Basic YW5uOng=")];
    let (status, _, body) = request(&weir.url, "GET", "/api/sql?q=select%201", &headers, "");
    assert_eq!(status, 200, "{body}");
    pause(Duration::from_millis(500));
    drop(bobs);
    let gone = wait_for("queries of a client that left", PATIENCE, || {
        let gone = ended(&weir, "cancelled");
        (gone.len() >= 2).then_some(gone)
    });
    println!("ended {:?} after they began", began.elapsed());
    assert_eq!(gone.len(), 2, "the third never ran: {gone:?}");
    for row in &gone {
        assert_eq!((row[0].as_str(), row[1].as_str()), (Some("bob"), Some(ENDLESS)));
        assert!(row[2].as_f64() < Some(10.0), "not by its limit of time: {row:?}");
    }
    refused(&weir, ENDLESS, LimitRefusal { words: "stopped after 10 s", by: "time" });
    assert_eq!(weir.terminate(), Some(0));
    let left = std::fs::read_dir(data.join("spill")).expect("it is there").count();
    assert_eq!(left, 0);
}
