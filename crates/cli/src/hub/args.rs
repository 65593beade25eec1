//! Flags of `weir up` and `weir hub`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use weir_config::flags::{DataArgs, ServeArgs, WatchArgs};

/// Watch this host: collect, store, run rules, and serve the page.
///
/// Finds nginx, HAProxy, Apache, syslog files and the journal by itself, samples the kernel once a
/// second, runs the rules, and serves the page and the API. Ends cleanly on Ctrl-C or SIGTERM.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir up                                        everything by itself
  weir up --tail '/srv/app/log/*.json'           read these logs too, from their beginning
  weir up --listen 127.0.0.1:0 --data /tmp/w     any free port, own data directory
  weir up --listen 0.0.0.0:4770                  refused without TLS (`api.tls_certificate_file`)")]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// Store rows that agents send, run rules, and serve the page; does not watch its own host.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir hub --data /srv/weir
  weir hub --data /srv/weir --cluster postgresql://weir@db/weir
                                                 one of several hubs that share their rows
  weir hub invite --data /srv/weir               print a token that lets one agent join
  weir hub agents --data /srv/weir               list the agents that joined
  weir hub revoke web1 --data /srv/weir          turn an agent away for good")]
pub(crate) struct HubArgs {
    /// A command about the fleet instead of serving.
    #[command(subcommand)]
    pub(crate) action: Option<HubAction>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    /// Where agents connect; opened when the first agent is invited.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) agents: Option<String>,
    /// The PostgreSQL that has the manifest of several hubs, such as postgresql://weir@db/weir
    /// (docs/cluster.md).
    #[arg(long, value_name = "URL")]
    pub(crate) cluster: Option<String>,
}

/// Commands about the fleet; they work whether the hub runs or not.
#[derive(Debug, Subcommand)]
pub(crate) enum HubAction {
    Invite(InviteArgs),
    /// List the agents that joined, and which are connected.
    Agents {
        #[command(flatten)]
        data: DataArgs,
    },
    /// Turn an agent away: its connection is cut within a second, its certificate is worth nothing
    /// from then on.
    Revoke {
        /// The agent's name.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        data: DataArgs,
    },
}

impl HubAction {
    /// The flag `--data`.
    pub(crate) fn data(&self) -> Option<&PathBuf> {
        match self {
            Self::Invite(args) => args.data.data.as_ref(),
            Self::Agents { data } | Self::Revoke { data, .. } => data.data.as_ref(),
        }
    }
}

/// Print a token that lets one agent join.
///
/// Anyone with the token can become an agent until it expires; treat it like a password. The token
/// contains the hub's address and its fingerprint.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir hub invite                                for one hour
  weir hub invite --for 10m --name web1          this name only; takes the place of an agent of that name
  weir hub invite --address hub.example.net      where agents find the hub")]
pub(crate) struct InviteArgs {
    /// How long the token can be used: 90s, 15m, 1h, 7d.
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    pub(crate) r#for: String,
    /// The only name that may join with it.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where agents find the hub, instead of `link.addresses`; may be given more than once.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) address: Vec<String>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}
