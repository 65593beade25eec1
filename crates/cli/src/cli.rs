//! The command line: every command, flag and its help. Help teaches by example.

mod judging;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use weir_agent_core::args::AgentArgs;
use weir_config::flags::{ServeArgs, WatchArgs};

use crate::backup::{BackupArgs, RestoreArgs};
use crate::bench::BenchArgs;
use crate::capture::CaptureArgs;
use crate::compare::args::CompareArgs;
use crate::drill::args::DrillArgs;
pub(crate) use crate::edge::args::{EdgeAction, EdgeArgs};
use crate::haproxy::args::HaproxyArgs;
use crate::store::StoreArgs;
use crate::wire::ModelArgs;
use crate::wire::compat::CompatArgs;
pub(crate) use judging::*;

/// Watches the traffic of a web fleet, names the tier that hurts, and says what to change.
#[derive(Debug, Parser)]
#[command(name = "weir", version, disable_help_subcommand = true, max_term_width = 110)]
#[command(after_help = "Examples:
  weir up                                        watch this host; the page is on http://127.0.0.1:4770
  weir doctor                                    look at this host for five seconds, say what hurts
  weir query 'select * from finding limit 5'     ask the running weir
  weir parse /var/log/app.log                    see what its lines become
  weir tables request                            what the columns mean")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Configuration file (TOML) instead of the usual places.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How much weir says about itself on stderr: error, warn, info, debug or trace.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(UpArgs),
    Hub(HubArgs),
    Agent(AgentArgs),
    Edge(EdgeArgs),
    Haproxy(HaproxyArgs),
    Doctor(DoctorArgs),
    Parse(ParseArgs),
    #[command(alias = "sql")]
    Query(QueryArgs),
    Compare(CompareArgs),
    Audit(AuditArgs),
    Tables(TablesArgs),
    Rules(RulesArgs),
    Findings(FindingsArgs),
    Thresholds(ThresholdsArgs),
    Tune(TuneArgs),
    Drill(DrillArgs),
    Store(StoreArgs),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Bench(BenchArgs),
    Wire(WireArgs),
    Capture(CaptureArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    /// Print the version.
    Version,
}

/// Watch this host: collect, keep, judge, and show the page.
///
/// Finds nginx, HAProxy, Apache, syslog files and the journal by itself, samples the kernel once a second, runs the
/// rules, and serves the page and the API. Ends cleanly on Ctrl-C or SIGTERM.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir up                                        everything by itself
  weir up --tail '/srv/app/log/*.json'           read these logs too, from their beginning
  weir up --listen 127.0.0.1:0 --data /tmp/w     any free port, own data directory
  weir up --listen 0.0.0.0:4770                  refused unless `api.token_file` is set")]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// Keep rows that agents send, judge them, and show the page; watches nothing itself.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir hub --data /srv/weir
  weir hub --data /srv/weir --cluster postgresql://weir@db/weir
                                                 one of several hubs that share their rows
  weir hub invite --data /srv/weir               print a token that lets one agent join
  weir hub agents --data /srv/weir               list the agents that joined
  weir hub revoke web1 --data /srv/weir          turn an agent away for good")]
pub(crate) struct HubArgs {
    /// A command about the fleet instead of serving.
    #[command(subcommand)]
    pub(crate) action: Option<HubAction>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    /// Where agents connect to; opened by itself once somebody was invited.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) agents: Option<String>,
    /// The PostgreSQL that has the manifest of several hubs, such as postgresql://weir@db/weir (docs/cluster.md).
    #[arg(long, value_name = "URL")]
    pub(crate) cluster: Option<String>,
}

/// Commands about the fleet; they work whether the hub runs or not.
#[derive(Debug, Subcommand)]
pub(crate) enum HubAction {
    Invite(InviteArgs),
    /// List the agents that joined, and which are connected.
    Agents {
        #[command(flatten)]
        data: DataArgs,
    },
    /// Turn an agent away: its connection is cut within a second, its certificate is worth nothing from then on.
    Revoke {
        /// The agent's name.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        data: DataArgs,
    },
}

impl HubAction {
    /// The flag `--data`.
    pub(crate) fn data(&self) -> Option<&PathBuf> {
        match self {
            Self::Invite(args) => args.data.data.as_ref(),
            Self::Agents { data } | Self::Revoke { data, .. } => data.data.as_ref(),
        }
    }
}

