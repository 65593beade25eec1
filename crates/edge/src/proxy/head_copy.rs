//! A request's head in one piece of memory, for the case that it must be sent again.
//!
//! Most copies are thrown away unread, so making one is what must be cheap: a clone of the map of fields counts a reference
//! up and down for each name and value, which cost two thirds of recording the request.

use http::{HeaderName, HeaderValue, Method, Request, Uri, Version, request};

/// Room for the names and values of most requests.
const USUAL_BYTES: usize = 1024;

/// See the module.
pub(crate) struct HeadCopy {
    method: Method,
    uri: Uri,
    version: Version,
    /// Names and values, one after the other.
    text: Vec<u8>,
    /// Where a name ends, and its value.
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

    /// The head, but for its extensions.
    pub(crate) fn parts(&self) -> request::Parts {
        let (mut parts, ()) = Request::new(()).into_parts();
        (parts.method, parts.uri) = (self.method.clone(), self.uri.clone());
        parts.version = self.version;
        let mut at = 0;
        for &(name_end, end) in &self.ends {
            let name = HeaderName::from_bytes(&self.text[at..name_end]);
            let value = HeaderValue::from_bytes(&self.text[name_end..end]);
            // They were both once, so they are again.
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
