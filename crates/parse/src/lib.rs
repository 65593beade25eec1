//! Bytes of a log line to fields; pure: no files, no clock, no network.
//!
//! Every line gives exactly one row in exactly one of `request`, `log` and `reject`; a line that cannot be
//! understood is kept raw, never dropped. [`LineParser`] is the way in, one per stream; [`Parsers`] makes it, with the
//! pipeline that is for the stream's log. Each format is one file: it fills a `Record` with named texts, and `record.rs`
//! alone decides which columns they become.

mod apache_error;
mod apache_template;
mod auto;
mod combined;
mod field;
mod format;
mod grok;
mod haproxy;
mod journal;
mod json;
mod json_lines;
mod key_budget;
mod key_value;
mod klog;
mod line_parser;
mod log_text;
mod logfmt;
mod nginx_error;
mod nginx_template;
mod number;
mod parsers;
mod pipeline;
mod problem;
mod record;
mod redact;
mod request_line;
mod rows;
mod separated;
mod severity;
mod suggest;
mod syslog;
mod tai64;
mod template;
mod text;
mod time;
mod time_forms;
mod time_written;
mod upstream_list;
mod zone;

#[cfg(test)]
mod check;

pub use grok::Progress;
pub use key_budget::{DEFAULT_KEY_BUDGET, KeyReport};
pub use line_parser::LineParser;
pub use parsers::Parsers;
pub use pipeline::{Pipeline, PipelineCase};
pub use problem::ParserProblem;
pub use redact::{Redaction, is_of_the_fleet};
pub use rows::{ParsedRows, RowText};
pub use suggest::Suggestion;
pub use zone::Zone;
