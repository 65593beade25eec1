//! Flags of `weir parse`.

use std::path::PathBuf;

use clap::Args;

/// Show how lines are parsed: table, fields, cost, and how far patterns match.
///
/// A line, a file, or `-` for stdin. Without flags lines are read as weir would read them at this
/// path.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir parse '1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5'
  weir parse --grok '%{IP:client_address} %{WORD:verb} %{NOTSPACE:path}' app.log
  tail -n 100 app.log | weir parse --suggest -        a pattern and a pipeline to start from
  weir parse --pipeline shop.toml --replay            what it would change of yesterday's lines; changes nothing
  weir parse --test my-parsers/                       run every .test file there
  weir parse --list                                   pipelines, and names for patterns")]
pub(crate) struct ParseArgs {
    /// A line, a file, or `-` for stdin; with --test a `.test` file or a directory.
    #[arg(value_name = "LINE|FILE|-")]
    pub(crate) input: Option<String>,
    /// Read by this pipeline: a name, or a file.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) pipeline: Option<String>,
    /// Read in this format: auto, json, combined, haproxy_http, syslog, …
    #[arg(long, value_name = "NAME", conflicts_with = "pipeline")]
    pub(crate) format: Option<String>,
    /// Read by this pattern.
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["pipeline", "format"])]
    pub(crate) grok: Option<String>,
    /// Pipelines and patterns that are laid over the built-in ones; default: `parsers.dir`.
    #[arg(long, value_name = "DIR")]
    pub(crate) parsers: Option<PathBuf>,
    /// Take the lines for those of this log; with --replay a path with `*`.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Propose a pattern for the lines.
    #[arg(long)]
    pub(crate) suggest: bool,
    /// Run the tests of pipelines. Exit code 1 when one fails.
    #[arg(long, conflicts_with_all = ["suggest", "pipeline", "format", "grok"])]
    pub(crate) test: bool,
    /// List pipelines and the names that patterns can use.
    #[arg(long)]
    pub(crate) list: bool,
    /// Read the raw lines that the running weir has once more, and tell what would change.
    #[arg(long, conflicts_with_all = ["suggest", "test", "input"])]
    pub(crate) replay: bool,
    /// How far back --replay goes, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    pub(crate) since: u32,
    /// Most rows that --replay reads of each table.
    #[arg(long, value_name = "ROWS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rows: u32,
    /// Where the running weir answers; default: `WEIR_URL` of the environment, else
    /// http://127.0.0.1:4770.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file whose first line is the login.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Most lines that are read.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) lines: usize,
    /// One JSON object a line, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}
