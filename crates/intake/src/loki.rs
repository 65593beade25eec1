//! Loki's push protocol, JSON and protobuf: `POST /loki/api/v1/push` from Promtail, Alloy and
//! Docker.
//!
//! From Loki's HTTP API reference and its `push.proto`. A JSON line gets the labels as additional
//! keys and goes through the parser; a line of an access log goes through it unchanged; any other
//! line is a row of `log` with the labels in `attrs`. Senders resend the same bytes until they are
//! accepted, so a known body is a retry.

use std::borrow::Cow;

use http::request::Parts;
use http::{Method, StatusCode};
use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use weir_tables::{Log, Micros};

use crate::attrs::Attrs;
use crate::batch_builder::{BatchBuilder, ItemVerdict, RowOrigin};
use crate::body::no_memory;
use crate::document;
use crate::protobuf::{FieldReader, MalformedMessage, read_pair, utf8};
use crate::protocol::{HttpProtocol, IntakeRequest};
use crate::response::{IntakeResponse, Refusal};
use crate::unpack::{UnpackError, unpack};

/// Most labels of one stream; Loki's own default is 15.
const MAX_LABELS: usize = 128;
const HOST_LABELS: &[&str] = &["host", "hostname", "host_name", "nodename", "node_name", "node"];
const FILE_LABELS: &[&str] = &["filename", "file", "path"];
const PROGRAM_LABELS: &[&str] = &["service_name", "app", "container", "job"];

pub(crate) struct LokiPush;

impl HttpProtocol for LokiPush {
    const NAME: &'static str = "loki";
    type Note = bool;

    fn is_for(parts: &Parts) -> bool {
        matches!(parts.uri.path(), "/loki/api/v1/push" | "/ready")
    }

    /// The note is true for a readiness check.
    fn read(request: &IntakeRequest, builder: &mut BatchBuilder) -> Result<bool, Refusal> {
        if request.parts.uri.path() == "/ready" {
            return Ok(true);
        }
        if request.parts.method != Method::POST {
            let message = "push lines with POST";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", message));
        }
        if builder.is_known_body(Self::NAME, &request.body)? {
            return Ok(false);
        }
        let peer = request.peer.to_string();
        let kind = request.header("content-type");
        if kind.starts_with("application/json") {
            read_json(&request.body, &peer, builder)?;
        } else if kind.is_empty() || kind.starts_with("application/x-protobuf") {
            // Promtail compresses without a `Content-Encoding`.
            let is_unpacked = !request.header("content-encoding").is_empty();
            let body = if is_unpacked {
                request.body.clone()
            } else {
                let mut take = |bytes| builder.take_memory(bytes);
                unpack("snappy", request.body.clone(), request.body_bytes, &mut take)
                    .map_err(not_unpacked)?
            };
            read_protobuf(&body, &peer, builder).map_err(|MalformedMessage| {
                Refusal::bad("the body is not a push request of Loki")
            })?;
        } else {
            let message = format!("`{kind}` is not a content-type of Loki's push");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unknown_type", message)
                .hint("application/json, or application/x-protobuf compressed with snappy"));
        }
        builder.checked()?;
        Ok(false)
    }

    fn respond(
        _request: &IntakeRequest,
        is_check: bool,
        _verdicts: &[ItemVerdict],
    ) -> IntakeResponse {
        if is_check {
            return IntakeResponse::new(StatusCode::OK, "text/plain; charset=utf-8", "ready\n");
        }
        IntakeResponse::new(StatusCode::NO_CONTENT, "", "")
    }

    fn refuse(refusal: &Refusal) -> IntakeResponse {
        let text = match &refusal.hint {
            Some(hint) => format!("{}; hint: {hint}\n", refusal.message),
            None => format!("{}\n", refusal.message),
        };
        IntakeResponse::new(refusal.status, "text/plain; charset=utf-8", text)
    }
}

fn not_unpacked(error: UnpackError) -> Refusal {
    match error {
        UnpackError::TooLarge => Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the decompressed body is too large",
        ),
        UnpackError::NoMemory => no_memory(),
        UnpackError::Broken(why) | UnpackError::Unknown(why) => {
            Refusal::bad(format!("cannot decompress the body: {why}"))
        }
    }
}

#[derive(Deserialize)]
struct PushBody<'a> {
    #[serde(borrow)]
    streams: Vec<JsonStream<'a>>,
}

