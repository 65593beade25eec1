//! What `cargo metadata` says: which crate may depend on which, who may name heavy crates, versions, licences, sources.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{no_breach, output, text};

/// Crates of the workspace that each crate may depend on: arrows point down. `weir-tables` is allowed everywhere, so a
/// crate without a row may depend on nothing else.
const EDGES: &[(&str, &[&str])] = &[
    ("weir-collect", &["weir-access", "weir-discover", "weir-multiline"]),
    ("weir-discover", &["weir-access"]),
    ("weir-edge", &["weir-proxy-header", "weir-resolver"]),
    ("weir-intake", &["weir-parse", "weir-plugin"]),
    ("weir-parse", &["weir-values"]),
    ("weir-pg", &["weir-dialect"]),
    ("weir-probe", &["weir-access", "weir-collect", "weir-plugin", "weir-resolver"]),
    ("weir-tier", &["weir-datafile"]),
    ("weir-semantics", &["weir-dialect"]),
    ("weir-functions", &["weir-datafile"]),
    (
        "weir-sql",
        &["weir-datafile", "weir-dialect", "weir-functions", "weir-semantics", "weir-tier"],
    ),
    ("weir-store", &["weir-datafile", "weir-ledger", "weir-sql", "weir-tier"]),
    ("weir-notify", &["weir-actions", "weir-ledger"]),
    ("weir-wire", &["weir-capture", "weir-hpack", "weir-tls-records"]),
    ("weir-config", &["weir-collect", "weir-probe", "weir-process"]),
    ("weir-agent-core", AGENT),
    ("weir-hub", HUB),
    ("weir-cli", CLI),
    ("weir-agent", &["weir-agent-core", "weir-config", "weir-process"]),
];

const AGENT: &[&str] = &[
    "weir-access",
    "weir-act",
    "weir-collect",
    "weir-config",
    "weir-ebpf",
    "weir-edge",
    "weir-link",
    "weir-parse",
    "weir-probe",
    "weir-process",
    "weir-wire",
];

const HUB: &[&str] = &[
    "weir-act",
    "weir-actions",
    "weir-agent-core",
    "weir-collect",
    "weir-config",
    "weir-edge",
    "weir-haproxy",
    "weir-intake",
    "weir-ledger",
    "weir-link",
    "weir-notify",
    "weir-outputs",
    "weir-parse",
    "weir-pg",
    "weir-process",
    "weir-rules",
    "weir-store",
    "weir-wire",
];

const CLI: &[&str] = &[
    "weir-agent-core",
    "weir-collect",
    "weir-config",
    "weir-drill",
    "weir-edge",
    "weir-haproxy",
    "weir-hub",
    "weir-link",
    "weir-parse",
    "weir-probe",
    "weir-process",
    "weir-rules",
    "weir-store",
    "weir-wire",
];

/// Programs, tests and benchmarks may use any crate.
const WIRING: &[&str] = &["weir", "weir-bench", "xtask"];

/// Heavy crates and those that alone may name them, also for tests.
const HEAVY: &[(&str, &[&str])] = &[
    ("datafusion", &["weir-functions", "weir-semantics", "weir-sql"]),
    ("datafusion-distributed", &["weir-sql"]),
    ("datafusion-proto", &["weir-sql"]),
    // The tier keeps footers of remote files; a test of the store reads what it wrote.
    ("parquet", &["weir-datafile", "weir-sql", "weir-store", "weir-tier"]),
    ("object_store", &["weir-sql", "weir-tier"]),
    ("lettre", &["weir-notify"]),
    ("minijinja", &["weir-notify"]),
    ("rusqlite", &["weir-ledger", "weir-store"]),
    ("postgres", &["weir-store"]),
    ("tokio-postgres-rustls", &["weir-store"]),
    ("tonic", &["weir-sql"]),
    ("rskafka", &["weir-outputs"]),
    ("hyper", &["weir-edge"]),
    ("h2", &["weir-edge"]),
    ("aya", &["weir-ebpf"]),
];

