//! The requests of the control socket (`docs/api.md`): what the page's port answers of the edge, and what holds secrets.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use weir_process::failure::Failure;

use super::Control;
use super::control::WeightChange;

/// Longest body: an export of many backends.
const BODY_BYTES_MAX: usize = 16 << 20;

/// What is answered: a status, the body's type, and the body.
type Answer = (StatusCode, &'static str, String);

/// Answers one request.
pub(super) async fn answer(
    control: &Arc<Control>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, body) = match route(control, request).await {
        Ok(answer) | Err(answer) => answer,
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

async fn route(control: &Arc<Control>, request: Request<Incoming>) -> Result<Answer, Answer> {
    let (head, body) = request.into_parts();
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    match (head.uri.path(), &head.method) {
        ("/api/edge", _) if is_read => Ok(json_of(&control.state().map_err(refused)?)),
        ("/api/edge/export", _) if is_read => Ok(json_of(&control.export().map_err(refused)?)),
        ("/api/edge/config", _) if is_read => {
            let text = control.config().map_err(refused)?;
            Ok((StatusCode::OK, "text/plain; charset=utf-8", text))
        }
        ("/api/edge/config", &Method::PUT) => {
            let is_dry_run = is_dry_run(head.uri.query())?;
            let text = String::from_utf8(read(body).await?)
                .map_err(|_| bad("the configuration is not UTF-8"))?;
            change(control, is_dry_run, move |control| control.change_text(&text, is_dry_run)).await
        }
        ("/api/edge/backend", &Method::POST) => {
            let wish: WeightChange = parse(&read(body).await?)?;
            change(control, false, move |control| control.set_weight(&wish)).await
        }
        ("/api/edge/apply", &Method::POST) => {
            let is_dry_run = is_dry_run(head.uri.query())?;
            let export: Value = parse(&read(body).await?)?;
            change(control, is_dry_run, move |control| control.apply(&export, is_dry_run)).await
        }
        (
            "/api/edge" | "/api/edge/export" | "/api/edge/config" | "/api/edge/backend"
            | "/api/edge/apply",
            _,
        ) => Err(error(StatusCode::METHOD_NOT_ALLOWED, "no such method here")),
        _ => Err(error(StatusCode::NOT_FOUND, "there is no such path")),
    }
}

async fn change(
    control: &Arc<Control>,
    is_dry_run: bool,
    work: impl FnOnce(&Control) -> Result<Vec<String>, Failure> + Send + 'static,
) -> Result<Answer, Answer> {
    let changes = control.change_apart(is_dry_run, work).await.map_err(refused)?;
    Ok(json_of(&json!({"changes": changes})))
}

async fn read(body: Incoming) -> Result<Vec<u8>, Answer> {
    let whole = Limited::new(body, BODY_BYTES_MAX).collect().await;
    whole.map(|body| body.to_bytes().to_vec()).map_err(|why| bad(&why.to_string()))
}

fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Answer> {
    serde_json::from_slice(body).map_err(|why| bad(&format!("cannot read the body: {why}")))
}

/// What may follow `?`: `dry_run=true`.
fn is_dry_run(query: Option<&str>) -> Result<bool, Answer> {
    match query.unwrap_or_default() {
        "" | "dry_run=false" => Ok(false),
        "dry_run=true" => Ok(true),
        other => Err(bad(&format!("cannot use `?{other}`: only dry_run=true or dry_run=false"))),
    }
}

fn json_of(value: &Value) -> Answer {
    (StatusCode::OK, "application/json", value.to_string())
}

fn refused(failure: Failure) -> Answer {
    let (message, hint) = failure.into_parts();
    let mut body = json!({"error": message});
    if let Some(hint) = hint {
        body["hint"] = hint.into();
    }
    (StatusCode::BAD_REQUEST, "application/json", body.to_string())
}

fn bad(message: &str) -> Answer {
    error(StatusCode::BAD_REQUEST, message)
}

fn error(status: StatusCode, message: &str) -> Answer {
    (status, "application/json", json!({"error": message}).to_string())
}

#[cfg(test)]
mod tests {
    use super::is_dry_run;

    #[test]
    fn only_a_dry_run_may_follow_the_path() {
        assert_eq!(is_dry_run(None).ok(), Some(false));
        assert_eq!(is_dry_run(Some("dry_run=true")).ok(), Some(true));
        assert_eq!(is_dry_run(Some("dry_run=false")).ok(), Some(false));
        assert!(is_dry_run(Some("dry_run=yes")).is_err());
        assert!(is_dry_run(Some("force=true")).is_err());
    }
}
