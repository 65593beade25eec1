//! A host's files, kernel, sockets and logs to rows.
