//! Recorded lines of real servers: nginx 1.22.1 and HAProxy 2.6 of Debian 12, on 2026-11-20.
//!
//! nginx received requests with the user agents of [`AGENTS`], then three requests through an
//! upstream with two of three members down, then a TLS handshake. HAProxy received requests for a
//! page, an encoded quote, a dead and a slow backend, a denied path, a user agent with quotes and
//! braces, then TCP connections with a TLS handshake, half a request, and 2,000 bytes of path.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use weir_tables::{Batch, LogFormat};

use crate::{nginx, parse, texts};

/// What clients sent, as the column should hold it; the last bytes are no UTF-8.
const AGENTS: [&str; 8] =
    ["curl", "a\"b", "a\\b", "a\tb", "café", "x\\x22", "\u{1}z", "\\xFF\\xFE"];

const JSON: &str = r#"{"t":"$time_iso8601","ip":"$remote_addr","ua":"$http_user_agent","req":"$request","st":$status,"rt":$request_time,"urt":$upstream_response_time,"uct":"$upstream_connect_time","uht":"$upstream_header_time","ua_addr":"$upstream_addr","ust":"$upstream_status","b":$body_bytes_sent,"h":"$http_host","id":"$request_id"}"#;
const TEXT: &str = r#"$remote_addr:$remote_port $msec "$request" $status $bytes_sent $request_length $request_time $upstream_addr $upstream_status $upstream_response_time $connection_requests $scheme://$host:$server_port $pipe"#;

fn only_requests(format: LogFormat, bytes: &[u8]) -> Batch {
    let (mut batches, _) = parse(format, bytes);
    assert_eq!(batches.iter().map(|batch| batch.table.name).collect::<Vec<_>>(), ["request"]);
    batches.remove(0)
}

fn numbers(batch: &Batch, column: &str) -> Vec<Option<i64>> {
    let column = batch.rows.column_by_name(column).expect("in the spec");
    column.as_primitive::<Int64Type>().iter().collect()
}

fn seconds(batch: &Batch, column: &str) -> Vec<Option<f64>> {
    let column = batch.rows.column_by_name(column).expect("in the spec");
    column.as_primitive::<Float64Type>().iter().collect()
}

fn some_texts<'a>(batch: &'a Batch, column: &str) -> Vec<Option<&'a str>> {
    texts(&batch.rows, column).iter().collect()
}

#[test]
fn hostile_agents_arrive_as_sent_with_either_escape() {
    let with_escape = include_bytes!("recorded/nginx-json-escape-json.log");
    let without = include_bytes!("recorded/nginx-json-default-escape.log");
    for (bytes, is_repaired) in [(&with_escape[..], false), (&without[..], true)] {
        let batch = only_requests(nginx(JSON), bytes);
        assert_eq!(some_texts(&batch, "user_agent_original")[..8], AGENTS.map(Some));
        let repair = some_texts(&batch, "repair");
        assert_eq!(repair[1].is_some_and(|repair| repair.contains("hex_escape")), is_repaired);
        assert!(repair[7].is_some_and(|repair| repair.contains("invalid_utf8")));
    }
}

#[test]
fn text_formats_keep_control_characters_as_written() {
    let batch = only_requests(LogFormat::Combined, include_bytes!("recorded/nginx-combined.log"));
    let mut agents = AGENTS.map(Some);
    (agents[3], agents[6]) = (Some("a\\x09b"), Some("\\x01z"));
    assert_eq!(some_texts(&batch, "user_agent_original")[..8], agents);
    assert_eq!(numbers(&batch, "http_response_status_code")[11], Some(400));
    assert!(texts(&batch.rows, "http_request_method").is_null(11));
}

#[test]
fn tries_of_a_group_with_dead_members_are_counted() {
    for (format, bytes) in [
        (nginx(TEXT), &include_bytes!("recorded/nginx-text.log")[..]),
        (nginx(JSON), &include_bytes!("recorded/nginx-json-default-escape.log")[..]),
    ] {
        let batch = only_requests(format, bytes);
        let tries = numbers(&batch, "upstream_tries");
        assert_eq!(tries[7..], [0, 2, 2, 1, 0].map(Some));
        let answered = some_texts(&batch, "upstream_address");
        assert_eq!(answered[8..11], [Some("127.0.0.1:18480"); 3]);
        assert_eq!(numbers(&batch, "upstream_status_code")[8..11], [Some(200); 3]);
    }
}

#[test]
fn haproxy_tells_phases_tries_and_endings() {
    let bytes = include_bytes!("recorded/haproxy-httplog.log");
    let (batches, _) = parse(LogFormat::HaproxyHttp, bytes);
    assert_eq!(batches[0].rows.num_rows(), 9);
    let requests = &batches[0];
    let endings: Vec<_> = some_texts(requests, "termination_state").into_iter().flatten().collect();
    assert_eq!(endings, ["----", "----", "SC--", "sH--", "PR--", "----", "PR--", "cR--", "----"]);
    assert_eq!(numbers(requests, "upstream_tries"), [1, 1, 3, 1, 0, 1, 0, 0, 1].map(Some));
    assert_eq!(seconds(requests, "upstream_header_seconds")[0], Some(0.016));
    let response = seconds(requests, "upstream_response_seconds");
    assert_eq!(response[2..5], [Some(0.0), Some(0.401), None]);
    assert_eq!(texts(&batches[1].rows, "body").len(), 1, "the TCP record is a row of `log`");
}
