//! Export requests in protobuf, JSON and gRPC, well-formed and mangled.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use expect_test::expect;
use weir_tables::Batch;

use super::*;
use crate::check::{builder, mangled, request, status_and_body, texts};

const JSON: (&str, &str) = ("content-type", "application/json");

const LOGS: &str = r#"{"resourceLogs":[{"resource":{"attributes":[
  {"key":"service.name","value":{"stringValue":"shop"}},{"key":"host.name","value":{"stringValue":"web1"}},
  {"key":"process.pid","value":{"intValue":"7"}},{"key":"k8s","value":{"kvlistValue":{"values":[{"key":"pod","value":{"stringValue":"p1"}}]}}}]},
  "scopeLogs":[{"scope":{"name":"x"},"logRecords":[
  {"timeUnixNano":"1795176000000000000","severityNumber":17,"severityText":"ERROR","body":{"stringValue":"no stock"},
   "attributes":[{"key":"sku","value":{"intValue":5}},{"key":"tags","value":{"arrayValue":{"values":[{"stringValue":"a"},{"boolValue":true}]}}}],
   "traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","unknown":{"a":[1]}},
  {"body":{"kvlistValue":{"values":[{"key":"n","value":{"doubleValue":1.5}}]}}}]}]}]}"#;

const SPANS: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
  "scopeSpans":[{"spans":[
  {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"GET /cart","kind":2,
   "startTimeUnixNano":"1795176000000000000","endTimeUnixNano":"1795176000250000000",
   "attributes":[{"key":"http.request.method","value":{"stringValue":"GET"}},{"key":"url.path","value":{"stringValue":"/cart"}},
   {"key":"http.response.status_code","value":{"intValue":"500"}},{"key":"http.route","value":{"stringValue":"/cart"}}],
   "status":{"code":2}},
  {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"aaa19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b174","name":"SELECT","kind":3,
   "startTimeUnixNano":"1795176000000000000","endTimeUnixNano":"1795176000100000000","events":[{"name":"x"}]}]}]}]}"#;

const METRICS: &str = r#"{"resourceMetrics":[{"resource":{},"scopeMetrics":[{"metrics":[
  {"name":"load","gauge":{"dataPoints":[{"timeUnixNano":"1795176000000000000","asDouble":0.5},{"asInt":"3","attributes":[{"key":"cpu","value":{"stringValue":"1"}}]}]}},
  {"name":"hits","unit":"1","sum":{"isMonotonic":true,"aggregationTemporality":2,"dataPoints":[{"asInt":"9"}]}},
  {"name":"took","unit":"s","histogram":{"aggregationTemporality":1,"dataPoints":[{"count":"3","sum":0.7,"bucketCounts":["1","2","0"],"explicitBounds":[0.1,0.5]}]}},
  {"name":"gone","gauge":{"dataPoints":[{"flags":1}]}},
  {"name":"q","summary":{"dataPoints":[{"count":"2","sum":4,"quantileValues":[{"quantile":0.5,"value":2}]}]}}]}]}]}"#;

fn rows(signal: &str, body: &[u8]) -> Vec<Batch> {
    let uri = format!("/v1/{signal}");
    let request = request(Method::POST, &uri, &[JSON], body);
    let mut builder = builder();
    let Ok(is_json) = OtlpHttp::read(&request, &mut builder) else { panic!("it is well formed") };
    assert_eq!(status_and_body(&OtlpHttp::respond(&request, is_json, &[])), "200 {}");
    builder.own_rows()
}

