//! The settings of the cold tier that follow from a grid.

use super::cell::MeasuredCell;

/// A setting for more requests at a time has to give this much more.
const WORTH: f64 = 0.95;
/// A longer range costs nothing while its middle read takes at most this much longer.
const AS_FAST: f64 = 1.1;
/// Pauses below this are no sign of anything.
const HEDGE_LEAST_SECONDS: f64 = 0.02;

/// The recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settings {
    requests: usize,
    join_bytes: u64,
    hedge_milliseconds: u64,
}

/// Lines for the configuration, with why.
pub(super) fn text(measured: &[MeasuredCell], is_bucket: bool) -> String {
    let Some(chosen) = choose(measured) else {
        return "nothing was read, so nothing follows".to_owned();
    };
    if !is_bucket {
        let text = "at most {} reads at a time pay here; a directory needs no settings";
        return text.replace("{}", &chosen.requests.to_string());
    }
    format!(
        "what follows for one weir:\n\n[store]\n\
         slow_requests = {:<12} # the fewest at a time that give {:.0} % of the most that one process got\n\
         slow_join_bytes = {:<10} # ranges up to this take as long as short ones\n\
         slow_hedge_milliseconds = {} # later than 99 of 100 answers\n\
         # slow_cache_bytes: footers and text indexes of all files; `weir store stats` says how large they are",
        chosen.requests,
        WORTH * 100.0,
        chosen.join_bytes,
        chosen.hedge_milliseconds,
    )
}

fn choose(measured: &[MeasuredCell]) -> Option<Settings> {
    let least = measured.iter().map(|one| one.cell.range_bytes).min()?;
    let nodes = measured.iter().map(|one| one.cell.nodes).min()?;
    let of_one = || {
        measured
            .iter()
            .filter(|one: &&MeasuredCell| one.cell.nodes == nodes && one.counts.total() > 0)
    };
    let short = || of_one().filter(|one| one.cell.range_bytes == least);
    let most = short().map(MeasuredCell::rate).fold(0.0, f64::max);
    let chosen =
        short().filter(|one| one.rate() >= most * WORTH).min_by_key(|one| one.cell.concurrency)?;
    let alone = of_one().map(|one| one.cell.concurrency).min()?;
    let of_few = || of_one().filter(|one| one.cell.concurrency == alone);
    let fastest = of_few().map(|one| one.counts.quantile(50)).fold(f64::MAX, f64::min);
    let join_bytes = of_few()
        .filter(|one| one.counts.quantile(50) <= fastest * AS_FAST)
        .map(|one| one.cell.range_bytes)
        .max()?;
    let late = (chosen.counts.quantile(99)).max(HEDGE_LEAST_SECONDS);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
    let hedge_milliseconds = (late * 100.0).ceil() as u64 * 10;
    Some(Settings { requests: chosen.cell.concurrency, join_bytes, hedge_milliseconds })
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Cell, ReadCounts};
    use super::*;

    fn measured(range_bytes: u64, concurrency: usize, reads: u64, seconds: f64) -> MeasuredCell {
        let (nodes, object_bytes) = (1, 1 << 20);
        let mut counts = ReadCounts::default();
        (0..reads).for_each(|_| counts.add(seconds));
        let cell = Cell { nodes, concurrency, range_bytes, seconds: 1, objects: 1, object_bytes };
        MeasuredCell { cell, counts }
    }

    #[test]
    fn settings_are_the_cheapest_that_give_nearly_the_most() {
        let grid = [
            measured(1024, 1, 8, 0.12),
            measured(1024, 100, 800, 0.121),
            measured(1024, 400, 1500, 0.25),
            measured(1024, 800, 1520, 0.5),
            measured(65_536, 1, 8, 0.125),
            measured(1 << 20, 1, 4, 0.25),
        ];
        let chosen = choose(&grid).unwrap();
        assert_eq!((chosen.requests, chosen.join_bytes), (400, 65_536));
        assert!((250..=260).contains(&chosen.hedge_milliseconds), "{chosen:?}");
        assert!(text(&grid, true).contains("slow_requests = 400"));
        assert!(choose(&[measured(1, 1, 0, 0.1)]).is_none() && choose(&[]).is_none());
    }
}
