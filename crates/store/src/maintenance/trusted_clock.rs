//! The time by which files expire: the wall clock, unless it jumped.
//!
//! ```text
//! wall clock    ──────────┐          ┌──── jump forward: +40 days
//!                         └──────────┘
//! trusted time  ─────────────────────────► advances with the monotonic clock
//! ```
//!
//! A wrong NTP server, a bad hardware clock at boot or a virtual machine that resumes can set the
//! wall clock ahead for a minute, and a deletion cannot be undone. So the trusted time follows the
//! monotonic clock, and is kept in a file over restarts. It takes over a jump of the wall clock
//! after the jump has lasted for a day of running time. A hub that was off for weeks and one whose
//! clock is wrong at boot cannot be told apart, so both wait.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_tables::Micros;

/// Both clocks, read together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    pub(crate) wall: Micros,
    pub(crate) monotonic: Duration,
}

/// Its file below the data directory; only a directory in which weir ran has one.
pub(crate) const CLOCK_FILE: &str = "retention-clock";
/// Differences up to this are drift or a restart.
pub(crate) const TOLERANCE: Duration = Duration::from_secs(3600);
/// Interval between writes of the file.
const SAVE_MICROS: u64 = 60_000_000;

/// A difference between wall clock and trusted time that is not accepted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClockJump {
    /// Wall clock less trusted time, µs.
    micros: i64,
    /// Running time that it has lasted.
    lasted: Duration,
}

/// The trusted time and the last reading that advanced it.
#[derive(Debug)]
pub(crate) struct TrustedClock {
    trusted: Micros,
    read_at: Duration,
    jump: Option<ClockJump>,
    /// Where it is kept over restarts, and the time in the file.
    kept: Option<(PathBuf, Micros)>,
}

impl TrustedClock {
    pub(crate) fn new(trusted: Micros, reading: ClockReading) -> Self {
        Self { trusted, read_at: reading.monotonic, jump: None, kept: None }
    }

    /// Reads the time that a previous run kept in `path`. Without it, the newest arrival is the
    /// last time that is known; without rows there is nothing to protect.
    pub(crate) fn open(
        path: PathBuf,
        newest_arrival: Option<Micros>,
        reading: ClockReading,
    ) -> Self {
        let kept = std::fs::read_to_string(&path).ok().and_then(|text| parse(&text));
        let (trusted, jump) =
            kept.unwrap_or_else(|| (newest_arrival.unwrap_or(reading.wall), None));
        Self { jump, kept: Some((path, Micros(i64::MIN))), ..Self::new(trusted, reading) }
    }

    /// The trusted time at a moment of the monotonic clock.
    pub(crate) fn at(&self, monotonic: Duration) -> Micros {
        self.trusted + monotonic.saturating_sub(self.read_at)
    }

    /// Advances the trusted time to `reading`.
    pub(crate) fn advance(&mut self, reading: ClockReading) {
        let passed = reading.monotonic.saturating_sub(self.read_at);
        if let Some(jump) = &mut self.jump {
            jump.lasted += passed;
        }
        self.trusted = self.trusted + passed;
        self.read_at = reading.monotonic;
    }

    /// Trusts the wall clock.
    pub(crate) fn accept(&mut self, wall: Micros) {
        (self.trusted, self.jump) = (wall, None);
    }

    /// Notes that the wall clock disagrees, and returns the running time after which it is
    /// accepted; zero when it is accepted now. A further jump starts the wait over.
    pub(crate) fn doubt(&mut self, wall: Micros, patience: Duration) -> Duration {
        let micros = wall.0.saturating_sub(self.trusted.0);
        let is_same =
            |jump: &ClockJump| u128::from(jump.micros.abs_diff(micros)) <= TOLERANCE.as_micros();
        let jump =
            self.jump.filter(is_same).unwrap_or(ClockJump { micros, lasted: Duration::ZERO });
        let left = patience.saturating_sub(jump.lasted);
        if left.is_zero() {
            self.accept(wall);
        } else {
            self.jump = Some(jump);
        }
        left
    }

    /// Writes the file when a minute has passed. A failure only makes the next start wait longer.
    pub(crate) fn save(&mut self) {
        let text = self.text();
        let Some((path, saved)) = &mut self.kept else { return };
        let is_recent = self.trusted.0.abs_diff(saved.0) < SAVE_MICROS;
        if is_recent {
            return;
        }
        match write(path, &text) {
            Ok(()) => *saved = self.trusted,
            Err(error) => tracing::debug!("cannot write `{}`: {error}", path.display()),
        }
    }

    fn text(&self) -> String {
        let jump = self.jump.map(|jump| format!(" {} {}", jump.micros, jump.lasted.as_secs()));
        let numbers = format!("{}{}", self.trusted.0, jump.unwrap_or_default());
        format!("{numbers}\n{:08x}\n", crc32fast::hash(numbers.as_bytes()))
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let draft = path.with_added_extension("new");
    std::fs::write(&draft, text)?;
    std::fs::rename(&draft, path)
}

fn parse(text: &str) -> Option<(Micros, Option<ClockJump>)> {
    let (numbers, checksum) = text.trim_end().split_once('\n')?;
    if u32::from_str_radix(checksum, 16).ok()? != crc32fast::hash(numbers.as_bytes()) {
        return None;
    }
    let mut numbers = numbers.split(' ');
    let trusted = Micros(numbers.next()?.parse().ok()?);
    let jump = numbers.next().zip(numbers.next()).and_then(|(micros, lasted)| {
        let lasted = Duration::from_secs(lasted.parse().ok()?);
        Some(ClockJump { micros: micros.parse().ok()?, lasted })
    });
    Some((trusted, jump))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn state_survives_a_restart_and_a_damaged_file_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clock");
        let reading =
            |wall: i64, hours: u32| ClockReading { wall: Micros(wall), monotonic: HOUR * hours };
        let mut clock = TrustedClock::open(path.clone(), None, reading(5_000, 0));
        let far: i64 = 40 * 24 * 3_600_000_000;
        assert_eq!(clock.doubt(Micros(far), 24 * HOUR), 24 * HOUR);
        clock.advance(reading(far, 10));
        clock.save();
        let passed = Micros(5_000 + 10 * 3_600_000_000);
        let mut again = TrustedClock::open(path.clone(), Some(Micros(1)), reading(far, 0));
        assert_eq!(again.at(Duration::ZERO), passed);
        assert_eq!(
            again.doubt(passed + Duration::from_micros(far.cast_unsigned() - 5_000), 24 * HOUR),
            14 * HOUR
        );
        for at in 0..std::fs::read(&path).unwrap().len() {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[at] ^= 1;
            let copy = dir.path().join("damaged");
            std::fs::write(&copy, bytes).unwrap();
            let damaged = TrustedClock::open(copy, Some(Micros(1)), reading(far, 0));
            let known = [Micros(1), passed];
            assert!(known.contains(&damaged.at(Duration::ZERO)), "byte {at}");
        }
    }
}
