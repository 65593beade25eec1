//! `weir capture`: packets of some seconds into a file that tcpdump, tshark and `weir wire` read.

use std::fs::OpenOptions;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use weir_agent_core::capture::{TapPlace, end_at_signal, wire_failure};
use weir_process::clock::SystemClock;
use weir_process::failure::Failure;
use weir_process::terminal::say;
use weir_process::time_args::parse_capture_span;
use weir_tables::Clock;
use weir_wire::live::{FrameTruncation, PcapngWriter, Tap, TapCounts, TapOptions};

/// Capture packets for some seconds into a pcapng file.
///
/// Headers of IP and TCP only, unless `--payload` is given: what visitors say stays out of the
/// file. `weir wire FILE` then tells requests by whose turn it is; with `--payload` it reads URLs
/// and statuses too.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir capture                                   ten seconds of all interfaces
  weir capture 30s -i eth0 --port 80,443 --out web.pcapng
  weir capture 10s -i shop/lo --payload          in the network namespace `shop`, with payload
  weir wire weir-*.pcapng                        was it us?")]
pub(crate) struct CaptureArgs {
    /// How long: 10s, 1m.
    #[arg(value_name = "TIME", default_value = "10s", value_parser = parse_capture_span)]
    span: i64,
    /// The interface, `any`, or `NETNS/INTERFACE`.
    #[arg(long, short, value_name = "INTERFACE", default_value = "any")]
    interface: String,
    /// Port of either end; may be given more than once, or as a list. Default: all of TCP.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    port: Vec<u16>,
    /// The file. Default: weir-TIME.pcapng in this directory. One that exists is not written over.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Keep payload as well: requests, cookies, responses.
    #[arg(long)]
    payload: bool,
    /// Largest size of the file in MiB; capturing ends there.
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    size: u64,
}

/// The longest packet that offloading network cards hand over.
const SNAP_BYTES: u32 = 262_144;
/// Headers with all options: 60 bytes of IP, or 40 of IPv6, and 60 of TCP.
const HEADER_BYTES: u32 = 128;
const RING_BYTES: usize = 64 << 20;
const STEP: Duration = Duration::from_millis(100);

/// Runs the command.
pub(crate) fn run(args: &CaptureArgs) -> Result<(), Failure> {
    let path = match &args.out {
        Some(path) => path.clone(),
        None => {
            let now = SystemClock.now().to_string().replace([':', '-'], "");
            PathBuf::from(format!("weir-{}.pcapng", &now[..now.len().min(15)]))
        }
    };
    let is_over = end_at_signal()?;
    let place = TapPlace::parse(&args.interface);
    let done = place.inside(|| {
        let options = TapOptions {
            interface: place.interface.clone(),
            ports: args.port.clone(),
            snap_bytes: if args.payload { SNAP_BYTES } else { HEADER_BYTES },
            ring_bytes: RING_BYTES,
        };
        let tap = Tap::open(options).map_err(wire_failure)?;
        write(tap, args, &path, || is_over.load(Ordering::Relaxed))
    })?;
    let CaptureSummary { packets, counts, is_full } = done;
    say(&format!("{packets} packets in `{}`", path.display()));
    if is_full {
        say(&format!("ended early: the file is {} MiB; `--size` raises the limit", args.size));
    }
    if counts.drops > 0 {
        say(&format!("the tap lost {} packets: name the ports with `--port`", counts.drops));
    }
    Ok(())
}

struct CaptureSummary {
    packets: u64,
    counts: TapCounts,
    is_full: bool,
}

fn write(
    mut tap: Tap,
    args: &CaptureArgs,
    path: &Path,
    is_over: impl Fn() -> bool,
) -> Result<CaptureSummary, Failure> {
    let failed = |error: std::io::Error| {
        let failure = Failure::new(format!("cannot write `{}`: {error}", path.display()));
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => failure.hint("name another file with `--out`"),
            _ => failure,
        }
    };
    // Payload is confidential: only the owner may read the file.
    let file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let cut = if args.payload { FrameTruncation::Nothing } else { FrameTruncation::Headers };
    let bytes_max = args.size.clamp(1, 1 << 20) << 20;
    let mut writer = PcapngWriter::new(BufWriter::new(file), cut, bytes_max).map_err(failed)?;
    let end = SystemClock.now() + Duration::from_nanos(args.span.cast_unsigned());
    let (mut is_full, mut error) = (false, None);
    while SystemClock.now() < end && !is_over() && !is_full && error.is_none() {
        tap.step(STEP, &mut |frame| {
            if is_full || error.is_some() {
                return;
            }
            match writer.frame(frame, interface_name) {
                Ok(has_room) => is_full = !has_room,
                Err(why) => error = Some(why),
            }
        })
        .map_err(wire_failure)?;
    }
    if let Some(error) = error {
        return Err(failed(error));
    }
    let counts = tap.counts().map_err(wire_failure)?;
    let now = SystemClock.now().0 * 1000;
    let packets = writer.finish(now, &counts).map_err(failed)?;
    Ok(CaptureSummary { packets, counts, is_full })
}

/// The name of an interface of this thread's namespace.
fn interface_name(index: u32) -> String {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    socket(AddressFamily::INET, SocketType::DGRAM, None)
        .and_then(|socket| netdevice::index_to_name(&socket, index))
        .unwrap_or_else(|_| index.to_string())
}