#[test]
fn log_records_are_rows_with_the_attributes_of_their_resource() {
    let batches = rows("logs", LOGS.as_bytes());
    assert_eq!(batches[0].table.name, "log");
    expect![[r#"
        ts=2026-11-20T12:00:00Z host=web1 program=shop process_id=7 severity=error body=no stock attrs={sku: 5, tags: ["a",true], trace_id: 5b8efff798038103d269b633813fc60c, span_id: eee19b7ec3c1b174, k8s.pod: p1}
        ts=2026-11-20T12:00:00Z host=web1 program=shop process_id=7 severity= body={"n":1.5} attrs={k8s.pod: p1}
    "#]]
    .assert_eq(&texts(&batches[0], &["ts", "host", "program", "process_id", "severity", "body", "attrs"]));
}

/// googleapis/google-cloud-rust#6714 and planetf1/otelite#233: what ProtoJSON allows besides the usual
/// form: Base64 of both alphabets, with padding or without, integers as numbers with an exponent.
#[test]
fn json_is_read_as_protojson_allows_it() {
    let values = [
        (r#"{"bytesValue":"aGk="}"#, "6869"),
        (r#"{"bytesValue":"aGk"}"#, "6869"),
        (r#"{"bytesValue":"--8_"}"#, "fbef3f"),
        (r#"{"bytesValue":"++8/"}"#, "fbef3f"),
        (r#"{"intValue":1e2}"#, "100"),
        (r#"{"intValue":-5.0}"#, "-5"),
        (r#"{"int_value":"7"}"#, "7"),
        (r#"{"doubleValue":"-Infinity"}"#, "-inf"),
    ];
    for (value, expected) in values {
        let body = format!(
            r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"severityNumber":9.0,"body":{value}}}]}}]}}]}}"#
        );
        let batches = rows("logs", body.as_bytes());
        let shown = texts(&batches[0], &["severity", "body"]);
        assert_eq!(shown, format!("severity=info body={expected}\n"), "{value}");
    }
    for wrong in [r#"{"bytesValue":"a*"}"#, r#"{"intValue":1.5}"#, r#"{"intValue":1e300}"#] {
        let body = format!(
            r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{wrong}}}]}}]}}]}}"#
        );
        let request = request(Method::POST, "/v1/logs", &[JSON], body.as_bytes());
        assert!(OtlpHttp::read(&request, &mut builder()).is_err(), "{wrong}");
    }
}

