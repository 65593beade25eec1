//! The program weir: one binary with every command. What it does is in `weir_cli` and the crates below it.

use std::process::ExitCode;

use clap::Parser;
use weir_cli::Cli;
use weir_process::failure::EXIT_USAGE;
use weir_process::terminal;

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
    match weir_cli::run(cli) {
        Ok(code) => code,
        Err(failure) => {
            terminal::complain(&format!("error: {failure}"));
            failure.exit_code().into()
        }
    }
}