#[derive(Deserialize)]
struct JsonStream<'a> {
    #[serde(borrow, default)]
    stream: std::collections::BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(borrow)]
    values: Vec<JsonEntry<'a>>,
}

/// An entry: nanoseconds, line, and structured metadata.
struct JsonEntry<'a> {
    nanoseconds: Cow<'a, str>,
    line: Cow<'a, str>,
    metadata: serde_json::Map<String, serde_json::Value>,
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonEntry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = JsonEntry<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an entry [\"NANOSECONDS\", \"LINE\"]")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut parts: S) -> Result<Self::Value, S::Error> {
        let nanoseconds = parts.next_element::<EntryText<'de>>()?;
        let line = parts.next_element::<EntryText<'de>>()?;
        let (Some(EntryText(nanoseconds)), Some(EntryText(line))) = (nanoseconds, line) else {
            return Err(S::Error::custom("an entry has less than two parts: time and line"));
        };
        let metadata = parts.next_element()?.unwrap_or_default();
        while parts.next_element::<IgnoredAny>()?.is_some() {}
        Ok(JsonEntry { nanoseconds, line, metadata })
    }
}

/// Time or line of an entry.
struct EntryText<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for EntryText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryTextVisitor)
    }
}

struct EntryTextVisitor;

impl<'de> Visitor<'de> for EntryTextVisitor {
    type Value = EntryText<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text: time (nanoseconds in quotes) and line of an entry are texts")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(EntryText(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(EntryText(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(EntryText(Cow::Owned(text)))
    }
}

fn read_json(body: &[u8], peer: &str, builder: &mut BatchBuilder) -> Result<(), Refusal> {
    let push: PushBody<'_> = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("cannot read the JSON: {error}")))?;
    for stream in &push.streams {
        let mut labels = Attrs::default();
        for (name, value) in stream.stream.iter().take(MAX_LABELS) {
            labels.push(name.as_ref(), value.as_ref());
        }
        for entry in &stream.values {
            let JsonEntry { nanoseconds: at, line, metadata } = entry;
            let mut attrs = labels.clone();
            for (name, value) in metadata {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                attrs.push(name.as_str(), text);
            }
            let nanos = at
                .parse::<i64>()
                .map_err(|_| Refusal::bad(format!("`{at}` is not a time in nanoseconds")))?;
            entry_row(Micros(nanos.div_euclid(1000)), line, attrs, peer, builder);
        }
    }
    Ok(())
}

fn read_protobuf(
    body: &[u8],
    peer: &str,
    builder: &mut BatchBuilder,
) -> Result<(), MalformedMessage> {
    for stream in FieldReader(body).messages(1) {
        let stream = FieldReader(stream?);
        let mut labels = Attrs::default();
        for text in stream.messages(1) {
            read_labels(utf8(text?)?, &mut labels);
        }
        for entry in stream.messages(2) {
            let mut attrs = labels.clone();
            let (ts, line) = read_entry(entry?, &mut attrs)?;
            entry_row(ts, &line, attrs, peer, builder);
        }
    }
    Ok(())
}

/// Reads an `EntryAdapter`: time and line; adds its structured metadata to `attrs`.
fn read_entry<'a>(
    entry: &'a [u8],
    attrs: &mut Attrs<'a>,
) -> Result<(Micros, Cow<'a, str>), MalformedMessage> {
    let (mut ts, mut line) = (Micros(0), Cow::Borrowed(""));
    for field in FieldReader(entry) {
        match field? {
            (1, value) => ts = read_timestamp(value.bytes())?,
            (2, value) => line = String::from_utf8_lossy(value.bytes()),
            (3, value) => {
                let (name, text) = read_pair(value.bytes())?;
                attrs.push(name, text);
            }
            _ => {}
        }
    }
    Ok((ts, line))
}

/// Reads a `google.protobuf.Timestamp`.
fn read_timestamp(bytes: &[u8]) -> Result<Micros, MalformedMessage> {
    let (mut seconds, mut nanos) = (0_i64, 0);
    for field in FieldReader(bytes) {
        match field? {
            (1, value) => seconds = value.signed(),
            (2, value) => nanos = value.signed(),
            _ => {}
        }
    }
    Ok(Micros(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000)))
}