#[test]
fn spans_of_servers_are_requests_of_the_application() {
    let batches = rows("traces", SPANS.as_bytes());
    assert_eq!((batches[0].table.name, batches[1].table.name), ("request", "span"));
    expect![[r#"
        ts=2026-11-20T12:00:00.250Z host=192.0.2.1 tier=app request_id=5b8efff798038103d269b633813fc60c url_path=/cart http_response_status_code=500 duration_seconds=0.25 attrs={http.route: /cart, trace_id: 5b8efff798038103d269b633813fc60c, span_id: eee19b7ec3c1b174, span_name: GET /cart}
    "#]]
    .assert_eq(&texts(&batches[0], &["ts", "host", "tier", "request_id", "url_path", "http_response_status_code", "duration_seconds", "attrs"]));
    expect![[r#"
        ts=2026-11-20T12:00:00Z name=SELECT kind=client parent_span_id=eee19b7ec3c1b174 duration_seconds=0.1 attrs={events: 1}
    "#]]
    .assert_eq(&texts(&batches[1], &["ts", "name", "kind", "parent_span_id", "duration_seconds", "attrs"]));
}

#[test]
fn points_are_rows_and_histograms_are_series() {
    let batches = rows("metrics", METRICS.as_bytes());
    expect![[r#"
        name=load kind=gauge value=0.5 unit= labels={}
        name=load kind=gauge value=3.0 unit= labels={cpu: 1}
        name=hits kind=counter value=9.0 unit=1 labels={}
        name=took_bucket kind=bucket value=1.0 unit=s labels={le: 0.1}
        name=took_bucket kind=bucket value=3.0 unit=s labels={le: 0.5}
        name=took_bucket kind=bucket value=3.0 unit=s labels={le: +Inf}
        name=took_count kind=delta value=3.0 unit=s labels={}
        name=took_sum kind=delta value=0.7 unit=s labels={}
        name=gone kind=gauge value= unit= labels={}
        name=q kind=quantile value=2.0 unit= labels={quantile: 0.5}
        name=q_count kind=counter value=2.0 unit= labels={}
        name=q_sum kind=counter value=4.0 unit= labels={}
    "#]]
    .assert_eq(&texts(&batches[0], &["name", "kind", "value", "unit", "labels"]));
    let values = batches[0].rows.column_by_name("value").expect("a column");
    assert_eq!(values.as_primitive::<Float64Type>().value(0).to_bits(), 0.5_f64.to_bits());
}

/// MindfulSoftwareLLC/dartastic_opentelemetry#86 and open-telemetry/opentelemetry-python#2881: senders
/// name enumerations, and fields as the `.proto` files do.
#[test]
fn enumerations_by_name_and_fields_in_snake_case_are_read() {
    let log = r#"{"resource_logs":[{"scope_logs":[{"log_records":[{"time_unix_nano":"1795176000000000000",
      "severity_number":"SEVERITY_NUMBER_ERROR","body":{"string_value":"a"}}]}]}]}"#;
    let batches = rows("logs", log.as_bytes());
    expect![[r#"
        ts=2026-11-20T12:00:00Z severity=error body=a
    "#]]
    .assert_eq(&texts(&batches[0], &["ts", "severity", "body"]));
    let spans = SPANS
        .replace("\"kind\":2", "\"kind\":\"SPAN_KIND_SERVER\"")
        .replace("\"code\":2", "\"code\":\"STATUS_CODE_ERROR\"");
    let (by_name, by_number) = (rows("traces", spans.as_bytes()), rows("traces", SPANS.as_bytes()));
    for (named, numbered) in by_name.iter().zip(&by_number) {
        assert_eq!(named.rows, numbered.rows);
    }
    let metrics = METRICS.replace(
        "\"aggregationTemporality\":2",
        "\"aggregationTemporality\":\"AGGREGATION_TEMPORALITY_CUMULATIVE\"",
    );
    assert_eq!(
        rows("metrics", metrics.as_bytes())[0].rows,
        rows("metrics", METRICS.as_bytes())[0].rows
    );
}

/// open-telemetry/opentelemetry-collector#3195: the names of OTLP before 0.15.
#[test]
fn scopes_by_their_former_name_are_read() {
    let former = SPANS.replace("scopeSpans", "instrumentationLibrarySpans");
    assert_ne!(former, SPANS);
    let (new, old) = (rows("traces", SPANS.as_bytes()), rows("traces", former.as_bytes()));
    assert_eq!(old[0].rows, new[0].rows);
}

/// open-telemetry/opentelemetry-js#4202 (halves of an integer), open-telemetry/opentelemetry-collector#10546
/// (no export at all), langfuse/langfuse#16530 (another signal).
#[test]
fn an_error_in_json_names_the_field() {
    for (signal, body, field) in [
        (Signal::Logs, r#"{"resourceLogs":5}"#, "`resourceLogs` is not an object"),
        (
            Signal::Logs,
            r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":"LOUD"}]}]}]}"#,
            "`severityNumber` is neither a number nor a name such as SEVERITY_NUMBER_FATAL4",
        ),
        (
            Signal::Traces,
            r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xyz"}]}]}]}"#,
            "`traceId` is not a text of hex digits",
        ),
        (
            Signal::Metrics,
            r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[{"asInt":1.5}]}}]}]}]}"#,
            "`asInt` is not an integer",
        ),
        (
            Signal::Traces,
            r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":{"low":102,"high":3}}]}]}]}"#,
            "`startTimeUnixNano` is not an integer",
        ),
        (Signal::Logs, r#"{"message":"no export"}"#, "no `resourceLogs`"),
        (Signal::Traces, r#"{"resourceLogs":[]}"#, "no `resourceSpans`"),
    ] {
        let error = json::to_protobuf(signal, body.as_bytes()).expect_err(body).to_string();
        assert!(error.starts_with(field), "{error}");
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short");
    [&[0][..], &length.to_be_bytes(), message].concat()
}

const SERVICE: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

#[test]
fn a_grpc_response_has_its_status_after_the_message() {
    let message = json::to_protobuf(Signal::Logs, LOGS.as_bytes()).expect("well formed");
    let request =
        request(Method::POST, SERVICE, &[("content-type", "application/grpc")], &framed(&message));
    let mut builder = builder();
    assert!(OtlpGrpc::is_for(&request.parts));
    assert!(OtlpGrpc::read(&request, &mut builder).is_ok());
    assert_eq!(builder.verdicts.len(), 2);
    let response = OtlpGrpc::respond(&request, (), &builder.verdicts);
    assert_eq!(&response.body[..], [0; 5]);
    assert_eq!(response.trailers.expect("trailers")["grpc-status"], "0");
    let refusal = OtlpGrpc::refuse(&Refusal::bad("a% é"));
    assert_eq!(refusal.headers["grpc-status"], "3");
    assert_eq!(refusal.headers["grpc-message"], "a%25 %C3%A9");
}

#[test]
fn false_frame_lengths_and_malformed_bodies_are_refused() {
    for body in [
        &b""[..],
        b"\0\0\0\0",
        b"\0\0\0\0\x09abc",
        b"\0\0\0\0\x01abc",
        b"\x02\0\0\0\0",
        b"\x01\0\0\0\x03abc",
    ] {
        let request = request(Method::POST, SERVICE, &[("grpc-encoding", "gzip")], body);
        OtlpGrpc::read(&request, &mut builder()).expect_err("refused");
    }
    for (kind, body) in [
        ("text/plain", "x"),
        (JSON.1, "{"),
        (JSON.1, "[]"),
        (JSON.1, r#"{"resourceLogs":5}"#),
        ("application/x-protobuf", "\x0a\x05ab"),
    ] {
        let request = request(Method::POST, "/v1/logs", &[("content-type", kind)], body.as_bytes());
        OtlpHttp::read(&request, &mut builder()).expect_err(body);
    }
}

#[test]
fn a_small_body_of_many_rows_is_refused_before_it_fills_memory() {
    let record: [u8; 2] = [0x12, 0];
    let scope = record.repeat(crate::batch_builder::MAX_ITEMS + 1);
    let mut resource = Vec::new();
    crate::protobuf::push_bytes(&mut resource, 2, &scope);
    let mut body = Vec::new();
    crate::protobuf::push_bytes(&mut body, 1, &resource);
    let mut builder = builder();
    let refusal = read(Signal::Logs, &body, "a", &mut builder).expect_err("too many");
    assert_eq!(refusal.reason, "too_many_rows");
    // A resource of a megabyte before a thousand records.
    let mut resource = Vec::new();
    let mut pair = Vec::new();
    crate::protobuf::push_bytes(&mut pair, 1, b"key");
    let mut value = Vec::new();
    crate::protobuf::push_bytes(&mut value, 1, &vec![b'x'; 1 << 20]);
    crate::protobuf::push_bytes(&mut pair, 2, &value);
    let mut attributes = Vec::new();
    crate::protobuf::push_bytes(&mut attributes, 1, &pair);
    crate::protobuf::push_bytes(&mut resource, 1, &attributes);
    crate::protobuf::push_bytes(&mut resource, 2, &record.repeat(1000));
    let mut body = Vec::new();
    crate::protobuf::push_bytes(&mut body, 1, &resource);
    let mut builder = crate::check::builder();
    let refusal = read(Signal::Logs, &body, "a", &mut builder).expect_err("too many");
    assert_eq!(refusal.reason, "too_many_rows");
}

#[test]
fn any_bytes_are_read_or_refused_and_never_panic() {
    let seeds = [(Signal::Logs, LOGS), (Signal::Traces, SPANS), (Signal::Metrics, METRICS)];
    let seeds = seeds.map(|(signal, text)| {
        (signal, text, json::to_protobuf(signal, text.as_bytes()).expect("well formed"))
    });
    arbtest::arbtest(|u| {
        let (signal, text, message) = u.choose(&seeds)?;
        let _ = read(*signal, &mangled(u, message)?, "a", &mut builder());
        let _ = json::to_protobuf(*signal, &mangled(u, text.as_bytes())?);
        Ok(())
    });
}
