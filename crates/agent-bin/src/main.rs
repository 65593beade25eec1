//! The program weir-agent: `weir agent` without the hub, and so without an SQL engine.
//!
//! It reads no `[[buckets]]` and puts no setting back that `weir tune --try` left: both need parts
//! of the hub.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use weir_agent_core::args::AgentArgs;
use weir_agent_core::edge::{EdgeStartup, reload_of};
use weir_agent_core::hooks::AgentHooks;
use weir_agent_core::run;
use weir_agent_core::watch::{BucketOptions, ObjectSource};
use weir_config::Config;
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::privacy::keep_private;
use weir_process::terminal;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Watches this host and sends what it collects to a hub.
#[derive(Debug, Parser)]
#[command(name = "weir-agent", version, disable_help_subcommand = true, max_term_width = 110)]
#[command(about = "Watch this host and send what it collects to a hub", long_about = None)]
#[command(after_help = "Examples:
  weir-agent join TOKEN                          once; `weir hub invite` on the hub prints the token
  weir-agent                                     send to the hub that was joined
  weir-agent --hub a.example.net:4771 --hub b.example.net:4771    these hubs, the next when one dies
  weir-agent --tail '/srv/app/log/*.json'")]
struct Cli {
    #[command(flatten)]
    agent: AgentArgs,
    /// Configuration file (TOML) instead of the usual places.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How much weir-agent says about itself on stderr: error, warn, info, debug or trace.
    #[arg(long, global = true, value_name = "LEVEL")]
    log_level: Option<String>,
}

const HOOKS: AgentHooks = AgentHooks { open_bucket, is_tryable: None };

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { EXIT_USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    keep_private();
    match watch(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::complain(&format!("error: {failure}"));
            failure.exit_code().into()
        }
    }
}

fn watch(cli: &Cli) -> Result<(), Failure> {
    let config = Config::of_process(cli.config.as_deref(), cli.log_level.as_ref())?;
    let startup = EdgeStartup::new(reload_of(cli.config.clone(), None), false);
    run::command(&cli.agent, config, &startup, HOOKS)
}

fn open_bucket(_: &BucketOptions) -> Result<Box<dyn ObjectSource>, Failure> {
    Err(Failure::new("weir-agent reads no buckets")
        .hint("run `weir agent` on one host for `[[buckets]]`"))
}
