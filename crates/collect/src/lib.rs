//! A host's files, kernel, sockets and logs to rows.

pub mod logs;
