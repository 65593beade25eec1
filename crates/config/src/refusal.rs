//! Places in the configuration, and the errors that name them.

use std::fmt;
use std::path::Path;

use weir_process::failure::{EXIT_CONFIG, Failure};

/// Where a value of the configuration is set: `weir.toml:12`, `environment WEIR_API_LISTEN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPlace(String);

/// A key as written in the file, which may not exist.
pub(super) struct WrittenKey<'a> {
    pub(super) section: &'a str,
    pub(super) name: &'a str,
}

impl ConfigPlace {
    pub(super) fn in_file(path: &Path, line: usize) -> Self {
        Self(format!("{}:{line}", path.display()))
    }

    pub(super) fn in_environment(variable: &str) -> Self {
        Self(format!("environment {variable}"))
    }

    /// The error that `what` is wrong here.
    pub(super) fn refuse(&self, what: &str) -> Failure {
        refused(format!("cannot use {self}: {what}"))
    }

    pub(super) fn unknown_key(&self, key: &WrittenKey<'_>) -> Failure {
        self.refuse(&format!("unknown key `{}.{}`", key.section, key.name))
    }

    pub(super) fn no_list(&self, section: &str) -> Failure {
        self.refuse(&format!("`{section}` is not a list of tables"))
            .hint(format!("each entry begins with a line `[[{section}]]`"))
    }
}

impl fmt::Display for ConfigPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) fn refused(message: String) -> Failure {
    Failure::new(message).code(EXIT_CONFIG)
}
