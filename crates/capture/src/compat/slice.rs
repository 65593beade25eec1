//! Stage 2: requests to slices of time: arrivals, completions, concurrency and response time.
//!
//! An event is an arrival, in input order, or a completion, from a queue sorted by time. A
//! completion goes first only if it is earlier than the next arrival. Two surprises: a slice
//! without events is not printed; the row before it is longer, as its last column shows. And a time
//! that goes back (input sorted by id) stays in the open slice, and the integrals count it with its
//! sign.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::CompatError;
use super::number::{self, FixedFormat, SIX_DECIMALS};

/// Requests in one slice, or in progress at once: 1 GiB. The old tool was limited by memory only.
pub const ARRIVALS_MAX: usize = 128 << 20;

/// Slice width and quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SliceOptions {
    /// Slice width in seconds; fractions allowed, over 0.
    pub run_time_seconds: f64,
    /// 0 to 1.
    pub quantile: f64,
}

#[derive(Clone, Copy, Debug)]
struct CompletionTime(f64);

impl Ord for CompletionTime {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for CompletionTime {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for CompletionTime {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for CompletionTime {}

#[derive(Clone, Copy)]
struct RequestTimes {
    start: f64,
    end: f64,
    elapsed: f64,
}

/// Integrals over time since the first event.
#[derive(Clone, Copy, Debug, Default)]
struct TimeIntegrals {
    /// Seconds with at least one request in progress.
    busy: f64,
    /// Requests in progress times seconds.
    weighted: f64,
}

#[derive(Debug)]
struct OpenSlice {
    /// A multiple of the slice width; the next slice must be later.
    number: f64,
    /// Start: `number`, except for the first slice, which begins at the first event.
    begin: f64,
    last_event: f64,
    /// Time up to which the integrals are calculated.
    now: f64,
    before: TimeIntegrals,
    arrivals: u64,
    completions: u64,
    elapsed: Vec<f64>,
}

/// Stage 2.
#[derive(Debug)]
pub struct SliceAggregator {
    options: SliceOptions,
    ends: BinaryHeap<Reverse<CompletionTime>>,
    in_progress: u64,
    totals: TimeIntegrals,
    open: Option<OpenSlice>,
    /// Unreadable lines: their count and the first line number.
    unreadable: (u64, u64),
    lines: u64,
}

impl SliceAggregator {
    /// Creates an empty aggregator.
    pub fn new(options: SliceOptions) -> Self {
        Self {
            options,
            ends: BinaryHeap::new(),
            in_progress: 0,
            totals: TimeIntegrals::default(),
            open: None,
            unreadable: (0, 0),
            lines: 0,
        }
    }

    /// Processes one line of stage 1 (`id start end elapsed …`); appends completed rows to `out`.
    ///
    /// # Errors
    /// When there are more requests than the memory limit allows.
    pub fn line(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), CompatError> {
        self.lines += 1;
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let words = [(); 4].map(|()| words.next().and_then(number::parse));
        let [Some(_id), Some(start), Some(end), Some(elapsed)] = words else {
            if !text.trim_ascii().is_empty() {
                let (count, first) = self.unreadable;
                self.unreadable = (count + 1, if count == 0 { self.lines } else { first });
            }
            return Ok(());
        };
        self.complete_before(start, out);
        self.arrive(RequestTimes { start, end, elapsed }, out)
    }

    /// Ends the input: completes requests in progress and prints the last row.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.complete_before(f64::INFINITY, out);
        if let Some(open) = self.open.take() {
            let end = open.now;
            self.print(&open, end, out);
        }
    }

    /// Count of unreadable lines and the first line number.
    pub fn unreadable(&self) -> (u64, u64) {
        self.unreadable
    }

    fn complete_before(&mut self, time: f64, out: &mut Vec<u8>) {
        while let Some(end) = self.ends.peek().map(|end| end.0.0).filter(|end| *end < time) {
            self.ends.pop();
            self.advance(end, out).completions += 1;
            self.in_progress -= 1;
        }
    }

    fn arrive(&mut self, request: RequestTimes, out: &mut Vec<u8>) -> Result<(), CompatError> {
        let RequestTimes { start, end, elapsed } = request;
        if self.ends.len() >= ARRIVALS_MAX {
            return Err(CompatError::TooManyRequests);
        }
        let open = self.advance(start, out);
        open.arrivals += 1;
        if open.elapsed.len() >= ARRIVALS_MAX {
            return Err(CompatError::TooManyRequests);
        }
        open.elapsed.push(elapsed);
        self.in_progress += 1;
        self.ends.push(Reverse(CompletionTime(end)));
        Ok(())
    }

    /// Advances to an event's time, closing the open slice if needed.
    fn advance(&mut self, time: f64, out: &mut Vec<u8>) -> &mut OpenSlice {
        let number = self.number_of(time);
        let mut open = self.open.take().unwrap_or_else(|| OpenSlice::at(number).begun_at(time));
        if number > open.number {
            self.integrate(&mut open, number);
            self.print(&open, number, out);
            open =
                OpenSlice { before: self.totals, elapsed: open.emptied(), ..OpenSlice::at(number) };
        }
        self.integrate(&mut open, time);
        open.last_event = time;
        self.open.insert(open)
    }

