//! weir: wires the rooms into one program. Commands are in `cli`; each command has a module of its name.
//!
//! Nothing below this crate asks for the time or prints; nothing above it exists.

mod cli;
mod clock;
mod config;
mod failure;
mod nearest;
mod show;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use config::Config;
use failure::{EXIT_USAGE, Failure};

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
    let load = || -> Result<Config, Failure> {
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let mut config = Config::load(cli.config.as_deref(), &environment)?;
        config.apply_log_level(cli.log_level.as_ref());
        Ok(config)
    };
    match cli.command {
        Command::Config(args) => show::config(&load()?, args.format),
        Command::Tables(args) => show::tables(args.name.as_deref())?,
        Command::Completions(args) => show::completions(args.shell),
        Command::Version => terminal::say(&format!("weir {}", env!("CARGO_PKG_VERSION"))),
        _ => return Err(Failure::new("cannot do this yet")),
    }
    Ok(ExitCode::SUCCESS)
}
