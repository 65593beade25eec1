//! What a benchmark needs besides weir, checked before it starts: programs, root, the repository.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};

/// Directory for the pages, below the root of the repository.
pub(crate) const PAGES: &str = "docs/bench/history";

/// Programs of the benchmarks, and the Debian package that has each.
const PACKAGES: &[(&str, &str)] = &[
    ("git", "git"),
    ("h2load", "nghttp2-client"),
    ("haproxy", "haproxy"),
    ("ip", "iproute2"),
    ("nginx", "nginx"),
    ("openssl", "openssl"),
    ("prometheus-alertmanager", "prometheus-alertmanager"),
    ("psql", "postgresql-client"),
    ("setpriv", "util-linux"),
    ("taskset", "util-linux"),
    ("tcpdump", "tcpdump"),
    ("tcptrace", "tcptrace"),
    ("tshark", "tshark"),
    ("wrk", "wrk"),
];

/// Names the programs that the benchmark called `name` lacks.
pub(crate) fn programs(name: &str, programs: &[&str]) -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let is_missing = |program: &&&str| !dirs.iter().any(|dir| dir.join(program).is_file());
    let missing: Vec<&str> = programs.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.iter().map(|program| {
        PACKAGES.iter().find(|(known, _)| known == program).map_or(*program, |(_, package)| package)
    });
    bail!(
        "cannot run the benchmark `{name}`: {} not found\nhint: apt-get install {}, or `cargo xtask setup`",
        missing.join(", "),
        packages.collect::<Vec<_>>().join(" ")
    )
}

/// Refuses a benchmark that needs root.
pub(crate) fn root(name: &str) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "cannot run the benchmark `{name}`: it needs root for network namespaces\nhint: run it with sudo"
    );
    Ok(())
}

/// Refuses a directory without the pages, before anything is measured.
pub(crate) fn repository() -> anyhow::Result<()> {
    ensure!(
        Path::new(PAGES).is_dir(),
        "cannot find the directory `{PAGES}`\nhint: run benchmarks in the root of the repository"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::programs;

    #[test]
    fn missing_programs_are_named_with_their_packages() {
        assert!(programs("ingest", &["sh"]).is_ok());
        let error = programs("edge", &["sh", "no-such-program"]).unwrap_err().to_string();
        assert!(error.contains("benchmark `edge`: no-such-program not found"), "{error}");
        assert!(error.contains("hint: apt-get install no-such-program"), "{error}");
    }
}
