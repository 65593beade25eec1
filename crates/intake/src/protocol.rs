//! The trait that every protocol over HTTP implements.
//!
//! A protocol is one file with an implementation of [`HttpProtocol`] and one line in `http.rs`.

use std::net::IpAddr;

use bytes::Bytes;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::batch_builder::{BatchBuilder, ItemVerdict};
use crate::response::{IntakeResponse, Refusal};

/// A request with its body decompressed.
#[derive(Debug)]
pub(crate) struct IntakeRequest {
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    pub(crate) peer: IpAddr,
    /// Largest decompressed body, in bytes.
    pub(crate) body_bytes: usize,
    /// The version reported to Elasticsearch's clients.
    pub(crate) elasticsearch_version: String,
}

/// A body of text without the byte order mark before it, which programs on Windows write.
pub(crate) fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body)
}

impl IntakeRequest {
    /// The text of a header, empty when it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The decoded value of a query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.parts.uri.query()?.split('&');
        let value = pairs.filter_map(|pair| pair.split_once('=')).find(|pair| pair.0 == name)?.1;
        Some(percent_decoded(value))
    }
}

/// Decodes `%41` and `+`; invalid UTF-8 is replaced.
pub(crate) fn percent_decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

/// A protocol over HTTP.
pub(crate) trait HttpProtocol {
    /// The value of the column `protocol`.
    const NAME: &'static str;
    /// Information from reading that the response needs.
    type Note: Send;

    /// Whether a request uses this protocol.
    fn is_for(parts: &Parts) -> bool;

    /// Reads the body into items; on `Err` nothing of it is stored.
    fn read(request: &IntakeRequest, builder: &mut BatchBuilder) -> Result<Self::Note, Refusal>;

    /// The response once everything is durable.
    fn respond(
        request: &IntakeRequest,
        note: Self::Note,
        verdicts: &[ItemVerdict],
    ) -> IntakeResponse;

    /// The response when nothing was stored.
    fn refuse(refusal: &Refusal) -> IntakeResponse {
        refusal.plain()
    }
}

#[cfg(test)]
mod tests {
    use super::percent_decoded;

    #[test]
    fn complete_escapes_are_decoded() {
        assert_eq!(percent_decoded("a%20b+c%2Fd"), "a b c/d");
        assert_eq!(percent_decoded("100%"), "100%");
        assert_eq!(percent_decoded("%zz%4"), "%zz%4");
        assert_eq!(percent_decoded("%"), "%");
        assert_eq!(percent_decoded("%é"), "%é");
    }
}
