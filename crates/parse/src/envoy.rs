//! Access logs of Envoy: its default text, the text of Istio, and JSON with the keys that Istio,
//! Contour and Envoy Gateway choose.
//!
//! `[start] "method path protocol" status flags details… received sent duration upstream-time
//! "forwarded for" "user agent" "request id" "authority" "upstream" cluster addresses… route`
//! (Envoy's manual, "Access logging"; Istio's MeshConfig, `accessLogFormat`).
//!
//! A connection without HTTP has neither method, path nor protocol. Like a record of HAProxy's
//! `option tcplog` it is a row of `log`, with attributes named as the columns of `request`.
//!
//! Envoy escapes nothing in its text: a line whose values do not end where they must is left.

use weir_values::{number, peer_address};

use crate::field::{self, Field};
use crate::record::{Record, RowKind};

/// Values behind the request, the status and the flags: three numbers, the time of the upstream,
/// five texts.
const NUMBERS: [&str; 4] = ["bytes_received", "bytes_sent", "duration", "upstream_service_time"];
const TEXTS: [&str; 5] =
    ["x_forwarded_for", "user_agent", "request_id", "authority", "upstream_host"];
/// What Istio appends; versions before 1.3 have no route.
const ADDRESSES: [&str; 6] = [
    "upstream_cluster",
    "upstream_local_address",
    "downstream_local_address",
    "downstream_remote_address",
    "requested_server_name",
    "route_name",
];

/// A value of a line: a word or a text in quotes.
#[derive(Clone, Copy, Debug)]
struct LineValue<'a> {
    text: &'a str,
    is_quoted: bool,
}

/// Reads a line of text; `None`, with the record unchanged, if it is not Envoy's.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<RowKind> {
    let (start, rest) = line.strip_prefix('[')?.split_once("] \"")?;
    // A path may have a quote, but no blank.
    let (request, rest) = rest.split_once("\" ")?;
    let mut words = request.split(' ');
    let (method, path, protocol) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !is_start(start) {
        return None;
    }
    let values = values(rest)?;
    let [status, flags, behind @ ..] = &values[..] else { return None };
    number::integer(status.text).filter(|_| !status.is_quoted && !flags.is_quoted)?;
    let mut pairs = Vec::with_capacity(24);
    pairs.extend([("start_time", start), ("method", method), ("path", path)]);
    pairs.extend([("protocol", protocol), ("response_code", status.text)]);
    pairs.push(("response_flags", flags.text));
    let at = behind.windows(NUMBERS.len()).position(are_numbers)?;
    details(&behind[..at], &mut pairs);
    let (numbers, behind) = behind[at..].split_at(NUMBERS.len());
    let (texts, addresses) = behind.split_at_checked(TEXTS.len())?;
    let is_known = texts.iter().all(|value| value.is_quoted)
        && matches!(addresses.len(), 0 | 5 | 6)
        && addresses.iter().all(|value| !value.is_quoted);
    if !is_known {
        return None;
    }
    let names = NUMBERS.iter().chain(&TEXTS).chain(&ADDRESSES);
    let named = names.zip(numbers.iter().chain(texts).chain(addresses));
    pairs.extend(named.map(|(name, value)| (*name, value.text)));
    Some(put_all(&pairs, record))
}

/// Reads the keys of a JSON object with `response_flags`, which are in the record. Keys of other
/// programs keep their usual meanings.
pub(crate) fn parse_json(record: &mut Record<'_>) -> RowKind {
    let pairs = record.take_pairs();
    let has_start = has_key(&pairs, "start_time");
    // Others name Envoy's values as nginx does.
    let has_status = has_key(&pairs, "response_code") || has_start && has_key(&pairs, "status");
    if (has_start || has_key(&pairs, "duration")) && has_status {
        return put_all(&pairs, record);
    }
    for (key, value) in pairs {
        record.put([key, value], field::of_key(key));
    }
    record.guess_kind()
}

fn has_key(pairs: &[(&str, &str)], name: &str) -> bool {
    pairs.iter().any(|(key, _)| *key == name)
}

/// Whether a bracket holds the time of a request; Envoy's own log has more brackets.
fn is_start(text: &str) -> bool {
    matches!(text.as_bytes(), [_, _, _, _, b'-', _, _, b'-', _, _, b'T' | b' ', ..])
        && !text.contains('[')
}

