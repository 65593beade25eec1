//! weir's commands: each has a module of its name, with its flags, what it does, and how it shows
//! the answer.
//!
//! The list of commands is [`Cli`]; [`run`] hands each to its module.

mod audit;
mod backup;
mod bench;
mod capture;
mod check;
mod cli;
mod client;
mod compare;
mod doctor;
mod drill;
mod edge;
mod findings;
mod haproxy;
mod heal;
mod hub;
mod id_prefix;
mod incidents;
mod notify;
mod oncall;
mod parse;
mod query;
mod rules;
mod show;
mod slo;
mod store;
mod thresholds;
mod tune;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use weir_agent_core::edge::{EdgeStartup, reload_of, settings, take_over};
use weir_agent_core::run as agent;
use weir_config::Config;
use weir_hub::hooks::AGENT_HOOKS;
use weir_hub::{check_outputs, notices, up};
use weir_process::failure::Failure;
use weir_process::own_memory::{FreedMemory, start_lean};
use weir_process::privacy::keep_private;
use weir_process::{log, own_limits, terminal};

pub use cli::Cli;
use cli::Command;
use edge::args::EdgeArgs;
use hub::args::UpArgs;
use wire::args::WireArgs;

/// Runs the command that was given; the exit code when it ends well.
///
/// # Errors
/// Why it ended early.
pub fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let startup = |args: Option<&EdgeArgs>| edge_startup(cli.config.clone(), args);
    protect_files(&cli.command);
    let load = || {
        let config = Config::of_process(cli.config.as_deref(), cli.log_level.as_ref())?;
        check_outputs(&config.values)?;
        notices::refuse(&config.values)?;
        Ok::<_, Failure>(config)
    };
    match cli.command {
        Command::Up(args) => serve_host(&args, load()?, &startup(None))?,
        Command::Hub(args) => {
            let mut config = load()?;
            config.apply_serve(&args.serve);
            config.apply_agents(args.agents.as_ref());
            config.apply_cluster(args.cluster.as_ref());
            log::start(&config.values.log.level)?;
            if let Some(action) = &args.action {
                config.apply_data(action.data());
                hub::run(&config.values, action)?;
            } else {
                start_lean(FreedMemory::Kept);
                up::run(&config, false, &startup(None))?;
            }
        }
        Command::Agent(args) => agent::command(&args, load()?, &startup(None), AGENT_HOOKS)?,
        Command::Edge(args) => return serve_edge(&args, load()?, &startup(Some(&args))),
        Command::Haproxy(args) => haproxy::run(&args, &load()?.values.haproxy.sockets)?,
        Command::Doctor(args) => {
            log::start(cli.log_level.as_deref().unwrap_or("error"))?;
            return doctor::run(&args);
        }
        Command::Parse(args) => parse::run(&args, &load()?)?,
        Command::Query(args) => query::run(&args)?,
        Command::Compare(args) => compare::run(&args)?,
        Command::Audit(args) => return audit::run(&args, &load()?.values),
        Command::Tables(args) => show::tables(args.name.as_deref())?,
        Command::Rules(args) => rules::run(&args)?,
        Command::Store(args) => {
            return store::run(&with_data(load()?, args.action.data()).values, &args.action);
        }
        Command::Backup(args) => {
            return back_up(&args, &with_data(load()?, args.dir()), cli.log_level.as_deref());
        }
        Command::Bench(args) => return bench::run(&load()?.values, &args),
        Command::Restore(args) => {
            backup::bring_back(&with_data(load()?, args.dir()).values, &args)?
        }
        Command::Slo(args) => slo::run(&args.action)?,
        Command::Thresholds(args) => thresholds::run(&args)?,
        Command::Findings(args) => findings::run(&args)?,
        Command::Incidents(args) => incidents::run(&args)?,
        Command::Notify(args) => {
            log::start(cli.log_level.as_deref().unwrap_or("error"))?;
            notify::run(&args.action, cli.config.as_deref())?;
        }
        Command::Check(args) => return check::run(&args.action, &load()?.values),
        Command::Oncall(args) => oncall::run(&args)?,
        Command::Heal(args) => heal::run(&args)?,
        Command::Tune(args) => return tune_host(&args, load),
        Command::Drill(args) => return drill::run(&args),
        Command::Wire(args) => captured(&args)?,
        Command::Capture(args) => capture::run(&args)?,
        Command::Config(args) => show::config(&load()?, args.format),
        Command::Completions(args) => show::completions(args.shell, &mut Cli::command()),
        Command::Version => terminal::say(&format!("weir {}", env!("CARGO_PKG_VERSION"))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Proposes settings, or tries one.
fn tune_host(
    args: &tune::args::TuneArgs,
    load: impl FnOnce() -> Result<Config, Failure>,
) -> Result<ExitCode, Failure> {
    if args.trial.wish.is_some() {
        return tune::trial::run(args, &load()?.values);
    }
    tune::run(args)?;
    Ok(ExitCode::SUCCESS)
}

/// Keeps what the command writes from other accounts.
fn protect_files(command: &Command) {
    // Programs that a drill starts as other accounts read files that it writes.
    if !matches!(command, Command::Drill(_)) {
        keep_private();
    }
}

fn edge_startup(config: Option<PathBuf>, args: Option<&EdgeArgs>) -> EdgeStartup {
    let flags = args.map(|args| args.flags.clone());
    let is_edge = flags.is_some();
    EdgeStartup::new(reload_of(config, flags), is_edge)
}

fn with_data(mut config: Config, data: Option<&PathBuf>) -> Config {
    config.apply_data(data);
    config
}

fn serve_edge(
    args: &EdgeArgs,
    mut config: Config,
    startup: &EdgeStartup,
) -> Result<ExitCode, Failure> {
    if let Some(action) = &args.action {
        return edge::run(action, &mut config);
    }
    config.apply_edge(&args.flags);
    log::start(&config.values.log.level)?;
    if args.dry_run {
        return edge::dry_run(args, &config, |file| Config::of_process(Some(file), None));
    }
    settings(&config.values)?;
    start_lean(FreedMemory::Kept);
    if args.replace {
        own_limits::raise_open_files();
        take_over(startup, &config.values)?;
    }
    if args.flags.hub.is_empty() {
        up::run(&config, false, startup)?;
    } else {
        let role = agent::AgentRole { is_watching: false, is_insecure: false, hooks: AGENT_HOOKS };
        agent::run(&config, None, role, startup)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn serve_host(args: &UpArgs, mut config: Config, startup: &EdgeStartup) -> Result<(), Failure> {
    config.apply_serve(&args.serve);
    config.apply_watch(&args.watch);
    log::start(&config.values.log.level)?;
    start_lean(FreedMemory::Kept);
    up::run(&config, true, startup)
}

fn captured(args: &WireArgs) -> Result<(), Failure> {
    match args.compat.compat {
        Some(_) => wire::compat::run(&args.compat, &args.files),
        None => wire::run(&args.model, &args.files),
    }
}

fn back_up(
    args: &backup::BackupArgs,
    config: &Config,
    log_level: Option<&str>,
) -> Result<ExitCode, Failure> {
    log::start(log_level.unwrap_or("warn"))?;
    backup::run(&config.values, args)
}
