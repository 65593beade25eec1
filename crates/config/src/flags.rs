//! Flags into the configuration: a flag that is given wins over file and environment.

use std::path::PathBuf;

use clap::Args;

use super::Config;

/// Flags of the commands that keep and serve rows.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Where rows are kept.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Where the page and the API are served.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Where clients of PostgreSQL's protocol connect to, such as psql and Grafana.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub pg: Option<String>,
    /// Serve the page from this directory (for UI development).
    #[arg(long, value_name = "DIR")]
    pub ui_dir: Option<PathBuf>,
    /// Rules that add to or replace the built-in ones.
    #[arg(long, value_name = "DIR")]
    pub rules: Option<PathBuf>,
}

/// Flags of the commands that watch a host.
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// Log file to read besides those found by themselves; may be given more than once.
    #[arg(long, value_name = "GLOB")]
    pub tail: Vec<String>,
    /// The root below which the host's files are read.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// The name of this host in every row.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
}

/// The data directory of a hub.
#[derive(Args, Debug)]
pub struct DataArgs {
    /// The hub's data directory.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// Flags of `weir edge` that are keys of the configuration.
#[derive(Args, Clone, Debug)]
pub struct EdgeFlags {
    /// Where clients connect; may be given more than once.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Vec<String>,
    /// Where requests go, with a weight after `*`; may be given more than once.
    #[arg(long, value_name = "ADDRESS:PORT[*WEIGHT]")]
    pub backend: Vec<String>,
    /// The path that takes beacons.
    #[arg(long, value_name = "PATH")]
    pub beacon: Option<String>,
    /// Path of the health check that is requested from each backend; `connect` only connects.
    #[arg(long, value_name = "PATH")]
    pub check: Option<String>,
    /// Send rows to this hub instead of keeping them; `weir agent join` must have been done.
    /// http://… is for a hub on this host.
    #[arg(long, value_name = "HOST:PORT")]
    pub hub: Vec<String>,
    /// Where rows are kept when there is no hub.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Where the page and the API are served when there is no hub.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub page: Option<String>,
    /// The name of this host in every row.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
}

impl Config {
    /// Flags of commands that keep and serve rows.
    pub fn apply_serve(&mut self, args: &ServeArgs) {
        if let Some(dir) = &args.data {
            self.values.store.dir.clone_from(dir);
            self.note_flag(("store", "dir"), "--data");
        }
        if let Some(listen) = &args.listen {
            self.values.api.listen.clone_from(listen);
            self.note_flag(("api", "listen"), "--listen");
        }
        if let Some(listen) = &args.pg {
            self.values.pg.listen.clone_from(listen);
            self.note_flag(("pg", "listen"), "--pg");
        }
        if args.ui_dir.is_some() {
            self.values.api.ui_dir.clone_from(&args.ui_dir);
            self.note_flag(("api", "ui_dir"), "--ui-dir");
        }
        self.apply_rules(args.rules.as_ref());
    }

    /// The flag `--rules`.
    pub fn apply_rules(&mut self, dir: Option<&PathBuf>) {
        if dir.is_some() {
            self.values.rules.dir = dir.cloned();
            self.note_flag(("rules", "dir"), "--rules");
        }
    }

    /// Flags of commands that watch a host.
    pub fn apply_watch(&mut self, args: &WatchArgs) {
        if !args.tail.is_empty() {
            self.values.collect.tail.extend(args.tail.iter().cloned());
            self.note_flag(("collect", "tail"), "--tail");
        }
        if let Some(root) = &args.root {
            self.values.collect.root.clone_from(root);
            self.note_flag(("collect", "root"), "--root");
        }
        if let Some(host) = &args.host {
            self.values.collect.host.clone_from(host);
            self.note_flag(("collect", "host"), "--host");
        }
    }

    /// Flags of `weir edge`.
    pub fn apply_edge(&mut self, args: &EdgeFlags) {
        if !args.listen.is_empty() {
            self.values.edge.listen.clone_from(&args.listen);
            self.note_flag(("edge", "listen"), "--listen");
        }
        if !args.backend.is_empty() {
            self.values.edge.backends.clone_from(&args.backend);
            self.note_flag(("edge", "backends"), "--backend");
        }
        if let Some(path) = &args.beacon {
            self.values.edge.beacon.clone_from(path);
            self.note_flag(("edge", "beacon"), "--beacon");
        }
        if let Some(path) = &args.check {
            self.values.edge.check.clone_from(path);
            self.note_flag(("edge", "check"), "--check");
        }
        if let Some(listen) = &args.page {
            self.values.api.listen.clone_from(listen);
            self.note_flag(("api", "listen"), "--page");
        }
        self.apply_data(args.data.as_ref());
        self.apply_host(args.host.as_ref());
        self.apply_hubs(&args.hub);
    }

    /// The flag `--hub`.
    pub fn apply_hubs(&mut self, hubs: &[String]) {
        if !hubs.is_empty() {
            self.values.agent.hubs = hubs.to_vec();
            self.note_flag(("agent", "hubs"), "--hub");
        }
    }

    /// The flag `--cluster`.
    pub fn apply_cluster(&mut self, manifest: Option<&String>) {
        if let Some(manifest) = manifest {
            self.values.cluster.manifest.clone_from(manifest);
            self.note_flag(("cluster", "manifest"), "--cluster");
        }
    }

    /// The flag `--agents`.
    pub fn apply_agents(&mut self, address: Option<&String>) {
        if let Some(address) = address {
            self.values.link.listen.clone_from(address);
            self.note_flag(("link", "listen"), "--agents");
        }
    }

    /// The flag `--data` of commands that do not serve.
    pub fn apply_data(&mut self, dir: Option<&PathBuf>) {
        if let Some(dir) = dir {
            self.values.store.dir.clone_from(dir);
            self.note_flag(("store", "dir"), "--data");
        }
    }

    /// The flag `--host` of commands that do not watch.
    pub fn apply_host(&mut self, host: Option<&String>) {
        if let Some(host) = host {
            self.values.collect.host.clone_from(host);
            self.note_flag(("collect", "host"), "--host");
        }
    }

    /// The flag `--log-level`.
    pub fn apply_log_level(&mut self, level: Option<&String>) {
        if let Some(level) = level {
            self.values.log.level.clone_from(level);
            self.note_flag(("log", "level"), "--log-level");
        }
    }
}
