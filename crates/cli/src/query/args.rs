//! Flags of `weir query`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Query a running weir in SQL.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir query 'select rule, subject, state from finding order by ts desc limit 10'
  weir query --format csv 'select * from listener' > listener.csv
  weir query --format parquet \"select * from request where ts > now() - interval '1 day'\" > day.parquet
  echo 'select count(*) from request' | weir query -
  weir query \"select date_trunc('minute', ts) as minute, count(*) as requests,
              approx_percentile_cont(duration_seconds, 0.95) as p95_seconds
              from request where ts > now() - interval '1 hour' group by 1 order by 1\"")]
pub(crate) struct QueryArgs {
    /// The query; `-` reads it from stdin.
    #[arg(value_name = "SQL")]
    pub(crate) sql: String,
    /// Where weir answers; default: `WEIR_URL` of the environment, else http://127.0.0.1:4770.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// table for a person; json, ndjson or csv (with a header line) for a program; arrow (an IPC
    /// stream) or parquet for a file.
    #[arg(long, value_enum, default_value_t = QueryFormat::Table)]
    pub(crate) format: QueryFormat,
    /// Most rows to answer [default: 10000 as table or json, else all; of json at most 100000].
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Print what the query would read (files, bytes, requests, cost) without running it.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// A file whose first line is the login.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// How a query's answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueryFormat {
    /// Columns side by side.
    Table,
    /// One array of objects.
    Json,
    /// One object a line.
    Ndjson,
    /// RFC 4180 with a header line.
    Csv,
    /// An Arrow IPC stream, for pandas, polars and DuckDB.
    Arrow,
    /// One Parquet file.
    Parquet,
}
