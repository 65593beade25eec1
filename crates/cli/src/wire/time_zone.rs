//! The time zone that the environment names, found as the C library finds it (tzset(3)).
//!
//! `TZ` unset is /etc/localtime; empty is UTC; else a file below /usr/share/zoneinfo, or a POSIX
//! rule such as `CET-1CEST,M3.5.0,M10.5.0/3`. A zone that cannot be read is UTC for the C library,
//! which says nothing; here it is UTC and a note.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use weir_wire::text::LocalMinute;

/// Where zones are kept.
const ZONES: &str = "/usr/share/zoneinfo";

/// The zone, and what to say when it could not be read.
pub(crate) fn of_environment() -> (TimeZone, Option<String>) {
    let name = std::env::var_os("TZ");
    let zones = std::env::var_os("TZDIR").map_or_else(|| PathBuf::from(ZONES), PathBuf::from);
    find(name.as_deref(), &zones, Path::new("/etc/localtime"))
}

fn find(name: Option<&OsStr>, zones: &Path, local: &Path) -> (TimeZone, Option<String>) {
    let Some(name) = name else {
        return (read(local).unwrap_or(TimeZone::UTC), None);
    };
    let text = name.to_string_lossy();
    let text = text.strip_prefix(':').unwrap_or(&text);
    if matches!(text, "" | "UTC" | "GMT" | "UTC0" | "GMT0") {
        return (TimeZone::UTC, None);
    }
    // An absolute name replaces the directory.
    match read(&zones.join(text)).or_else(|| TimeZone::posix(text).ok()) {
        Some(zone) => (zone, None),
        None => {
            let note = format!(
                "note: `TZ={text}` is no time zone that is known here; times are taken as UTC"
            );
            (TimeZone::UTC, Some(note))
        }
    }
}

fn read(file: &Path) -> Option<TimeZone> {
    TimeZone::tzif("", &std::fs::read(file).ok()?).ok()
}

/// Seconds since 1970 at which a minute of the zone begins. A minute that the clock showed twice is
/// the earlier one, and one that it never showed an hour later, as Perl's `timelocal` has it.
pub(crate) fn begin_of(minute: LocalMinute, zone: &TimeZone) -> Option<i64> {
    let year = i16::try_from(minute.year).ok()?;
    let (month, day) = (two(minute.month)?, two(minute.day)?);
    let civil =
        DateTime::new(year, month, day, two(minute.hour)?, two(minute.minute)?, 0, 0).ok()?;
    let found = zone.to_ambiguous_timestamp(civil).compatible().ok()?;
    Some(found.as_second())
}

fn two(number: u8) -> Option<i8> {
    i8::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `time` is `MM-DD HH:MM` in 2026.
    fn at(zone: &TimeZone, time: &str) -> Option<i64> {
        let mut parts = time.split(['-', ' ', ':']).map(|part| part.parse().expect("a number"));
        let mut next = || parts.next().expect("four numbers");
        let (month, day, hour, minute) = (next(), next(), next(), next());
        begin_of(LocalMinute { year: 2026, month, day, hour, minute }, zone)
    }

    fn posix(text: &str) -> TimeZone {
        let (zone, note) =
            find(Some(OsStr::new(text)), Path::new("/nonexistent"), Path::new("/nonexistent"));
        assert_eq!(note, None);
        zone
    }

    #[test]
    fn a_repeated_hour_is_the_first_and_a_skipped_one_is_later() {
        // On 25 October 2026 at 01:00 UTC clocks go from 03:00 back to 02:00; on 29 March from
        // 02:00 to 03:00.
        let zone = posix("CET-1CEST,M3.5.0,M10.5.0/3");
        let october = 1_792_886_400; // 2026-10-25 00:00 UTC
        assert_eq!(at(&zone, "10-25 01:59"), Some(october - 60));
        assert_eq!(at(&zone, "10-25 02:30"), Some(october + 1800));
        assert_eq!(at(&zone, "10-25 03:00"), Some(october + 2 * 3600));
        let march = 1_774_742_400; // 2026-03-29 00:00 UTC
        assert_eq!(at(&zone, "03-29 01:59"), Some(march + 3540));
        assert_eq!(at(&zone, "03-29 02:30"), Some(march + 3600 + 1800));
        assert_eq!(at(&zone, "03-29 03:00"), Some(march + 3600));
    }

    #[test]
    fn no_such_minute_is_none() {
        let zone = posix("UTC0");
        assert_eq!(at(&zone, "01-01 00:00"), Some(1_767_225_600));
        for time in [
            "00-01 00:00",
            "13-01 00:00",
            "02-29 00:00",
            "01-01 24:00",
            "01-01 00:60",
            "99-99 99:99",
        ] {
            assert_eq!(at(&zone, time), None, "{time}");
        }
    }

    #[test]
    fn an_unknown_zone_is_utc_with_a_note() {
        let nowhere = Path::new("/nonexistent");
        let (zone, note) = find(Some(OsStr::new("Mars/Olympus")), nowhere, nowhere);
        assert_eq!(at(&zone, "01-01 00:00"), Some(1_767_225_600));
        assert!(note.is_some_and(|note| note.contains("TZ=Mars/Olympus")));
        assert_eq!(find(None, nowhere, nowhere).1, None);
    }
}
