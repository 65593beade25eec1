//! A copy of a request head in one allocation, in case the request must be repeated.
//!
//! Most copies are never used, so making one must be cheap. Cloning the header map changes a
//! reference count per name and value, which cost two thirds of what recording the request costs.

use http::{HeaderName, HeaderValue, Method, Request, Uri, Version, request};

/// Enough for the names and values of most requests.
const USUAL_BYTES: usize = 1024;

pub(crate) struct HeadCopy {
    method: Method,
    uri: Uri,
    version: Version,
    /// Names and values, one after the other.
    text: Vec<u8>,
    /// For each field, the end of its name and the end of its value in `text`.
    ends: Vec<(usize, usize)>,
}

impl HeadCopy {
    pub(crate) fn of(parts: &request::Parts) -> Self {
        let mut text = Vec::with_capacity(USUAL_BYTES);
        let mut ends = Vec::with_capacity(parts.headers.len());
        for (name, value) in &parts.headers {
            text.extend_from_slice(name.as_str().as_bytes());
            let name_end = text.len();
            text.extend_from_slice(value.as_bytes());
            ends.push((name_end, text.len()));
        }
        let (method, uri) = (parts.method.clone(), parts.uri.clone());
        Self { method, uri, version: parts.version, text, ends }
    }

    /// The head without its extensions.
    pub(crate) fn parts(&self) -> request::Parts {
        let (mut parts, ()) = Request::new(()).into_parts();
        (parts.method, parts.uri) = (self.method.clone(), self.uri.clone());
        parts.version = self.version;
        let mut at = 0;
        for &(name_end, end) in &self.ends {
            let name = HeaderName::from_bytes(&self.text[at..name_end]);
            let value = HeaderValue::from_bytes(&self.text[name_end..end]);
            // Both were valid before, so this always succeeds.
            if let (Ok(name), Ok(value)) = (name, value) {
                parts.headers.append(name, value);
            }
            at = end;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_gives_the_same_head_back() {
        let request = Request::builder()
            .method("PURGE")
            .uri("/shop?cart=1")
            .version(Version::HTTP_11)
            .header("host", "shop.example")
            .header("x-tag", "a")
            .header("x-tag", HeaderValue::from_bytes(b"\xff b").unwrap())
            .header("x-empty", "");
        let parts = request.body(()).unwrap().into_parts().0;
        let again = HeadCopy::of(&parts).parts();
        assert_eq!((&again.method, &again.uri), (&parts.method, &parts.uri));
        assert_eq!((again.version, again.headers), (parts.version, parts.headers));
    }
}
