//! What handlers answer when they cannot: a status and `{"error", "hint"}`, as `docs/api.md` says.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weir_process::failure::Failure;
use weir_store::{ErrorKind, StoreError};

use crate::notices::{NoticeError, NoticeErrorKind};

/// A refusal.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
    hint: Option<String>,
    expected: Option<u64>,
}

impl Refusal {
    /// A refusal without a hint.
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), hint: None, expected: None }
    }

    /// What is refused, and why.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Adds a line with what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let (message, hint) = failure.into_parts();
        Self { status: StatusCode::BAD_REQUEST, message, hint, expected: None }
    }
}

impl From<NoticeError> for Refusal {
    fn from(error: NoticeError) -> Self {
        let status = match error.kind {
            NoticeErrorKind::Unknown => StatusCode::NOT_FOUND,
            NoticeErrorKind::Bad => StatusCode::BAD_REQUEST,
            NoticeErrorKind::Unusable => StatusCode::SERVICE_UNAVAILABLE,
        };
        let refusal = Self::new(status, error.message);
        if error.hint.is_empty() { refusal } else { refusal.hint(error.hint) }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let status = match error.kind {
            ErrorKind::Behind { .. } | ErrorKind::Moved => StatusCode::CONFLICT,
            ErrorKind::BadParcel | ErrorKind::BadQuery | ErrorKind::QueryLimit => {
                StatusCode::BAD_REQUEST
            }
            ErrorKind::Full | ErrorKind::Busy | ErrorKind::Closed => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let expected = match error.kind {
            ErrorKind::Behind { expected } => Some(expected),
            _ => None,
        };
        Self { status, message: error.message, hint: error.hint, expected }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut body = json!({"error": self.message});
        if let Some(hint) = self.hint {
            body["hint"] = hint.into();
        }
        if let Some(expected) = self.expected {
            body["expected"] = expected.into();
        }
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, 1.into());
        }
        response
    }
}
