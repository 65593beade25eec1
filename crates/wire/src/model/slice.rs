//! One tier during one time slice: arrivals, requests in flight, TCP events.
//!
//! A request belongs to the slice of its first byte; a completion to the slice of the response's
//! last byte. Concurrency is exact: each request adds its time in flight to every slice it crosses.

use std::ops::Range;

use crate::histogram::ThinnedSamples;

/// Adds the named fields of another value of the same type.
macro_rules! add_fields {
    ($mine:expr, $other:expr; $($field:ident),* $(,)?) => {
        $($mine.$field += $other.$field;)*
    };
}

pub(crate) use add_fields;

/// Counters of one slice; times are nanoseconds, samples microseconds.
#[derive(Debug, Default)]
pub(crate) struct TimeSlice {
    pub(crate) arrivals: u64,
    pub(crate) completions: u64,
    /// Durations of requests that arrived in the slice: count, sum and sum of squares, µs.
    pub(crate) timed: u64,
    pub(crate) sum_us: u64,
    pub(crate) sum_of_squares: f64,
    /// Request-nanoseconds in flight.
    pub(crate) weighted_ns: i64,
    /// Time with no request in flight, between requests.
    pub(crate) idle_ns: i64,
    pub(crate) think: ThinnedSamples,
    pub(crate) transfer: ThinnedSamples,
    pub(crate) connect: ThinnedSamples,
    pub(crate) delay: ThinnedSamples,
    pub(crate) total: ThinnedSamples,
    /// Quantiles, once the samples are dropped.
    pub(crate) sealed: Option<Box<SliceQuantiles>>,
    pub(crate) delayed_connections: u32,
    pub(crate) new_connections: u32,
    pub(crate) syns: u32,
    pub(crate) late_syns: u32,
    pub(crate) synack_retries: u32,
    pub(crate) data_packets: u32,
    pub(crate) retransmits: u32,
    pub(crate) spurious: u32,
    pub(crate) missing: u32,
    pub(crate) missed_by_tap: u32,
    pub(crate) zero_windows: u32,
    pub(crate) zero_window_us: u64,
    pub(crate) resets_in_flight: u32,
    pub(crate) races: u32,
    pub(crate) errors_5xx: u32,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Sums of squares of arrivals per 10 ms and per 100 ms.
    pub(crate) squares: [u64; 2],
    /// First requests of connections, and the slow ones among them; later ones alike.
    pub(crate) first: u32,
    pub(crate) slow_first: u32,
    pub(crate) later: u32,
    pub(crate) slow_later: u32,
    pub(crate) unanswered: u32,
    /// Whether a request's arrival and duration are in different slices because one was evicted.
    pub(crate) has_late: bool,
}

/// p50, p95 and p99 in microseconds; `None` where nothing was measured.
pub(crate) type SampleQuantiles = Option<[u64; 3]>;

/// Quantiles that replace the samples.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SliceQuantiles {
    pub(crate) think: SampleQuantiles,
    pub(crate) transfer: SampleQuantiles,
    pub(crate) connect: SampleQuantiles,
    pub(crate) delay: SampleQuantiles,
    pub(crate) total: SampleQuantiles,
}

/// Durations of one request, in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct RequestTimes {
    /// `None` when the response did not wait for the request.
    pub(crate) think: Option<u64>,
    pub(crate) transfer: u64,
    pub(crate) total: u64,
}

/// A think time that a user notices, µs.
pub(crate) const SLOW_US: u64 = 200_000;

impl TimeSlice {
    /// Adds the think time of a connection's first request, or of a later one.
    pub(crate) fn think_of(&mut self, is_first: bool, think_us: u64) {
        let is_slow = u32::from(think_us >= SLOW_US);
        if is_first {
            self.first += 1;
            self.slow_first += is_slow;
        } else {
            self.later += 1;
            self.slow_later += is_slow;
        }
    }

    /// Adds the durations of a request that arrived in the slice.
    pub(crate) fn time(&mut self, RequestTimes { think, transfer, total }: RequestTimes) {
        self.timed += 1;
        self.sum_us += total;
        #[expect(clippy::cast_precision_loss, reason = "a variance needs no more than 53 bits")]
        {
            self.sum_of_squares += (total as f64).powi(2);
        }
        if self.sealed.is_none() {
            if let Some(think) = think {
                self.think.add(think);
            }
            self.transfer.add(transfer);
            self.total.add(total);
        }
    }

