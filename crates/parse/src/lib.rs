//! Bytes of a log line to fields; pure.
