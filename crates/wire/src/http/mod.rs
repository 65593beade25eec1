//! HTTP/1.x: where messages begin and end in a stream of bytes (RFC 9112), and which URLs are alike.

mod framer;
mod head;
mod template;

pub(crate) use framer::{Body, Framer, Listener, Partial, Value};
pub(crate) use head::{RequestHead, ResponseHead, is_request_start, is_response_start};
pub(crate) use template::template;
