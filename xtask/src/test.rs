//! `cargo xtask test`: everything that CI runs, in the same order, cheapest first.
//!
//! With `CI` set nothing may be skipped: tests that would pass over a missing program or missing rights fail.

use std::process::{Command, ExitCode};
use std::time::Instant;

use xshell::{Shell, cmd};

use crate::count::Counts;
use crate::{Result, run, setup};

/// One step: its name, and what it does; false means that it failed.
type Step = (&'static str, fn(&Shell, &mut Counts) -> Result<bool>);

const STEPS: &[Step] = &[
    ("fmt", |shell, _| Ok(cmd!(shell, "cargo fmt --all --check").run().is_ok())),
    ("tidy", |shell, counts| {
        let tidy = cmd!(shell, "cargo test --locked --workspace --bin xtask --test tidy --quiet");
        counts.run(tidy.into())
    }),
    ("clippy", |shell, _| {
        let lint = cmd!(
            shell,
            "cargo clippy --locked --workspace --all-targets --quiet -- --deny warnings"
        );
        // Which all targets are without: it runs with `--long` only.
        let engines = cmd!(
            shell,
            "cargo clippy --locked --workspace --test engines --quiet -- --deny warnings"
        );
        Ok(lint.run().is_ok() & engines.run().is_ok())
    }),
    ("tests", |shell, counts| {
        let test = cmd!(
            shell,
            "cargo test --locked --workspace --exclude xtask --no-fail-fast -- --show-output"
        );
        counts.run(test.into())
    }),
    ("ebpf", |shell, counts| {
        // The features of all others stay as they are, so that little is compiled anew.
        let common = ["--locked", "--workspace", "--features"];
        let lint = cmd!(
            shell,
            "cargo clippy {common...} weir/ebpf --bin weir --test kernel --example count_cost --quiet -- --deny warnings"
        );
        let test =
            cmd!(shell, "cargo test {common...} weir-ebpf/kernel --test kernel -- --show-output");
        Ok(lint.run().is_ok() & counts.run(test.into())?)
    }),
    ("rules", |shell, counts| {
        let weir = run::build(shell, false)?;
        let mut command = Command::new(weir);
        command.args(["rules", "test", "rules"]).current_dir(shell.current_dir());
        counts.run(command)
    }),
    ("ui", |shell, counts| {
        let weir = run::build(shell, false)?;
        // Without a path node finds the tests in every version; some take a directory for a module.
        let _dir = shell.push_dir("ui/tests");
        counts.run(cmd!(shell, "node --test --test-reporter=tap").env("WEIR_BIN", weir).into())
    }),
];

/// With `--long` only: what it runs is a gigabyte to fetch.
const ENGINES: Step = ("engines", |shell, counts| {
    setup::engines(shell)?;
    let test = cmd!(shell, "cargo test --locked --workspace --test engines -- --show-output");
    counts.run(test.into())
});

/// Sets up, runs every step, prints what ran and what did not.
pub(crate) fn test(shell: &Shell, args: &[String]) -> Result<ExitCode> {
    let mut steps = STEPS.to_vec();
    for arg in args {
        match arg.as_str() {
            "--long" => {
                shell.set_var("WEIR_ROUNDS", "200");
                shell.set_var("WEIR_FUZZ_SECONDS", "60");
                steps.push(ENGINES);
            }
            other => {
                return Err(format!(
                    "test has no option `{other}`\nhint: `cargo xtask test [--long]`"
                )
                .into());
            }
        }
    }
    let is_strict = std::env::var_os("CI").is_some();
    if is_strict {
        shell.set_var("WEIR_REQUIRE_ALL", "1");
        shell.set_var("WEIR_REQUIRE_UI", "1");
    }
    setup::everything(shell)?;
    let (mut total, mut summary, mut failed_steps) = (Counts::default(), Vec::new(), Vec::new());
    for (name, step) in steps {
        println!("\n== {name}");
        let (started, failed_before) = (Instant::now(), total.failed);
        let is_ok = step(shell, &mut total).unwrap_or_else(|error| {
            eprintln!("error: {error}");
            false
        });
        if !is_ok {
            failed_steps.push(name);
            // A step that broke before it could count still counts.
            total.failed = total.failed.max(failed_before + 1);
        }
        let verdict = if is_ok { "ok" } else { "FAILED" };
        summary.push(format!("{name:8} {verdict:7} {:6.1} s", started.elapsed().as_secs_f64()));
    }
    report(&summary, &total);
    let is_failed = !failed_steps.is_empty() || (is_strict && !total.skipped.is_empty());
    if !failed_steps.is_empty() {
        eprintln!("error: failed: {}", failed_steps.join(", "));
    } else if is_failed {
        eprintln!("error: tests were skipped, which CI does not allow");
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(if is_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn report(summary: &[String], total: &Counts) {
    println!("\n== summary\n{}", summary.join("\n"));
    for why in &total.skipped {
        println!("skipped: {why}");
    }
}
