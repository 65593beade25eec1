//! `/api/haproxy`: the HAProxys of `haproxy.sockets`.

use std::path::Path;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_haproxy::{Haproxy, HaproxyError, HaproxyOrder, HaproxyServer};
use weir_process::failure::{EXIT_CONFIG, Failure};

use crate::server::{Grant, Refusal, SharedApp, require_json};

type JsonAnswer = Result<Json<Value>, Refusal>;

/// The body of an order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderRequest {
    /// One of `haproxy.sockets`.
    socket: String,
    /// BACKEND/SERVER.
    server: String,
    /// `drain`, `maint`, `ready`, or `weight`.
    order: String,
    weight: Option<u32>,
}

/// Sockets are files that may hang: not on a thread that serves.
async fn apart(work: impl FnOnce() -> JsonAnswer + Send + 'static) -> JsonAnswer {
    let working = tokio::task::spawn_blocking(work).await;
    working.map_err(|_| Refusal::from(Failure::new("asking HAProxy panicked")))?
}

/// `GET /api/haproxy`.
pub(crate) async fn state(
    State(app): State<SharedApp>,
    Extension(grant): Extension<Grant>,
) -> JsonAnswer {
    let (sockets, may_change) = (app.haproxy.clone(), grant.may_change);
    apart(move || {
        // The default is where Debian has it: that none is there is nothing to complain of.
        let is_there = |socket: &&String| !Haproxy::is_path(socket) || Path::new(socket).exists();
        let asked =
            sockets.iter().filter(is_there).map(|socket| match Haproxy::new(socket).servers() {
                Ok(servers) => {
                    let servers: Vec<Value> = servers.iter().map(server).collect();
                    json!({"socket": socket, "servers": servers})
                }
                Err(error) => {
                    json!({"socket": socket, "error": error.message, "hint": error.hint})
                }
            });
        let haproxies: Vec<Value> = asked.collect();
        Ok(Json(json!({"may_change": may_change, "haproxies": haproxies})))
    })
    .await
}

/// `POST /api/haproxy/server`.
pub(crate) async fn order(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    Json(asked): Json<OrderRequest>,
) -> JsonAnswer {
    require_json(&headers)?;
    if !app.haproxy.contains(&asked.socket) {
        let what = format!("no HAProxy is known at `{}`", asked.socket);
        return Err(Refusal::new(StatusCode::NOT_FOUND, what).hint("`haproxy.sockets` names them"));
    }
    let order = wish(&asked)?;
    apart(move || {
        let told = Haproxy::new(&asked.socket).order(&asked.server, order);
        let change = told.map_err(haproxy_failure)?;
        tracing::info!("the HAProxy at `{}` has changed by request: {change}", asked.socket);
        Ok(Json(json!({"change": change.to_string(), "server": server(&change.after)})))
    })
    .await
}

fn wish(asked: &OrderRequest) -> Result<HaproxyOrder, Refusal> {
    match (asked.order.as_str(), asked.weight) {
        ("drain", None) => Ok(HaproxyOrder::Drain),
        ("maint", None) => Ok(HaproxyOrder::Maint),
        ("ready", None) => Ok(HaproxyOrder::Ready),
        ("weight", Some(weight)) => Ok(HaproxyOrder::Weight(weight)),
        (other, _) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, format!("cannot tell a server `{other}`"))
                .hint("`order` is drain, maint or ready, or weight with a `weight`"))
        }
    }
}

/// The error as one of the program.
pub fn haproxy_failure(error: HaproxyError) -> Failure {
    Failure::new(error.message).hint(error.hint.unwrap_or_default()).code(EXIT_CONFIG)
}

/// A server as JSON.
pub fn server(one: &HaproxyServer) -> Value {
    json!({
        "server": format!("{}/{}", one.backend, one.server),
        "address": one.address,
        "state": one.state,
        "check": one.check,
        "weight": one.weight,
        "sessions": one.sessions,
        "queued": one.queued,
        "sessions_total": one.sessions_total,
        "failures_total": one.failures_total,
    })
}
