//! `weir-bench capture`: a capture of known truth in a file, for tests, benchmarks and other programs.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::capture::{self, Format, Link, Recipe, Story};
use crate::report;

#[derive(Args)]
pub(crate) struct CaptureArgs {
    /// What happens in it, such as smooth or accept-queue.
    #[arg(long, default_value = "bulk", value_parser = story)]
    story: Story,
    /// The file to write; `.truth` is added to its name for what happened, one JSON object a line.
    #[arg(long)]
    out: PathBuf,
    /// How long; default: as the story needs.
    #[arg(long)]
    seconds: Option<u32>,
    /// Requests a second; default: as the story needs.
    #[arg(long)]
    rate: Option<u32>,
    /// The same seed gives the same bytes.
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
    /// What stands before the IP header.
    #[arg(long, value_enum, default_value_t = LinkName::Ethernet)]
    link: LinkName,
    /// Bytes of a frame that are kept.
    #[arg(long, default_value_t = 262_144)]
    snap: u32,
    /// Packets of a thousand that the tap misses.
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
    let create = |path: &PathBuf| {
        let file = File::create(path).with_context(|| format!("cannot write `{}`", path.display()));
        file.map(|file| BufWriter::with_capacity(1 << 20, file))
    };
    let summary = capture::write(recipe, format, create(&args.out)?, create(&truth.into())?)
        .with_context(|| format!("cannot write `{}`", args.out.display()))?;
    report::say(&format!("{summary:?}"));
    Ok(())
}
