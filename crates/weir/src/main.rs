//! weir: wires the rooms into one program. Commands are in `cli`; each command has a module of its name.
//!
//! Nothing below this crate asks for the time or prints; nothing above it exists.

mod agent;
mod ask;
mod audit;
mod backup_command;
mod bench_store;
mod capture;
mod cells;
mod cli;
mod client;
mod clock;
mod cluster;
mod compare;
mod config;
mod doctor;
mod drill;
mod edge;
mod explain;
mod failure;
mod findings_command;
mod fleet;
mod greeting;
mod haproxy;
mod instant;
mod intake;
mod judge;
mod local;
mod memory_cap;
mod meter;
mod nearest;
mod outputs;
mod own_limits;
mod own_memory;
mod parcel_link;
mod parse_command;
mod parsers;
mod port_owner;
mod precision;
mod remote;
mod replay_command;
mod rules_command;
mod scheduling;
mod server;
mod service;
mod show;
mod signals;
mod slow_query;
mod slow_tier;
mod span;
mod store_command;
mod terminal;
mod thresholds;
mod time_zone;
mod trial;
mod tune;
mod up;
mod watch;
mod wire;
mod wire_compat;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Parser;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use cli::{AgentAction, Cli, Command};
use config::Config;
use failure::{EXIT_CONFIG, EXIT_USAGE, Failure};
use own_memory::{Freed, start_lean};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { EXIT_USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    match run(cli) {
        Ok(code) => code,
        Err(failure) => {
            terminal::complain(&format!("error: {failure}"));
            failure.exit_code().into()
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let startup = |args: Option<cli::EdgeArgs>| {
        let is_edge = args.is_some();
        edge::Startup::new(edge::reload_of(load, cli.config.clone(), args), is_edge)
    };
    let load = || load(cli.config.as_deref(), cli.log_level.as_ref());
    let on = |data: Option<&PathBuf>| {
        load().map(|mut config| {
            config.apply_data(data);
            config
        })
    };
    match cli.command {
        Command::Up(args) => {
            let mut config = load()?;
            config.apply_serve(&args.serve);
            config.apply_watch(&args.watch);
            start_log(&config.values.log.level)?;
            start_lean(Freed::Kept);
            up::run(&config, true, &startup(None))?;
        }
        Command::Hub(args) => {
            let mut config = load()?;
            config.apply_serve(&args.serve);
            config.apply_agents(args.agents.as_ref());
            config.apply_cluster(args.cluster.as_ref());
            start_log(&config.values.log.level)?;
            if let Some(action) = &args.action {
                config.apply_data(action.data());
                fleet::command::hub(&config.values, action)?;
            } else {
                start_lean(Freed::Kept);
                up::run(&config, false, &startup(None))?;
            }
        }
        Command::Agent(args) => run_agent(&args, load()?, &startup(None))?,
        Command::Edge(args) => return serve_edge(&args, load()?, &startup(Some(args.clone()))),
        Command::Haproxy(args) => haproxy::run(&args, &load()?.values.haproxy.sockets)?,
        Command::Doctor(args) => {
            start_log(cli.log_level.as_deref().unwrap_or("error"))?;
            return doctor::run(&args);
        }
        Command::Parse(args) => parse_command::run(&args, &load()?)?,
        Command::Query(args) => ask::run(&args)?,
        Command::Compare(args) => compare::run(&args)?,
        Command::Audit(args) => return audit::run(&args, &load()?.values),
        Command::Tables(args) => show::tables(args.name.as_deref())?,
        Command::Rules(args) => rules_command::run(&args)?,
        Command::Store(args) => {
            return store_command::run(&on(args.action.data())?.values, &args.action);
        }
        Command::Backup(args) => return back_up(&args, &on(args.dir())?, cli.log_level.as_deref()),
        Command::Bench(args) => return bench_store::run(&load()?.values, &args),
        Command::Restore(args) => backup_command::bring_back(&on(args.dir())?.values, &args)?,
        Command::Thresholds(args) => thresholds::command::run(&args)?,
        Command::Findings(args) => findings_command::run(&args)?,
        Command::Tune(args) if args.trial.wish.is_some() => {
            return trial::run(&args, &load()?.values);
        }
        Command::Tune(args) => tune::run(&args)?,
        Command::Drill(args) => return drill::run(&args),
        Command::Wire(args) => captured(&args)?,
        Command::Capture(args) => capture::run(&args)?,
        Command::Config(args) => show::config(&load()?, args.format),
        Command::Completions(args) => show::completions(args.shell),
        Command::Version => terminal::say(&format!("weir {}", env!("CARGO_PKG_VERSION"))),
    }
    Ok(ExitCode::SUCCESS)
}

fn run_agent(
    args: &cli::AgentArgs,
    mut config: Config,
    startup: &edge::Startup,
) -> Result<(), Failure> {
    config.apply_hubs(&args.hub);
    config.apply_watch(&args.watch);
    start_log(&config.values.log.level)?;
    if let Some(AgentAction::Join { token, host }) = &args.action {
        if let Some(flag) = args.flag_of_watching() {
            let what = format!("`weir agent join` has no flag `{flag}`");
            return Err(Failure::new(what)
                .hint("weir agent join TOKEN [--host NAME]")
                .code(EXIT_USAGE));
        }
        config.apply_host(host.as_ref());
        return fleet::command::join(&config.values, token);
    }
    start_lean(Freed::Returned);
    let role = agent::Role { is_watching: true, is_insecure: args.insecure };
    agent::run(&config, args.join.as_deref(), role, startup)
}

fn serve_edge(
    args: &cli::EdgeArgs,
    mut config: Config,
    startup: &edge::Startup,
) -> Result<ExitCode, Failure> {
    if let Some(action) = &args.action {
        return edge::command(action, &mut config);
    }
    config.apply_edge(args);
    start_log(&config.values.log.level)?;
    if args.dry_run {
        return edge::dry_run(args, &config, |file| load(Some(file), None));
    }
    edge::settings(&config.values)?;
    start_lean(Freed::Kept);
    if args.replace {
        own_limits::raise_open_files();
        edge::take_over(startup, &config.values)?;
    }
    if args.hub.is_empty() {
        up::run(&config, false, startup)?;
    } else {
        let role = agent::Role { is_watching: false, is_insecure: false };
        agent::run(&config, None, role, startup)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn captured(args: &cli::WireArgs) -> Result<(), Failure> {
    match args.compat.compat {
        Some(_) => wire_compat::run(&args.compat, &args.files),
        None => wire::run(&args.model, &args.files),
    }
}

fn back_up(
    args: &backup_command::BackupArgs,
    config: &Config,
    log_level: Option<&str>,
) -> Result<ExitCode, Failure> {
    start_log(log_level.unwrap_or("warn"))?;
    backup_command::run(&config.values, args)
}

fn load(file: Option<&std::path::Path>, log_level: Option<&String>) -> Result<Config, Failure> {
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let mut config = Config::load(file, &environment)?;
    config.apply_log_level(log_level);
    Ok(config)
}

/// What weir says about itself goes to stderr, one line an event.
fn start_log(level: &str) -> Result<(), Failure> {
    let level = LevelFilter::from_str(level).map_err(|_| {
        Failure::new(format!("cannot log at level `{level}`: it is not a level"))
            .hint("error, warn, info, debug or trace")
            .code(EXIT_CONFIG)
    })?;
    let is_colourful = std::io::IsTerminal::is_terminal(&std::io::stderr())
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // What Kafka's client goes through is told as the output's own failure, unless somebody looks closely.
    let kafka = if level >= LevelFilter::DEBUG { level } else { level.min(LevelFilter::ERROR) };
    let targets = Targets::new().with_default(level).with_target("rskafka", kafka);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(is_colourful)
        .with_target(false);
    tracing_subscriber::registry().with(lines).with(targets).init();
    Ok(())
}
