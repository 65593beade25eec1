//! The client's side: listening sockets, connections, and what happens to each request.

pub(crate) mod listener;
pub mod proxy_header;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod stream;
pub(crate) mod task;
