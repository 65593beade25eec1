//! `cargo xtask bench NAME|all`: builds weir and the benchmark program, and runs one benchmark.
//!
//! The benchmarks themselves are in the crate `weir-bench` (`bench/`).

use std::process::ExitCode;

use xshell::{Shell, cmd};

use crate::{Result, run, setup, target_dir};

/// Runs the fault lab: `weir-bench lab`.
pub(crate) fn lab(shell: &Shell, args: &[String]) -> Result<ExitCode> {
    setup::ensure(shell, setup::FOR_LAB)?;
    let args: Vec<String> = std::iter::once("lab".to_owned()).chain(args.iter().cloned()).collect();
    bench(shell, &args)
}

/// Runs `weir-bench` with the arguments; `--release` measures the release build instead of the one `run` uses.
pub(crate) fn bench(shell: &Shell, args: &[String]) -> Result<ExitCode> {
    let is_release = args.iter().any(|arg| arg == "--release");
    let passed_on: Vec<&String> = args.iter().filter(|arg| *arg != "--release").collect();
    if passed_on.first().is_some_and(|name| ["wire", "all"].contains(&name.as_str())) {
        setup::ensure(shell, setup::FOR_WIRE_BENCH)?;
    }
    if passed_on.first().is_some_and(|name| ["live", "all"].contains(&name.as_str())) {
        setup::ensure(shell, setup::FOR_LIVE_BENCH)?;
    }
    if passed_on.first().is_some_and(|name| ["edge", "all"].contains(&name.as_str())) {
        setup::ensure(shell, setup::FOR_EDGE_BENCH)?;
    }
    if passed_on.first().is_some_and(|name| ["notify", "all"].contains(&name.as_str())) {
        setup::ensure(shell, setup::FOR_NOTIFY_BENCH)?;
    }
    if passed_on.first().is_some_and(|name| *name == "cluster") {
        setup::ensure(shell, setup::FOR_CLUSTER_BENCH)?;
    }
    let weir = run::build(shell, is_release)?;
    let release = is_release.then_some("--release");
    cmd!(
        shell,
        "cargo build --quiet --locked --workspace --bin weir-bench --test tidy {release...}"
    )
    .run()?;
    let program =
        target_dir()?.join(if is_release { "release" } else { "debug" }).join("weir-bench");
    let benchmark = cmd!(shell, "{program} {passed_on...}").env("WEIR_BIN", weir);
    // The benchmark itself reports what failed.
    let status = std::process::Command::from(benchmark).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
