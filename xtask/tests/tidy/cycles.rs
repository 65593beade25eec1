//! Imports of a crate's files among each other: circles of files may have 1,000 lines at most.
//!
//! A file that uses an item of another, by `crate::`, `super::` or a sub-module's name, depends on the file in which
//! the longest part of that path ends. What a facade (`lib.rs`, `mod.rs`, or a file beside a folder of its name)
//! merely passes on with `pub use` is no dependency. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::{no_breach, rust};

const CYCLE_LINES_MAX: usize = 1_000;

/// The files of one crate: module path to file name and source.
type Modules = BTreeMap<Vec<String>, (String, String)>;

/// Modules by crate directory.
fn crates() -> BTreeMap<String, Modules> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for (path, source) in rust::shipped() {
        if let Some((directory, inside)) = path.split_once("/src/") {
            let mut module: Vec<String> =
                inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if ["mod", "lib", "main"].contains(&module.last().map_or("", String::as_str)) {
                module.pop();
            }
            crates.entry(directory.to_owned()).or_default().insert(module, (path.clone(), source));
        }
    }
    crates
}

/// The modules that each module uses.
fn arrows(modules: &Modules) -> BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> {
    let path = Regex::new(r"\b((?:crate|super|self)(?:::super)*)\b((?:::\w+)*)(::\{[^;]*)?");
    let path = path.expect("a pattern");
    let facade = Regex::new(r"(?m)^\s*pub(?:\([a-z ]+\))? use [^;]*;").expect("a pattern");
    let mut arrows: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (module, (_, source)) in modules {
        let source = facade.replace_all(source, "");
        for line in statements(&source) {
            for found in path.captures_iter(&line) {
                let mut base = start(module, &found[1]);
                base.extend(
                    found[2].split("::").filter(|part| !part.is_empty()).map(str::to_owned),
                );
                let list = found.get(3).map_or("", |list| list.as_str());
                for target in targets(modules, &base, list) {
                    if target != module && !target.is_empty() {
                        arrows.entry(module).or_default().insert(target);
                    }
                }
            }
        }
    }
    arrows
}

/// Code lines, with a statement that begins with `use` joined into one.
fn statements(source: &str) -> Vec<String> {
    let (mut lines, mut open): (Vec<String>, Option<String>) = (Vec::new(), None);
    for line in source.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        let joined = open.take().map_or_else(|| line.to_owned(), |start| start + line);
        let is_use = joined.starts_with("use ") && !joined.ends_with(';');
        if is_use {
            open = Some(joined);
        } else {
            lines.push(joined);
        }
    }
    lines
}

/// Where a path begins: `crate`, `self`, or one module up for each `super`.
fn start(module: &[String], first: &str) -> Vec<String> {
    if first.starts_with("crate") {
        return Vec::new();
    }
    let ups = first.matches("super").count();
    module[..module.len().saturating_sub(ups)].to_vec()
}

/// The modules in which a path, or each path of its list, ends.
fn targets<'a>(modules: &'a Modules, base: &[String], list: &str) -> Vec<&'a Vec<String>> {
    let names: Vec<&str> = list
        .trim_start_matches("::{")
        .split([',', '{', '}', ' '])
        .filter(|name| !name.is_empty())
        .collect();
    let mut paths: Vec<Vec<String>> = names
        .iter()
        .map(|name| base.iter().cloned().chain(name.split("::").map(str::to_owned)).collect())
        .collect();
    if paths.is_empty() {
        paths.push(base.to_vec());
    }
    paths
        .iter()
        .filter_map(|path: &Vec<String>| {
            let lengths = (0..=path.len()).rev();
            lengths.filter_map(|length| modules.get_key_value(&path[..length])).next()
        })
        .map(|(module, _)| module)
        .collect()
}

/// Everything that can be reached over arrows.
fn reach<'a>(
    from: &'a Vec<String>,
    arrows: &BTreeMap<&'a Vec<String>, BTreeSet<&'a Vec<String>>>,
) -> BTreeSet<&'a Vec<String>> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for target in arrows.get(module).into_iter().flatten() {
            if seen.insert(*target) {
                next.push(target);
            }
        }
    }
    seen
}

#[test]
fn circles_of_imports_are_small() {
    let mut breaches = Vec::new();
    for (directory, modules) in crates() {
        let arrows = arrows(&modules);
        let reached: BTreeMap<_, _> =
            modules.keys().map(|module| (module, reach(module, &arrows))).collect();
        let mut done = BTreeSet::new();
        for module in modules.keys().filter(|module| reached[*module].contains(*module)) {
            let circle: Vec<_> = reached[module]
                .iter()
                .filter(|other| reached[**other].contains(module))
                .copied()
                .collect();
            let lines: usize = circle.iter().map(|each| modules[*each].1.lines().count()).sum();
            if circle.first().is_some_and(|first| done.insert(*first)) && lines > CYCLE_LINES_MAX {
                let names: Vec<&str> =
                    circle.iter().map(|each| modules[*each].0.as_str()).collect();
                breaches.push(format!(
                    "{directory}: {} files with {lines} lines import each other in a circle: {}",
                    names.len(),
                    names.join(", ")
                ));
            }
        }
    }
    no_breach(&breaches);
}

#[test]
fn paths_end_in_the_deepest_module() {
    let modules = Modules::from([(module("pool"), file()), (module("pool::turn"), file())]);
    let ends = |base: &str, list: &str| {
        targets(&modules, &module(base), list).into_iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(ends("pool::turn::Turn", ""), [module("pool::turn")]);
    assert_eq!(ends("pool", "::{Pool, turn::Turn}"), [module("pool"), module("pool::turn")]);
    assert_eq!(start(&module("pool::turn"), "super"), module("pool"));
}

fn module(path: &str) -> Vec<String> {
    path.split("::").map(str::to_owned).collect::<Vec<_>>()
}

fn file() -> (String, String) {
    (String::new(), String::new())
}
