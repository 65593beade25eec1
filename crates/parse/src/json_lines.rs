//! JSON lines to named texts; nested objects become dotted keys (`http.status`).
//!
//! A program writes its keys in a fixed order, so each key is first compared with the one that
//! followed last time: a comparison of known bytes instead of a lookup.

use std::fmt::Write as _;

use weir_values::severity;

use crate::caddy;
use crate::envoy;
use crate::field::{self, Field};
use crate::format::{Format, JSON_ESCAPE, NamedFormat};
use crate::json::{JsonScanner, JsonValue, MAX_DEPTH};
use crate::json_access;
use crate::pino_http;
use crate::record::{LineFault, Record, RowKind};
use crate::tomcat_json;

/// Longest prefix of a nested key that is kept: a long key would be copied into each of its
/// members.
const MAX_PREFIX_BYTES: usize = 128;

/// Known keys per stream.
const MAX_STEPS: usize = 128;

pub(crate) const FORMAT: NamedFormat =
    NamedFormat { name: "json", new: || Box::new(FreeJson(JsonLines::free())) };

/// JSON lines with any keys.
struct FreeJson(JsonLines);

impl Format for FreeJson {
    fn name(&self) -> &'static str {
        FORMAT.name
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        self.0.parse(line, record)
    }

    fn byte_escape(&self, _line: &[u8]) -> &'static str {
        JSON_ESCAPE
    }
}

/// Requests as JSON whose keys a template explains.
pub(crate) struct JsonTemplate(pub(crate) JsonLines);

impl Format for JsonTemplate {
    fn name(&self) -> &'static str {
        "json_template"
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        self.0.read(line, record).map(|()| RowKind::Request)
    }

    fn byte_escape(&self, _line: &[u8]) -> &'static str {
        JSON_ESCAPE
    }
}

/// Reads JSON lines of one program.
pub(crate) struct JsonLines {
    classify: Box<dyn Fn(&str) -> Field + Send>,
    steps: Vec<KnownKey>,
}

/// A key as it is written in the line (`"key":`), and its meaning.
struct KnownKey {
    quoted: Box<[u8]>,
    field: Field,
}

impl JsonLines {
    /// A reader whose keys are classified by `classify`.
    pub(crate) fn new(classify: impl Fn(&str) -> Field + Send + 'static) -> Self {
        Self { classify: Box::new(classify), steps: Vec::new() }
    }

    /// A reader for any program: keys have their usual meanings.
    pub(crate) fn free() -> Self {
        Self::new(field::of_key)
    }

    /// Reads a line and decides by its keys whether it is a request.
    pub(crate) fn parse<'a>(
        &mut self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Result<RowKind, LineFault> {
        self.read(line, record)?;
        if !record.is_free(Field::ResponseFlags) {
            return Ok(envoy::parse_json(record));
        }
        if !record.is_free(Field::AccessMark) {
            self.unfold_properties(record);
            if let Some(kind) = json_access::parse(record) {
                return Ok(kind);
            }
        }
        if !record.is_free(Field::MongoTime) {
            let level = record.text("s").and_then(severity::of_mongodb);
            record.log.severity = record.log.severity.or(level);
        }
        if !record.is_free(Field::CaddyTarget) {
            return Ok(caddy::parse_json(record));
        }
        if !record.is_free(Field::NodeTarget) {
            return Ok(pino_http::parse_json(record));
        }
        if !record.is_free(Field::TomcatUser) {
            tomcat_json::rename(record);
        }
        Ok(record.guess_kind())
    }

    /// Reads a line.
    pub(crate) fn read<'a>(
        &mut self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Result<(), LineFault> {
        let mut scanner = JsonScanner::new(line, record.arena);
        scanner.open()?;
        let mut next_step = 0;
        let mut is_first = true;
        while let Some((key, field)) = self.next_key(&mut scanner, &mut next_step, is_first)? {
            is_first = false;
            match scanner.value()? {
                JsonValue::Object => self.nested(&mut scanner, key, 1, record)?,
                value => put(record, key, value, field),
            }
        }
        scanner.close()?;
        let repair = &mut record.repair;
        repair.hex_escape |= scanner.repair.hex_escape;
        repair.invalid_utf8 |= scanner.repair.invalid_utf8;
        repair.loose_json |= scanner.repair.loose_json;
        Ok(())
    }

