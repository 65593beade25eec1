//! What Docker says of a container: `config.v2.json` and `hostconfig.json` in its directory.
//!
//! Source: Docker's `container/container.go` and its page "Configure logging drivers". A driver is
//! fixed when a container is created, so the daemon's default says nothing of older containers.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::below;

/// Maximum bytes of one of the files.
const FILE_LIMIT: u64 = 4 << 20;
/// Directories of containers below the roots of Docker's data.
const DATA_ROOTS: [&str; 2] = ["/var/lib/docker", "/var/snap/docker/common/var-lib-docker"];
/// Docker's configuration.
const CONFIGURATION: &str = "/etc/docker/daemon.json";

/// A container as its runtime describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DockerContainer {
    pub(crate) id: String,
    /// Without the leading slash.
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) labels: Vec<(String, String)>,
    /// Log driver; empty if it is not recorded.
    pub(crate) driver: String,
    /// Where the driver `syslog` sends to; empty: to this host.
    pub(crate) syslog_address: String,
    pub(crate) is_running: bool,
}

/// The directories that have the containers of Docker, as paths of the host.
pub(crate) fn container_directories(root: &Path) -> Vec<PathBuf> {
    let configured = json(&below(root, Path::new(CONFIGURATION)));
    let configured = configured["data-root"].as_str().or_else(|| configured["graph"].as_str());
    let configured = configured.filter(|path| path.starts_with('/'));
    let roots =
        configured.into_iter().chain(DATA_ROOTS).map(|data| Path::new(data).join("containers"));
    let mut found: Vec<PathBuf> = roots.filter(|path| below(root, path).is_dir()).collect();
    found.dedup();
    found
}

/// Reads what is known of the container with this directory; `None` if nothing is.
pub(crate) fn read(directory: &Path) -> Option<DockerContainer> {
    let config = json(&directory.join("config.v2.json"));
    let id = text(&config["ID"]);
    if id.is_empty() {
        return None;
    }
    let logging = json(&directory.join("hostconfig.json"));
    let labels = config["Config"]["Labels"].as_object();
    let labels = labels.into_iter().flatten();
    Some(DockerContainer {
        id,
        name: text(&config["Name"]).trim_start_matches('/').to_owned(),
        image: text(&config["Config"]["Image"]),
        labels: labels.map(|(name, value)| (name.clone(), text(value))).collect(),
        driver: text(&logging["LogConfig"]["Type"]),
        syslog_address: text(&logging["LogConfig"]["Config"]["syslog-address"]),
        is_running: config["State"]["Running"] == true,
    })
}

/// A JSON document; null if there is none.
fn json(path: &Path) -> Value {
    let bytes = weir_access::read(path, FILE_LIMIT).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// The text of a value; empty if it is none.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
