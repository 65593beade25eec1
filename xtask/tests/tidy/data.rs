//! What is not Rust: rules and their tests, table specs, vendored files, documents.

use std::path::{Component, Path, PathBuf};

use weir_tables::{TABLES, VIEWS};

use crate::{files, no_breach, output, root, text};

const README_LINES_MAX: usize = 80;

/// Split, so that this list does not find itself: directories of one developer's machine.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/home/", "user/")];

#[test]
fn every_rule_has_both_cases_and_is_built_in() {
    let files = files();
    let sources: String = files
        .iter()
        .filter(|(path, _)| path.starts_with("crates/rules/src/"))
        .map(|(_, source)| source.as_str())
        .collect();
    let mut breaches = Vec::new();
    for (path, _) in
        files.iter().filter(|(path, _)| path.starts_with("rules/") && path.ends_with(".sql"))
    {
        let id = path.trim_start_matches("rules/").trim_end_matches(".sql");
        let test = files
            .iter()
            .find(|(other, _)| *other == format!("rules/{id}.test"))
            .map_or("", |(_, test)| test);
        for case in ["# fires:", "# silent:"].iter().filter(|case| !test.contains(*case)) {
            breaches.push(format!("rules/{id}.test: no case `{case}`"));
        }
        if !sources.contains(&format!("{id}.sql")) && !sources.contains(&format!("\"{id}\"")) {
            breaches.push(format!("{path}: not in the list of built-in rules"));
        }
    }
    no_breach(&breaches);
}

#[test]
fn every_column_is_explained_in_sentences() {
    let mut breaches = Vec::new();
    for spec in TABLES.iter().copied().chain(VIEWS.iter().map(|view| &view.table)) {
        let columns = spec.columns.iter().filter(|column| !column.doc.ends_with(['.', '…']));
        breaches.extend(columns.map(|column| {
            format!("{}.{}: the doc ends without a full stop", spec.name, column.name)
        }));
    }
    no_breach(&breaches);
}

#[test]
fn vendored_files_are_what_their_list_says() {
    let vendored: Vec<String> = files()
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.starts_with("ui/vendor/"))
        .collect();
    let Some(list) = vendored.iter().find(|path| path.contains("README")) else {
        return no_breach(
            &vendored
                .iter()
                .map(|path| format!("{path}: ui/vendor has no README"))
                .collect::<Vec<_>>(),
        );
    };
    let readme = text(list);
    let checked = vendored.iter().filter(|path| *path != list);
    let wrong = checked.filter(|path| {
        !readme.contains(output("sha256sum", &[path]).split(' ').next().unwrap_or_default())
    });
    no_breach(
        &wrong.map(|path| format!("{path}: its sha256 is not in {list}")).collect::<Vec<_>>(),
    );
}

#[test]
fn links_between_documents_resolve() {
    let mut breaches = Vec::new();
    for (path, document) in files().iter().filter(|(path, _)| path.ends_with(".md")) {
        for link in links(document) {
            let file = link.split('#').next().unwrap_or_default();
            let target = normal(&Path::new(path).parent().unwrap_or(Path::new("")).join(file));
            if !file.is_empty() && !root().join(&target).exists() {
                breaches.push(format!("{path}: the link `{link}` leads nowhere"));
            }
        }
    }
    no_breach(&breaches);
}

/// Targets of `[text](target)` that lie in this repository; code blocks are left out.
fn links(document: &str) -> Vec<&str> {
    let prose = document.split("```").step_by(2);
    let starts = prose.flat_map(|part| part.split("](").skip(1));
    let targets = starts.filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// Takes `..` out without asking the file system.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut result, component| {
        match component {
            Component::ParentDir => drop(result.pop()),
            Component::CurDir => {}
            other => result.push(other),
        }
        result
    })
}

#[test]
fn readme_fits_on_a_screen_or_two() {
    let count = text("README.md").lines().count();
    assert!(
        count <= README_LINES_MAX,
        "README.md: {count} lines, over {README_LINES_MAX}; move some to docs/"
    );
}

#[test]
fn no_path_of_a_developers_machine_is_tracked() {
    let mut breaches = Vec::new();
    for (path, content) in files() {
        for (number, line) in content.lines().enumerate() {
            if MACHINE_PATHS.iter().any(|machine| line.contains(machine)) {
                breaches.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    no_breach(&breaches);
}

#[test]
fn links_are_found_outside_of_code_only() {
    let document = "[a](docs/a.md#x) [b](https://b) ```\n[c](c.md)\n``` [d](#here)";
    assert_eq!(links(document), ["docs/a.md#x", "#here"]);
    assert_eq!(normal(Path::new("docs/decisions/../a.md")), Path::new("docs/a.md"));
}
