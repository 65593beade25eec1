//! Flags and commands of `weir edge`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_config::flags::EdgeFlags;

use super::drain_check::DrainCheckArgs;

/// Balance requests over backends, collect beacons, and write a row for each request.
///
/// Without --hub the rows are kept here and the page shows them; with it they go to a hub, as an
/// agent's. Everything else is set in the section `[edge]` of the configuration, which SIGHUP reads
/// again without closing a connection.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  weir edge --listen 0.0.0.0:80 --backend 10.0.0.5:8080 --backend 10.0.0.6:8080*2
  weir edge --listen 0.0.0.0:80 --beacon /ping               answers and keeps beacons, passes nothing on
  weir edge --listen 0.0.0.0:80 --backend 10.0.0.5:8080 --hub hub.example.net:4771
  weir edge --dry-run --config new.toml --against /etc/weir/weir.toml    what would change; changes nothing
  weir edge --config /etc/weir/weir.toml --replace           takes the place of the edge that runs; no connection is refused
  weir edge weight 10.0.0.5:8080 0                           drains a backend
  weir edge export > edge.json; weir edge apply edge.json    a second edge that knows what the first has learnt
  weir edge safe-to-end edge1 --withdrawn 2h                 who still comes to an edge that was taken out of DNS")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EdgeArgs {
    /// Ask or change the edge that runs here.
    #[command(subcommand)]
    pub(crate) action: Option<EdgeAction>,
    #[command(flatten)]
    pub(crate) flags: EdgeFlags,
    /// Check the configuration, read the certificates, print what is set, and end.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With --dry-run: print what differs from this configuration file.
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    pub(crate) against: Option<PathBuf>,
    /// Take the sockets of the edge that runs with this data directory, serve, and let that one
    /// end.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) replace: bool,
}

/// Commands for a running edge.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum EdgeAction {
    /// Show listeners and backends as they are at this moment.
    Show {
        /// How to print it.
        #[arg(long, value_enum, default_value = "text")]
        format: EdgeFormat,
        #[command(flatten)]
        target: EdgeTarget,
    },
    /// Change the section [edge] of the configuration without losing a connection, until the file
    /// is read again.
    Change {
        /// A TOML file with nothing but [edge]; `-` reads it from stdin.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print what would change, and change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        target: EdgeTarget,
    },
    /// Give a backend another weight, until the file is read again; 0 drains it.
    Weight {
        /// The backend's address and port.
        #[arg(value_name = "BACKEND")]
        backend: String,
        /// From 0 to 1000.
        #[arg(value_name = "WEIGHT")]
        weight: u32,
        #[command(flatten)]
        target: EdgeTarget,
    },
    /// Print configuration and what was learnt: latencies, time-outs, connections, keys of session
    /// tickets. It holds secrets.
    Export {
        #[command(flatten)]
        target: EdgeTarget,
    },
    /// Take what another edge exported.
    Apply {
        /// What `weir edge export` printed; `-` reads it from stdin.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print what would change, and change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        target: EdgeTarget,
    },
    SafeToEnd(DrainCheckArgs),
}

impl EdgeAction {
    /// The edge to control; `None` when a weir is queried instead.
    pub(crate) fn target(&self) -> Option<&EdgeTarget> {
        match self {
            Self::SafeToEnd(_) => None,
            Self::Show { target, .. }
            | Self::Change { target, .. }
            | Self::Weight { target, .. }
            | Self::Export { target }
            | Self::Apply { target, .. } => Some(target),
        }
    }
}

/// The edge to control.
#[derive(Args, Clone, Debug)]
pub(crate) struct EdgeTarget {
    /// The edge's data directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The edge's control socket, when it is elsewhere.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// How `weir edge show` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EdgeFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl EdgeFormat {
    /// Whether it is for programs.
    pub(crate) fn is_json(self) -> bool {
        self == Self::Json
    }
}