    /// `int(time / length) * length`, towards zero.
    fn number_of(&self, time: f64) -> f64 {
        (time / self.options.run_time_seconds).trunc() * self.options.run_time_seconds
    }

    fn integrate(&mut self, open: &mut OpenSlice, to: f64) {
        if self.in_progress > 0 {
            let span = to - open.now;
            self.totals.busy += span;
            self.totals.weighted += self.in_progress as f64 * span;
        }
        open.now = to;
    }

    /// Prints `%s %5.2f %9.3f %5d %5d` and six times `%.6f`, each rounded to six decimals first.
    fn print(&self, open: &OpenSlice, end: f64, out: &mut Vec<u8>) {
        let observed = end - open.begin;
        let busy = self.totals.busy - open.before.busy;
        let weighted = self.totals.weighted - open.before.weighted;
        let (sum, variance_mean) = spread(&open.elapsed);
        number::push_plain(out, self.number_of(open.last_event));
        let [concurrency, arrival_rate] = [weighted, open.arrivals as f64].map(|value| {
            number::at_six_decimals(if observed == 0.0 { 0.0 } else { value / observed })
        });
        out.push(b' ');
        number::push_fixed(out, concurrency, FixedFormat { width: 5, decimals: 2 });
        out.push(b' ');
        number::push_fixed(out, arrival_rate, FixedFormat { width: 9, decimals: 3 });
        for count in [open.arrivals, open.completions] {
            out.extend_from_slice(format!(" {count:5}").as_bytes());
        }
        let quantile = quantile(&open.elapsed, self.options.quantile);
        for value in [busy, weighted, sum, variance_mean, quantile, observed] {
            out.push(b' ');
            number::push_fixed(out, number::at_six_decimals(value), SIX_DECIMALS);
        }
        out.push(b'\n');
    }
}

impl OpenSlice {
    fn at(number: f64) -> Self {
        Self {
            number,
            begin: number,
            last_event: number,
            now: number,
            before: TimeIntegrals::default(),
            arrivals: 0,
            completions: 0,
            elapsed: Vec::new(),
        }
    }

    fn begun_at(self, begin: f64) -> Self {
        Self { begin, last_event: begin, now: begin, ..self }
    }

