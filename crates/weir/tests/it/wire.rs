//! `weir wire`: a capture that the test writes byte by byte, through every way out.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::{Value, json};

use super::harness::{Weir, quiet, serve, text, weir};

/// Ethernet, IPv4 and TCP around a payload; sequence numbers are counted by the caller.
struct TcpSegment<'a> {
    micros: u32,
    is_answer: bool,
    seq: u32,
    ack: u32,
    flags: u8,
    payload: &'a [u8],
}

/// A pcap file of one connection from 192.0.2.1:40000 to 192.0.2.2:80.
fn capture(segments: &[TcpSegment<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        out.extend(value.to_le_bytes());
    }
    for segment in segments {
        let length = u16::try_from(40 + segment.payload.len()).expect("short");
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        let (from, to) =
            if segment.is_answer { ((2, 80), (1, 40_000)) } else { ((1, 40_000), (2, 80)) };
        for (last, _) in [from, to] {
            frame.extend([192, 0, 2, last]);
        }
        for (_, port) in [from, to] {
            frame.extend(u16::to_be_bytes(port));
        }
        frame.extend(segment.seq.to_be_bytes());
        frame.extend(segment.ack.to_be_bytes());
        frame.extend([0x50, segment.flags, 1, 0, 0, 0, 0, 0]);
        frame.extend(segment.payload);
        let frame_length = u32::try_from(frame.len()).expect("short");
        for value in [1_700_000_000, segment.micros, frame_length, frame_length] {
            out.extend(value.to_le_bytes());
        }
        out.extend(frame);
    }
    out
}

/// A handshake, a request for `/item/7` that is answered after 25 ms, and the closing.
fn one_request() -> Vec<u8> {
    const ASK: &[u8] = b"GET /item/7?a=1 HTTP/1.1\r\nHost: shop\r\n\r\n";
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (asked, answered) = (101 + 40, 501 + 40);
    let segment = |micros, is_answer, seq, ack, flags, payload| TcpSegment {
        micros,
        is_answer,
        seq,
        ack,
        flags,
        payload,
    };
    capture(&[
        segment(0, false, 100, 0, 0x02, b""),
        segment(100, true, 500, 101, 0x12, b""),
        segment(1_100, false, 101, 501, 0x10, b""),
        segment(2_000, false, 101, 501, 0x18, ASK),
        segment(27_000, true, 501, asked, 0x18, ANSWER),
        segment(28_000, false, asked, answered, 0x11, b""),
        segment(28_100, true, answered, asked + 1, 0x11, b""),
    ])
}

fn write(dir: &std::path::Path, bytes: &[u8]) -> String {
    let path = dir.join("one.pcap");
    std::fs::write(&path, bytes).expect("a directory of our own");
    path.display().to_string()
}

