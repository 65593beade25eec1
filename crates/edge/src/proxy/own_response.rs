//! Responses of the edge itself: short texts, usually about a failure.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};

use crate::client::session::OpenRecord;
use crate::proxy::response_body::ResponseBody;

/// Responds with the status and a short reason, and finishes the record.
pub(crate) fn own_response(
    record: OpenRecord,
    status: StatusCode,
    why: &str,
) -> Response<ResponseBody> {
    text_response(record, status, format!("{} {why}\n", status.as_u16()).into())
}

/// Responds with exactly `text`, and finishes the record.
pub(crate) fn text_response(
    mut record: OpenRecord,
    status: StatusCode,
    text: Bytes,
) -> Response<ResponseBody> {
    record.status = status.as_u16();
    record.body_bytes = text.len() as u64;
    let mut response = Response::new(ResponseBody::Own(Some(text.clone())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    record.finish();
    response
}
