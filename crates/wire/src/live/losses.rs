//! Losses of a tap over time. The kernel's counters are polled, so a loss lies anywhere between two
//! polls.

use std::collections::VecDeque;
use std::ops::Range;

/// Losses in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LossCounts {
    /// Packets dropped because the ring was full.
    pub tap_drops: u64,
    /// Times the ring was full.
    pub ring_freezes: u64,
    /// Packets that the kernel dropped before the tap: `/proc/net/softnet_stat`, second column.
    pub softnet_drops: u64,
    /// Whether a loss counted elsewhere may lie in this interval.
    pub is_touched: bool,
}

impl LossCounts {
    /// Whether the interval may be incomplete.
    pub fn is_any(&self) -> bool {
        self.is_touched || self.tap_drops + self.ring_freezes + self.softnet_drops > 0
    }
}

/// Losses by poll interval, oldest first.
#[derive(Debug, Default)]
pub struct LossHistory {
    polls: VecDeque<(i64, i64, LossCounts)>,
    since: Option<i64>,
}

/// Intervals remembered: an hour of four polls per second.
const POLLS_MAX: usize = 16_384;

impl LossHistory {
    /// Records that the counters rose by `lost` since the last poll; `now` is nanoseconds since
    /// 1970.
    pub fn note(&mut self, now: i64, lost: LossCounts) {
        let since = self.since.replace(now).unwrap_or(now);
        if lost.is_any() {
            if self.polls.len() == POLLS_MAX {
                self.polls.pop_front();
            }
            self.polls.push_back((since.min(now), now, lost));
        }
    }

    /// Losses in `span`: a loss counts where its poll interval ends and touches every
    /// interval it overlaps.
    pub fn between(&self, span: Range<i64>) -> LossCounts {
        let mut sum = LossCounts::default();
        for (begin, end, lost) in &self.polls {
            sum.is_touched |= *begin < span.end && *end >= span.start;
            if span.contains(end) {
                sum.tap_drops += lost.tap_drops;
                sum.ring_freezes += lost.ring_freezes;
                sum.softnet_drops += lost.softnet_drops;
            }
        }
        sum
    }

    /// Drops intervals that ended before `ts`.
    pub fn forget_before(&mut self, ts: i64) {
        while self.polls.front().is_some_and(|(_, end, _)| *end < ts) {
            self.polls.pop_front();
        }
    }
}

/// Packets dropped by all CPUs before any tap, from the text of `/proc/net/softnet_stat`.
pub fn softnet_drops(text: &str) -> u64 {
    let columns = text.lines().filter_map(|line| line.split_ascii_whitespace().nth(1));
    columns.filter_map(|column| u64::from_str_radix(column, 16).ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_counted_once_and_touches_every_slice_that_it_may_lie_in() {
        let mut losses = LossHistory::default();
        losses.note(900, LossCounts::default());
        losses.note(1_100, LossCounts { tap_drops: 5, ..LossCounts::default() });
        losses.note(1_300, LossCounts::default());
        let (first, second, third) =
            (losses.between(0..1_000), losses.between(1_000..2_000), losses.between(2_000..3_000));
        assert_eq!((first.tap_drops, first.is_any()), (0, true));
        assert_eq!((second.tap_drops, second.is_any()), (5, true));
        assert!(!third.is_any());
        losses.forget_before(2_000);
        assert!(!losses.between(0..2_000).is_any());
    }

    #[test]
    fn softnet_drops_are_the_second_column_of_all_processors() {
        let text = "00001a2b 0000000a 00000000 0\n00001a2b 00000010 00000000 0\n";
        assert_eq!(softnet_drops(text), 26);
        assert_eq!(softnet_drops("no numbers"), 0);
    }
}
