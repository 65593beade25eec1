//! Time zones for lines without one: an offset, an IANA name, or a host's `/etc/localtime`.
//!
//! The database is built in, so that a recorded host replays the same everywhere. A repeated hour
//! in autumn is the second of the two only when that one has just passed, as for a log that is
//! followed, and else the first; a skipped hour in spring is read with the earlier offset.

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use weir_tables::Micros;

use crate::time_forms::{ClockReading, days_of_civil};
use crate::time_problem::TimeProblem;

/// How long ago the second of two equal clock readings may have been, in seconds, when a line is
/// taken for it. Lines of a log that is followed are read at once.
const JUST_PASSED: i64 = 1800;
/// Seconds that the clock of a log may be ahead.
const AHEAD: i64 = 60;

/// A time zone.
#[derive(Clone, Debug)]
pub struct Zone(ZoneKind);

#[derive(Clone, Debug)]
enum ZoneKind {
    Fixed(i64),
    Named(TimeZone),
}

impl Default for Zone {
    /// UTC.
    fn default() -> Self {
        Self(ZoneKind::Fixed(0))
    }
}

impl Zone {
    /// Parses `Europe/Berlin`, `UTC` or `+02:00`.
    pub fn parse(name: &str) -> Result<Self, TimeProblem> {
        if let Some(seconds) = crate::time_forms::offset(name) {
            return Ok(Self(ZoneKind::Fixed(seconds)));
        }
        let found = TimeZoneDatabase::bundled().get(name).map(|zone| Self(ZoneKind::Named(zone)));
        found.map_err(|_| {
            TimeProblem::new(
                format!("`{name}` is not a time zone"),
                "a name of the IANA database such as `Europe/Berlin`, `UTC`, or an offset such as `+02:00`",
            )
        })
    }

    /// Reads a TZif file (RFC 9636), such as `/etc/localtime`; `None` if it is not one.
    pub fn of_file(bytes: &[u8]) -> Option<Self> {
        TimeZone::tzif("local", bytes).ok().map(|zone| Self(ZoneKind::Named(zone)))
    }

    /// Seconds east of UTC when a clock of this zone showed `reading` in `year`, in a line that was
    /// read at `now`.
    pub fn offset_seconds(&self, year: i64, reading: &ClockReading, now: Micros) -> i64 {
        let zone = match &self.0 {
            ZoneKind::Fixed(seconds) => return *seconds,
            ZoneKind::Named(zone) => zone,
        };
        let shown = || -> Option<i64> {
            let clock = reading.second_of_day;
            let small = |value: i64| i8::try_from(value).ok();
            let shown = DateTime::new(
                i16::try_from(year).ok()?,
                small(reading.month)?,
                small(reading.day)?,
                small(clock / 3600)?,
                small(clock / 60 % 60)?,
                small(clock % 60)?,
                0,
            );
            let moments = zone.to_ambiguous_timestamp(shown.ok()?);
            let moment = moments.compatible().ok()?.as_second();
            let later = moments.later().ok()?.as_second();
            let passed = now.0.div_euclid(1_000_000) - later;
            let is_repeated = moments.is_ambiguous() && later > moment;
            let has_just_passed = is_repeated && (-AHEAD..JUST_PASSED).contains(&passed);
            let days = days_of_civil([year, reading.month, reading.day]);
            Some(days * 86_400 + clock - if has_just_passed { later } else { moment })
        };
        shown().unwrap_or_default()
    }
}

/// Offsets of abbreviations in logs; ambiguous ones are European or North American.
pub fn of_abbreviation(name: &[u8]) -> Option<i64> {
    const HALF_HOURS: [(&[u8], i64); 36] = [
        (b"UTC", 0),
        (b"GMT", 0),
        (b"WET", 0),
        (b"BST", 2),
        (b"WEST", 2),
        (b"CET", 2),
        (b"CEST", 4),
        (b"EET", 4),
        (b"EEST", 6),
        (b"MSK", 6),
        (b"TRT", 6),
        (b"SAST", 4),
        (b"GST", 8),
        (b"PKT", 10),
        (b"IST", 11),
        (b"ICT", 14),
        (b"WIB", 14),
        (b"HKT", 16),
        (b"SGT", 16),
        (b"AWST", 16),
        (b"JST", 18),
        (b"KST", 18),
        (b"ACST", 19),
        (b"AEST", 20),
        (b"AEDT", 22),
        (b"NZST", 24),
        (b"NZDT", 26),
        (b"BRT", -6),
        (b"EST", -10),
        (b"EDT", -8),
        (b"CST", -12),
        (b"CDT", -10),
        (b"MST", -14),
        (b"MDT", -12),
        (b"PST", -16),
        (b"PDT", -14),
    ];
    let known = HALF_HOURS.iter().find(|(known, _)| *known == name);
    known.map(|(_, halves)| halves * 1800).or_else(|| {
        // `PSTDST`, as clocks of Cisco are often configured.
        let standard = name.strip_suffix(b"DST").filter(|standard| standard.len() >= 3)?;
        of_abbreviation(standard).map(|offset| offset + 3600)
    })
}
