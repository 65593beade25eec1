//! `weir bench store`: how fast byte ranges of a place are read, over processes, requests at a time
//! and sizes of ranges; and the settings of the slow tier that follow.
//!
//! Each process is this program again, told on its standard input what to measure: so a limit of
//! one process is not taken for one of the service.

mod advice;
mod cell;
mod node;
mod picture;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use weir_config::Values;
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::{complain, say};
use weir_store::{RangeReader, SlowPlace};

use cell::{Cell, MeasuredCell};
use node::Nodes;
use weir_hub::slow_tier;
use weir_hub::store_failure;

/// Measure reads of a bucket or directory.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub(crate) action: BenchAction,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchAction {
    Store(BenchStoreArgs),
}

/// Measure reads of byte ranges of a bucket or a directory, and recommend settings of the slow
/// tier.
///
/// Test objects are written below `weir-bench/` and removed again. Keys and endpoint of a bucket
/// come from the
/// configuration (`store.slow_…`) or the environment.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  weir bench store s3://rows/weir                            a grid of two minutes
  weir bench store s3://rows/weir --nodes 1,2,4 --out rows   the same with more processes; rows.svg, rows.csv
  weir bench store /mnt/large --concurrency 1,8,32 --range 4k,1m")]
pub(crate) struct BenchStoreArgs {
    /// `s3://BUCKET/PREFIX` or a directory.
    #[arg(value_name = "URL|DIR")]
    place: String,
    /// Processes.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,2")]
    nodes: Vec<usize>,
    /// Requests under way at a time, of each process.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,16,64,256")]
    concurrency: Vec<usize>,
    /// Bytes of a range.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size, default_value = "1k,64k,1m")]
    range: Vec<u64>,
    /// Seconds of each measurement, after a second to get going.
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Objects that are read from.
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    objects: usize,
    /// Bytes of each.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4m")]
    object_bytes: u64,
    /// Write the table to NAME.csv and the picture to NAME.svg.
    #[arg(long, value_name = "NAME")]
    out: Option<PathBuf>,
    /// Leave the objects there, for the next run.
    #[arg(long)]
    keep: bool,
    /// Internal: measure the cells that arrive on standard input.
    #[arg(long, hide = true)]
    node: bool,
}

/// `4096`, `64k`, `1m`.
fn size(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.to_ascii_lowercase().chars().last() {
        Some('k') => (&text[..text.len() - 1], 10),
        Some('m') => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let bytes: u64 = number.parse().map_err(|_| "write it as 4096, 64k or 1m".to_owned())?;
    match bytes.checked_mul(1 << shift) {
        Some(bytes @ 1..=0x4000_0000) => Ok(bytes),
        _ => Err("from 1 byte to 1024m".to_owned()),
    }
}

/// Runs the command.
pub(crate) fn run(values: &Values, args: &BenchArgs) -> Result<ExitCode, Failure> {
    let BenchAction::Store(args) = &args.action;
    let place = slow_tier::place(&values.store, &args.place)?;
    if args.node {
        return node::run(&place).map(|()| ExitCode::SUCCESS);
    }
    let cells = grid(args)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let reader = Arc::new(RangeReader::open(&place).map_err(store_failure)?);
    runtime.block_on(prepare(&reader, args))?;
    let measured = measure(args, &cells);
    let cleaned = if args.keep { Ok(()) } else { runtime.block_on(clean(&reader, args)) };
    let measured = measured?;
    say(&table::text(&measured));
    say(&advice::text(&measured, matches!(place, SlowPlace::Bucket(_))));
    if let Some(out) = &args.out {
        write("csv", out, &table::csv(&measured))?;
        write("svg", out, &picture::svg(&args.place, &measured))?;
    }
    // What was measured is worth more than what is left there.
    cleaned.map(|()| ExitCode::SUCCESS)
}

fn grid(args: &BenchStoreArgs) -> Result<Vec<Cell>, Failure> {
    let most = args.range.iter().copied().max().unwrap_or_default();
    if most > args.object_bytes || args.objects == 0 {
        let text =
            format!("cannot read ranges of {most} bytes from objects of {}", args.object_bytes);
        return Err(Failure::new(text).hint("raise --object-bytes").code(EXIT_USAGE));
    }
    if args.nodes.iter().chain(&args.concurrency).any(|count| !(1..=100_000).contains(count)) {
        let failure = Failure::new("cannot measure with no process or no request at a time");
        return Err(failure.hint("from 1 to 100000").code(EXIT_USAGE));
    }
    let mut cells = Vec::new();
    for nodes in &args.nodes {
        for range_bytes in &args.range {
            for concurrency in &args.concurrency {
                cells.push(Cell {
                    nodes: *nodes,
                    concurrency: *concurrency,
                    range_bytes: *range_bytes,
                    seconds: args.seconds,
                    objects: args.objects,
                    object_bytes: args.object_bytes,
                });
            }
        }
    }
    Ok(cells)
}

fn measure(args: &BenchStoreArgs, cells: &[Cell]) -> Result<Vec<MeasuredCell>, Failure> {
    let most = cells.iter().map(|cell| cell.nodes).max().unwrap_or(1);
    let mut nodes = Nodes::start(most, &args.place)?;
    let mut measured = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        complain(&format!("{} of {}: {cell}", at + 1, cells.len()));
        measured.push(MeasuredCell { cell: *cell, counts: nodes.measure(cell)? });
    }
    Ok(measured)
}

fn name(number: usize) -> String {
    format!("weir-bench/{number}")
}

/// Objects whose bytes no service can make smaller.
async fn prepare(reader: &Arc<RangeReader>, args: &BenchStoreArgs) -> Result<(), Failure> {
    for number in 0..args.objects {
        if reader.size(&name(number)).await.map_err(store_failure)? == Some(args.object_bytes) {
            continue;
        }
        let count = usize::try_from(args.object_bytes).unwrap_or(usize::MAX);
        let mut bytes = vec![0; count];
        fastrand::Rng::with_seed(number as u64).fill(&mut bytes);
        reader.write(&name(number), bytes.into()).await.map_err(store_failure)?;
    }
    Ok(())
}

async fn clean(reader: &Arc<RangeReader>, args: &BenchStoreArgs) -> Result<(), Failure> {
    for number in 0..args.objects {
        let deleted = reader.delete(&name(number)).await;
        deleted.map_err(|error| {
            store_failure(error).hint("objects of this measurement are left below `weir-bench/`")
        })?;
    }
    Ok(())
}

fn write(end: &str, out: &std::path::Path, text: &str) -> Result<(), Failure> {
    let path = out.with_added_extension(end);
    std::fs::write(&path, text).map_err(|error| {
        Failure::new(format!("cannot write `{}`: {error}", path.display()))
            .hint("name a directory that is there")
    })
}

/// How long a node gets going before it counts.
const WARM_UP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_units() {
        assert_eq!((size("1"), size("64k"), size("2M")), (Ok(1), Ok(65_536), Ok(2 << 20)));
        assert!(["", "k", "0", "-1", "2g", "4096m"].iter().all(|text| size(text).is_err()));
    }
}
