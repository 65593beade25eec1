//! Places in the configuration, and the errors that name them.

use std::fmt;
use std::path::Path;

use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_tables::nearest;

use super::keys::{KEYS, Key};

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

    pub(super) fn outside_section(&self, name: &str) -> Failure {
        let hint = match KEYS.iter().find(|key| key.name == name) {
            Some(key) => format!("write it below a line `[{}]`", key.section),
            None => "every key belongs to a section such as `[api]`".to_owned(),
        };
        self.refuse(&format!("`{name}` is outside of a section")).hint(hint)
    }

    pub(super) fn wrong_kind(&self, key: &Key) -> Failure {
        let unit = if key.unit.is_empty() { String::new() } else { format!(" ({})", key.unit) };
        self.refuse(&format!("`{}.{}` must be a {}{unit}", key.section, key.name, key.kind))
            .hint(key.doc.trim())
    }
}

impl fmt::Display for ConfigPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl WrittenKey<'_> {
    /// The key of this section and name; an error with the nearest one when there is none.
    pub(super) fn find(&self, place: &ConfigPlace) -> Result<&'static Key, Failure> {
        let Self { section, name } = self;
        if let Some(key) = KEYS.iter().find(|key| (key.section, key.name) == (*section, *name)) {
            return Ok(key);
        }
        let beside: Vec<&str> =
            KEYS.iter().filter(|key| key.section == *section).map(|key| key.name).collect();
        let known: Vec<String> =
            KEYS.iter().map(|key| format!("{}.{}", key.section, key.name)).collect();
        let same_name = KEYS.iter().position(|key| key.name == *name).map(|at| known[at].as_str());
        let written = format!("{section}.{name}");
        let hint = match nearest(name, beside.iter().copied()) {
            Some(near) => format!("did you mean `{section}.{near}`?"),
            None if !beside.is_empty() => format!("[{section}] has {}", beside.join(", ")),
            None => nearest(&written, known.iter().map(String::as_str)).or(same_name).map_or_else(
                || "`weir config` lists every key".to_owned(),
                |near| format!("did you mean `{near}`?"),
            ),
        };
        Err(place.unknown_key(self).hint(hint))
    }
}

pub(super) fn refused(message: String) -> Failure {
    Failure::new(message).code(EXIT_CONFIG)
}
