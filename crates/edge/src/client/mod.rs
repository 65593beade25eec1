//! The client's side: listening sockets, connections, and what happens to each request.

pub(crate) mod forwarded;
pub(crate) mod h2_executor;
pub(crate) mod h2_stream;
pub(crate) mod interim;
pub(crate) mod linger;
pub(crate) mod listener;
pub(crate) mod proxy_header;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod stream;
pub(crate) mod task;