/// Which hub is meant.
#[derive(Args, Debug)]
pub(crate) struct DataArgs {
    /// The hub's data directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// Print a token that lets one agent join.
///
/// Whoever has the token can become an agent until it expires; carry it as you would carry a password. The token also
/// says where the hub is and how to know it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir hub invite                                for one hour
  weir hub invite --for 10m --name web1          this name only; takes the place of an agent of that name
  weir hub invite --address hub.example.net      where agents find the hub")]
pub(crate) struct InviteArgs {
    /// How long the token can be used: 90s, 15m, 1h, 7d.
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    pub(crate) r#for: String,
    /// The only name that may join with it.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where agents find the hub, instead of `link.addresses`; may be given more than once.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) address: Vec<String>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// Look at this host for a few seconds and say what hurts; needs no hub and no configuration.
///
/// Exit code: 0 nothing to act on (notes may be shown), 1 a finding of class mail, 2 a finding of class page,
/// 64 and above when doctor itself failed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir doctor                                    text for a person, worst first
  weir doctor --format json | jq '.[].fix'       for programs
  weir doctor --record /tmp/host --seconds 30    record this host (secrets redacted), to look at elsewhere
  weir doctor /tmp/host                          the same rules over a recorded host")]
pub(crate) struct DoctorArgs {
    /// A recorded host instead of this one.
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// text for a person, json for a program.
    #[arg(long, value_enum, default_value_t = DoctorFormat::Text)]
    pub(crate) format: DoctorFormat,
    /// How long to look.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=3600))]
    pub(crate) seconds: u32,
    /// Record this host into a new directory.
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    pub(crate) record: Option<PathBuf>,
    /// Rules that add to or replace the built-in ones.
    #[arg(long, value_name = "DIR")]
    pub(crate) rules: Option<PathBuf>,
    /// The root below which the host's files are read.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// How doctor answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DoctorFormat {
    /// For a person.
    Text,
    /// An array of objects.
    Json,
}

/// See what lines become: table, fields, cost, how far patterns fit, and what is nearly one.
///
/// A line, a file, or `-` for stdin. Without flags lines are read as weir would read them at this path.
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
    /// Where the running weir answers; default: `WEIR_URL` of the environment, else http://127.0.0.1:4770.
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

/// Compare log files on disk with what the tables hold: each line once, or where not.
///
/// Run it on the host that has the files; reading them is all that it does. Also rotated and packed (.gz, .zst) parts can be named.
/// Exit code: 0 each line has exactly one row, 1 lines are missing or doubled, 2 a file could not be compared.
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
    /// Seconds to wait until the hub has what is on disk; what it does not have by then is not compared.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u64,
    /// How lines make events: java, python, go, ruby, indent, start=PATTERN or continuation=PATTERN. Default: what `[[logs]]` of the
    /// configuration says of the file; without that each line is one.
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

/// Ask the running weir in SQL.
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
    /// table for a person; json, ndjson or csv (with a header line) for a program; arrow (an IPC stream) or parquet for a file.
    #[arg(long, value_enum, default_value_t = QueryFormat::Table)]
    pub(crate) format: QueryFormat,
    /// Most rows to answer [default: 10000 as table or json, else all; of json at most 100000].
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Say what the query would read, files, bytes, requests and money, and do not run it.
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

/// List the tables, or describe one.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir tables
  weir tables request")]
pub(crate) struct TablesArgs {
    /// The table to describe.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Understand a capture: was it us?
///
/// Turns packets (pcap, pcapng or tcpdump's text, packed or not) into connections and requests, and says for each server
/// port who owns the delay: the network in front, the clients, the kernel's accept queue, the application, or the edge
/// itself, with the numbers behind it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tcpdump -i any -s 200 -w web.pcap tcp          make a capture: 200 bytes of a packet are enough
  weir wire web.pcap                             was it us?
  weir wire web.pcap --port 80,8080 --slice 100ms
  tcpdump -i any -w - tcp port 80 | weir wire    from a pipe
  weir wire web.pcap --format json | jq .verdict
  weir wire -i eth0 --port 80 --for 10s          what passes now; needs CAP_NET_RAW
  weir wire --compat pt-tcp-model --watch-server :80 web.pcap > requests
  sort -n -k1,1 requests | weir wire --compat pt-tcp-model --type requests --run-time 0.1")]
pub(crate) struct WireArgs {
    /// Captures, in the order of their time; `-`, or none, reads stdin.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) compat: CompatArgs,
}

/// Print every value of the configuration and where it comes from.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir config                                    what is in force
  weir config --format toml > weir.toml          a file to start from")]
pub(crate) struct ConfigArgs {
    /// text with origins, toml as a file to start from, json for programs.
    #[arg(long, value_enum, default_value_t = ConfigFormat::Text)]
    pub(crate) format: ConfigFormat,
}

/// How the configuration is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigFormat {
    /// One line a key with its origin.
    Text,
    /// A configuration file with the reason of each key.
    Toml,
    /// An array of objects.
    Json,
}

/// Print completions for a shell.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir completions bash > /etc/bash_completion.d/weir
  weir completions fish > ~/.config/fish/completions/weir.fish")]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
