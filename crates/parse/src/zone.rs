//! The zone of clocks whose lines do not name one: an offset, a name of the IANA database, or a host's `/etc/localtime`.
//!
//! The database is built in, so that a recorded host replays the same everywhere. An hour that a clock shows twice in
//! autumn is the first of the two; an hour that it skips in spring is read as if it had not been put forward.

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::problem::ParserProblem;
use crate::time_forms::{Reading, days_of_civil};

/// A zone.
#[derive(Clone, Debug)]
pub struct Zone(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Fixed(i64),
    Named(TimeZone),
}

impl Default for Zone {
    /// UTC.
    fn default() -> Self {
        Self(Kind::Fixed(0))
    }
}

impl Zone {
    /// `Europe/Berlin`, `UTC`, `+02:00`.
    pub fn parse(name: &str) -> Result<Self, ParserProblem> {
        if let Some(seconds) = crate::time_forms::offset(name) {
            return Ok(Self(Kind::Fixed(seconds)));
        }
        let found = TimeZoneDatabase::bundled().get(name).map(|zone| Self(Kind::Named(zone)));
        found.map_err(|_| {
            ParserProblem::new(
                format!("`{name}` is no time zone"),
                "a name of the IANA database such as `Europe/Berlin`, `UTC`, or an offset such as `+02:00`",
            )
        })
    }

    /// From the bytes of a TZif file (RFC 9636), such as `/etc/localtime`; `None` when they are none.
    pub fn of_file(bytes: &[u8]) -> Option<Self> {
        TimeZone::tzif("local", bytes).ok().map(|zone| Self(Kind::Named(zone)))
    }

    /// Seconds east of UTC at the moment when a clock of this zone showed `reading` in `year`.
    pub(crate) fn offset_seconds(&self, year: i64, reading: &Reading) -> i64 {
        let zone = match &self.0 {
            Kind::Fixed(seconds) => return *seconds,
            Kind::Named(zone) => zone,
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
            let moment = zone.to_ambiguous_timestamp(shown.ok()?).compatible().ok()?;
            let days = days_of_civil(year, reading.month, reading.day);
            Some(days * 86_400 + clock - moment.as_second())
        };
        shown().unwrap_or_default()
    }
}

/// Offsets that abbreviations mean in logs; of several meanings that of Europe and North America.
pub(crate) fn of_abbreviation(name: &[u8]) -> Option<i64> {
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
    HALF_HOURS.iter().find(|(known, _)| *known == name).map(|(_, halves)| halves * 1800)
}