    /// Merges the counts of another part of the capture for the same slice.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.sealed.is_none() {
            self.think.merge(other.think);
            self.transfer.merge(other.transfer);
            self.connect.merge(other.connect);
            self.delay.merge(other.delay);
            self.total.merge(other.total);
        }
        add_fields!(
            self, other;
            arrivals, completions, timed, sum_us, sum_of_squares, weighted_ns, idle_ns,
            zero_window_us, packets, bytes,
            delayed_connections, new_connections, syns, late_syns, synack_retries, data_packets,
            retransmits, spurious, missing, missed_by_tap, zero_windows, resets_in_flight, races,
            errors_5xx, first, slow_first, later, slow_later, unanswered
        );
        self.squares.iter_mut().zip(other.squares).for_each(|(mine, theirs)| *mine += theirs);
        self.has_late |= other.has_late;
    }

    /// Computes the quantiles and drops the samples; later requests are counted but not sampled.
    pub(crate) fn seal(&mut self) -> SliceQuantiles {
        if let Some(sealed) = &self.sealed {
            return **sealed;
        }
        let sealed = SliceQuantiles {
            think: self.think.take_quantiles(),
            transfer: self.transfer.take_quantiles(),
            connect: self.connect.take_quantiles(),
            delay: self.delay.take_quantiles(),
            total: self.total.take_quantiles(),
        };
        self.sealed = Some(Box::new(sealed));
        sealed
    }
}

/// Slices of a shard not yet merged by the sequencer, the most recently used last.
#[derive(Default)]
pub(crate) struct RecentSlices {
    items: Vec<(u32, Box<TimeSlice>)>,
}

impl RecentSlices {
    /// The slice with this number, created if absent.
    #[inline]
    pub(crate) fn at(&mut self, number: u32) -> &mut TimeSlice {
        if self.items.last().is_none_or(|(last, _)| *last != number) {
            self.bring(number);
        }
        let (_, slice) = self.items.last_mut().expect("it was brought if it was not there");
        slice
    }

    #[cold]
    fn bring(&mut self, number: u32) {
        match self.items.iter().position(|(other, _)| *other == number) {
            Some(at) => {
                let last = self.items.len() - 1;
                self.items.swap(at, last);
            }
            None => self.items.push((number, Box::default())),
        }
    }

    /// Removes the slices before `present`.
    pub(crate) fn take_before(&mut self, present: u32) -> Vec<(u32, Box<TimeSlice>)> {
        if self.items.iter().all(|(number, _)| *number >= present) {
            return Vec::new();
        }
        self.items.extract_if(.., |(number, _)| *number < present).collect()
    }
}

/// Slices of one tier; empty ones do not exist.
#[derive(Default)]
pub(crate) struct TierSlices {
    items: Vec<Option<Box<TimeSlice>>>,
    sealed_to: usize,
}

/// Age at which slices are sealed.
const SEAL_AFTER_NS: i64 = 120_000_000_000;

/// Slices evicted at once, empty ones included.
const SLICES_AT_ONCE: u32 = 10_000;

