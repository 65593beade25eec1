//! `cargo xtask test`: everything that CI runs, in the same order, cheapest first; or a part of it.
//!
//! With `CI` set nothing may be skipped: tests that would pass over a missing program or missing rights fail.

use std::process::{Command, ExitCode};
use std::time::Instant;

use xshell::{Shell, cmd};

use crate::count::Counts;
use crate::scope::Scope;
use crate::{Result, run, setup};

/// One step: its name, and what it does; false means that it failed.
type Step = (&'static str, fn(&Shell, &Scope, &mut Counts) -> Result<bool>);

/// Tests of a machine without KVM: rules of time windows judge it, so no other test takes its CPU.
const ALONE: &str = "md_arrays::";

const STEPS: &[Step] = &[
    ("fmt", |shell, _, _| {
        let fuzz = cmd!(shell, "cargo fmt --manifest-path fuzz/Cargo.toml --check");
        Ok(cmd!(shell, "cargo fmt --all --check").run().is_ok() & fuzz.run().is_ok())
    }),
    ("tidy", |shell, _, counts| {
        let tidy = cmd!(shell, "cargo test --locked --workspace --bin xtask --test tidy --quiet");
        counts.run(tidy.into())
    }),
    ("spelling", |shell, _, _| {
        let typos = setup::typos(shell)?;
        Ok(cmd!(shell, "{typos} --format brief").run().is_ok())
    }),
    ("deny", |shell, scope, _| {
        if !matches!(scope, Scope::Whole) {
            return Ok(true);
        }
        let deny = setup::cargo_deny(shell)?;
        // Advisories need the internet: they are for a scheduled run.
        let check = cmd!(shell, "{deny} --locked --log-level error check licenses bans sources");
        Ok(check.run().is_ok())
    }),
    ("clippy", clippy),
    ("docs", docs),
    ("tests", |shell, scope, counts| {
        let Some(packages) = scope.packages() else { return Ok(true) };
        // Integration tests start real servers: too slow for the fast lane.
        let targets: &[&str] =
            if matches!(scope, Scope::Fast(_)) { &["--lib", "--bins"] } else { &[] };
        // Tests of whole programs mostly wait for them.
        let threads = (std::thread::available_parallelism()?.get() + 1).to_string();
        let test = cmd!(
            shell,
            "cargo test --locked {packages...} {targets...} --no-fail-fast -- --show-output --test-threads {threads} --skip {ALONE}"
        );
        counts.run(test.into())
    }),
    ("arrays", |shell, scope, counts| {
        if !matches!(scope, Scope::Whole) {
            return Ok(true);
        }
        let test = cmd!(
            shell,
            "cargo test --locked --workspace --test it --example random_io -- {ALONE} --show-output"
        );
        counts.run(test.into())
    }),
    ("ebpf", |shell, scope, counts| {
        if !scope.covers("crates/ebpf/") {
            return Ok(true);
        }
        // The features of all others stay as they are, so that little is compiled again.
        let common = ["--locked", "--workspace", "--features"];
        let lint = cmd!(
            shell,
            "cargo clippy {common...} weir/ebpf --bin weir --test kernel --example count_cost --quiet -- --deny warnings"
        );
        let test =
            cmd!(shell, "cargo test {common...} weir-ebpf/kernel --test kernel -- --show-output");
        Ok(lint.run().is_ok() & counts.run(test.into())?)
    }),
    ("rules", |shell, scope, counts| {
        if !scope.covers("rules/") && !scope.covers("crates/rules/") {
            return Ok(true);
        }
        let weir = run::build(shell, false)?;
        let mut command = Command::new(weir);
        command.args(["rules", "test", "rules"]).current_dir(shell.current_dir());
        counts.run(command)
    }),
    ("ui", |shell, scope, counts| {
        if !scope.covers("ui/") {
            return Ok(true);
        }
        let weir = run::build(shell, false)?;
        // Without a path node finds the tests in every version; some take a directory for a module.
        let _dir = shell.push_dir("ui/tests");
        counts.run(cmd!(shell, "node --test --test-reporter=tap").env("WEIR_BIN", weir).into())
    }),
];

fn clippy(shell: &Shell, scope: &Scope, _: &mut Counts) -> Result<bool> {
    let Some(packages) = scope.packages() else { return Ok(true) };
    if !matches!(scope, Scope::Whole) {
        let lint = cmd!(
            shell,
            "cargo clippy --locked {packages...} --all-targets --quiet -- --deny warnings"
        );
        return Ok(lint.run().is_ok());
    }
    let lint =
        cmd!(shell, "cargo clippy --locked --workspace --all-targets --quiet -- --deny warnings");
    // All targets do not include it: it runs with `--long` only.
    let engines =
        cmd!(shell, "cargo clippy --locked --workspace --test engines --quiet -- --deny warnings");
    // A workspace of its own; it shares the target directory, so few dependencies compile twice.
    // Checking needs no fuzzing engine, so no compiler of C++.
    let common = ["--locked", "--no-default-features", "--quiet"];
    let fuzz =
        cmd!(shell, "cargo clippy --manifest-path fuzz/Cargo.toml {common...} -- --deny warnings");
    Ok(lint.run().is_ok() & engines.run().is_ok() & fuzz.run().is_ok())
}

/// Rustdoc of our own crates: a broken link or a malformed example fails.
fn docs(shell: &Shell, scope: &Scope, _: &mut Counts) -> Result<bool> {
    if !matches!(scope, Scope::Whole) {
        return Ok(true);
    }
    let _deny = shell.push_env("RUSTDOCFLAGS", "--deny warnings");
    Ok(cmd!(shell, "cargo doc --locked --workspace --no-deps --quiet").run().is_ok())
}

/// With `--long` only: what it runs is a gigabyte to fetch.
const ENGINES: Step = ("engines", |shell, _, counts| {
    setup::engines(shell)?;
    setup::drivers(shell)?;
    let test = cmd!(shell, "cargo test --locked --workspace --test engines -- --show-output");
    counts.run(test.into())
});

/// With `--long` only: the standard library of another processor and a cross compiler to fetch.
const AARCH64: Step = ("aarch64", |shell, _, _| {
    setup::aarch64(shell)?;
    let check = cmd!(
        shell,
        "cargo check --locked --workspace --bins --quiet --target aarch64-unknown-linux-gnu"
    );
    Ok(check.run().is_ok())
});

/// Sets up, runs every step, prints what ran and what did not.
pub(crate) fn test(shell: &Shell, args: &[String]) -> Result<ExitCode> {
    let (scope, is_long) = options(shell, args)?;
    let mut steps = STEPS.to_vec();
    if is_long {
        shell.set_var("WEIR_ROUNDS", "200");
        shell.set_var("WEIR_FUZZ_SECONDS", "60");
        steps.extend([AARCH64, ENGINES]);
    }
    let is_strict = std::env::var_os("CI").is_some();
    if is_strict {
        shell.set_var("WEIR_REQUIRE_ALL", "1");
        shell.set_var("WEIR_REQUIRE_UI", "1");
    }
    if matches!(scope, Scope::Fast(_)) {
        setup::ensure(shell, &[setup::C_COMPILER])?;
    } else {
        setup::everything(shell)?;
    }
    run_steps(shell, &steps, &scope, is_strict)
}

/// Reads `--fast`, `--since REV` and `--long`.
fn options(shell: &Shell, args: &[String]) -> Result<(Scope, bool)> {
    let usage = "hint: `cargo xtask test [--fast | --since REV] [--long]`";
    let (mut scope, mut is_long) = (Scope::Whole, false);
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--long" => is_long = true,
            "--fast" => scope = Scope::fast(shell)?,
            "--since" => {
                let revision = args.next().ok_or(format!("`--since` needs a revision\n{usage}"))?;
                scope = Scope::since(shell, revision)?;
            }
            other => return Err(format!("test has no option `{other}`\n{usage}").into()),
        }
    }
    Ok((scope, is_long))
}

fn run_steps(shell: &Shell, steps: &[Step], scope: &Scope, is_strict: bool) -> Result<ExitCode> {
    let (mut total, mut summary, mut failed_steps) = (Counts::default(), Vec::new(), Vec::new());
    for (name, step) in steps {
        println!("\n== {name}");
        let (started, failed_before) = (Instant::now(), total.failed);
        let is_ok = step(shell, scope, &mut total).unwrap_or_else(|error| {
            eprintln!("error: {error}");
            false
        });
        if !is_ok {
            failed_steps.push(*name);
            // A step that broke before it could count still counts.
            total.failed = total.failed.max(failed_before + 1);
        }
        let result = if is_ok { "ok" } else { "FAILED" };
        summary.push(format!("{name:8} {result:7} {:6.1} s", started.elapsed().as_secs_f64()));
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
    println!("\n== seconds of tests by crate");
    for (name, seconds) in total.slowest() {
        println!("{name:16} {seconds:7.1} s");
    }
    if !total.failures().is_empty() {
        println!("\n== what failed tests printed\n{}", total.failures().join("\n"));
    }
    println!("\n== summary\n{}", summary.join("\n"));
    for why in &total.skipped {
        println!("skipped: {why}");
    }
}
