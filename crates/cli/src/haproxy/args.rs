//! Flags and commands of `weir haproxy`.

use clap::{Args, Subcommand};

use crate::edge::args::EdgeFormat;

/// Query and control a running HAProxy: drain, disable, enable and weight servers.
///
/// It goes over HAProxy's runtime socket, which must be of `level admin` for changes. They hold
/// until HAProxy is restarted or reloaded; what shall stay belongs into haproxy.cfg.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir haproxy show                              servers, states, weights, what waits
  weir haproxy drain app/web1                    no new clients; open sessions continue
  weir haproxy weight app/web1 50 --dry-run      what would change; changes nothing
  weir haproxy ready app/web1                    full service again
  weir haproxy show --socket 10.0.0.2:9999       a socket over TCP")]
pub(crate) struct HaproxyArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: HaproxyAction,
}

/// What can be asked and ordered.
#[derive(Debug, Subcommand)]
pub(crate) enum HaproxyAction {
    /// Show servers as they are at this moment.
    Show {
        /// How to print it.
        #[arg(long, value_enum, default_value = "text")]
        format: EdgeFormat,
        #[command(flatten)]
        target: SocketTarget,
    },
    /// Give a server another weight, from 0 to 256.
    Weight {
        /// BACKEND/SERVER.
        #[arg(value_name = "SERVER")]
        server: String,
        /// From 0 to 256; with 0 only clients that have its cookie come.
        #[arg(value_name = "WEIGHT")]
        weight: u32,
        #[command(flatten)]
        how: OrderOptions,
    },
    /// Let a server have no new clients.
    Drain(ServerOrder),
    /// Take a server out, checks and all.
    Maint(ServerOrder),
    /// Let a server have clients again.
    Ready(ServerOrder),
}

/// A server, and how to apply the order.
#[derive(Args, Debug)]
pub(crate) struct ServerOrder {
    /// BACKEND/SERVER.
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) how: OrderOptions,
}

/// The HAProxy to control, and whether to change it.
#[derive(Args, Debug)]
pub(crate) struct OrderOptions {
    /// Print how the server is and what it would be told, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) target: SocketTarget,
}

/// The HAProxy to control.
#[derive(Args, Debug)]
pub(crate) struct SocketTarget {
    /// A runtime socket instead of `haproxy.sockets`.
    #[arg(long, value_name = "PATH|HOST:PORT")]
    pub(crate) socket: Option<String>,
}
