//! Tidy: the rules of STYLE.md and ARCHITECTURE.md that a program can check, as ordinary tests.
//!
//! A check returns every breach as `where: what, and what to do instead`; it grows by one when a review had to say
//! something twice. Only files that git tracks or would track count.

mod cargo;
mod cycles;
mod data;
mod generated;
mod names;
mod rust;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository, as cargo reports it at run time: clones may share a build directory, so the path that was
/// compiled in can be another clone's.
fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for tests");
    Path::new(&manifest).parent().expect("xtask lies in the root").to_owned()
}

/// What a command of this repository prints.
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(root()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run `{program}`: {error}"));
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("these programs print UTF-8")
}

/// Every file of the repository: its path from the root, and its text, empty for pictures and the like.
fn files() -> Vec<(String, String)> {
    let list = output("git", &["ls-files", "--cached", "--others", "--exclude-standard"]);
    let there = list.lines().filter(|path| root().join(path).is_file());
    there.map(|path| (path.to_owned(), text(path))).collect()
}

/// The text of one file; empty when it is not UTF-8.
fn text(path: &str) -> String {
    let full: PathBuf = root().join(path);
    let bytes =
        std::fs::read(&full).unwrap_or_else(|error| panic!("cannot read `{path}`: {error}"));
    String::from_utf8(bytes).unwrap_or_default()
}

/// Fails with all breaches, one a line.
#[track_caller]
fn no_breach(breaches: &[String]) {
    assert!(breaches.is_empty(), "{} breaches\n{}\n", breaches.len(), breaches.join("\n"));
}