/// Heavy crates that others may name: a benchmark that measures one as a peer, the API, which hands a connection over, and
/// the edge's control socket, which is HTTP.
const PEERS: &[(&str, &str)] =
    &[("hyper", "weir-bench"), ("hyper", "weir-hub"), ("hyper", "weir-agent-core")];

/// Two versions of these would give types that do not fit each other.
const ONE_VERSION: &[&str] = &[
    "arrow",
    "arrow-array",
    "arrow-schema",
    "arrow-ipc",
    "parquet",
    "datafusion",
    "object_store",
    "rusqlite",
    "sqlparser",
    "tokio",
];

/// Packages of an agent, weir's own among them.
const AGENT_PACKAGES_MAX: usize = 180;

const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    // BSD without the clause on notices; quoted_printable of lettre.
    "0BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "MPL-2.0",
    "Unicode-3.0",
    // Only tiny-keccak, a part of a proc macro that arrow's ahash runs at build time; nothing of it is in weir.
    "CC0-1.0",
];

fn metadata() -> Value {
    let platform = "x86_64-unknown-linux-gnu";
    let args = ["metadata", "--format-version", "1", "--locked", "--filter-platform", platform];
    serde_json::from_str(&output(env!("CARGO"), &args)).expect("cargo metadata prints JSON")
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn name(value: &Value) -> &str {
    value["name"].as_str().expect("packages and dependencies have names")
}

/// Packages of the workspace have no source.
fn members(metadata: &Value) -> impl Iterator<Item = &Value> {
    items(metadata, "packages").iter().filter(|package| package["source"].is_null())
}

#[test]
fn crates_depend_only_on_those_below_them() {
    let metadata = metadata();
    let mut breaches = Vec::new();
    for package in members(&metadata).filter(|package| !WIRING.contains(&name(package))) {
        let row = EDGES.iter().find(|(from, _)| *from == name(package));
        let allowed = row.map_or(&[][..], |(_, below)| below);
        for dependency in items(package, "dependencies").iter().map(name) {
            let is_ours = dependency.starts_with("weir") && dependency != "weir-tables";
            if is_ours && !allowed.contains(&dependency) {
                breaches.push(format!(
                    "{}: depends on {dependency}, which is not in its row of `EDGES`",
                    name(package)
                ));
            }
        }
    }
    no_breach(&breaches);
}

#[test]
fn heavy_crates_are_named_by_their_owners_only() {
    let metadata = metadata();
    let mut breaches = Vec::new();
    for package in members(&metadata) {
        for dependency in items(package, "dependencies").iter().map(name) {
            let owners = HEAVY.iter().find(|(heavy, _)| *heavy == dependency);
            let is_peer = PEERS.contains(&(dependency, name(package)));
            if let Some((_, owners)) = owners.filter(|(_, owners)| !owners.contains(&name(package)))
                && !is_peer
            {
                breaches.push(format!(
                    "{}: names {dependency}, which belongs to {}",
                    name(package),
                    owners.join(", ")
                ));
            }
        }
    }
    no_breach(&breaches);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let metadata = metadata();
    let without = members(&metadata)
        .map(|package: &Value| {
            package["manifest_path"].as_str().map(str::to_owned).expect("members have one")
        })
        .filter(|path| !text(path).contains("[lints]\nworkspace = true"));
    no_breach(
        &without
            .map(|path| format!("{path}: add `[lints]` `workspace = true`"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn an_agent_stays_small() {
    let platform = "x86_64-unknown-linux-gnu";
    let args = ["tree", "-p", "weir-agent", "-e", "normal", "--prefix", "none", "--locked"];
    let tree = output(env!("CARGO"), &[&args[..], &["--target", platform]].concat());
    let packages: BTreeSet<_> = tree
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>())
        .filter(|words| words.len() == 2)
        .collect();
    assert!(
        packages.len() <= AGENT_PACKAGES_MAX,
        "weir-agent needs {} packages, more than {AGENT_PACKAGES_MAX}: `cargo tree -p weir-agent -e normal` has them",
        packages.len()
    );
}

/// Versions of each package in a lock file.
fn locked(path: &str) -> BTreeMap<String, Vec<String>> {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let lock = text(path);
    let mut name = "";
    for line in lock.lines().skip_while(|line| *line != "[[package]]") {
        if let Some(value) = line.strip_prefix("name = ") {
            name = value.trim_matches('"');
        } else if let Some(version) = line.strip_prefix("version = ") {
            versions.entry(name.to_owned()).or_default().push(version.trim_matches('"').to_owned());
        }
    }
    versions
}

#[test]
fn shared_crates_are_locked_in_one_version() {
    let versions = locked("Cargo.lock");
    let several = ONE_VERSION
        .iter()
        .filter_map(|name| versions.get(*name).filter(|all| all.len() > 1).map(|all| (name, all)));
    no_breach(
        &several
            .map(|(name, all)| format!("Cargo.lock: {name} in versions {all:?}"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn fuzz_targets_are_locked_to_the_versions_of_the_root() {
    let root = locked("Cargo.lock");
    let mut breaches = Vec::new();
    for (name, versions) in locked("fuzz/Cargo.lock") {
        let Some(known) = root.get(&name) else { continue };
        for version in versions.iter().filter(|version| !known.contains(version)) {
            breaches.push(format!(
                "fuzz/Cargo.lock: {name} {version}, the root has {known:?}; fuzz/README.md has how"
            ));
        }
    }
    no_breach(&breaches);
}

#[test]
fn every_dependency_comes_from_crates_io() {
    let lock = text("Cargo.lock") + &text("fuzz/Cargo.lock");
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let other = sources
        .filter(|source| *source != "\"registry+https://github.com/rust-lang/crates.io-index\"");
    no_breach(&other.map(|source| format!("Cargo.lock: source {source}")).collect::<Vec<_>>());
}

#[test]
fn every_licence_is_allowed() {
    let metadata = metadata();
    let mut breaches = Vec::new();
    for package in items(&metadata, "packages") {
        let licence = package["license"].as_str().unwrap_or("none");
        if !is_allowed(licence) {
            breaches.push(format!("{}: licence `{licence}` is not on the list", name(package)));
        }
    }
    no_breach(&breaches);
}

/// Evaluates an SPDX expression: of alternatives one must be allowed, of parts joined by AND all.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.trim();
    let licence = LicenceExpression(expression);
    if let alternatives @ [_, _, ..] = licence.split(" OR ").as_slice() {
        alternatives.iter().copied().any(is_allowed)
    } else if let alternatives @ [_, _, ..] = licence.split("/").as_slice() {
        alternatives.iter().copied().any(is_allowed)
    } else if let parts @ [_, _, ..] = licence.split(" AND ").as_slice() {
        parts.iter().copied().all(is_allowed)
    } else if let Some(inner) = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
    {
        is_allowed(inner)
    } else {
        LICENCES.contains(&expression)
    }
}

struct LicenceExpression<'a>(&'a str);

impl<'a> LicenceExpression<'a> {
    /// Parts of the expression between `word`, where that is outside of parentheses.
    fn split(&self, word: &str) -> Vec<&'a str> {
        let text = self.0;
        let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
        for (at, letter) in text.char_indices() {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            if depth == 0 && at >= start && text[at..].starts_with(word) {
                parts.push(&text[start..at]);
                start = at + word.len();
            }
        }
        parts.push(&text[start..]);
        parts
    }
}

#[test]
fn licence_expressions_are_understood() {
    assert!(is_allowed("MIT/Apache-2.0"));
    assert!(is_allowed("(MIT OR GPL-3.0) AND Unicode-3.0"));
    assert!(is_allowed("GPL-2.0 OR (MIT AND ISC)"));
    assert!(!is_allowed("MIT AND GPL-3.0"));
    assert!(!is_allowed("none"));
}
