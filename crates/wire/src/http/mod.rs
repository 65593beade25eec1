//! HTTP/1.x: message boundaries in a stream of bytes (RFC 9112), and URL templates.

mod framer;
mod head;
mod proxy;
mod template;

pub(crate) use framer::{BodyFraming, Framer, HttpSink, RedisValue};
pub(crate) use head::{RequestHead, ResponseHead, is_request_start, is_response_start, is_stream};
pub(crate) use proxy::proxy_header;
pub(crate) use template::template;
