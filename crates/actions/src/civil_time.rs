//! Local times of named zones, from the built-in database.
//!
//! A local time that daylight saving skips moves forward, one that occurs twice means the first:
//! jiff's `compatible`, as RFC 5545 has it.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use weir_tables::Micros;

/// Microseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub(crate) const MINUTE: i64 = 60 * SECOND;
/// Microseconds of a day of 24 hours.
pub(crate) const DAY: i64 = 24 * 60 * MINUTE;

/// The zone of a name; UTC of an empty one.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    TimeZoneDatabase::bundled().get(name).ok()
}

/// The nearest name of a zone to a misspelt one.
pub(crate) fn nearest_zone(name: &str) -> Option<String> {
    let database = TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.as_str().to_owned()).collect();
    weir_tables::nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// The local time of a moment; 1970 if jiff has no such year.
pub(crate) fn local(zone: &TimeZone, at: Micros) -> DateTime {
    zone.to_datetime(Timestamp::from_microsecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// The moment of a local time; `None` beyond jiff's years.
pub(crate) fn moment(zone: &TimeZone, local: DateTime) -> Option<Micros> {
    zone.to_timestamp(local).ok().map(|timestamp| Micros(timestamp.as_microsecond()))
}

/// The moment at which the clock jumps over a local time; `None` if it does not.
pub(crate) fn gap_end(zone: &TimeZone, local: DateTime) -> Option<Micros> {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    if !matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. }) {
        return None;
    }
    // By the offset of after the jump, a skipped time is before it.
    let before = ambiguous.earlier().ok()?;
    let jump = zone.following(before).next()?.timestamp();
    Some(Micros(jump.as_microsecond()))
}

/// A moment in RFC 3339, or a local time of the zone: `2026-12-07T09:00`.
pub(crate) fn parse_moment(zone: &TimeZone, text: &str) -> Option<Micros> {
    if let Ok(timestamp) = text.trim().parse::<Timestamp>() {
        return Some(Micros(timestamp.as_microsecond()));
    }
    moment(zone, text.trim().parse().ok()?)
}

/// Whether a moment is at night in a zone: from 22:00 to 07:00. UTC where the zone is unknown.
pub fn is_night(zone_name: &str, at: Micros) -> bool {
    let zone = zone(zone_name).unwrap_or(TimeZone::UTC);
    !(7..22).contains(&local(&zone, at).hour())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Micros {
        Micros(text.parse::<Timestamp>().unwrap().as_microsecond())
    }

    #[test]
    fn skipped_times_move_forward_and_repeated_ones_are_the_first() {
        let berlin = zone("Europe/Berlin").unwrap();
        let parsed = |text: &str| parse_moment(&berlin, text);
        assert_eq!(parsed("2027-03-28T02:30"), Some(utc("2027-03-28T01:30:00Z")), "03:30 local");
        assert_eq!(parsed("2026-10-25T02:30"), Some(utc("2026-10-25T00:30:00Z")), "the first");
        assert_eq!(parsed("2026-12-07T09:00:00+02:00"), Some(utc("2026-12-07T07:00:00Z")));
        assert_eq!(parsed("noon"), None);
    }

    #[test]
    fn night_is_local() {
        let at = utc("2026-12-07T21:30:00Z");
        assert!(is_night("Europe/Berlin", at) && !is_night("UTC", at) && !is_night("Mars/X", at));
    }

    #[test]
    fn unknown_zone_has_a_near_name() {
        assert!(zone("Europe/Berlim").is_none());
        assert_eq!(nearest_zone("Europe/Berlim").as_deref(), Some("Europe/Berlin"));
        assert!(zone("").is_some());
    }
}
