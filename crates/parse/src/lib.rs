//! Bytes of a log line to fields; pure: no files, no clock, no network.
//!
//! Every line gives exactly one row in exactly one of `request`, `log` and `reject`; a line that cannot be
//! understood is kept raw, never dropped. [`LineParser`] is the way in, one per stream. Each format is one file:
//! it fills a `Record` with named texts, and `record.rs` alone decides which columns they become.

mod apache_error;
mod apache_template;
mod auto;
mod combined;
mod field;
mod format;
mod haproxy;
mod journal;
mod json;
mod json_lines;
mod klog;
mod line_parser;
mod log_text;
mod logfmt;
mod nginx_error;
mod nginx_template;
mod number;
mod record;
mod request_line;
mod rows;
mod severity;
mod syslog;
mod template;
mod text;
mod time;
mod time_forms;
mod upstream_list;

#[cfg(test)]
mod check;

pub use line_parser::LineParser;
pub use rows::ParsedRows;
