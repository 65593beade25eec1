//! Flags of the agent.

use clap::{Args, Subcommand};
use weir_config::flags::WatchArgs;

/// Watch this host and send its rows to a hub.
///
/// Where each log file stands is known by the hub, so an agent can be killed and started again at
/// any time. It keeps its certificate, and the samples that no hub has in its tables yet.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir agent join TOKEN                          once; `weir hub invite` on the hub prints the token
  weir agent                                     send to the hub that was joined
  weir agent --hub a.example.net:4771 --hub b.example.net:4771    these hubs, the next when one dies
  weir agent --tail '/srv/app/log/*.json'")]
pub struct AgentArgs {
    /// Join instead of watching.
    #[command(subcommand)]
    pub action: Option<AgentAction>,
    /// Address of a hub, instead of the hubs that the token named; may be given more than once.
    /// http://… is for a hub on this host, without certificates.
    #[arg(long, value_name = "HOST:PORT")]
    pub hub: Vec<String>,
    /// Join with this token first, unless it was done before; `-` reads it from stdin.
    #[arg(long, value_name = "TOKEN")]
    pub join: Option<String>,
    /// Allow http:// to another host: others can read and change what is sent.
    #[arg(long)]
    pub insecure: bool,
    /// The logs and the host to watch.
    #[command(flatten)]
    pub watch: WatchArgs,
}

impl AgentArgs {
    /// A given flag that only applies to watching, so `join` refuses it.
    pub fn flag_of_watching(&self) -> Option<&'static str> {
        let flags = [
            ("--hub", !self.hub.is_empty()),
            ("--join", self.join.is_some()),
            ("--insecure", self.insecure),
            ("--tail", !self.watch.tail.is_empty()),
            ("--root", self.watch.root.is_some()),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }
}

/// What an agent can do besides watching.
#[derive(Debug, Subcommand)]
pub enum AgentAction {
    /// Join a hub's fleet: make a key, have it signed, and keep both.
    Join {
        /// What `weir hub invite` printed; `-` reads it from stdin.
        #[arg(value_name = "TOKEN")]
        token: String,
        /// The name to join as, instead of this host's.
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
    },
}