    /// Reads an object that Azure writes as a text in `properties`; a text that is none stays.
    fn unfold_properties<'a>(&self, record: &mut Record<'a>) {
        const KEY: &str = "properties";
        let Some(text) = record.text(KEY) else { return };
        let texts = record.take_texts();
        for (key, value, field) in texts.iter().filter(|(key, ..)| *key != KEY) {
            record.put([key, value], field);
        }
        let mut scanner = JsonScanner::new(text, record.arena);
        let read = scanner.open().and_then(|()| self.nested(&mut scanner, KEY, 1, record));
        if read.and_then(|()| scanner.close()).is_err() {
            record.put_back(texts);
        }
    }

    #[inline]
    fn next_key<'a>(
        &mut self,
        scanner: &mut JsonScanner<'a>,
        next_step: &mut usize,
        is_first: bool,
    ) -> Result<Option<(&'a str, Field)>, LineFault> {
        if let Some(step) = self.steps.get(*next_step)
            && let Some(key) = scanner.take_key(&step.quoted, is_first)
        {
            *next_step += 1;
            return Ok(Some((key, step.field)));
        }
        let Some(key) = scanner.key(is_first)? else { return Ok(None) };
        let at = self.step_of(key);
        let field = at.map_or_else(|| (self.classify)(key), |at| self.steps[at].field);
        *next_step = at.map_or(MAX_STEPS, |at| at + 1);
        Ok(Some((key, field)))
    }

    /// The index of a known key; new keys are added up to the limit.
    fn step_of(&mut self, key: &str) -> Option<usize> {
        let is_key = |step: &KnownKey| step.quoted[1..step.quoted.len() - 2] == *key.as_bytes();
        if let Some(at) = self.steps.iter().position(is_key) {
            return Some(at);
        }
        if self.steps.len() == MAX_STEPS || key.contains(['"', '\\']) {
            return None;
        }
        let quoted = format!("\"{key}\":").into_bytes().into_boxed_slice();
        self.steps.push(KnownKey { quoted, field: (self.classify)(key) });
        Some(self.steps.len() - 1)
    }

    fn nested<'a>(
        &self,
        scanner: &mut JsonScanner<'a>,
        prefix: &'a str,
        depth: usize,
        record: &mut Record<'a>,
    ) -> Result<(), LineFault> {
        if depth >= MAX_DEPTH {
            return Err(scanner.too_deep());
        }
        let mut is_first = true;
        let mut path = String::new();
        let short = &prefix[..prefix.floor_char_boundary(MAX_PREFIX_BYTES)];
        while let Some(key) = scanner.key(is_first)? {
            is_first = false;
            path.clear();
            write!(path, "{short}.{key}").expect("writing to a String does not fail");
            let path: &'a str = record.arena.alloc_str(&path);
            match scanner.value()? {
                JsonValue::Object => self.nested(scanner, path, depth + 1, record)?,
                value => put(record, path, value, (self.classify)(path)),
            }
        }
        if is_first {
            record.put([prefix, "{}"], Field::Attr);
        }
        Ok(())
    }
}

