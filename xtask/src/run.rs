//! `cargo xtask run`: builds weir and becomes `weir up`.
//!
//! The xtask process is replaced (exec), so Ctrl-C and signals go to weir itself.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use xshell::{Shell, cmd};

use crate::{Result, setup, target_dir};

/// Builds, then execs `weir up`; returns only when that fails.
pub(crate) fn run(shell: &Shell, args: &[String]) -> Result<ExitCode> {
    let is_release = args.iter().any(|arg| arg == "--release");
    let passed_on = args.iter().filter(|arg| !matches!(arg.as_str(), "--release" | "--"));
    let weir = build(shell, is_release)?;
    println!("starting `weir up`; Ctrl-C ends it");
    let error = Command::new(&weir).arg("up").args(passed_on).exec();
    Err(format!("cannot run `{}`: {error}", weir.display()).into())
}

/// Builds the program weir and returns its path.
pub(crate) fn build(shell: &Shell, is_release: bool) -> Result<PathBuf> {
    setup::ensure(shell, &[setup::C_COMPILER])?;
    let weir = target_dir()?.join(if is_release { "release" } else { "debug" }).join("weir");
    if !weir.exists() {
        let minutes = if is_release { "45" } else { "10" };
        println!("building weir; the first time takes about {minutes} minutes on two cores");
    }
    // `--workspace` and any test, so that features resolve as in `cargo test --workspace`: tests switch on features of
    // shared crates, and another set of features means to compile DataFusion once more.
    let (release, quiet) = (is_release.then_some("--release"), weir.exists().then_some("--quiet"));
    cmd!(shell, "cargo build {quiet...} --locked --workspace --bin weir --test tidy {release...}")
        .run()?;
    Ok(weir)
}
