//! `POST /api/sql/forecast`: what a query will read, in files, bytes, requests and money, before it runs.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_store::{Forecast, Reading};

use super::Shared;
use super::answer::Refusal;
use super::sql::read_json;

/// What reading from a bucket costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReadPrices {
    /// Of a million requests.
    pub(crate) per_million_requests: f64,
    /// Of 10⁹ bytes.
    pub(crate) per_gigabyte: f64,
}

impl ReadPrices {
    fn of(&self, reading: &Reading) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let (reads, bytes) = (reading.reads as f64, reading.bytes as f64);
        reads / 1e6 * self.per_million_requests + bytes / 1e9 * self.per_gigabyte
    }
}

/// The body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    sql: String,
}

/// `POST /api/sql/forecast`.
pub(crate) async fn post(
    State(app): State<Shared>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let example = r#"{"sql": "select count(*) from request"}"#;
    let question: Question = read_json(&headers, &body, example)?;
    let _turn = app.turn().await?;
    let forecast = app.store.forecast(&question.sql, app.query_limits).await?;
    Ok(Json(told(&forecast, &app.read_prices)))
}

fn told(forecast: &Forecast, prices: &ReadPrices) -> Value {
    let place = |name: &str, at: Option<&str>, reading: &Reading, money: Value| {
        json!({
            "tier": name, "place": at,
            "files": reading.files, "bytes": reading.bytes, "reads": reading.reads, "usd": money,
        })
    };
    let mut tiers = vec![place("fast", None, &forecast.fast, Value::Null)];
    if let Some(at) = &forecast.slow_place {
        let money =
            if forecast.is_slow_far { json!(prices.of(&forecast.slow)) } else { Value::Null };
        tiers.push(place("slow", Some(at), &forecast.slow, money));
    }
    json!({"tiers": tiers})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_of_requests_and_bytes_and_only_of_services() {
        let slow = Reading { files: 2, bytes: 5_000_000_000, reads: 2000 };
        let place = Some("s3://rows".to_owned());
        let far = Forecast { slow, slow_place: place, is_slow_far: true, ..Forecast::default() };
        let prices = ReadPrices { per_million_requests: 0.4, per_gigabyte: 0.02 };
        let usd = |forecast: &Forecast| told(forecast, &prices)["tiers"][1]["usd"].clone();
        let money = usd(&far).as_f64().unwrap();
        assert!((money - (0.0008 + 0.1)).abs() < 1e-9, "{money}");
        assert_eq!(usd(&Forecast { is_slow_far: false, ..far }), Value::Null);
    }
}