/// Splits at blanks outside of quotes; `None` if a quote has no end before a blank.
fn values(text: &str) -> Option<Vec<LineValue<'_>>> {
    let mut values = Vec::with_capacity(24);
    let mut rest = text;
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"');
        let (text, behind) = match quoted {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find(' ').unwrap_or(rest.len())),
        };
        values.push(LineValue { text, is_quoted: quoted.is_some() });
        rest = if behind.is_empty() { behind } else { behind.strip_prefix(' ')? };
    }
    Some(values)
}

/// Whether these are the bytes received and sent, the duration and the time of the upstream.
fn are_numbers(values: &[LineValue<'_>]) -> bool {
    values.iter().enumerate().all(|(index, value)| {
        let is_number = number::integer(value.text).is_some();
        !value.is_quoted && (is_number || index == NUMBERS.len() - 1 && value.text == "-")
    })
}

/// What Envoy or Istio has between flags and numbers: up to three values, by version.
fn details<'a>(values: &[LineValue<'a>], pairs: &mut Vec<(&'a str, &'a str)>) {
    let mut words = ["response_code_details", "connection_termination_details"].iter();
    // Istio 1.1 to 1.5 had the status of its Mixer before the failure of the transport.
    let texts = values.iter().filter(|value| value.is_quoted).count();
    let is_old = texts == values.len();
    let quoted = ["istio_policy_status", "upstream_transport_failure_reason"];
    let mut texts = quoted.iter().skip(usize::from(!is_old));
    for value in values {
        let name = if value.is_quoted { texts.next() } else { words.next() };
        if let Some(name) = name {
            pairs.push((name, value.text));
        }
    }
}

/// Column and meaning of one of Envoy's values.
fn meaning(key: &str) -> (&str, Field) {
    let column = match key {
        "start_time" => return (key, Field::Time),
        "method" | ":method" => return ("http_request_method", Field::Method),
        "path" | ":path" | "x-envoy-origin-path" => return ("url_path", Field::Target),
        "protocol" => return ("network_protocol_version", Field::Protocol),
        "authority" | ":authority" | "request_authority" => return ("server_address", Field::Host),
        "response_code" => "http_response_status_code",
        "bytes_received" => "request_bytes",
        "bytes_sent" => "response_body_bytes",
        "duration" | "request_time" => "duration_seconds",
        "upstream_service_time" | "x-envoy-upstream-service-time" | "upstream_response_time" => {
            "upstream_header_seconds"
        }
        "x_forwarded_for" | "x-forwarded-for" => return ("forwarded_for", Field::Attr),
        "user_agent" | "user-agent" => "user_agent_original",
        "request_id" | "x-request-id" => "request_id",
        "upstream_host" => "upstream_address",
        "upstream_cluster" | "upstream_cluster_raw" => "proxy_backend",
        "response_flags" => return (key, Field::Attr),
        _ => return (key, field::of_key(key)),
    };
    (column, Field::Column)
}

/// Whether Envoy had a value; it writes `-` for none.
fn is_known(value: &str) -> bool {
    !matches!(value, "-" | "")
}

/// Fills the record with values under Istio's names.
fn put_all<'a>(pairs: &[(&'a str, &'a str)], record: &mut Record<'a>) -> RowKind {
    let of_http =
        ["method", ":method", "path", ":path", "x-envoy-origin-path", "protocol", "request_method"];
    let is_session = !pairs.iter().any(|pair| of_http.contains(&pair.0) && is_known(pair.1));
    record.put(["program", "envoy"], Field::Program);
    for (key, value) in pairs.iter().filter(|pair| is_known(pair.1)) {
        let (name, field) = meaning(key);
        match name {
            // The connection ended before there was a status.
            "http_response_status_code" if *value == "0" => {}
            "duration_seconds" | "upstream_header_seconds" => {
                let seconds = seconds(value, record);
                put([name, seconds], field, is_session, record);
            }
            "downstream_remote_address" => {
                let (address, port) = peer_address::split_port(value);
                put(["client_address", address], Field::Column, is_session, record);
                if let Some(port) = port {
                    let port = record.arena.alloc_str(&port.to_string());
                    put(["client_port", port], Field::Column, is_session, record);
                }
            }
            _ => put([name, value], field, is_session, record),
        }
    }
    if is_session { RowKind::Log } else { RowKind::Request }
}