    /// The list for the next slice, keeping the allocation.
    fn emptied(&mut self) -> Vec<f64> {
        self.elapsed.clear();
        std::mem::take(&mut self.elapsed)
    }
}

/// The sum, and the population variance over the mean; a mean of 0 divides by 1.
fn spread(elapsed: &[f64]) -> (f64, f64) {
    if elapsed.is_empty() {
        return (0.0, 0.0);
    }
    let count = elapsed.len() as f64;
    let sum = elapsed.iter().fold(0.0, |sum, value| sum + value);
    let mean = sum / count;
    let squares = elapsed.iter().fold(0.0, |sum, value| sum + (value - mean) * (value - mean));
    (sum, squares / count / if mean == 0.0 { 1.0 } else { mean })
}

/// The k-th smallest with k = n·q rounded to even. With k = 0 the old tool reads before the first
/// element, which in Perl is the last: the largest.
fn quantile(elapsed: &[f64], share: f64) -> f64 {
    let mut ascending = elapsed.to_vec();
    ascending.sort_unstable_by(f64::total_cmp);
    let Some(largest) = ascending.last() else { return 0.0 };
    let rank = (elapsed.len() as f64 * share).round_ties_even();
    let mut numbered = (1_u32..).map(f64::from).zip(&ascending);
    numbered.find(|(number, _)| *number == rank).map_or(*largest, |(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn run(text: &str, options: SliceOptions) -> String {
        let mut slices = SliceAggregator::new(options);
        let mut out = Vec::new();
        for line in text.lines() {
            slices.line(line.as_bytes(), &mut out).expect("few requests");
        }
        slices.finish(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[track_caller]
    fn check(text: &str, expect: Expect) {
        expect.assert_eq(&run(text, SliceOptions { run_time_seconds: 1.0, quantile: 0.99 }));
    }

    /// 10.25 to 11 is 0.75 s with 1 in progress: the first row. 11 to 11.5 with 1, 11.5 to 11.75
    /// with 2, and 11.75 to 12 with 1 is 1 s busy and 0.5 + 0.5 + 0.25 weighted. Then 12 to 12.25.
    #[test]
    fn integrals_are_what_the_hand_says() {
        check(
            "\
     0 10.250000 11.750000  1.500000 10.0.0.1:1
     1 11.500000 12.250000  0.750000 10.0.0.2:1
",
            expect![[r"
                10  1.00     1.333     1     0 0.750000 0.750000 1.500000 0.000000 1.500000 0.750000
                11  1.25     1.000     1     1 1.000000 1.250000 0.750000 0.000000 0.750000 1.000000
                12  1.00     0.000     0     1 0.250000 0.250000 0.000000 0.000000 0.000000 0.250000
            "]],
        );
    }

    /// Elapsed 1, 2 and 3: mean 2, population variance 2/3, over the mean 1/3.
    #[test]
    fn variance_is_of_the_population_over_the_mean() {
        check(
            "0 10.0 11.0 1.0 a:1\n1 10.0 12.0 2.0 a:2\n2 10.0 13.0 3.0 a:3\n3 13.5 13.5 0.0 a:4\n",
            expect![[r"
                10  3.00     3.000     3     0 1.000000 3.000000 6.000000 0.333333 3.000000 1.000000
                11  2.00     0.000     0     1 1.000000 2.000000 0.000000 0.000000 0.000000 1.000000
                12  1.00     0.000     0     1 1.000000 1.000000 0.000000 0.000000 0.000000 1.000000
                13  0.00     2.000     1     2 0.000000 0.000000 0.000000 0.000000 0.000000 0.500000
            "]],
        );
    }

    /// Nothing happens from 10.5 to 14.25, so the first row spans 4 s: 10 to 14, where the next one
    /// begins.
    #[test]
    fn empty_slices_are_folded_into_the_row_before() {
        check(
            "0 10.000000 10.500000 0.5 a:1\n1 14.250000 14.500000 0.25 a:1\n",
            expect![[r"
                10  0.12     0.250     1     1 0.500000 0.500000 0.500000 0.000000 0.500000 4.000000
                14  0.50     2.000     1     1 0.250000 0.250000 0.250000 0.000000 0.250000 0.500000
            "]],
        );
    }

    #[test]
    fn an_arrival_comes_before_a_completion_of_the_same_time() {
        // In the other order, nothing would be in progress at 10.5, and never 2.
        check(
            "0 10.000000 10.500000 0.5 a:1\n1 10.500000 10.750000 0.25 a:2\n",
            expect![[r"
                10  1.00     2.667     2     2 0.750000 0.750000 0.750000 0.041667 0.500000 0.750000
            "]],
        );
        // A completion exactly at a slice's start belongs to that slice.
        check(
            "0 10.000000 11.000000 1.0 a:1\n",
            expect![[r"
                10  1.00     1.000     1     0 1.000000 1.000000 1.000000 0.000000 1.000000 1.000000
                11  0.00     0.000     0     1 0.000000 0.000000 0.000000 0.000000 0.000000 0.000000
            "]],
        );
    }

    #[test]
    fn fractions_of_a_second_are_slices_too() {
        expect![[r"
            10.1  1.00    40.000     1     0 0.025000 0.025000 0.050000 0.000000 0.050000 0.025000
            10.2  1.00     0.000     0     1 0.025000 0.025000 0.000000 0.000000 0.000000 0.025000
        "]]
        .assert_eq(&run(
            "0 10.175 10.225 0.05 a:1\n",
            SliceOptions { run_time_seconds: 0.1, quantile: 0.99 },
        ));
    }

    /// A start far ahead (a reused client port) opens its slice; what follows in the file stays in
    /// it.
    #[test]
    fn a_bad_start_drags_the_clock_forward() {
        check(
            "0 10.0 10.5 0.5 a:1\n1 30.0 30.5 0.5 a:2\n2 11.0 11.5 0.5 a:3\n3 12.0 12.5 0.5 a:4\n4 31.0 31.5 0.5 a:5\n",
            expect![[r"
                10  0.03     0.050     1     1 0.500000 0.500000 0.500000 0.000000 0.500000 20.000000
                30  1.50     3.000     3     3 0.500000 1.500000 1.500000 0.000000 0.500000 1.000000
                31  1.00     2.000     1     1 0.500000 0.500000 0.500000 0.000000 0.500000 0.500000
            "]],
        );
    }

    #[test]
    fn the_quantile_rounds_to_even_and_zero_is_the_largest() {
        let four = [4.0, 1.0, 3.0, 2.0];
        let found =
            [0.0, 0.1, 0.125, 0.2, 0.375, 0.5, 0.625, 0.99, 1.0].map(|q| quantile(&four, q));
        //           0    0.4  0.5→0  0.8→1 1.5→2  2    2.5→2  3.96→4 4
        assert_eq!(found, [4.0, 4.0, 4.0, 1.0, 2.0, 2.0, 2.0, 4.0, 4.0]);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn what_is_no_request_is_counted_with_its_line() {
        let mut slices =
            SliceAggregator::new(SliceOptions { run_time_seconds: 1.0, quantile: 0.99 });
        let mut out = Vec::new();
        for line in ["", "0 1.0 2.0 1.0 a:1", "# comment", "1 2.0", "x 1 2 3"] {
            slices.line(line.as_bytes(), &mut out).expect("few requests");
        }
        assert_eq!(slices.unreadable(), (3, 3));
    }
}
