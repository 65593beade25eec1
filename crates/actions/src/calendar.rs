//! A rota's shifts as an iCalendar (RFC 5545) for subscriptions.
//!
//! Times are UTC, so no zone has to be described. UIDs are stable: a program that reads the
//! calendar again changes its entries instead of adding some.

use jiff::Timestamp;
use weir_tables::Micros;

use crate::civil_time::DAY;
use crate::identity::long_id;
use crate::policy::Rota;
use crate::rota::{DutyReason, RotaBook};

/// Longest calendar.
const DAYS_MAX: u16 = 400;
/// Octets of a line, without its end (RFC 5545, 3.1).
const LINE_OCTETS_MAX: usize = 75;

/// A time in which one person is on call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DutySpan {
    person: String,
    start: Micros,
    end: Micros,
    is_override: bool,
}

/// The shifts of a rota as iCalendar text, from the one that holds at `from`; 90 days are usual.
///
/// Times outside of the rota's hours are those of another rota, and are in that one's calendar.
pub fn calendar(rota: &Rota, from: Micros, days: u16) -> String {
    let mut lines = vec![
        "BEGIN:VCALENDAR".to_owned(),
        "VERSION:2.0".to_owned(),
        "PRODID:-//weir//on call//EN".to_owned(),
        "CALSCALE:GREGORIAN".to_owned(),
        format!("X-WR-CALNAME:{}", escape(&format!("On call: {}", rota.name))),
    ];
    for span in spans(rota, from, days) {
        let start = span.start.0.to_string();
        let uid = long_id(&["shift", &rota.name, &start]);
        let kind = if span.is_override { " (override)" } else { "" };
        let summary = escape(&format!("{}: {}{kind}", rota.name, span.person));
        lines.extend([
            "BEGIN:VEVENT".to_owned(),
            format!("UID:{uid}@weir"),
            format!("DTSTAMP:{}", utc(span.start)),
            format!("DTSTART:{}", utc(span.start)),
            format!("DTEND:{}", utc(span.end)),
            format!("SUMMARY:{summary}"),
            "TRANSP:TRANSPARENT".to_owned(),
            "END:VEVENT".to_owned(),
        ]);
    }
    lines.push("END:VCALENDAR".to_owned());
    lines.iter().map(|line| fold(line) + "\r\n").collect()
}

/// The duties in order; neighbouring spans of one person are one.
fn spans(rota: &Rota, from: Micros, days: u16) -> Vec<DutySpan> {
    let alone = Rota { otherwise: None, ..rota.clone() };
    let book = RotaBook::compile(std::slice::from_ref(&alone));
    let end = from.0 + i64::from(days.min(DAYS_MAX)) * DAY;
    // A shift that began before is listed from its start, so that its UID stays.
    let mut at = book.start_of_duty(&rota.name, from);
    let mut spans: Vec<DutySpan> = Vec::new();
    while at.0 < end {
        let duty = book.on_call(&rota.name, at);
        let is_override = duty.reason == DutyReason::Override;
        if let Some(person) = duty.person {
            match spans.last_mut() {
                Some(last)
                    if last.end == at
                        && last.person == person
                        && last.is_override == is_override =>
                {
                    last.end = duty.until;
                }
                _ => spans.push(DutySpan { person, start: at, end: duty.until, is_override }),
            }
        }
        at = duty.until;
    }
    spans
}

/// `20261207T080000Z`.
fn utc(at: Micros) -> String {
    let timestamp = Timestamp::from_microsecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH);
    timestamp.strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn escape(text: &str) -> String {
    let plain: String = text.chars().filter(|letter| !letter.is_control()).collect();
    plain.replace('\\', "\\\\").replace(';', "\\;").replace(',', "\\,")
}

/// A line of at most 75 octets; the rest continues in lines that begin with a space.
fn fold(line: &str) -> String {
    let mut folded = String::with_capacity(line.len());
    let mut octets = 0;
    for letter in line.chars() {
        if octets + letter.len_utf8() > LINE_OCTETS_MAX {
            folded.push_str("\r\n ");
            octets = 1;
        }
        folded.push(letter);
        octets += letter.len_utf8();
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_folded_between_letters() {
        let folded = fold(&"ä".repeat(100));
        assert!(folded.split("\r\n").all(|line| line.len() <= LINE_OCTETS_MAX), "{folded}");
        assert_eq!(folded.replace("\r\n ", ""), "ä".repeat(100));
        assert_eq!(escape("a,b;c\\d\r\nX:1"), "a\\,b\\;c\\\\dX:1");
    }
}
