//! Flags of `weir audit`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Compare log files on disk with the tables: is each line stored exactly once?
///
/// Run it on the host that has the files; reading them is all that it does. Also rotated and packed
/// (.gz, .zst) parts can be named. Exit code: 0 each line has exactly one row, 1 lines are missing
/// or doubled, 2 a file could not be compared.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir audit /var/log/nginx/access.log
  weir audit '/var/log/nginx/access.log*'        the rotated parts as well
  weir audit --wait 30 /srv/app/log/app.log      until what is written now has arrived, at most 30 s
  weir audit --url http://10.0.0.5:4770 --format json /var/log/nginx/access.log")]
pub(crate) struct AuditArgs {
    /// Log files, or globs in quotes.
    #[arg(value_name = "FILE|GLOB", required = true)]
    pub(crate) files: Vec<String>,
    /// Where weir answers; default: `WEIR_URL` of the environment, else http://127.0.0.1:4770.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The name of this host in the rows, if its agent was given one.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Seconds to wait until the hub has what is on disk; what it does not have by then is not
    /// compared.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u64,
    /// How lines make events: java, python, go, ruby, indent, csv, container, start=PATTERN or
    /// continuation=PATTERN. Default: the `[[logs]]` entry of the file, else one event a line.
    #[arg(long, value_name = "RULE")]
    pub(crate) multiline: Option<String>,
    /// text for a person, json for a program.
    #[arg(long, value_enum, default_value_t = AuditFormat::Text)]
    pub(crate) format: AuditFormat,
    /// A file whose first line is the login.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// How an audit is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditFormat {
    /// For a person.
    Text,
    /// One object.
    Json,
}