fn put<'a>(pair: [&'a str; 2], field: Field, is_session: bool, record: &mut Record<'a>) {
    let is_attr = is_session && field != Field::Time;
    record.put(pair, if is_attr { Field::Attr } else { field });
}

/// Milliseconds as seconds; a text that is no number stays.
fn seconds<'a>(text: &'a str, record: &Record<'a>) -> &'a str {
    match number::seconds(text) {
        Some(span) => record.arena.alloc_str(&(span / 1e3).to_string()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    /// istio/istio issue 45802 with the time that it lacks, nitishm/engarde pull request 8 (Istio
    /// 1.3, a connection without HTTP), and Envoy's default with details.
    #[test]
    fn text_of_envoy_and_istio_is_a_request() {
        check_format(
            LogFormat::Auto,
            r#"[2026-11-20T11:59:58.123Z] "GET /v1/status HTTP/1.1" 503 UC upstream_reset_before_response_started{connection_termination} - "-" 0 95 0 - "10.90.16.220" "Apache-HttpClient/4.5.1 (Java/1.8.0_372)" "3a7cbcc1-af72-47fb-bbac-a7672951f50f" "health.abc.com" "10.80.47.192:8181" outbound|80||health-api.production.svc.cluster.local 10.80.45.233:37132 10.80.45.233:80 10.80.46.220:59375 - -
[2026-11-20T11:53:38.151Z] "- - -" 0 - "-" "-" 2279 3059 63 - "-" "-" "-" "-" "1.2.3.4:443" PassthroughCluster 10.0.0.93:37018 1.2.3.4:443 10.0.0.93:39849 - -
[2026-11-20T11:59:58.123Z] "POST /a?b=c HTTP/2" 200 - via_upstream 5 7 1250 1249 "-" "curl" "id" "a.example:8443" "10.0.0.4:80"
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T11:59:58.123Z
                  program: envoy
                  request_id: 3a7cbcc1-af72-47fb-bbac-a7672951f50f
                  client_address: 10.80.46.220
                  client_port: 59375
                  server_address: health.abc.com
                  http_request_method: GET
                  url_path: /v1/status
                  network_protocol_version: 1.1
                  http_response_status_code: 503
                  request_bytes: 0
                  response_body_bytes: 95
                  user_agent_original: Apache-HttpClient/4.5.1 (Java/1.8.0_372)
                  duration_seconds: 0.0
                  upstream_address: 10.80.47.192:8181
                  proxy_backend: outbound|80||health-api.production.svc.cluster.local
                  attrs: {response_flags: UC, response_code_details: upstream_reset_before_response_started{connection_termination}, forwarded_for: 10.90.16.220, upstream_local_address: 10.80.45.233:37132, downstream_local_address: 10.80.45.233:80}
                request
                  ts: 2026-11-20T11:59:58.123Z
                  program: envoy
                  request_id: id
                  server_address: a.example
                  server_port: 8443
                  http_request_method: POST
                  url_path: /a
                  url_query: b=c
                  network_protocol_version: 2
                  http_response_status_code: 200
                  request_bytes: 5
                  response_body_bytes: 7
                  user_agent_original: curl
                  duration_seconds: 1.25
                  upstream_header_seconds: 1.249
                  upstream_address: 10.0.0.4:80
                  attrs: {response_code_details: via_upstream}
                log
                  ts: 2026-11-20T11:53:38.151Z
                  program: envoy
                  body: [2026-11-20T11:53:38.151Z] "- - -" 0 - "-" "-" 2279 3059 63 - "-" "-" "-" "-" "1.2.3.4:443" PassthroughCluster 10.0.0.93:37018 1.2.3.4:443 10.0.0.93:39849 - -
                  attrs: {request_bytes: 2279, response_body_bytes: 3059, duration_seconds: 0.063, upstream_address: 1.2.3.4:443, proxy_backend: PassthroughCluster, upstream_local_address: 10.0.0.93:37018, downstream_local_address: 1.2.3.4:443, client_address: 10.0.0.93, client_port: 39849}
            "#]],
        );
    }

    #[test]
    fn quotes_of_a_visitor_and_other_lines_are_left() {
        check_format(
            LogFormat::Auto,
            r#"[2026-11-20T11:59:58.123Z] "GET /a"b HTTP/1.1" 404 NR route_not_found - "-" 0 0 1 - "-" "curl" "id" "a.example" "-" - - 10.0.0.1:80 [fd00::9]:4 - -
[2026-11-20T11:59:58.123Z] "GET /a HTTP/1.1" 200 - 0 5 1 0 "-" "x" "id" "a.example" "6.6.6.6:1"" "id" "b.example" "10.0.0.4:80"
[2026-11-20 11:59:58.123][12][warning][main] "x y z" 1 2
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T11:59:58.123Z
                  program: envoy
                  request_id: id
                  client_address: fd00::9
                  client_port: 4
                  server_address: a.example
                  http_request_method: GET
                  url_path: /a"b
                  network_protocol_version: 1.1
                  http_response_status_code: 404
                  request_bytes: 0
                  response_body_bytes: 0
                  user_agent_original: curl
                  duration_seconds: 0.001
                  attrs: {response_flags: NR, response_code_details: route_not_found, downstream_local_address: 10.0.0.1:80}
                log
                  ts: 2026-11-20T11:59:58.123Z
                  body: [2026-11-20T11:59:58.123Z] "GET /a HTTP/1.1" 200 - 0 5 1 0 "-" "x" "id" "a.example" "6.6.6.6:1"" "id" "b.example" "10.0.0.4:80"
                log
                  ts: 2026-11-20T11:59:58.123Z
                  severity: warn
                  body: [2026-11-20 11:59:58.123][12][warning][main] "x y z" 1 2
            "#]],
        );
    }

    /// istio/istio issue 17139, at a later time: before Istio 1.7 all values are texts.
    #[test]
    fn sessions_are_rows_of_log() {
        check_format(
            LogFormat::Auto,
            r#"{"bytes_sent":"0","upstream_cluster":"outbound|7600||keycloak-headless.our_ns.svc.cluster.local","downstream_remote_address":"10.0.0.2:45621","authority":"-","path":"-","protocol":"-","upstream_service_time":"-","upstream_local_address":"-","duration":"10002","downstream_local_address":"10.0.0.1:7600","upstream_transport_failure_reason":"-","route_name":"-","response_code":"0","user_agent":"-","response_flags":"UF,URX","start_time":"2026-11-20T09:21:42.869Z","method":"-","request_id":"-","upstream_host":"10.0.0.1:7600","x_forwarded_for":"-","requested_server_name":"-","bytes_received":"0","istio_policy_status":"-"}
"#,
            expect![[r#"
                log
                  ts: 2026-11-20T09:21:42.869Z
                  program: envoy
                  body: {"bytes_sent":"0","upstream_cluster":"outbound|7600||keycloak-headless.our_ns.svc.cluster.local","downstream_remote_address":"10.0.0.2:45621","authority":"-","path":"-","protocol":"-","upstream_service_time":"-","upstream_local_address":"-","duration":"10002","downstream_local_address":"10.0.0.1:7600","upstream_transport_failure_reason":"-","route_name":"-","response_code":"0","user_agent":"-","response_flags":"UF,URX","start_time":"2026-11-20T09:21:42.869Z","method":"-","request_id":"-","upstream_host":"10.0.0.1:7600","x_forwarded_for":"-","requested_server_name":"-","bytes_received":"0","istio_policy_status":"-"}
                  attrs: {response_body_bytes: 0, proxy_backend: outbound|7600||keycloak-headless.our_ns.svc.cluster.local, client_address: 10.0.0.2, client_port: 45621, duration_seconds: 10.002, downstream_local_address: 10.0.0.1:7600, response_flags: UF,URX, upstream_address: 10.0.0.1:7600, request_bytes: 0}
            "#]],
        );
    }

    #[test]
    fn json_with_other_keys_is_not_envoys() {
        check_format(
            LogFormat::Auto,
            r#"{"level":"info","msg":"x","response_flags":"a","response_code":200}
{"method":"GET","path":"/a","response_code":200,"response_flags":"UH"}
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T12:00:00Z
                  http_request_method: GET
                  url_path: /a
                  http_response_status_code: 200
                  attrs: {response_flags: UH}
                log
                  ts: 2026-11-20T12:00:00Z
                  severity: info
                  body: x
                  attrs: {response_flags: a, response_code: 200}
            "#]],
        );
    }

    #[test]
    fn keys_of_istio_and_envoy_gateway_fill_the_same_columns() {
        check_format(
            LogFormat::Auto,
            r#"{"start_time":"2026-11-20T11:59:58.123Z","method":"GET","path":"/x?a=1","protocol":"HTTP/1.1","response_code":503,"response_flags":"UH","response_code_details":"no_healthy_upstream","connection_termination_details":null,"upstream_transport_failure_reason":null,"bytes_received":0,"bytes_sent":19,"duration":12,"upstream_service_time":null,"x_forwarded_for":"10.0.0.1","user_agent":"curl/7","request_id":"abc-id","authority":"a.example","upstream_host":null,"upstream_cluster":"outbound|80||a.b.svc.cluster.local","upstream_local_address":null,"downstream_local_address":"10.0.0.9:8080","downstream_remote_address":"[2001:db8::1]:5000","requested_server_name":null,"route_name":"default"}
{"start_time":"2026-11-20T11:59:58.123Z","method":"GET","x-envoy-origin-path":"/y","protocol":"HTTP/2","response_code":200,"response_flags":"-","response_code_details":"via_upstream","bytes_received":3,"bytes_sent":10,"duration":1500,"x-envoy-upstream-service-time":"1499","x-forwarded-for":"10.0.0.1","user-agent":"curl/8","x-request-id":"abc","authority":null,":authority":"www.example.com","upstream_host":"10.244.0.5:3000","upstream_cluster":"httproute/default/backend/rule/0","upstream_local_address":"10.244.0.7:1","downstream_local_address":"10.244.0.7:10080","downstream_remote_address":"10.0.0.1:4000","requested_server_name":null,"route_name":"r"}
{"start_time":"2026-11-20T11:59:58.123Z","method":"GET","path":"/z","protocol":"HTTP/1.1","response_code":0,"response_flags":"DC","duration":300,"authority":"a.example","upstream_host":"10.1.1.1:8080"}
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T11:59:58.123Z
                  program: envoy
                  request_id: abc-id
                  client_address: 2001:db8::1
                  client_port: 5000
                  server_address: a.example
                  http_request_method: GET
                  url_path: /x
                  url_query: a=1
                  network_protocol_version: 1.1
                  http_response_status_code: 503
                  request_bytes: 0
                  response_body_bytes: 19
                  user_agent_original: curl/7
                  duration_seconds: 0.012
                  proxy_backend: outbound|80||a.b.svc.cluster.local
                  attrs: {response_flags: UH, response_code_details: no_healthy_upstream, forwarded_for: 10.0.0.1, downstream_local_address: 10.0.0.9:8080, route_name: default}
                request
                  ts: 2026-11-20T11:59:58.123Z
                  program: envoy
                  request_id: abc
                  client_address: 10.0.0.1
                  client_port: 4000
                  server_address: www.example.com
                  http_request_method: GET
                  url_path: /y
                  network_protocol_version: 2
                  http_response_status_code: 200
                  request_bytes: 3
                  response_body_bytes: 10
                  user_agent_original: curl/8
                  duration_seconds: 1.5
                  upstream_header_seconds: 1.499
                  upstream_address: 10.244.0.5:3000
                  proxy_backend: httproute/default/backend/rule/0
                  attrs: {response_code_details: via_upstream, forwarded_for: 10.0.0.1, upstream_local_address: 10.244.0.7:1, downstream_local_address: 10.244.0.7:10080, route_name: r}
                request
                  ts: 2026-11-20T11:59:58.123Z
                  program: envoy
                  server_address: a.example
                  http_request_method: GET
                  url_path: /z
                  network_protocol_version: 1.1
                  duration_seconds: 0.3
                  upstream_address: 10.1.1.1:8080
                  attrs: {response_flags: DC}
            "#]],
        );
    }
}
