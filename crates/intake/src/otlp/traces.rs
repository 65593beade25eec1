//! Spans of OTLP: a server's HTTP request is a row of `request` with tier `app`, any other a
//! `span`.
//!
//! Attribute names are those of the HTTP semantic conventions, stable (1.23 and later) and before.

use weir_tables::{Micros, Request, Span, hex};

use super::value::{Resource, key_value, time};
use crate::attrs::Attrs;
use crate::batch_builder::BatchBuilder;
use crate::protobuf::{FieldReader, MalformedMessage};

const METHOD: &[&str] = &["http.request.method", "http.method"];

#[derive(Default)]
struct SpanParts<'a> {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    name: &'a str,
    kind: u64,
    start_nanos: u64,
    end_nanos: u64,
    is_error: Option<bool>,
    status_message: Option<&'a str>,
    events: usize,
}

impl SpanParts<'_> {
    /// Duration, not negative.
    #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 nanoseconds")]
    fn seconds(&self) -> f64 {
        self.end_nanos.saturating_sub(self.start_nanos) as f64 / 1e9
    }
}

/// Reads a `Span`.
pub(super) fn read(
    bytes: &[u8],
    resource: &Resource<'_>,
    builder: &mut BatchBuilder,
) -> Result<(), MalformedMessage> {
    let (mut span, mut attrs) = (SpanParts::default(), Attrs::default());
    for field in FieldReader(bytes) {
        match field? {
            (1, value) => span.trace_id = hex(value.bytes()),
            (2, value) => span.span_id = hex(value.bytes()),
            (4, value) => {
                span.parent_span_id = Some(hex(value.bytes())).filter(|id| !id.is_empty());
            }
            (5, value) => span.name = value.text().unwrap_or("invalid_utf8"),
            (6, value) => span.kind = value.integer(),
            (7, value) => span.start_nanos = value.integer(),
            (8, value) => span.end_nanos = value.integer(),
            (9, value) => key_value(value.bytes(), "", 0, &mut attrs)?,
            (11, _) => span.events += 1,
            (15, value) => status(value.bytes(), &mut span)?,
            _ => {}
        }
    }
    if span.events > 0 {
        attrs.push("events", span.events.to_string());
    }
    let is_request = span.kind == 2 && METHOD.iter().any(|key| attrs.get(key).is_some());
    if is_request {
        request(&span, attrs, resource, builder);
    } else {
        attrs.extend(&resource.attrs);
        let kinds = ["internal", "server", "client", "producer", "consumer"];
        builder.span_row(&Span {
            ts: time(span.start_nanos).unwrap_or(builder.now),
            host: &resource.host,
            observed_ts: builder.now,
            program: resource.service.as_deref(),
            trace_id: &span.trace_id,
            span_id: &span.span_id,
            parent_span_id: span.parent_span_id.as_deref(),
            name: span.name,
            kind: usize::try_from(span.kind)
                .ok()
                .and_then(|kind| kinds.get(kind.checked_sub(1)?))
                .copied(),
            duration_seconds: span.seconds(),
            is_error: span.is_error,
            status_message: span.status_message,
            attrs: &attrs.finish(),
        });
    }
    Ok(())
}

fn status<'a>(bytes: &'a [u8], span: &mut SpanParts<'a>) -> Result<(), MalformedMessage> {
    for field in FieldReader(bytes) {
        match field? {
            (2, value) => span.status_message = value.text().filter(|text| !text.is_empty()),
            (3, value) => {
                span.is_error = match value.integer() {
                    1 => Some(false),
                    2 => Some(true),
                    _ => None,
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn request<'a>(
    span: &'a SpanParts<'a>,
    mut attrs: Attrs<'a>,
    resource: &Resource<'a>,
    builder: &mut BatchBuilder,
) {
    let method = attrs.take(METHOD);
    let status = attrs.take_number(&["http.response.status_code", "http.status_code"]);
    let target = attrs.take(&["http.target"]);
    let (target_path, target_query) = match target.as_deref().map(|target| target.split_once('?')) {
        Some(Some((path, query))) => (Some(path), Some(query)),
        Some(None) => (target.as_deref(), None),
        None => (None, None),
    };
    let path = attrs.take(&["url.path"]);
    let query = attrs.take(&["url.query"]);
    let client =
        attrs.take(&["client.address", "http.client_ip", "net.peer.ip", "net.sock.peer.addr"]);
    let client_port = attrs.take_number(&["client.port", "net.peer.port", "net.sock.peer.port"]);
    let server = attrs.take(&["server.address", "http.server_name", "net.host.name", "http.host"]);
    let server_port = attrs.take_number(&["server.port", "net.host.port"]);
    let scheme = attrs.take(&["url.scheme", "http.scheme"]);
    let version = attrs.take(&["network.protocol.version", "http.flavor"]);
    let agent = attrs.take(&["user_agent.original", "http.user_agent"]);
    let request_id = attrs.take(&["http.request.header.x-request-id"]);
    let request_bytes = attrs.take_number(&["http.request.size"]);
    let response_bytes = attrs.take_number(&["http.response.size"]);
    let body_bytes =
        attrs.take_number(&["http.response.body.size", "http.response_content_length"]);
    attrs.push("trace_id", span.trace_id.as_str());
    attrs.push("span_id", span.span_id.as_str());
    attrs.push("parent_span_id", span.parent_span_id.as_deref().unwrap_or(""));
    attrs.push("span_name", span.name);
    attrs.push("status_message", span.status_message.unwrap_or(""));
    attrs.extend(&resource.attrs);
    let end: Option<Micros> = time(span.end_nanos);
    builder.request_row(&Request {
        ts: end.or_else(|| time(span.start_nanos)).unwrap_or(builder.now),
        host: &resource.host,
        tier: "app",
        observed_ts: builder.now,
        source: "otlp",
        program: resource.service.as_deref(),
        request_id: request_id
            .as_deref()
            .or(Some(span.trace_id.as_str()).filter(|id| !id.is_empty())),
        client_address: client.as_deref(),
        client_port,
        server_address: server.as_deref(),
        server_port,
        url_scheme: scheme.as_deref(),
        http_request_method: method.as_deref(),
        url_path: path.as_deref().or(target_path),
        url_query: query.as_deref().or(target_query).filter(|query| !query.is_empty()),
        network_protocol_version: version.as_deref(),
        http_response_status_code: status,
        request_bytes,
        response_bytes,
        response_body_bytes: body_bytes,
        user_agent_original: agent.as_deref(),
        duration_seconds: (span.end_nanos > 0).then(|| span.seconds()),
        attrs: &attrs.finish(),
        ..Request::default()
    });
}
