//! Large answers of `/api/sql`: sent while the query runs, as fast as the client reads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::harness::{Weir, pause, quiet, request, serve, wait_for};
use super::limits::resident_mib;

const PATIENCE: Duration = Duration::from_secs(60);
const ROWS: usize = 400_000;
const CELL_BYTES: usize = 500;
const ENOUGH: usize = 1 << 20;

fn hub(dir: &Path) -> Weir {
    let mut command = serve("hub", dir);
    quiet(&mut command);
    command.env("WEIR_API_ANSWER_BYTES", "1000000000").env("WEIR_API_SLOW_QUERY_MILLISECONDS", "1");
    // The first run of all rules takes memory that is not the answer's.
    command.env("WEIR_RULES_EVERY_SECONDS", "3600");
    Weir::start(command)
}

/// 200 MB of text.
fn large() -> String {
    format!("select repeat('x', {CELL_BYTES}) as cell from generate_series(1, {ROWS})")
}

/// Sends a query and reads the beginning of its answer.
fn begin(weir: &Weir, format: &str) -> (TcpStream, Vec<u8>) {
    let address = weir.url.trim_start_matches("http://");
    let body = json!({"sql": large()}).to_string();
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!(
        "POST /api/sql?format={format} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = vec![0; ENOUGH];
    stream.read_exact(&mut answer).expect("it answers");
    (stream, answer)
}

#[test]
fn a_large_answer_waits_for_its_reader_and_is_never_whole_in_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let weir = hub(dir.path());
    for format in ["csv", "ndjson"] {
        let (before, _) = resident_mib(weir.id());
        let (mut stream, answer) = begin(&weir, format);
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
        // Long enough for a query that does not wait to fill the memory.
        pause(Duration::from_secs(2));
        let cells = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'x').count();
        let mut found = cells(&answer);
        let mut portion = vec![0; ENOUGH];
        let mut end = answer;
        loop {
            let count = stream.read(&mut portion).expect("more of the body");
            if count == 0 {
                break;
            }
            found += cells(&portion[..count]);
            end.extend_from_slice(&portion[..count]);
            end.drain(..end.len().saturating_sub(16));
        }
        assert!(end.ends_with(b"0\r\n\r\n"), "{format}: {end:?}");
        // In some formats the head of the response contains an `x` too.
        let surplus = found - ROWS * CELL_BYTES;
        assert!(surplus < 100, "{format}: {surplus}");
        let (_, highest) = resident_mib(weir.id());
        println!("{format}: {before} MiB before, {highest} MiB at most");
        // The answer alone is 191 MiB; what is on its way depends on how busy the machine is.
        assert!(highest < before + 150, "{format}: {before} MiB before, {highest} MiB at most");
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_of_an_answer_ends_the_query() {
    let dir = tempfile::tempdir().expect("a directory");
    let weir = hub(dir.path());
    drop(begin(&weir, "csv"));
    let sql = "select query_text from slow_query where ended_by = 'cancelled'";
    let row = wait_for("the row of the query", PATIENCE, || weir.rows(sql).pop());
    assert_eq!(row[0], large());
}

#[test]
fn an_error_in_the_middle_breaks_the_answer_off() {
    let dir = tempfile::tempdir().expect("a directory");
    let weir = hub(dir.path());
    let headers = [("content-type", "application/json")];
    for rows in [10, 200_000] {
        let sql = format!("select 1 / ({rows} - value) as share from generate_series(1, {rows})");
        let body = json!({"sql": sql}).to_string();
        let (status, head, body) =
            request(&weir.url, "POST", "/api/sql?format=csv", &headers, &body);
        if rows == 10 {
            assert!((400..600).contains(&status) && body.contains("\"error\""), "{head} {body}");
        } else {
            assert_eq!(status, 0, "an answer without its end: {head}");
        }
    }
}