impl TierSlices {
    /// The slice with this number, created if absent.
    #[inline]
    pub(crate) fn at(&mut self, number: u32) -> &mut TimeSlice {
        let number = number as usize;
        if number >= self.items.len() {
            self.items.resize_with(number + 1, || None);
        }
        self.items[number].get_or_insert_with(Box::default)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&TimeSlice> {
        self.items.get(number as usize)?.as_deref()
    }

    /// Seals old slices; `number` is the current one.
    pub(crate) fn seal_old(&mut self, number: u32, width_ns: i64) {
        let keep = usize::try_from(SEAL_AFTER_NS / width_ns + 1).unwrap_or(usize::MAX);
        let end = (number as usize).saturating_sub(keep).min(self.items.len());
        while self.sealed_to < end {
            if let Some(slice) = &mut self.items[self.sealed_to] {
                slice.seal();
            }
            self.sealed_to += 1;
        }
    }

    /// Removes the first `count` slices and renumbers the rest; missing ones are returned empty.
    pub(crate) fn take(&mut self, count: u32) -> Vec<(u32, Box<TimeSlice>)> {
        let taken = (count as usize).min(self.items.len());
        self.sealed_to = self.sealed_to.saturating_sub(taken);
        let mut items = self.items.drain(..taken);
        (0..count.min(SLICES_AT_ONCE))
            .map(|number| (number, items.next().flatten().unwrap_or_default()))
            .collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TimeSlice> {
        self.items.iter().flatten().map(|slice| &**slice)
    }

    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut TimeSlice> {
        self.items.iter_mut().flatten().map(|slice| &mut **slice)
    }
}

/// Time without any request in flight: the gaps between requests, which may begin and end in any
/// order.
///
/// Example: requests cover `[0, 10)`, `[20, 30)` and then, reported late, `[5, 25)`. The first two
/// leave the gap `[10, 20)`, which the third fills, so nothing was idle.
#[derive(Default)]
pub(crate) struct IdleGaps {
    /// Ascending, disjoint.
    holes: std::collections::VecDeque<Range<i64>>,
    reach: i64,
}

/// Gaps kept open for a long request; older ones are final.
const HOLES_MAX: usize = 100_000;

impl IdleGaps {
    /// Marks `span` as busy; calls `finish` with gaps that become final.
    pub(crate) fn fill(&mut self, span: Range<i64>, finish: &mut impl FnMut(Range<i64>)) {
        if self.reach == 0 {
            self.reach = span.start;
        }
        if span.start > self.reach {
            self.holes.push_back(self.reach..span.start);
            if self.holes.len() > HOLES_MAX
                && let Some(gap) = self.holes.pop_front()
            {
                finish(gap);
            }
        } else {
            self.cut(&span);
        }
        self.reach = self.reach.max(span.end);
    }

    fn cut(&mut self, span: &Range<i64>) {
        let mut at = self.holes.len();
        while at > 0 && self.holes[at - 1].end > span.start {
            at -= 1;
            let Range { start, end } = self.holes[at];
            if start >= span.end {
                continue;
            }
            let (before, after) = (start..span.start.max(start), span.end.min(end)..end);
            match (before.is_empty(), after.is_empty()) {
                (false, false) => {
                    self.holes[at] = before;
                    self.holes.insert(at + 1, after);
                }
                (false, true) => self.holes[at] = before,
                (true, false) => self.holes[at] = after,
                (true, true) => drop(self.holes.remove(at)),
            }
        }
    }

    /// Makes idle time before `cut` final.
    pub(crate) fn settle(&mut self, cut: i64, finish: &mut impl FnMut(Range<i64>)) {
        if self.reach != 0 && self.reach < cut {
            self.holes.push_back(self.reach..cut);
            self.reach = cut;
        }
        while let Some(gap) = self.holes.pop_front() {
            if gap.start >= cut {
                return self.holes.push_front(gap);
            }
            finish(gap.start..gap.end.min(cut));
            if gap.end > cut {
                return self.holes.push_front(cut..gap.end);
            }
        }
    }

    pub(crate) fn drain(&mut self, finish: &mut impl FnMut(Range<i64>)) {
        self.holes.drain(..).for_each(finish);
    }
}

#[cfg(test)]
mod tests {
    use super::IdleGaps;

    #[test]
    fn idle_time_is_what_no_request_covers() {
        arbtest::arbtest(|u| {
            let mut requests: Vec<(i64, i64)> = Vec::new();
            for _ in 0..u.int_in_range(1..=20)? {
                let from = u.int_in_range(1..=100)?;
                requests.push((from, from + u.int_in_range(0..=30)?));
            }
            requests.sort_by_key(|(_, to)| *to);
            let mut idle = IdleGaps::default();
            let first = requests[0].0;
            let mut found = 0;
            for (from, to) in &requests {
                idle.fill(*from..*to, &mut |_| {});
            }
            idle.drain(&mut |gap| found += gap.end - gap.start);
            let end = requests.iter().map(|(_, to)| *to).max().expect("there is one");
            let is_busy = |at: i64| requests.iter().any(|(from, to)| (*from..*to).contains(&at));
            let expected = (first..end).filter(|at| !is_busy(*at)).count();
            assert_eq!(found, i64::try_from(expected).expect("small"));
            Ok(())
        });
    }
}