#[inline]
fn put<'a>(record: &mut Record<'a>, key: &'a str, value: JsonValue<'a>, field: Field) {
    match value {
        JsonValue::Text(text) | JsonValue::Bare(text) => record.put([key, text], field),
        JsonValue::Array(text) => record.put([key, text], Field::Attr),
        JsonValue::Null | JsonValue::Object => {}
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn request_of_the_analytics_company_fills_the_columns() {
        check_format(
            LogFormat::Json,
            r#"{"@timestamp":"2026-11-20T11:59:58+00:00","@version":"1","remote_addr":"8.9.10.11","body_bytes_sent":43,"request_time":0.012,"upstream_addr":"10.20.0.11:8080","upstream_response_time":"0.010","status":200,"uri":"/ping","query_strings":"h=a&p=/b","request_method":"GET","http_referrer":"-","http_host":"ping2.beacon.example.net","scheme":"https","http_user_agent":"Mozilla/5.0 (X11)","request_id":"0123456789abcdef0123456789abcdef"}"#,
            expect![[r#"
                request
                  ts: 2026-11-20T11:59:58Z
                  request_id: 0123456789abcdef0123456789abcdef
                  client_address: 8.9.10.11
                  server_address: ping2.beacon.example.net
                  url_scheme: https
                  http_request_method: GET
                  url_path: /ping
                  url_query: h=a&p=/b
                  http_response_status_code: 200
                  response_body_bytes: 43
                  user_agent_original: Mozilla/5.0 (X11)
                  duration_seconds: 0.012
                  upstream_response_seconds: 0.01
                  upstream_address: 10.20.0.11:8080
                  upstream_tries: 1
                  attrs: {@version: 1}
            "#]],
        );
    }

    #[test]
    fn hex_escapes_of_nginx_are_repaired_and_bytes_kept() {
        let mut line = br#"{"method":"GET","path":"/","status":200,"user_agent":"a \x22b\x22 caf\xC3\xA9 \xFF","x":""#.to_vec();
        line.extend_from_slice(b"raw \xff\xc3\xa9\"}\n");
        check_format(
            LogFormat::Json,
            line,
            expect![[r#"
            request
              ts: 2026-11-20T12:00:00Z
              http_request_method: GET
              url_path: /
              http_response_status_code: 200
              user_agent_original: a "b" café \xFF
              repair: hex_escape,invalid_utf8
              attrs: {x: raw \xFFé}
        "#]],
        );
    }

    #[test]
    fn log_line_has_message_level_and_nested_keys() {
        check_format(
            LogFormat::Json,
            r#"{"time":1795175999.5,"level":"WARN","msg":"slow \"query\"\n\u00e9\ud83d\ude00","service":"api","pid":12,"db":{"name":"x","stat":{"rows":3,"ok":true,"none":null}},"tags":["a",{"b":"]"}],"empty":{},"host":"h","status":"late"}"#,
            expect![[r#"
                log
                  ts: 2026-11-20T11:59:59.500Z
                  program: api
                  process_id: 12
                  severity: warn
                  body: slow "query"
                é😀
                  attrs: {db.name: x, db.stat.rows: 3, db.stat.ok: true, tags: ["a",{"b":"]"}], empty: {}, host: h, status: late}
            "#]],
        );
    }

    #[test]
    fn message_of_a_container_or_event_is_the_body_when_there_is_no_other() {
        check_format(
            LogFormat::Json,
            r#"{"log":"hello\n","stream":"stdout","time":"2026-11-20T12:00:00.123456789Z"}
{"event":"login","message":"user logged in"}
{"level":"info","user":"x"}
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T12:00:00.123456Z
                  body: hello
                  attrs: {stream: stdout}
                log
                  ts: 2026-11-20T12:00:00Z
                  body: user logged in
                  attrs: {event: login}
                log
                  ts: 2026-11-20T12:00:00Z
                  severity: info
                  body: {"level":"info","user":"x"}
                  attrs: {user: x}
            "#]],
        );
    }

    #[test]
    fn opentelemetry_names_are_known() {
        check_format(
            LogFormat::Json,
            r#"{"timestamp":"2026-11-20T12:00:00.5Z","http.request.method":"GET","url":{"path":"/a","query":"b=1","scheme":"https"},"http.response.status_code":204,"client.address":"::1","user_agent.original":"x","duration_ms":12.5}"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00.500Z
                  client_address: ::1
                  url_scheme: https
                  http_request_method: GET
                  url_path: /a
                  url_query: b=1
                  http_response_status_code: 204
                  user_agent_original: x
                  duration_seconds: 0.0125
            "#]],
        );
    }

    #[test]
    fn schemas_of_shippers_and_frameworks_are_known() {
        check_format(
            LogFormat::Auto,
            r#"{"clientip":"192.0.2.1","timestamp":"20/Nov/2026:12:00:00 +0000","verb":"GET","request":"/a?b=1","httpversion":"1.1","response":"404","bytes":"12"}
{"time":"2026-11-20T12:00:00Z","remote_ip":"192.0.2.1","host":"h","method":"GET","uri":"/a","status":502,"latency":812345,"latency_human":"812.345µs","bytes_in":0,"bytes_out":12}
{"level":"info","ts":1795175999.5,"msg":"request","status":200,"method":"GET","path":"/a","latency":"1.5ms","ip":"192.0.2.1"}
{"@timestamp":"2026-11-20T12:00:00Z","message":"GET /a","http":{"request":{"method":"GET"},"response":{"status_code":503,"body":{"bytes":3}},"version":"1.1"},"url":{"original":"/a"},"client":{"ip":"192.0.2.1"},"event":{"duration":1500000}}
{"Timestamp":"2026-11-20T12:00:00Z","LogLevel":"Error","Message":"bad request","took":"soon"}
{"instant":{"epochSecond":1795175999,"nanoOfSecond":123000000},"level":"ERROR","message":"boom"}
{"t":{"$date":"2026-11-20T11:59:59.123+00:00"},"s":"E","c":"NETWORK","id":22943,"ctx":"listener","msg":"Connection refused"}
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 192.0.2.1
                  http_request_method: GET
                  url_path: /a
                  url_query: b=1
                  network_protocol_version: 1.1
                  http_response_status_code: 404
                  response_body_bytes: 12
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 192.0.2.1
                  server_address: h
                  http_request_method: GET
                  url_path: /a
                  http_response_status_code: 502
                  request_bytes: 0
                  response_body_bytes: 12
                  duration_seconds: 0.000812345
                  attrs: {latency: 812345}
                request
                  ts: 2026-11-20T11:59:59.500Z
                  client_address: 192.0.2.1
                  http_request_method: GET
                  url_path: /a
                  http_response_status_code: 200
                  duration_seconds: 0.0015
                  attrs: {level: info, msg: request}
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 192.0.2.1
                  http_request_method: GET
                  url_path: /a
                  network_protocol_version: 1.1
                  http_response_status_code: 503
                  response_body_bytes: 3
                  duration_seconds: 0.0015
                  attrs: {message: GET /a}
                log
                  ts: 2026-11-20T12:00:00Z
                  severity: error
                  body: bad request
                  attrs: {took: soon}
                log
                  ts: 2026-11-20T11:59:59.123Z
                  severity: error
                  body: boom
                log
                  ts: 2026-11-20T11:59:59.123Z
                  severity: error
                  body: Connection refused
                  attrs: {s: E, c: NETWORK, id: 22943, ctx: listener}
            "#]],
        );
    }

    #[test]
    fn equal_keys_and_values_that_do_not_fit_stay_attributes() {
        check_format(
            LogFormat::Json,
            r#"{"method":"GET","status":"teapot","path":"/a","path":"/b","x":"1","x":"2","ts":"noon"}"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  http_request_method: GET
                  url_path: /a
                  attrs: {status: teapot, path: /b, x: 1, x#2: 2, ts: noon}
            "#]],
        );
    }

    #[test]
    fn what_is_no_json_is_rejected_with_the_place() {
        for (line, expected) in [
            (
                r#"{"a":"b","c":"torn wri"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: a string without end begins at byte 13
                  raw: {"a":"b","c":"torn wri
            "#]],
            ),
            (
                r#"{"a":"b","c""#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: no `:` at byte 12
                  raw: {"a":"b","c"
            "#]],
            ),
            (
                r#"{"a":"b","c":12"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: the line ends inside a value at byte 15
                  raw: {"a":"b","c":12
            "#]],
            ),
            (
                r#"{"a":"b""c":1}"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: no `,` or `}` at byte 8
                  raw: {"a":"b""c":1}
            "#]],
            ),
            (
                r#"{"a":"b"} trailing"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: text behind the object at byte 10
                  raw: {"a":"b"} trailing
            "#]],
            ),
            (
                r#"{"a":"\q"}"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: an unknown escape at byte 7
                  raw: {"a":"\q"}
            "#]],
            ),
            (
                r#"{"a":"\xZZ"}"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: `\x` without two hex digits at byte 8
                  raw: {"a":"\xZZ"}
            "#]],
            ),
            (
                r#"{"a":"\u12"}"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: `\u` without four hex digits at byte 8
                  raw: {"a":"\u12"}
            "#]],
            ),
            (
                r#"{"a":[1,2}"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: a bracket that closes nothing at byte 10
                  raw: {"a":[1,2}
            "#]],
            ),
            (
                r#"{"a":[1,"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: the line ends inside an array at byte 8
                  raw: {"a":[1,
            "#]],
            ),
            (
                r#"{"a":{"b":1}"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: no `,` or `}` at byte 12
                  raw: {"a":{"b":1}
            "#]],
            ),
            (
                r#"{"a":un"quoted"}"#,
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: a quote inside a value without quotes at byte 7
                  raw: {"a":un"quoted"}
            "#]],
            ),
            (
                "plain",
                expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: invalid_json
                  detail: no `{` at byte 0
                  raw: plain
            "#]],
            ),
        ] {
            check_format(LogFormat::Json, line, expected);
        }
    }

    #[test]
    fn loose_values_are_forgiven() {
        check_format(
            LogFormat::Json,
            r#"{"method":"GET","status":200,"path":/x,"upstream_response_time":-,"request_length":,"n":007,"upstream_addr":10.0.0.1:80, 10.0.0.2:80, }"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  http_request_method: GET
                  url_path: /x
                  http_response_status_code: 200
                  upstream_address: 10.0.0.2:80
                  upstream_tries: 2
                  repair: loose_json
                  attrs: {n: 007}
            "#]],
        );
    }
}
