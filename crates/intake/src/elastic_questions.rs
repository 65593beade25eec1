//! What Elasticsearch's shippers and clients ask besides sending: version, licence, templates, policies, health.
//!
//! Beats, Logstash, Vector and the client libraries refuse to send when these answers are missing. Templates,
//! pipelines and lifecycle policies are said to exist: weir's tables need none. Searches are refused, not faked.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::http::{Answer, Ask, Refusal};

/// What is said to be there and may be put: names of the path's segments.
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

/// Answers a request that brings no document.
pub(crate) fn answer(ask: &Ask) -> Answer {
    let path = ask.parts.uri.path().trim_matches('/');
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let method = &ask.parts.method;
    let is_asking = method == Method::GET || method == Method::HEAD;
    let ok = |body: Value| Answer::json(StatusCode::OK, &body);
    match segments.as_slice() {
        [] if is_asking => ok(greeting(&ask.elasticsearch_version)),
        ["_license", ..] if is_asking => ok(json!({"license": licence()})),
        ["_xpack", ..] if is_asking => ok(xpack()),
        ["_cluster", "health", ..] if is_asking => ok(health()),
        ["_nodes", ..] if is_asking => ok(nodes(&ask.elasticsearch_version)),
        ["_security", "_authenticate"] if is_asking => {
            ok(json!({"username": "weir", "roles": [], "enabled": true}))
        }
        ["_bulk"] | [_, "_bulk"] => not_so(ask),
        [name] if !name.starts_with('_') => index(ask, name),
        _ if segments.iter().any(|segment| ACCEPTED.contains(segment)) => {
            if is_asking {
                ok(json!({}))
            } else {
                ok(json!({"acknowledged": true}))
            }
        }
        _ => not_so(ask),
    }
}

/// Marks an answer as Elasticsearch's own, which its client libraries insist on, in the media type that was asked for.
pub(crate) fn as_elasticsearch(ask: &Ask, answer: Answer) -> Answer {
    let accept = ask.header("accept");
    let vendor = accept.split(',').map(str::trim).find(|kind| {
        kind.starts_with("application/vnd.elasticsearch+json") && kind.len() < 80 && kind.is_ascii()
    });
    let answer = match vendor {
        Some(kind) => answer.with("content-type", kind),
        None => answer,
    };
    answer.with("x-elastic-product", "Elasticsearch")
}

fn greeting(version: &str) -> Value {
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

fn licence() -> Value {
    json!({"uid": "weir", "type": "basic", "mode": "basic", "status": "active"})
}

fn xpack() -> Value {
    let off = json!({"available": false, "enabled": false});
    json!({
        "build": {"hash": "unknown", "date": "2025-01-01T00:00:00.000Z"},
        "license": licence(),
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

/// One node without an address, so that a client that looks for more nodes keeps to the one it knows.
fn nodes(version: &str) -> Value {
    json!({
        "_nodes": {"total": 1, "successful": 1, "failed": 0},
        "cluster_name": "weir",
        "nodes": {"weir": {"name": "weir", "version": version, "roles": ["data", "ingest", "master"]}},
    })
}

fn index(ask: &Ask, name: &str) -> Answer {
    match ask.parts.method {
        Method::PUT => Answer::json(
            StatusCode::OK,
            &json!({"acknowledged": true, "shards_acknowledged": true, "index": name}),
        ),
        Method::HEAD => Answer::json(StatusCode::OK, &json!({})),
        _ => not_so(ask),
    }
}

fn not_so(ask: &Ask) -> Answer {
    let message = format!(
        "weir takes rows by Elasticsearch's bulk protocol; it does not do `{} {}`",
        ask.parts.method,
        ask.parts.uri.path()
    );
    let refusal = Refusal::new(StatusCode::BAD_REQUEST, "not_supported", message)
        .hint("ask in SQL: `weir query`, or POST /api/sql");
    <crate::elastic::Elastic as crate::http::Protocol>::refuse(&refusal)
}
