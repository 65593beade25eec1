//! Stub responses of Elasticsearch's API: version, license, templates, policies, health.
//!
//! Beats, Logstash, Vector and the client libraries refuse to send without them. Templates,
//! pipelines and lifecycle policies are reported as existing, because weir's tables need none.
//! Searches are refused, not faked.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::protocol::IntakeRequest;
use crate::response::{IntakeResponse, Refusal};

/// Path segments of objects that are reported as existing and may be created.
const ACCEPTED: &[&str] = &[
    "_template",
    "_index_template",
    "_component_template",
    "_ilm",
    "_ingest",
    "_data_stream",
    "_alias",
    "_aliases",
    "_mapping",
    "_settings",
    "_cluster",
    "_refresh",
    "_flush",
];

/// Responds to a request that brings no document.
pub(crate) fn respond(request: &IntakeRequest) -> IntakeResponse {
    let path = request.parts.uri.path().trim_matches('/');
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let method = &request.parts.method;
    let is_read = method == Method::GET || method == Method::HEAD;
    match segments.as_slice() {
        [] if is_read => ok(root(&request.elasticsearch_version)),
        ["_license", ..] if is_read => ok(json!({"license": license()})),
        ["_xpack", ..] if is_read => ok(xpack()),
        ["_cluster", "health", ..] if is_read => ok(health()),
        ["_nodes", ..] if is_read => ok(nodes(&request.elasticsearch_version)),
        ["_security", "_authenticate"] if is_read => {
            ok(json!({"username": "weir", "roles": [], "enabled": true}))
        }
        ["_bulk"] | [_, "_bulk"] => unsupported(request),
        [name] if !name.starts_with('_') => index(request, name),
        _ if segments.iter().any(|segment| ACCEPTED.contains(segment)) => {
            ok(if is_read { json!({}) } else { json!({"acknowledged": true}) })
        }
        _ => unsupported(request),
    }
}

fn ok(body: Value) -> IntakeResponse {
    IntakeResponse::json(StatusCode::OK, &body)
}

/// Marks a response as Elasticsearch's, which its client libraries require, in the accepted media
/// type.
pub(crate) fn as_elasticsearch(
    request: &IntakeRequest,
    response: IntakeResponse,
) -> IntakeResponse {
    let accept = request.header("accept");
    let vendor = accept.split(',').map(str::trim).find(|kind| {
        kind.starts_with("application/vnd.elasticsearch+json") && kind.len() < 80 && kind.is_ascii()
    });
    let response = match vendor {
        Some(kind) => response.with(("content-type", kind)),
        None => response,
    };
    response.with(("x-elastic-product", "Elasticsearch"))
}

fn root(version: &str) -> Value {
    json!({
        "name": "weir",
        "cluster_name": "weir",
        "cluster_uuid": "weir",
        "version": {
            "number": version,
            "build_flavor": "default",
            "build_type": "tar",
            "build_hash": "unknown",
            "build_date": "2025-01-01T00:00:00.000000000Z",
            "build_snapshot": false,
            "lucene_version": "9.12.0",
            "minimum_wire_compatibility_version": "7.17.0",
            "minimum_index_compatibility_version": "7.0.0",
        },
        "tagline": "You Know, for Search",
    })
}

fn license() -> Value {
    json!({"uid": "weir", "type": "basic", "mode": "basic", "status": "active"})
}

fn xpack() -> Value {
    let off = json!({"available": false, "enabled": false});
    json!({
        "build": {"hash": "unknown", "date": "2025-01-01T00:00:00.000Z"},
        "license": license(),
        "features": {"ilm": off, "security": off, "monitoring": off},
        "tagline": "You know, for X",
    })
}

fn health() -> Value {
    json!({
        "cluster_name": "weir", "status": "green", "timed_out": false, "number_of_nodes": 1,
        "number_of_data_nodes": 1, "active_primary_shards": 1, "active_shards": 1,
        "relocating_shards": 0, "initializing_shards": 0, "unassigned_shards": 0,
        "delayed_unassigned_shards": 0, "number_of_pending_tasks": 0,
        "number_of_in_flight_fetch": 0, "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": 100.0,
    })
}

/// One node without an address, so that a client that sniffs for nodes keeps using the one it
/// knows.
fn nodes(version: &str) -> Value {
    json!({
        "_nodes": {"total": 1, "successful": 1, "failed": 0},
        "cluster_name": "weir",
        "nodes": {"weir": {"name": "weir", "version": version, "roles": ["data", "ingest", "master"]}},
    })
}

fn index(request: &IntakeRequest, name: &str) -> IntakeResponse {
    match request.parts.method {
        Method::PUT => IntakeResponse::json(
            StatusCode::OK,
            &json!({"acknowledged": true, "shards_acknowledged": true, "index": name}),
        ),
        Method::HEAD => IntakeResponse::json(StatusCode::OK, &json!({})),
        _ => unsupported(request),
    }
}

fn unsupported(request: &IntakeRequest) -> IntakeResponse {
    let message = format!(
        "weir accepts Elasticsearch's bulk protocol only; `{} {}` is not supported",
        request.parts.method,
        request.parts.uri.path()
    );
    let refusal = Refusal::new(StatusCode::BAD_REQUEST, "not_supported", message)
        .hint("query with SQL: `weir query`, or POST /api/sql");
    refusal_response(&refusal)
}

/// A refusal as Elasticsearch words it.
pub(crate) fn refusal_response(refusal: &Refusal) -> IntakeResponse {
    let kind = match refusal.status {
        StatusCode::TOO_MANY_REQUESTS => "es_rejected_execution_exception",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "security_exception",
        StatusCode::SERVICE_UNAVAILABLE => "cluster_block_exception",
        StatusCode::BAD_REQUEST => "illegal_argument_exception",
        _ => "exception",
    };
    let reason = match &refusal.hint {
        Some(hint) => format!("{}; hint: {hint}", refusal.message),
        None => refusal.message.clone(),
    };
    let cause = json!({"type": kind, "reason": reason});
    let body = json!({
        "error": {"root_cause": [cause], "type": kind, "reason": reason},
        "status": refusal.status.as_u16(),
    });
    IntakeResponse::json(refusal.status, &body).with(("x-elastic-product", "Elasticsearch"))
}
