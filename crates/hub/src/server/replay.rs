//! `GET /api/rules/{rule}/replay`: when a rule would have fired on the rows that are kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use weir_process::failure::Failure;
use weir_store::QueryLimits;

use super::SharedApp;
use super::answer::Refusal;
use super::caller::caller;
use crate::replay::replayed;
use crate::store_failure;

/// Rows of one answer, as the command has it.
const ROWS: usize = 10_000;
/// A page is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How far back: the default, and the most.
const SINCE_SECONDS: (u64, u64) = (86_400, 30 * 86_400);

/// What may follow `?`.
#[derive(Deserialize)]
pub(crate) struct ReplayQuery {
    since_seconds: Option<u64>,
}

/// Walks the rule through the past.
pub(crate) async fn replay(
    State(app): State<SharedApp>,
    Path(id): Path<String>,
    Query(options): Query<ReplayQuery>,
) -> Result<Json<Value>, Refusal> {
    let Some(rule) = app.judge.rules.get(&id).map(Arc::clone) else {
        let message = format!("cannot replay `{id}`: there is no such rule");
        return Err(Refusal::new(StatusCode::NOT_FOUND, message).hint("GET /api/rules lists them"));
    };
    let (default, most) = SINCE_SECONDS;
    let since = Duration::from_secs(options.since_seconds.unwrap_or(default).clamp(60, most));
    let _turn = app.turn().await?;
    let (shared, user) = (Arc::clone(&app), caller());
    let runtime = tokio::runtime::Handle::current();
    let limits = QueryLimits { rows: ROWS, ..app.query_limits };
    let walk = move || {
        let began = Instant::now();
        replayed(&rule, shared.clock.now(), since, |sql| {
            if began.elapsed() > PATIENCE {
                let message =
                    format!("cannot replay `{}` to its end in {} s", rule.id, PATIENCE.as_secs());
                return Err(Failure::new(message)
                    .hint("a shorter span, or `weir rules replay`, which has no time limit"));
            }
            let query = weir_store::Query::new(sql).caller(&user).limits(limits);
            let answer = runtime.block_on(shared.store.query(query).run());
            Ok(answer.map_err(store_failure)?.batches)
        })
    };
    let report = tokio::task::spawn_blocking(walk).await;
    let report = report.map_err(|error| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot replay `{id}`: {error}"))
    })?;
    Ok(Json(report?))
}
