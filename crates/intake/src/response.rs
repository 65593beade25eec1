//! Responses and refusals of protocols over HTTP.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::hub::KeepError;

/// A response.
#[derive(Debug)]
pub struct IntakeResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Trailers after the body, for gRPC.
    pub trailers: Option<HeaderMap>,
}

impl IntakeResponse {
    pub(crate) fn new(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        Self { status, headers, body: body.into(), trailers: None }
    }

    pub(crate) fn json(status: StatusCode, body: &serde_json::Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    /// Adds a header.
    pub(crate) fn with(mut self, (name, value): (&'static str, &str)) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }
}

/// Why a request is refused. The sender gets the reason and still has its rows.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// Reason code for the counts.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { status, reason, message: message.into(), hint: None }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Seconds after which the sender may retry; `None` if retrying does not help.
    pub(crate) fn retry_after(&self) -> Option<&'static str> {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => Some("1"),
            StatusCode::SERVICE_UNAVAILABLE => Some("5"),
            _ => None,
        }
    }

    /// The response of protocols without a specific form.
    pub(crate) fn plain(&self) -> IntakeResponse {
        let mut body = serde_json::json!({"error": self.message});
        if let Some(hint) = &self.hint {
            body["hint"] = hint.as_str().into();
        }
        IntakeResponse::json(self.status, &body)
    }
}

impl From<KeepError> for Refusal {
    fn from(error: KeepError) -> Self {
        let status = match error.reason {
            "busy" => StatusCode::TOO_MANY_REQUESTS,
            "failed" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self { status, reason: error.reason, message: error.message, hint: error.hint }
    }
}
