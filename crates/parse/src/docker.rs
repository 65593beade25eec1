//! Lines of Docker's log driver `json-file`: `{"log":"text\n","stream":"stderr","time":"…"}`.
//!
//! The text is what a program in the container wrote, so it is parsed like any other line. The time
//! is when the daemon received it, used where the text has none. The driver splits a text of more
//! than 16 KiB into pieces, all but the last without a line end, which `container_join.rs` joins.

use crate::record::{Envelope, Record};

/// Takes the entry out of the record that has the values of a line, and returns the container's line
/// with the entry's values; `None`, with the record unchanged, if it is not an entry.
pub(crate) fn take_entry<'a>(line: &str, record: &mut Record<'a>) -> Option<Envelope<'a>> {
    if !line.starts_with(r#"{"log":""#) {
        return None;
    }
    let text = record.text("log")?.trim_end_matches(['\n', '\r']);
    let is_stream = matches!(record.text("stream")?, "stdout" | "stderr");
    let time = record.text("time")?;
    if !is_stream || text.trim_ascii().is_empty() {
        return None;
    }
    let ts = record.times.read(time);
    let mut attrs = record.take_pairs();
    attrs.retain(|(key, _)| *key != "log" && !(*key == "time" && ts.is_some()));
    record.clear_texts();
    Some(Envelope { text, ts, attrs, ..Envelope::default() })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    /// oracle/railcar issue 32, docker-library/docker issue 224, fluent/fluentd issue 1817 and
    /// kubernetes/ingress-nginx issue 759, the latter two as the driver writes them; at a later
    /// time.
    #[test]
    fn the_text_of_a_container_is_read_as_it_would_be_alone() {
        check_format(
            LogFormat::Auto,
            r#"{"log":"172.17.0.1 - - [20/Nov/2026:05:57:12 +0000] \"GET / HTTP/1.1\" 200 612 \"-\" \"curl/7.57.0\" \"-\"\r\n","stream":"stdout","time":"2026-11-20T05:57:12.583118365Z"}
{"log":"time=\"2026-11-20T11:04:50.847156802Z\" level=info msg=\"Processing signal 'interrupt'\"\n","stream":"stderr","time":"2026-11-20T11:04:50.847690847Z"}
{"log":"{\"cid\": \"6aca9d54\", \"source\": \"USSD\", \"timestamp\": \"2026-11-20 10:45:45.557018\", \"action\": \"USSD_BROWSING\", \"request\": {\"url\": \"http://10.172.66.2/ussd/index.php?service=454\"}}\n","stream":"stderr","time":"2026-11-20T10:45:45.6Z"}
{"log":"2026/11/20 11:52:25 [error] 317#317: *288785 connect() failed (113: No route to host) while connecting to upstream, client: 127.0.0.1, server: aaa.bbb.com, request: \"GET /favicon.ico HTTP/2.0\", upstream: \"http://10.2.3.30:3000/favicon.ico\", host: \"aaa.bbb.com\"\n","stream":"stderr","attrs":{"tag":"lb"},"time":"2026-11-20T11:52:25.1Z"}
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T05:57:12Z
                  client_address: 172.17.0.1
                  http_request_method: GET
                  url_path: /
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_body_bytes: 612
                  user_agent_original: curl/7.57.0
                  attrs: {rest: "-", stream: stdout}
                log
                  ts: 2026-11-20T11:04:50.847156Z
                  severity: info
                  body: Processing signal 'interrupt'
                  attrs: {stream: stderr}
                log
                  ts: 2026-11-20T10:45:45.557018Z
                  body: {"cid": "6aca9d54", "source": "USSD", "timestamp": "2026-11-20 10:45:45.557018", "action": "USSD_BROWSING", "request": {"url": "http://10.172.66.2/ussd/index.php?service=454"}}
                  attrs: {cid: 6aca9d54, source: USSD, action: USSD_BROWSING, request.url: http://10.172.66.2/ussd/index.php?service=454, stream: stderr}
                log
                  ts: 2026-11-20T11:52:25Z
                  program: nginx
                  process_id: 317
                  severity: error
                  body: connect() failed (113: No route to host) while connecting to upstream
                  attrs: {thread_id: 317, connection: 288785, client: 127.0.0.1, server: aaa.bbb.com, request: GET /favicon.ico HTTP/2.0, upstream: http://10.2.3.30:3000/favicon.ico, host: aaa.bbb.com, stream: stderr, attrs.tag: lb}
                  message_template: connect() failed (113: No route to host) while connecting to upstream
            "#]],
        );
    }

    #[test]
    fn pieces_and_plain_texts_keep_the_time_of_the_daemon() {
        check_format(
            LogFormat::Auto,
            r#"{"log":"{\"level\":\"error\",\"msg\":\"a long te","stream":"stdout","time":"2026-11-20T11:59:57Z"}
{"log":"ERROR: disk\n","stream":"stdout","time":"2026-11-20T11:59:58Z"}
{"log":"{\"level\":\"warn\",\"user\":\"x\",\"stream\":\"video\"}\n","stream":"stdout","time":"2026-11-20T11:59:59Z"}
{"log":"\n","stream":"stdout","time":"2026-11-20T11:59:59Z"}
{"log":"of another program","stream":"both","time":"2026-11-20T11:59:59Z"}
{"log":"{\"log\":\"inner\\n\",\"stream\":\"stdout\",\"time\":\"2026-11-20T11:00:00Z\"}\n","stream":"stderr","time":"2026-11-20T11:59:59Z"}
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T11:59:57Z
                  body: {"level":"error","msg":"a long teERROR: disk
                  attrs: {stream: stdout}
                log
                  ts: 2026-11-20T11:59:59Z
                  severity: warn
                  body: {"level":"warn","user":"x","stream":"video"}
                  attrs: {user: x, stream: video, stream#2: stdout}
                log
                  ts: 2026-11-20T11:59:59Z
                  body: {"log":"\n","stream":"stdout","time":"2026-11-20T11:59:59Z"}
                  attrs: {stream: stdout}
                log
                  ts: 2026-11-20T11:59:59Z
                  body: of another program
                  attrs: {stream: both}
                log
                  ts: 2026-11-20T11:00:00Z
                  body: inner
                  attrs: {stream: stdout, stream#2: stderr}
            "#]],
        );
    }
}
