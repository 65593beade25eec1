//! Defaults that depend on the machine: where data and configuration live, how the host is called.
//!
//! XDG Base Directory Specification for persons, the File Hierarchy Standard for root.

use std::path::{Path, PathBuf};

/// Whether weir runs as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `/var/lib/weir` for root, else `$XDG_DATA_HOME/weir`, else `~/.local/share/weir`.
pub(crate) fn data_dir() -> PathBuf {
    if is_root() {
        return "/var/lib/weir".into();
    }
    personal("XDG_DATA_HOME", ".local/share").unwrap_or_else(|| "weir-data".into())
}

/// Configuration files that are read when none is named; the first that exists counts.
pub(crate) fn config_files() -> Vec<PathBuf> {
    let own = personal("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("weir.toml"));
    own.into_iter().chain([PathBuf::from("/etc/weir/weir.toml")]).collect()
}

/// `/var/lib/weir-agent` for root, else `weir-agent` beside the data directory of the user.
pub(crate) fn agent_dir() -> PathBuf {
    data_dir().with_file_name("weir-agent")
}

/// `/var/lib/weir-tune` for root, else `weir-tune` beside the data directory of the user.
pub(crate) fn tune_dir() -> PathBuf {
    data_dir().with_file_name("weir-tune")
}

fn personal(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))?;
    Some(base.join("weir"))
}

/// The kernel's host name, `localhost` when it has none.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".into() } else { name }
}

/// The first line of `path` without spaces around it: a login.
pub(crate) fn read_token(path: &Path) -> Result<String, crate::failure::Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| crate::failure::read_failure(path, &error))?;
    let token = text.lines().next().unwrap_or_default().trim().to_owned();
    if token.len() < 16 {
        return Err(crate::failure::Failure::new(format!(
            "cannot use `{}` as a login: its first line has fewer than 16 characters",
            path.display()
        ))
        .hint(format!(
            "write a new one: head -c 24 /dev/urandom | base64 > {} && chmod 600 {}",
            path.display(),
            path.display()
        ))
        .code(crate::failure::EXIT_CONFIG));
    }
    Ok(token)
}
