//! Flags of `weir wire`.

use std::path::PathBuf;

use clap::Args;

use super::ModelArgs;
use super::compat::CompatArgs;

/// Analyze a capture: was it us?
///
/// Turns packets (pcap, pcapng or tcpdump's text, packed or not) into connections and requests, and
/// says for each server port who owns the delay: the network in front, the clients, the kernel's
/// accept queue, the application, or the edge itself, with the numbers behind it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tcpdump -i any -s 200 -w web.pcap tcp          make a capture: 200 bytes of a packet are enough
  weir wire web.pcap                             was it us?
  weir wire web.pcap --port 80,8080 --slice 100ms
  tcpdump -i any -w - tcp port 80 | weir wire    from a pipe
  weir wire web.pcap --format json | jq .verdict
  weir wire -i eth0 --port 80 --for 10s          what passes now; needs CAP_NET_RAW
  weir wire --compat pt-tcp-model --watch-server :80 web.pcap > requests
  sort -n -k1,1 requests | weir wire --compat pt-tcp-model --type requests --run-time 0.1")]
pub(crate) struct WireArgs {
    /// Captures, in the order of their time; `-`, or none, reads stdin.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) compat: CompatArgs,
}
