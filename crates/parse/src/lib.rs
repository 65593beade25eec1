//! Parses log lines into rows; pure: no files, no clock, no network.
//!
//! Every line becomes exactly one row in one of `request`, `log` and `reject`; a line that cannot
//! be parsed is kept raw, never dropped. [`LineParser`] is the entry point, one per stream;
//! [`Parsers`] creates it with the pipeline that applies to the log.
//!
//! A format is one file and one line in `formats.rs`. It fills a `Record` with named texts, and
//! only `record.rs` decides which columns they become.

mod ansi;
mod apache_error;
mod apache_template;
mod apache_time;
mod audit;
mod auto;
mod bare_access;
mod caddy;
mod cef;
mod combined;
mod console_json;
mod contained;
mod container_join;
mod container_prefix;
mod cri;
mod detectors;
mod docker;
mod envoy;
mod field;
mod format;
mod formats;
mod gorouter;
mod grok;
mod haproxy;
mod haproxy_clf;
mod haproxy_parts;
mod heroku;
mod iis;
mod journal;
mod journal_export;
mod json;
mod json_access;
mod json_lines;
mod json_message;
mod json_template;
mod key_budget;
mod key_value;
mod klog;
mod known;
mod known_templates;
mod line_parser;
mod log_text;
mod logfmt;
mod nginx_error;
mod nginx_gateways;
mod nginx_template;
mod parsers;
mod passenger;
mod pino_http;
mod pipeline;
mod problem;
mod record;
mod redact;
mod request_line;
mod routeros;
mod rows;
mod ruby_logger;
mod separated;
mod squid;
mod suggest;
mod syslog;
mod syslog_header;
mod syslog_record;
mod template;
mod text;
mod tomcat_json;
mod traefik;
mod upstream_list;
mod utf16;
mod w3c;
mod western;
mod windows_event;
mod zerolog;

#[cfg(test)]
mod check;

pub use grok::Progress;
pub use key_budget::{DEFAULT_KEY_BUDGET, KeyReport};
pub use line_parser::{LineParser, StreamName};
pub use parsers::Parsers;
pub use pipeline::{Pipeline, PipelineCase};
pub use problem::{ParserFile, ParserProblem};
pub use redact::{Redaction, is_of_the_fleet};
pub use rows::{ParsedRows, RowText};
pub use suggest::Suggestion;
pub use syslog_header::syslog_host;
pub use weir_values::Zone;
