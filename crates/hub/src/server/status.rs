//! `GET /api/status` and `GET /healthz`: this host, what is watched, how far the store is.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::answer::Refusal;
use super::{SharedApp, objects};

/// Hosts that reported in the last hour. Collectors report every 10 s, so this reads few rows.
const HOSTS: &str = "select host, max(ts) as last_ts from collector_run \
    where ts > now() - interval '1 hour' group by host order by host";

/// `GET /api/status`.
pub(crate) async fn status(State(app): State<SharedApp>) -> Result<Json<Value>, Refusal> {
    let hosts = objects(&app.query(HOSTS, 10_000).await?);
    let stats = app.store.stats();
    let (sources, listeners) = match &app.watch {
        Some(watch) => (watch.sources_json(), watch.listeners_json()),
        None => (Vec::new(), Vec::new()),
    };
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": app.host,
        "role": app.role,
        "now": app.clock.now().to_string(),
        "started_ts": app.started.to_string(),
        "data_dir": app.data_dir,
        "hosts": hosts,
        "log_sources": sources,
        "listeners": listeners,
        "agents": app.fleet.agents_json(),
        "cluster": {
            "is_leader": app.store.is_leader(),
            "pieces": app.store.pieces(),
            "peers": app.store.peers().iter().map(|peer| json!({"name": peer.name, "address": peer.address})).collect::<Vec<_>>(),
        },
        "notices": app.notices.status(),
        "outputs": app.outputs.json(app.clock.now()),
        "store": {
            "hot_rows": stats.hot_rows,
            "hot_bytes": stats.hot_bytes,
            "wal_bytes": stats.wal_bytes,
            "lost_records": stats.lost_records,
            "file_count": stats.file_count,
            "file_bytes": stats.file_bytes,
            "file_rows": stats.file_rows,
            "slow_file_count": stats.slow_file_count,
            "slow_file_bytes": stats.slow_file_bytes,
            "future_rows": stats.future_rows,
            "is_full": stats.is_full,
            "message": stats.message,
            "faults": stats.faults.iter().map(weir_store::StoreFault::text).collect::<Vec<_>>(),
        },
    })))
}

/// `GET /healthz`: the disk has room, and no file is missing. It runs no query, so that slow ones of
/// users do not make an orchestrator end the hub.
pub(crate) async fn healthz(State(app): State<SharedApp>) -> Result<&'static str, Refusal> {
    let stats = app.store.stats();
    if stats.is_full {
        let why = stats.message.unwrap_or_else(|| "the disk is full".to_owned());
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    if let Some(missing) = stats.faults.iter().find(|fault| fault.kind == "missing_file") {
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, missing.text()));
    }
    Ok("ok\n")
}

/// `POST /api/store/flush`: what is in the log and in memory is in files when it answers.
pub(crate) async fn flush(
    State(app): State<SharedApp>,
    headers: HeaderMap,
) -> Result<Json<Value>, Refusal> {
    super::sql::require_json(&headers)?;
    app.store.flush().await?;
    let stats = app.store.stats();
    Ok(Json(json!({"file_count": stats.file_count, "file_rows": stats.file_rows})))
}
