//! Which crates a shortened test run covers: the ones without the SQL engine, or the changed ones.
//!
//! `cargo tree --invert` answers both questions, so no JSON has to be read here.

use std::collections::BTreeSet;

use xshell::{Shell, cmd};

use crate::Result;

/// What brings the SQL engine into a build: 300 packages, and minutes to compile.
const SQL_ENGINE: &str = "datafusion";

/// How cargo prints a package: name, version, path.
const NAME: &str = "{p}";

/// The part of the repository that a test run covers.
#[derive(Debug)]
pub(crate) enum Scope {
    /// Everything, as in CI.
    Whole,
    /// Crates that can be compiled without the SQL engine.
    Fast(Vec<String>),
    /// Crates whose files changed, and the crates that use them.
    Since { crates: Vec<String>, changed: Vec<String> },
}

impl Scope {
    /// The crates without the SQL engine.
    pub(crate) fn fast(shell: &Shell) -> Result<Self> {
        let heavy = users_of(shell, SQL_ENGINE)?;
        let light = members(shell)?.into_iter().filter(|name| !heavy.contains(name));
        Ok(Self::Fast(light.filter(|name| name != "xtask").collect()))
    }

    /// The crates that differ from a git revision, committed or not, and all that use them.
    pub(crate) fn since(shell: &Shell, revision: &str) -> Result<Self> {
        let differing = cmd!(shell, "git diff --name-only {revision} --").quiet().read();
        let differing = differing.map_err(|error| {
            format!("cannot compare with `{revision}`: {error}\nhint: name a commit, a branch or a tag, e.g. `--since HEAD~1`")
        })?;
        let untracked = cmd!(shell, "git ls-files --others --exclude-standard").quiet().read()?;
        let changed: Vec<String> =
            differing.lines().chain(untracked.lines()).map(str::to_owned).collect();
        let mut crates = BTreeSet::new();
        for name in changed.iter().filter_map(|path| crate_of(path)) {
            if members(shell)?.contains(&name) && crates.insert(name.clone()) {
                crates.extend(users_of(shell, &name)?);
            }
        }
        crates.remove("xtask");
        Ok(Self::Since { crates: crates.into_iter().collect(), changed })
    }

    /// The arguments by which cargo selects the packages; `None` when there are none.
    pub(crate) fn packages(&self) -> Option<Vec<String>> {
        let crates = match self {
            Self::Whole => {
                return Some(["--workspace", "--exclude", "xtask"].map(str::to_owned).into());
            }
            Self::Fast(crates) | Self::Since { crates, .. } => crates,
        };
        let args = crates.iter().flat_map(|name| ["--package".to_owned(), name.clone()]);
        (!crates.is_empty()).then(|| args.collect())
    }

    /// Whether a step that needs the whole program covers something that changed below `directory`.
    pub(crate) fn covers(&self, directory: &str) -> bool {
        match self {
            Self::Whole => true,
            Self::Fast(_) => false,
            Self::Since { changed, .. } => changed.iter().any(|path| path.starts_with(directory)),
        }
    }
}

/// The package whose directory holds `path`: `crates/NAME` is `weir-NAME`, except for the program itself.
fn crate_of(path: &str) -> Option<String> {
    let mut parts = path.split('/');
    match (parts.next()?, parts.next()) {
        ("crates", Some("weir")) => Some("weir".to_owned()),
        ("crates", Some("agent-bin")) => Some("weir-agent".to_owned()),
        ("crates", Some("agent")) => Some("weir-agent-core".to_owned()),
        ("crates", Some(name)) => Some(format!("weir-{name}")),
        ("bench", Some(_)) => Some("weir-bench".to_owned()),
        _ => None,
    }
}

fn members(shell: &Shell) -> Result<BTreeSet<String>> {
    let tree =
        cmd!(shell, "cargo tree --locked --workspace --depth 0 --prefix none --format {NAME}");
    Ok(names(&tree.quiet().read()?))
}

/// The members of the workspace that depend on a package, tests included.
fn users_of(shell: &Shell, package: &str) -> Result<BTreeSet<String>> {
    let tree = cmd!(
        shell,
        "cargo tree --locked --workspace --invert {package} --prefix none --no-dedupe --format {NAME}"
    );
    let members = members(shell)?;
    Ok(names(&tree.quiet().read()?).into_iter().filter(|name| members.contains(name)).collect())
}

/// The first word of each line; cargo sets the trees of several members apart by an empty line.
fn names(tree: &str) -> BTreeSet<String> {
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{Scope, crate_of, names};

    #[test]
    fn paths_belong_to_their_crates() {
        assert_eq!(crate_of("crates/store/src/lib.rs").as_deref(), Some("weir-store"));
        assert_eq!(crate_of("crates/weir/src/main.rs").as_deref(), Some("weir"));
        assert_eq!(crate_of("bench/src/main.rs").as_deref(), Some("weir-bench"));
        assert_eq!(crate_of("docs/README.md"), None);
    }

    #[test]
    fn lines_between_trees_name_no_crate() {
        let members =
            names("weir-access v0.1.0 (crates/access)\n\nweir-rules v0.1.0 (crates/rules)\n");
        assert_eq!(members.into_iter().collect::<Vec<_>>(), ["weir-access", "weir-rules"]);
    }

    #[test]
    fn a_scope_without_crates_runs_no_cargo() {
        let scope = Scope::Since { crates: Vec::new(), changed: vec!["ui/app.js".to_owned()] };
        assert_eq!(scope.packages(), None);
        assert!(scope.covers("ui/") && !scope.covers("rules/"));
    }
}
