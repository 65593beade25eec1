//! `POST /v1/check-results`: passive results of checks, by a login with the scope `intake`.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::answer::Refusal;
use super::{SharedApp, connection};
use crate::intake::{ReceivedBody, response_of};

/// `POST /v1/check-results`.
pub(crate) async fn post(State(app): State<SharedApp>, request: Request) -> Response {
    let (Some(intake), Some(peer)) = (app.intake.get(), connection::peer()) else {
        let why = "cannot take results: the hub starts";
        return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
            .hint("send them again in a second")
            .into_response();
    };
    let (parts, body) = request.into_parts();
    let answer = intake.respond_to_login(parts, peer, ReceivedBody::new(body));
    response_of(Box::pin(answer).await)
}
