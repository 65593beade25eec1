//! The command line: the list of commands. Flags and help of each are in `args` of its module; help
//! teaches by example.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use weir_agent_core::args::AgentArgs;

use crate::audit::args::AuditArgs;
use crate::backup::{BackupArgs, RestoreArgs};
use crate::bench::BenchArgs;
use crate::capture::CaptureArgs;
use crate::check::args::CheckArgs;
use crate::compare::args::CompareArgs;
use crate::doctor::args::DoctorArgs;
use crate::drill::args::DrillArgs;
use crate::edge::args::EdgeArgs;
use crate::findings::args::FindingsArgs;
use crate::haproxy::args::HaproxyArgs;
use crate::heal::args::HealArgs;
use crate::hub::args::{HubArgs, UpArgs};
use crate::incidents::args::IncidentsArgs;
use crate::notify::args::NotifyArgs;
use crate::oncall::args::OncallArgs;
use crate::parse::args::ParseArgs;
use crate::query::args::QueryArgs;
use crate::rules::args::RulesArgs;
use crate::show::args::{CompletionsArgs, ConfigArgs, TablesArgs};
use crate::slo::args::SloArgs;
use crate::store::StoreArgs;
use crate::thresholds::args::ThresholdsArgs;
use crate::tune::args::TuneArgs;
use crate::wire::args::WireArgs;

/// Watches the traffic of a web fleet, names the tier at fault, and proposes what to change.
#[derive(Debug, Parser)]
#[command(name = "weir", version, disable_help_subcommand = true, max_term_width = 110)]
#[command(after_help = "Examples:
  weir up                                        watch this host; the page is on http://127.0.0.1:4770
  weir doctor                                    check this host for five seconds, report problems
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
    Incidents(IncidentsArgs),
    Notify(NotifyArgs),
    Oncall(OncallArgs),
    Heal(HealArgs),
    Check(CheckArgs),
    Slo(SloArgs),
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
