//! `POST /api/compare`: times of two sets of requests, compared where both were measured at the
//! same place.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use weir_tables::nearest;

use super::answer::Refusal;
use super::sql::read_json;
use super::{SharedApp, objects};
use crate::compare::{Comparison, MEASURES, TierTimes, compare, measure, question, seen};

/// More tiers than there are.
const MAX_TIERS: usize = 100;

/// The body: two conditions on `request`, and the time that is compared.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompareRequest {
    a: String,
    b: String,
    measure: Option<String>,
}

/// `POST /api/compare`.
pub(crate) async fn post(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Comparison>, Refusal> {
    let example = r#"{"a": "host = 'web1'", "b": "host = 'web2'"}"#;
    let asked: CompareRequest = read_json(&headers, &body, example)?;
    let column = asked.measure.as_deref().unwrap_or(MEASURES[0].column);
    let measure = measure(column).ok_or_else(|| {
        let names = MEASURES.map(|measure| measure.column);
        let hint = nearest(column, names)
            .map_or_else(|| names.join(", "), |near| format!("did you mean `{near}`?"));
        Refusal::new(
            StatusCode::BAD_REQUEST,
            format!("cannot compare: `{column}` is no time of `request`"),
        )
        .hint(hint)
    })?;
    let a = side("A", &app, &asked.a).await?;
    let b = side("B", &app, &asked.b).await?;
    Ok(Json(compare(&a, &b, measure)))
}

async fn side(name: &str, app: &SharedApp, condition: &str) -> Result<Vec<TierTimes>, Refusal> {
    let result = app.query(&question(condition), MAX_TIERS).await?;
    let seen = seen(&objects(&result));
    if seen.is_empty() {
        let what = format!("cannot compare: {name} has no request (`{condition}`)");
        return Err(Refusal::new(StatusCode::BAD_REQUEST, what)
            .hint("`select min(ts), max(ts) from request` says from when there are rows"));
    }
    Ok(seen)
}