/// Reads `{name="value", …}` with Go's escapes in the values. Stops at the first malformed label.
fn read_labels<'a>(text: &'a str, labels: &mut Attrs<'a>) {
    let mut rest = text.trim().trim_start_matches('{');
    for _ in 0..MAX_LABELS {
        let Some((name, quoted)) = rest.split_once("=\"") else { return };
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        let end = loop {
            match letters.next() {
                Some((at, '"')) => break at,
                Some((_, '\\')) => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, 't')) => value.push('\t'),
                    Some((_, other)) => value.push(other),
                    None => return,
                },
                Some((_, letter)) => value.push(letter),
                None => return,
            }
        };
        labels.push(name.trim_matches([' ', ',']), value);
        rest = &quoted[end + 1..];
    }
}

fn entry_row(ts: Micros, line: &str, mut attrs: Attrs<'_>, peer: &str, builder: &mut BatchBuilder) {
    let host = HOST_LABELS.iter().find_map(|name| attrs.get(name)).unwrap_or(peer).to_owned();
    let source = FILE_LABELS.iter().find_map(|name| attrs.get(name)).unwrap_or("loki").to_owned();
    let line = line.trim_end_matches(['\n', '\r']);
    let place = RowOrigin { host: &host, source: &source };
    if document::is_object(line.as_bytes()) && line.ends_with('}') {
        return builder.line(place, with_labels(line, ts, &mut attrs).as_bytes(), None);
    }
    if document::may_have_format(line.as_bytes()) {
        // The parser reads the message like a line of a file, and the labels are its attributes.
        let document = format!("{{\"message\":{}}}", serde_json::Value::from(line));
        return builder.line(place, with_labels(&document, ts, &mut attrs).as_bytes(), None);
    }
    let program = PROGRAM_LABELS.iter().find_map(|name| attrs.get(name)).map(str::to_owned);
    let level =
        attrs.get("level").or_else(|| attrs.get("detected_level")).and_then(document::severity);
    builder.log_row(&Log {
        ts,
        host: &host,
        observed_ts: builder.now,
        source: &source,
        program: program.as_deref(),
        severity: level,
        body: line,
        attrs: &attrs.finish(),
        ..Log::default()
    });
}

