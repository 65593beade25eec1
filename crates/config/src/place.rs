//! Defaults that depend on the machine: where data and configuration live, how the host is called.
//!
//! XDG Base Directory Specification for persons, the File Hierarchy Standard for root.

use std::path::{Path, PathBuf};

use weir_process::failure::{EXIT_CONFIG, Failure, read_failure};
use weir_process::privacy::tighten_file;

/// Whether weir runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `/var/lib/weir` for root, else `$XDG_DATA_HOME/weir`, else `~/.local/share/weir`.
pub fn data_dir() -> PathBuf {
    if is_root() {
        return "/var/lib/weir".into();
    }
    PersonalDir::Data.path().unwrap_or_else(|| "weir-data".into())
}

/// Configuration files that are read when none is named; the first that exists counts.
pub fn config_files() -> Vec<PathBuf> {
    let own = PersonalDir::Config.path().map(|dir| dir.join("weir.toml"));
    own.into_iter().chain([PathBuf::from("/etc/weir/weir.toml")]).collect()
}

/// `/var/lib/weir-agent` for root, else `weir-agent` beside the data directory of the user.
pub fn agent_dir() -> PathBuf {
    data_dir().with_file_name("weir-agent")
}

/// `/var/lib/weir-tune` for root, else `weir-tune` beside the data directory of the user.
pub fn tune_dir() -> PathBuf {
    data_dir().with_file_name("weir-tune")
}

/// A user's own directory, by the XDG Base Directory Specification.
enum PersonalDir {
    Data,
    Config,
}

impl PersonalDir {
    fn path(self) -> Option<PathBuf> {
        let (variable, below_home) = match self {
            Self::Data => ("XDG_DATA_HOME", ".local/share"),
            Self::Config => ("XDG_CONFIG_HOME", ".config"),
        };
        let base =
            absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))?;
        Some(base.join("weir"))
    }
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The kernel's host name, `localhost` when it has none.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".into() } else { name }
}

/// Loopback, and the networks that are not routed through the Internet (RFC 1918, 4193, 6598).
pub fn private_networks() -> Vec<String> {
    let networks = [
        "127.0.0.0/8",
        "::1",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "fc00::/7",
    ];
    networks.map(str::to_owned).into()
}

/// The file of the data directory with the login that a hub makes at its first start.
pub const LOGIN_FILE: &str = "login";

/// The first line of `path` without spaces around it: a login.
pub fn read_token(path: &Path) -> Result<String, Failure> {
    keep_secret(path);
    let text = std::fs::read_to_string(path).map_err(|error| read_failure(path, &error))?;
    let token = text.lines().next().unwrap_or_default().trim().to_owned();
    if token.len() < 16 {
        return Err(Failure::new(format!(
            "cannot use `{}` as a login: its first line has fewer than 16 characters",
            path.display()
        ))
        .hint(format!(
            "write a new one: head -c 24 /dev/urandom | base64 > {} && chmod 600 {}",
            path.display(),
            path.display()
        ))
        .code(EXIT_CONFIG));
    }
    Ok(token)
}

/// The first line of a file that holds a password or token for another service, which is never
/// shown.
pub fn read_secret(path: &Path) -> Result<String, Failure> {
    keep_secret(path);
    let text = std::fs::read_to_string(path)
        .map_err(|error| read_failure(path, &error).code(EXIT_CONFIG))?;
    let secret = text.lines().next().unwrap_or_default().trim().to_owned();
    if secret.is_empty() {
        let what = format!("cannot use `{}`: its first line is empty", path.display());
        return Err(Failure::new(what)
            .hint("write the password or token into it")
            .code(EXIT_CONFIG));
    }
    Ok(secret)
}

/// Takes a secret away from other accounts, and reports that they could read it.
fn keep_secret(path: &Path) {
    match tighten_file(path) {
        Ok(false) => {}
        Ok(true) => tracing::warn!(
            "`{}` holds a secret and was open to every account; its mode is now private, but \
             write a new secret if others use this host",
            path.display()
        ),
        Err(error) => tracing::warn!(
            "`{}` holds a secret and is open to every account, and its mode cannot be changed: \
             {error}; set it to 0600",
            path.display()
        ),
    }
}

/// A whole file, such as an authority.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| read_failure(path, &error).code(EXIT_CONFIG))
}
