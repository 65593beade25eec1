//! Spans of OTLP: a server's HTTP request is a row of `request` with tier `app`, everything else a row of `span`.
//!
//! Attribute names are those of the HTTP semantic conventions, stable (1.23 and later) and before.

use weir_tables::{Micros, Request, Span};

use super::value::{Resource, key_value, seconds_between, time};
use crate::attrs::Attrs;
use crate::harvest::Harvest;
use crate::number::hex;
use crate::protobuf::{Fields, Malformed};

const METHOD: &[&str] = &["http.request.method", "http.method"];

#[derive(Default)]
struct Parts<'a> {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    name: &'a str,
    kind: u64,
    start: u64,
    end: u64,
    is_error: Option<bool>,
    status_message: Option<&'a str>,
    events: usize,
}

/// Reads a `Span`.
pub(super) fn read(
    bytes: &[u8],
    resource: &Resource<'_>,
    harvest: &mut Harvest,
) -> Result<(), Malformed> {
    let (mut span, mut attrs) = (Parts::default(), Attrs::default());
    Fields(bytes).each(|number, value| {
        match number {
            1 => span.trace_id = hex(value.bytes()),
            2 => span.span_id = hex(value.bytes()),
            4 => span.parent_span_id = Some(hex(value.bytes())).filter(|id| !id.is_empty()),
            5 => span.name = value.text().unwrap_or("invalid_utf8"),
            6 => span.kind = value.integer(),
            7 => span.start = value.integer(),
            8 => span.end = value.integer(),
            9 => key_value(value.bytes(), "", 0, &mut attrs)?,
            11 => span.events += 1,
            15 => status(value.bytes(), &mut span)?,
            _ => {}
        }
        Ok(())
    })?;
    if span.events > 0 {
        attrs.push("events", span.events.to_string());
    }
    let is_request = span.kind == 2 && METHOD.iter().any(|key| attrs.get(key).is_some());
    if is_request {
        request(&span, attrs, resource, harvest);
    } else {
        attrs.extend(&resource.attrs);
        let kinds = ["internal", "server", "client", "producer", "consumer"];
        harvest.span_row(&Span {
            ts: time(span.start).unwrap_or(harvest.now),
            host: &resource.host,
            observed_ts: harvest.now,
            program: resource.service.as_deref(),
            trace_id: &span.trace_id,
            span_id: &span.span_id,
            parent_span_id: span.parent_span_id.as_deref(),
            name: span.name,
            kind: usize::try_from(span.kind)
                .ok()
                .and_then(|kind| kinds.get(kind.checked_sub(1)?))
                .copied(),
            duration_seconds: seconds_between(span.start, span.end),
            is_error: span.is_error,
            status_message: span.status_message,
            attrs: &attrs.finish(),
        });
    }
    Ok(())
}

fn status<'a>(bytes: &'a [u8], span: &mut Parts<'a>) -> Result<(), Malformed> {
    Fields(bytes).each(|number, value| {
        match number {
            2 => span.status_message = value.text().filter(|text| !text.is_empty()),
            3 => {
                span.is_error = [None, Some(false), Some(true)]
                    .get(usize::try_from(value.integer()).unwrap_or(0))
                    .copied()
                    .flatten()
            }
            _ => {}
        }
        Ok(())
    })
}

fn request<'a>(
    span: &'a Parts<'a>,
    mut attrs: Attrs<'a>,
    resource: &Resource<'a>,
    harvest: &mut Harvest,
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
    let end: Option<Micros> = time(span.end);
    harvest.request_row(&Request {
        ts: end.or_else(|| time(span.start)).unwrap_or(harvest.now),
        host: &resource.host,
        tier: "app",
        observed_ts: harvest.now,
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
        duration_seconds: (span.end > 0).then(|| seconds_between(span.start, span.end)),
        attrs: &attrs.finish(),
        ..Request::default()
    });
}