#[test]
fn a_capture_is_answered_as_text_json_csv_and_ndjson() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = write(dir.path(), &one_request());
    let page = run_wire(&path, &[]);
    assert!(page.contains("Was it us? No problem found (smooth)"), "{page}");
    assert!(page.contains("/item/{id}"), "{page}");
    let answer: Value =
        serde_json::from_str(&run_wire(&path, &["--format", "json"])).expect("one object");
    assert_eq!(answer["verdict"], "smooth");
    let tier = &answer["tiers"][0];
    let found = json!([tier["port"], tier["requests"], tier["responses"], tier["connections"]]);
    assert_eq!(found, json!([80, 1, 1, 1]));
    assert_eq!(tier["think_seconds_p50"], json!(0.025));
    assert_eq!(answer["slices"][0]["arrivals"], json!(1));
    assert_eq!(answer["skipped"], json!([]));
    let csv = run_wire(&path, &["--format", "csv", "--table", "tcp_conn", "--host", "web1"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("ts,host,source,connection_number,client_address"), "{csv}");
    assert!(
        lines[1].contains("web1") && lines[1].contains(",192.0.2.1,40000,192.0.2.2,80,http,"),
        "{csv}"
    );
    let row: Value =
        serde_json::from_str(&run_wire(&path, &["--format", "ndjson", "--table", "request"]))
            .expect("a row");
    let found = json!([row["url_path"], row["url_query"], row["tier"], row["duration_seconds"]]);
    assert_eq!(found, json!(["/item/7", "a=1", "wire_edge", 0.025]));
    assert_eq!(row["http_response_status_code"], json!(200));
    let html = dir.path().join("one.html").display().to_string();
    run_wire(&path, &["--html", &html]);
    let html = std::fs::read_to_string(html).expect("it was written");
    assert!(html.starts_with("<!doctype html>") && html.contains("\"verdict\": \"smooth\""));
    let png = dir.path().join("one.png").display().to_string();
    run_wire(&path, &["--png", &png, "--slice", "10ms"]);
    let picture = std::fs::read(&png).expect("it was written");
    assert_eq!(picture[..16], *b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR");
    let colors = colors_of(&picture);
    // Arrivals, completions and the paper.
    for color in [[0x0e, 0x74, 0x90], [0xc2, 0x57, 0x0c], [0xff; 3]] {
        assert!(colors.get(&color).is_some_and(|count| *count > 20), "{color:?}: {colors:?}");
    }
    let output = weir(&["wire", &path, "--png", "/nowhere/one.png"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("cannot write `/nowhere/one.png`") && said.contains("hint: "), "{said}");
    let other = run_wire(&path, &["--port", "81", "--format", "json"]);
    let other: Value = serde_json::from_str(&other).expect("one object");
    assert_eq!(json!([other["verdict"], other["skipped"][0]["count"]]), json!(["unknown", 7]));
}

fn run_wire(path: &str, args: &[&str]) -> String {
    let mut all = vec!["wire", path];
    all.extend(args);
    let output = weir(&all);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// How many pixels of a PNG, as weir writes it, have which colour.
fn colors_of(png: &[u8]) -> BTreeMap<[u8; 3], u64> {
    let (width, height) = (word(png, 16) as usize, word(png, 20) as usize);
    let at = png.windows(4).position(|name| name == b"IDAT").expect("it has content") + 4;
    let mut rows = Vec::new();
    flate2::read::ZlibDecoder::new(&png[at..]).read_to_end(&mut rows).expect("it is whole");
    assert_eq!(rows.len(), height * (1 + 3 * width));
    let mut colors = BTreeMap::new();
    for row in rows.chunks(1 + 3 * width) {
        row[1..]
            .as_chunks::<3>()
            .0
            .iter()
            .for_each(|color| *colors.entry(*color).or_default() += 1);
    }
    colors
}

fn word(png: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(png[at..at + 4].try_into().expect("four"))
}

#[test]
fn rows_of_a_capture_are_in_a_weir_once_however_often_it_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = write(dir.path(), &one_request());
    let data = dir.path().join("data");
    let mut command = serve("hub", &data);
    quiet(&mut command);
    let hub = Weir::start(command);
    for _ in 0..2 {
        let output = weir(&["wire", &path, "--into", &hub.url, "--host", "web1"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for table in ["request", "wire_request", "tcp_conn", "wire_slice"] {
        assert_eq!(count_of(&hub, table), 1, "{table}");
    }
    let joined = hub.number(
        "select count(*) from request join wire_request using (source, source_offset) where think_seconds = 0.025",
    );
    assert_eq!(joined, 1);
    let busy = weir(&["wire", &path, "--into", &data.display().to_string()]);
    assert!(!busy.status.success());
    assert!(
        text(&busy.stderr).contains("hint: name the address of the weir"),
        "{}",
        text(&busy.stderr)
    );
    hub.terminate();
    let elsewhere = dir.path().join("elsewhere").display().to_string();
    let output = weir(&["wire", &path, "--into", &elsewhere]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn count_of(hub: &Weir, table: &str) -> i64 {
    hub.number(&format!(
        "select count(*) from {table} where host = 'web1' and source like '%one.pcap'"
    ))
}

#[test]
fn a_filter_leaves_out_and_parquet_files_hold_every_table() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = write(dir.path(), &one_request());
    let out = dir.path().join("rows").display().to_string();
    let output = weir(&["wire", &path, "--format", "parquet", "--out", &out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for table in ["request", "wire_request", "tcp_conn", "wire_slice"] {
        let file = std::fs::read(format!("{out}/{table}.parquet")).expect("it was written");
        assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"), "{table}");
    }
    let output =
        weir(&["wire", &path, "--format", "json", "--filter", "host 192.0.2.9 or port 81"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let left_out =
        json!([answer["packets"], answer["skipped"][0]["what"], answer["skipped"][0]["count"]]);
    assert_eq!(left_out, json!([0, "filter", 7]));
    let output = weir(&["wire", &path, "--format", "json", "--filter", "net 192.0.2.0/24 and tcp"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(answer["packets"], json!(7));
}

#[test]
fn what_cannot_be_read_or_asked_is_said_with_a_hint() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = write(dir.path(), b"not a capture");
    for (args, message) in [
        (vec!["wire", "/nonexistent.pcap"], "hint: check the path"),
        (vec!["wire", path.as_str()], "neither pcap nor pcapng"),
        (vec!["wire", path.as_str(), "--slice", "5"], "write it as 100ms"),
        (
            vec!["wire", path.as_str(), "--filter", "port 80 and udp"],
            "  port 80 and udp\n              ^",
        ),
        (vec!["wire", path.as_str(), "--format", "parquet"], "hint: add `--out DIR`"),
        (vec!["wire", path.as_str(), "--from", "9", "--to", "8"], "`--from` is not before `--to`"),
    ] {
        let output = weir(&args);
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}

/// `POST /api/wire` by curl: status and answer.
/// A file that is dropped on the page.
#[derive(Clone, Copy)]
struct PageUpload<'a> {
    query: &'a str,
    content_type: &'a str,
    path: &'a str,
}

fn drop_on_page(weir: &Weir, upload: PageUpload<'_>) -> (String, Value) {
    let PageUpload { query, content_type, path } = upload;
    let output = std::process::Command::new("curl")
        .args(["-s", "-w", "\n%{http_code}", "-H", &format!("content-type: {content_type}")])
        .args(["--data-binary", &format!("@{path}"), &format!("{}/api/wire?{query}", weir.url)])
        .output()
        .expect("curl can be started");
    let said = text(&output.stdout);
    let (body, status) = said.rsplit_once('\n').expect("a status");
    (status.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn a_capture_dropped_on_the_page_is_answered_and_kept_only_when_asked() {
    const BYTES: &str = "application/octet-stream";
    let dir = tempfile::tempdir().expect("a directory");
    let path = write(dir.path(), &one_request());
    let mut command = serve("up", &dir.path().join("data"));
    quiet(&mut command);
    command.env("WEIR_API_CAPTURE_BYTES", "65536");
    let weir = Weir::start(command);

    let (status, answer) = drop_on_page(
        &weir,
        PageUpload { query: "name=one.pcap&slice=100ms", content_type: BYTES, path: &path },
    );
    assert_eq!(status, "200", "{answer}");
    assert_eq!(answer["files"], json!(["one.pcap"]));
    assert_eq!(answer["tiers"][0]["requests"], 1);
    assert_eq!(answer["requests"][0]["url_path"], "/item/7");
    assert_eq!(answer["requests"][0]["think_seconds"], 0.025);
    assert_eq!((&answer["kept_rows"], stored_requests(&weir)), (&json!(0), 0));

    let (_, answer) = drop_on_page(
        &weir,
        PageUpload { query: "name=one.pcap&keep=true", content_type: BYTES, path: &path },
    );
    assert_eq!(
        (&answer["kept_rows"], stored_requests(&weir)),
        (&json!(4), 1),
        "a row in each of four tables"
    );
    let (_, answer) = drop_on_page(
        &weir,
        PageUpload { query: "name=one.pcap&keep=true", content_type: BYTES, path: &path },
    );
    assert_eq!(
        (&answer["kept_rows"], stored_requests(&weir)),
        (&json!(0), 1),
        "kept twice, it is there once"
    );

    assert_eq!(
        drop_on_page(&weir, PageUpload { query: "", content_type: "text/plain", path: &path }).0,
        "415",
        "other sites' pages can send only such"
    );
    assert_eq!(
        drop_on_page(&weir, PageUpload { query: "slice=1y", content_type: BYTES, path: &path }).0,
        "400"
    );
    let large = dir.path().join("large");
    std::fs::write(&large, vec![0; 100_000]).expect("there is room");
    assert_eq!(
        drop_on_page(
            &weir,
            PageUpload { query: "", content_type: BYTES, path: large.to_str().expect("text") }
        )
        .0,
        "413"
    );
    let none = dir.path().join("none");
    std::fs::write(&none, "no capture at all, only words\n").expect("there is room");
    let (status, answer) = drop_on_page(
        &weir,
        PageUpload { query: "name=x", content_type: BYTES, path: none.to_str().expect("text") },
    );
    assert_eq!(status, "400");
    assert_eq!(answer["error"], "cannot read `x`: it is neither pcap nor pcapng");
    assert!(answer["hint"].as_str().is_some_and(|hint| hint.contains("weir capture")));
}

fn stored_requests(weir: &Weir) -> i64 {
    weir.number("select count(*) from wire_request")
}
