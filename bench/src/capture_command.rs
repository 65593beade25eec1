//! `weir-bench capture`: writes a capture with known true figures, for tests, benchmarks and other
//! programs.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::capture::{self, Format, Link, Recipe, Story};
use crate::report;

#[derive(Args)]
pub(crate) struct CaptureArgs {
    /// Story to simulate, such as smooth or accept-queue.
    #[arg(long, default_value = "bulk", value_parser = story)]
    story: Story,
    /// File to write; true figures go to the same name with `.truth`, one JSON object per line.
    #[arg(long)]
    out: PathBuf,
    /// Seconds of traffic; the default depends on the story.
    #[arg(long)]
    seconds: Option<u32>,
    /// Requests per second; the default depends on the story.
    #[arg(long)]
    rate: Option<u32>,
    /// Seed; it determines every byte.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// pcapng instead of pcap.
    #[arg(long)]
    pcapng: bool,
    /// Nanoseconds instead of microseconds.
    #[arg(long)]
    nanoseconds: bool,
    /// IPv6 instead of IPv4.
    #[arg(long)]
    ipv6: bool,
    /// Link layer before the IP header.
    #[arg(long, value_enum, default_value_t = LinkName::Ethernet)]
    link: LinkName,
    /// Snapshot length: bytes captured per frame.
    #[arg(long, default_value_t = 262_144)]
    snap: u32,
    /// Packets missed by the tap, per thousand.
    #[arg(long, default_value_t = 0)]
    missing_per_mille: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum LinkName {
    Ethernet,
    Vlan,
    Sll2,
}

fn story(name: &str) -> Result<Story, String> {
    Story::ALL
        .into_iter()
        .find(|story| story.as_str() == name)
        .ok_or_else(|| format!("one of {}", Story::ALL.map(Story::as_str).join(", ")))
}

fn create(path: &PathBuf) -> anyhow::Result<BufWriter<File>> {
    let file = File::create(path).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

pub(crate) fn run(args: &CaptureArgs) -> anyhow::Result<()> {
    let own = Recipe::of(args.story);
    let recipe = Recipe {
        seconds: args.seconds.unwrap_or(own.seconds),
        rate: args.rate.unwrap_or(own.rate),
        seed: args.seed,
        ..own
    };
    let format = Format {
        is_pcapng: args.pcapng,
        is_nanosecond: args.nanoseconds,
        is_ipv6: args.ipv6,
        link: match args.link {
            LinkName::Ethernet => Link::Ethernet,
            LinkName::Vlan => Link::Vlan,
            LinkName::Sll2 => Link::Sll2,
        },
        snap_bytes: args.snap,
        missing_per_mille: args.missing_per_mille,
    };
    let mut truth = args.out.clone().into_os_string();
    truth.push(".truth");
    let summary = capture::write(recipe, format, create(&args.out)?, create(&truth.into())?)
        .with_context(|| format!("cannot write `{}`", args.out.display()))?;
    report::say(&format!("{summary:?}"));
    Ok(())
}