/// The document with the labels and the entry's time after its own keys, which take precedence.
fn with_labels(line: &str, ts: Micros, attrs: &mut Attrs<'_>) -> String {
    let mut out = line[..line.len() - 1].to_owned();
    let is_empty = out.trim_start_matches('{').trim().is_empty();
    let mut comma = if is_empty { "" } else { "," };
    let ts = ts.to_string();
    for (name, value) in attrs.finish().into_iter().chain([("@timestamp", ts.as_str())]) {
        out += comma;
        comma = ",";
        out += &serde_json::Value::from(name).to_string();
        out.push(':');
        out += &serde_json::Value::from(value).to_string();
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::check::{builder, dump, mangled, request, rows};
    use crate::protobuf::{WireType, push_bytes, push_key, push_varint};

    const JSON: (&str, &str) = ("content-type", "application/json");
    const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
    const BODY: &str = r#"{"streams":[{"stream":{"host":"web1","job":"app","filename":"/var/log/app.log"},"values":[
        ["1795176000000000000","plain line"],
        ["1795176000000000001","{\"msg\":\"json\"}",{"trace":"t1"}],
        ["1795176000000000002","1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\""]]}]}"#;

    fn check(builder: &mut BatchBuilder, expected: &Expect) {
        let lines = dump_lines(builder);
        let columns = ["ts", "host", "source", "program", "severity", "body", "attrs"];
        expected.assert_eq(&(lines + &rows(builder, &columns)));
    }

    fn dump_lines(builder: &BatchBuilder) -> String {
        builder
            .groups
            .iter()
            .map(|group| {
                format!(
                    "{} {}\n{}",
                    group.host,
                    group.source,
                    String::from_utf8_lossy(&group.bytes)
                )
            })
            .collect()
    }

    #[test]
    fn lines_with_their_labels_become_rows_or_go_to_the_parser() {
        let mut builder = builder();
        let request = request(Method::POST, "/loki/api/v1/push", &[JSON], BODY.as_bytes());
        assert!(LokiPush::read(&request, &mut builder).is_ok());
        check(
            &mut builder,
            &expect![[r#"
            web1 /var/log/app.log
            {"msg":"json","filename":"/var/log/app.log","host":"web1","job":"app","trace":"t1","@timestamp":"2026-11-20T12:00:00.000000Z"}
            {"message":"1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"","filename":"/var/log/app.log","host":"web1","job":"app","@timestamp":"2026-11-20T12:00:00.000000Z"}
            ts=2026-11-20T12:00:00Z host=web1 source=/var/log/app.log program=app severity= body=plain line attrs={filename: /var/log/app.log, host: web1, job: app}
        "#]],
        );
    }

    /// grafana/loki#11565 and rlopzc/logger_exporter#12 (a time without quotes), grafana/loki#12914 (a
    /// time that is no number).
    #[test]
    fn an_entry_with_a_wrong_part_is_refused_with_its_reason() {
        for (values, why) in [
            ("[[1795176000000000000, \"a\"]]", "nanoseconds in quotes"),
            ("[[\"1795176000000000000\", 5]]", "are texts"),
            ("[[\"1795176000000000000\"]]", "less than two parts"),
            ("[\"a\"]", "an entry [\"NANOSECONDS\", \"LINE\"]"),
            ("[[\"noon\", \"a\"]]", "`noon` is not a time in nanoseconds"),
        ] {
            let body = format!("{{\"streams\":[{{\"stream\":{{}},\"values\":{values}}}]}}");
            let refusal = read_json(body.as_bytes(), "a", &mut builder()).expect_err(values);
            assert!(refusal.message.contains(why), "{}", refusal.message);
        }
    }

    /// grafana/loki#478: seconds instead of nanoseconds.
    #[test]
    fn time_in_another_unit_is_the_time_of_arrival() {
        let mut builder = builder();
        let body = r#"{"streams":[{"stream":{"job":"a"},"values":[["1795176000","x"]]}]}"#;
        read_json(body.as_bytes(), "192.0.2.1", &mut builder).expect("a push");
        let columns = ["ts", "body", "repair", "attrs"];
        expect![[r#"
            ts=2026-11-20T12:00:00Z body=x repair=implausible_time attrs={job: a, weir.time: 1970-01-01T00:00:01.795176Z}
        "#]]
        .assert_eq(&rows(&mut builder, &columns));
    }

    fn protobuf() -> Vec<u8> {
        let mut time = Vec::new();
        push_key(&mut time, 1, WireType::Varint);
        push_varint(&mut time, 1_795_176_000);
        let mut entry = Vec::new();
        push_bytes(&mut entry, 1, &time);
        push_bytes(&mut entry, 2, b"a line");
        let mut stream = Vec::new();
        push_bytes(&mut stream, 1, br#"{host="web\"1", level="warning"}"#);
        push_bytes(&mut stream, 2, &entry);
        let mut body = Vec::new();
        push_bytes(&mut body, 1, &stream);
        body
    }

    #[test]
    fn compressed_protobuf_is_read() {
        let body = snap::raw::Encoder::new().compress_vec(&protobuf()).expect("memory");
        let mut builder = builder();
        let push = request(Method::POST, "/loki/api/v1/push", &[PROTOBUF], &body);
        assert!(LokiPush::read(&push, &mut builder).is_ok());
        check(
            &mut builder,
            &expect![[r#"
            ts=2026-11-20T12:00:00Z host=web"1 source=loki program= severity=warn body=a line attrs={host: web"1, level: warning}
        "#]],
        );
        assert_eq!(dump(&mut builder), "");
        // As Loki does, without a type.
        let bare = request(Method::POST, "/loki/api/v1/push", &[], &body);
        assert!(LokiPush::read(&bare, &mut crate::check::builder()).is_ok());
    }

    /// grafana/loki#13399 (no error, and no line), sipcapture/paStash#79 and grafana/loki#1727 (the shape of
    /// Loki's first protocol).
    #[test]
    fn a_push_without_entries_of_this_protocol_is_refused_with_the_missing_field() {
        for (body, why) in [
            (r#"{"strooms":[{"stream":{}}]}"#, "missing field `streams`"),
            (r#"{"streams":[{"ignored":"a"}]}"#, "missing field `values`"),
            (
                r#"{"streams":[{"labels":"{a=\"b\"}","entries":[{"ts":"2026-11-20T12:00:00Z","line":"x"}]}]}"#,
                "missing field `values`",
            ),
        ] {
            let refusal = read_json(body.as_bytes(), "a", &mut builder()).expect_err(body);
            assert!(refusal.message.contains(why), "{}", refusal.message);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let message = protobuf();
        arbtest::arbtest(|u| {
            let _ = read_protobuf(&mangled(u, &message)?, "a", &mut builder());
            let _ = read_json(&mangled(u, BODY.as_bytes())?, "a", &mut builder());
            Ok(())
        });
    }
}
