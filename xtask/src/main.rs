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
mod scope;
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
  test --fast                 what needs no SQL engine: form, lints, and unit tests of the crates without it
  test --since REV            the crates that differ from a revision, and the crates that use them
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

/// Where the manifest of this program is, for when cargo does not set it.
const ROOT: &str = "XTASK_MANIFEST_DIR";

/// Starts this program again as from a shell; returns only when that fails.
///
/// `cargo run` sets variables that name the package. A cargo started from here would pass them on to build scripts that
/// read them (ring's), and compile those and their users, DataFusion included, at each change between `cargo xtask` and
/// `cargo`.
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
    cmd!(shell, "cargo test --quiet --workspace --test tidy --test docs").run()?;
    cmd!(shell, "cargo test --quiet --workspace --test tidy generated").run()?;
    Ok(ExitCode::SUCCESS)
}

/// The root of the repository, as cargo reports it at run time: clones may share a build directory, so the path that was
/// compiled in can be another clone's.
fn root() -> PathBuf {
    let manifest = [ROOT, "CARGO_MANIFEST_DIR"].into_iter().find_map(std::env::var_os);
    let manifest = manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().expect("xtask lies in the root of the workspace").to_owned()
}

/// Drops this workspace's own crates from a shared build directory when another clone built there last: cargo tells
/// clones apart by the times of files only, and would take the other one's newer build for this one's. Dependencies stay.
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

/// Where everything is built: cargo's default, so that `cargo build` and `cargo xtask` share what they compile, unless
/// `CARGO_TARGET_DIR` names another place.
fn target_dir() -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => Ok(std::path::absolute(dir)?),
        None => Ok(root().join("target")),
    }
}
