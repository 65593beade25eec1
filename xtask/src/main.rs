//! The project's own commands: `cargo xtask run`, `test`, `bench`, `lab` and `docs`.
//!
//! Each command sets up what it needs and the machine lacks. Only the standard library and xshell are used, so that
//! the command itself builds in seconds, before anything of weir is built.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program for developers"
)]

mod bench;
mod count;
mod run;
mod setup;
mod test;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use xshell::{Shell, cmd};

/// What goes wrong here is read by a person at once, so any error will do.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  run [--release] [ARGS…]     build weir and start `weir up ARGS…` on this host
  test [--long]               everything that CI runs, cheapest first; --long: for longer, and with Trino and Spark
  bench NAME|all [ARGS…]      one benchmark, or all; results go to docs/bench/history/
  lab [--score] [ARGS…]       real faults in namespaces of their own, and what weir makes of them
  docs                        write the generated pages under docs/ again
  setup                       install what `test` and `bench` need, and nothing else

examples:
  cargo xtask run -- --tail '/srv/app/log/*.log' --listen 127.0.0.1:8080
  cargo xtask bench ingest --events 2000000";

fn main() -> ExitCode {
    if std::env::var_os("CARGO_PKG_NAME").is_some() {
        let error = without_cargos_variables();
        eprintln!("error: cannot start again: {error}");
        return ExitCode::FAILURE;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Tells this program where its manifest is when cargo does not.
const ROOT: &str = "XTASK_MANIFEST_DIR";

/// Starts this program again as from a shell; returns only when that fails.
///
/// `cargo run` tells its program what package it is. A cargo that this program starts would pass that on to build
/// scripts that look at it (ring's), and compile them and all that needs them, DataFusion included, whenever somebody
/// changes between `cargo xtask` and `cargo`.
fn without_cargos_variables() -> std::io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1));
    if let Some(manifest) = std::env::var_os("CARGO_MANIFEST_DIR") {
        command.env(ROOT, manifest);
    }
    for (name, _) in std::env::vars_os() {
        let is_cargos = name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.starts_with(start))
        });
        if is_cargos {
            command.env_remove(name);
        }
    }
    command.exec()
}

fn dispatch(args: &[String]) -> Result<ExitCode> {
    let Some((command, rest)) = args.split_first() else {
        return Err(format!("no command given\n\n{USAGE}").into());
    };
    let shell = Shell::new()?;
    shell.change_dir(root());
    shell.set_var("CARGO_TARGET_DIR", target_dir()?);
    if ["run", "test", "bench", "lab", "docs"].contains(&command.as_str()) {
        claim_target_dir(&shell)?;
    }
    match command.as_str() {
        "run" => run::run(&shell, rest),
        "test" => test::test(&shell, rest),
        "bench" => bench::bench(&shell, rest),
        "lab" => bench::lab(&shell, rest),
        "docs" => docs(&shell),
        "setup" => setup::everything(&shell).map(|()| ExitCode::SUCCESS),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => Err(format!("no command `{other}`\n\n{USAGE}").into()),
    }
}

/// The generated pages are golden tests; told to, the tests write what they would have compared.
fn docs(shell: &Shell) -> Result<ExitCode> {
    let _expect = shell.push_env("UPDATE_EXPECT", "1");
    cmd!(shell, "cargo test --quiet --workspace --test tidy --bin weir docs").run()?;
    cmd!(shell, "cargo test --quiet --workspace --test tidy generated").run()?;
    Ok(ExitCode::SUCCESS)
}

/// The root of the repository. Asked of cargo when it runs: clones of one user share a build directory, so what was
/// compiled in may be another clone's path.
fn root() -> PathBuf {
    let manifest = [ROOT, "CARGO_MANIFEST_DIR"].into_iter().find_map(std::env::var_os);
    let manifest = manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().expect("xtask lies in the root of the workspace").to_owned()
}

/// Drops this workspace's own crates from the build directory when another clone built there last: cargo tells clones
/// apart by the times of files only, and would take the other one's newer build for this one's. Dependencies stay.
fn claim_target_dir(shell: &Shell) -> Result {
    let (dir, root) = (target_dir()?, root());
    let owner = dir.join("weir-clone");
    if std::fs::read_to_string(&owner).is_ok_and(|last| Path::new(&last) == root) {
        return Ok(());
    }
    if dir.join("debug").exists() || dir.join("release").exists() {
        cmd!(shell, "cargo clean --quiet --workspace").run()?;
    }
    std::fs::create_dir_all(&dir)?;
    std::fs::write(&owner, root.to_string_lossy().as_bytes())
        .map_err(|error| format!("cannot write `{}`: {error}", owner.display()).into())
}

/// Where everything is built: one place for all clones of this user, outside of the tree, unless told otherwise.
fn target_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()) {
        return Ok(std::path::absolute(dir)?);
    }
    let home = std::env::var_os("HOME")
        .ok_or("cannot choose a build directory: HOME is not set\nhint: set CARGO_TARGET_DIR")?;
    Ok(Path::new(&home).join(".cache/weir-target"))
}
