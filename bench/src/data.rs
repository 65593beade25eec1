//! Files of generated lines: a day with its daily wave, and a pacer that appends at a steady rate.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_tables::Micros;

use crate::generate::Generator;

const DAY_SECONDS: f64 = 86_400.0;
/// Deviation of the busiest and the quietest hour from the mean.
const WAVE: f64 = 0.6;

/// Writes `events` lines, spread over the day from `start`. Returns their size in bytes.
pub(crate) fn write_day(path: &Path, events: u32, start: Micros) -> anyhow::Result<u64> {
    write_day_of(path, events, start, 42)
}

/// Like [`write_day`], with a seed.
pub(crate) fn write_day_of(
    path: &Path,
    events: u32,
    start: Micros,
    seed: u64,
) -> anyhow::Result<u64> {
    let file = File::create(path).with_context(|| format!("cannot create `{}`", path.display()))?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let (mut generator, mut day, mut text, mut bytes) =
        (Generator::new(seed), DailyWave::new(), String::new(), 0);
    for number in 0..events {
        let at = day.time_of((f64::from(number) + 0.5) / f64::from(events));
        generator.line(start + Duration::from_secs_f64(at), &mut text);
        bytes += text.len() as u64;
        file.write_all(text.as_bytes())?;
        text.clear();
    }
    file.flush()?;
    Ok(bytes)
}

/// Maps the share of a day's events so far to the time of day.
struct DailyWave {
    /// Share of events up to the end of each minute.
    shares: Vec<f64>,
    minute: usize,
}

impl DailyWave {
    fn new() -> Self {
        let sums: Vec<f64> = (0..1440)
            .scan(0.0, |sum, minute| {
                *sum += Self::rate(minute);
                Some(*sum)
            })
            .collect();
        Self { shares: sums.iter().map(|sum| sum / sums[1439]).collect(), minute: 0 }
    }

    /// Events in a minute, relative to the mean.
    fn rate(minute: u32) -> f64 {
        1.0 + WAVE * (std::f64::consts::TAU * (f64::from(minute) - 480.0) / 1440.0).sin()
    }

    /// Seconds since midnight. `share` must not decrease from call to call.
    fn time_of(&mut self, share: f64) -> f64 {
        while self.minute < 1439 && self.shares[self.minute] < share {
            self.minute += 1;
        }
        let before = if self.minute == 0 { 0.0 } else { self.shares[self.minute - 1] };
        let within = (share - before) / (self.shares[self.minute] - before);
        (60.0 * (f64::from(u32::try_from(self.minute).unwrap_or(0)) + within))
            .clamp(0.0, DAY_SECONDS - 1.0)
    }
}

/// Lengths of a paced file, and when each was reached.
pub(crate) type WriteLog = Vec<(u64, Instant)>;

/// Appends `rate` lines per second for `span`, in steps of 10 ms. Lines have the time of writing.
pub(crate) fn pace(
    path: &Path,
    rate: u32,
    span: Duration,
    start: Micros,
) -> anyhow::Result<(WriteLog, u64)> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let (mut generator, mut text, mut written) =
        (Generator::new(7), String::new(), WriteLog::new());
    let (began, mut lines, mut length) = (Instant::now(), 0_u64, 0_u64);
    while began.elapsed() < span {
        let due = began.elapsed().as_micros() * u128::from(rate) / 1_000_000;
        while u128::from(lines) < due {
            generator.line(start + began.elapsed(), &mut text);
            lines += 1;
        }
        file.write_all(text.as_bytes())?;
        length += text.len() as u64;
        written.push((length, Instant::now()));
        text.clear();
        pause(Duration::from_millis(10));
    }
    Ok((written, lines))
}

/// Sleeps. Pacing and polling have nothing else to wait for.
#[expect(clippy::disallowed_methods, reason = "pacing is about the clock itself")]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}

#[cfg(test)]
mod tests {
    use super::DailyWave;

    #[test]
    fn a_day_is_busiest_in_the_afternoon_and_ends_at_midnight() {
        let mut day = DailyWave::new();
        let times: Vec<f64> =
            (0..=1000).map(|thousandth| day.time_of(f64::from(thousandth) / 1000.0)).collect();
        assert!(times.is_sorted() && times[0] >= 0.0 && times[1000] < 86_400.0);
        let within =
            |from: f64, to: f64| times.iter().filter(|time| (from..to).contains(*time)).count();
        let (afternoon, night) = (within(46_800.0, 54_000.0), within(3_600.0, 10_800.0));
        assert!(afternoon > 3 * night, "{afternoon} against {night}");
    }
}
