//! Rotas over years and zones, overrides, `otherwise`, and their calendar.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use weir_actions::{Desk, DutyReason, Policy, Rota, ShiftOverride, calendar};
use weir_tables::Micros;

const HOUR: i64 = 3_600_000_000;
const ZONES: [&str; 6] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Santiago",
    "Africa/Casablanca",
];

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn rota(name: &str, zone: &str) -> Rota {
    Rota {
        name: name.to_owned(),
        people: names(&["ada", "bo", "cy"]),
        zone: zone.to_owned(),
        start: "2026-01-05T09:00".to_owned(),
        shift_seconds: 7 * 86_400,
        ..Rota::default()
    }
}

fn desk(rotas: Vec<Rota>) -> Desk {
    Desk::new(Policy { rotas, ..Policy::default() })
}

fn utc(text: &str) -> Micros {
    Micros(text.parse::<jiff::Timestamp>().expect("a time").as_microsecond())
}

/// The person by counting local days, which is not how the desk finds it.
fn expected(zone: &TimeZone, start: DateTime, shift_days: i64, at: Micros) -> usize {
    let local = zone.to_datetime(jiff::Timestamp::from_microsecond(at.0).expect("a time"));
    let days = local.date().duration_since(start.date()).as_hours() / 24;
    let mut shift = days.div_euclid(shift_days);
    // On the day of a hand-over, the moment decides.
    let hand_over = start.date() + jiff::Span::new().days(shift * shift_days);
    let moment = zone.to_timestamp(hand_over.to_datetime(start.time())).expect("a time");
    if moment.as_microsecond() > at.0 {
        shift -= 1;
    }
    usize::try_from(shift.rem_euclid(3)).expect("a time")
}

#[test]
fn ten_years_in_six_zones_have_neither_gaps_nor_overlaps() {
    for zone_name in ZONES {
        let zone = TimeZone::get(zone_name).unwrap();
        for (start, days) in [("2026-01-05T09:00", 7), ("2026-01-05T02:30", 1)] {
            let mut web = rota("web", zone_name);
            start.clone_into(&mut web.start);
            web.shift_seconds = u64::try_from(days).unwrap() * 86_400;
            let desk = desk(vec![web]);
            let first: DateTime = start.parse().unwrap();
            let begin = Micros(zone.to_timestamp(first).unwrap().as_microsecond());
            assert_eq!(desk.on_call("web", Micros(begin.0 - 1)).reason, DutyReason::Gap);
            let mut duty = desk.on_call("web", begin);
            for hour in 0..10 * 366 * 24 {
                let at = Micros(begin.0 + hour * HOUR);
                if duty.until <= at {
                    duty = desk.on_call("web", duty.until);
                }
                let now = desk.on_call("web", at);
                assert!(now.until > at, "{zone_name} {at}");
                assert_eq!(now, duty, "{zone_name} {at}: spans meet");
                let person = ["ada", "bo", "cy"][expected(&zone, first, days, at)];
                assert_eq!(now.person.as_deref(), Some(person), "{zone_name} {start} {at}");
            }
        }
    }
}

#[test]
fn shifts_of_twelve_hours_hand_over_at_the_same_local_time_all_year() {
    for zone_name in ZONES {
        let zone = TimeZone::get(zone_name).unwrap();
        let mut web = rota("web", zone_name);
        web.shift_seconds = 12 * 3_600;
        let desk = desk(vec![web]);
        let mut at = utc("2026-01-06T00:00:00Z");
        let mut hours = BTreeSet::new();
        while at < utc("2027-12-31T00:00:00Z") {
            let next = desk.on_call("web", at);
            let local = zone.to_datetime(jiff::Timestamp::from_microsecond(next.until.0).unwrap());
            hours.insert((local.hour(), local.minute()));
            assert_ne!(desk.on_call("web", next.until).person, next.person);
            at = next.until;
        }
        assert_eq!(hours, BTreeSet::from([(9, 0), (21, 0)]), "{zone_name}");
    }
}

#[test]
fn hand_over_in_a_skipped_hour_moves_forward_and_in_a_repeated_one_is_the_first() {
    let mut web = rota("web", "Europe/Berlin");
    web.start = "2026-01-05T02:30".to_owned();
    web.shift_seconds = 86_400;
    let desk = desk(vec![web]);
    let until = |at: &str| desk.on_call("web", utc(at)).until;
    assert_eq!(until("2026-03-28T12:00:00Z"), utc("2026-03-29T01:30:00Z"), "03:30 in summer time");
    assert_eq!(until("2026-10-24T12:00:00Z"), utc("2026-10-25T00:30:00Z"), "the first 02:30");
    assert_eq!(until("2026-10-25T00:30:00Z"), utc("2026-10-26T01:30:00Z"), "not the second");
}

#[test]
fn override_comes_before_the_shift_and_otherwise_takes_the_other_hours() {
    let mut web = rota("web", "Europe/Berlin");
    web.hours = names(&["mon-fri 08:00-20:00"]);
    web.otherwise = Some("night".to_owned());
    web.overrides = vec![ShiftOverride {
        person: "bo".to_owned(),
        start: "2026-01-06T12:00".to_owned(),
        end: "2026-01-06T22:00:00+01:00".to_owned(),
    }];
    let night = Rota { people: names(&["dee", "eve"]), ..rota("night", "Europe/Berlin") };
    let desk = desk(vec![web, night]);
    let duty = desk.on_call("web", utc("2026-01-06T08:00:00Z"));
    assert_eq!((duty.person.as_deref(), duty.reason), (Some("ada"), DutyReason::Shift));
    assert_eq!(duty.until, utc("2026-01-06T11:00:00Z"), "the override begins");
    let duty = desk.on_call("web", duty.until);
    assert_eq!((duty.person.as_deref(), duty.reason), (Some("bo"), DutyReason::Override));
    assert_eq!(duty.following, ["ada", "cy"]);
    let duty = desk.on_call("web", duty.until);
    let night = DutyReason::Otherwise("night".to_owned());
    assert_eq!((duty.person.as_deref(), duty.reason), (Some("dee"), night));
    assert_eq!(duty.until, utc("2026-01-07T07:00:00Z"));
}

#[test]
fn otherwise_without_end_is_a_gap() {
    let hours = names(&["mon 08:00-09:00"]);
    let one = Rota { hours: hours.clone(), otherwise: Some("b".to_owned()), ..rota("a", "UTC") };
    let two = Rota { hours, otherwise: Some("a".to_owned()), ..rota("b", "UTC") };
    let desk = desk(vec![one, two]);
    let duty = desk.on_call("a", utc("2026-01-06T00:00:00Z"));
    assert_eq!((duty.person, duty.reason), (None, DutyReason::Gap));
    assert_eq!(desk.on_call("nosuch", Micros(0)).reason, DutyReason::Gap);
}

/// Start and end of the events of a calendar, and its UIDs.
fn events(text: &str) -> (Vec<(String, String, String)>, BTreeSet<String>) {
    let field = |event: &str, name: &str| {
        let line = event.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {event}")).to_owned()
    };
    let events: Vec<&str> = text.split("BEGIN:VEVENT").skip(1).collect();
    let spans = events
        .iter()
        .map(|event| (field(event, "DTSTART:"), field(event, "DTEND:"), field(event, "SUMMARY:")));
    let uids = events.iter().map(|event| field(event, "UID:")).collect();
    (spans.collect(), uids)
}

#[test]
fn calendar_has_the_shifts_in_utc_with_stable_ids() {
    let web = rota("web", "Europe/Berlin");
    let text = calendar(&web, utc("2026-03-20T00:00:00Z"), 14);
    assert!(text.starts_with("BEGIN:VCALENDAR\r\n") && text.ends_with("END:VCALENDAR\r\n"));
    let (spans, uids) = events(&text);
    let expected = [
        ("20260316T080000Z", "20260323T080000Z", "web: bo"),
        ("20260323T080000Z", "20260330T070000Z", "web: cy"),
        ("20260330T070000Z", "20260406T070000Z", "web: ada"),
    ];
    let spans: Vec<_> =
        spans.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
    assert_eq!(spans, expected);
    let (_, later) = events(&calendar(&web, utc("2026-03-24T12:00:00Z"), 14));
    assert_eq!(uids.intersection(&later).count(), 2, "the same shifts have the same ids");
}

#[test]
fn calendar_has_overrides_and_leaves_out_other_hours() {
    let mut web = rota("web", "UTC");
    web.hours = names(&["mon-fri 08:00-20:00"]);
    web.overrides = vec![ShiftOverride {
        person: "bo".to_owned(),
        start: "2026-01-06T12:00".to_owned(),
        end: "2026-01-06T14:00".to_owned(),
    }];
    let (spans, _) = events(&calendar(&web, utc("2026-01-06T00:00:00Z"), 1));
    // The shift begins on Monday, so its first day is listed as well.
    let texts: Vec<String> = spans.iter().map(|(a, b, c)| format!("{a} {b} {c}")).collect();
    let expected = [
        "20260106T080000Z 20260106T120000Z web: ada",
        "20260106T120000Z 20260106T140000Z web: bo (override)",
        "20260106T140000Z 20260106T200000Z web: ada",
    ];
    assert_eq!(texts, expected);
}

/// target/goalert#55, OneUptime/oneuptime#2413: of a daily rota of the working days, Friday's person
/// is on call on Monday again, and of seven people two never are.
#[test]
fn daily_rota_of_working_days_gives_each_person_the_same_number_of_days() {
    for count in [2, 3, 5, 7, 14] {
        let people: Vec<String> = (0..count).map(|number| format!("person{number}")).collect();
        let daily = Rota {
            people: people.clone(),
            shift_seconds: 86_400,
            hours: names(&["mon-fri 08:00-20:00"]),
            ..rota("web", "Europe/Berlin")
        };
        let desk = desk(vec![daily.clone()]);
        let mut days = std::collections::BTreeMap::new();
        let mut last = None;
        // 70 weeks of noons: 350 working days.
        for day in 0..490 {
            let noon = Micros(utc("2026-01-05T11:00:00Z").0 + day * 24 * HOUR);
            let Some(person) = desk.on_call("web", noon).person else { continue };
            assert_ne!(last.replace(person.clone()), Some(person.clone()), "day {day}");
            *days.entry(person).or_insert(0) += 1;
        }
        assert_eq!(days.len(), count);
        let (least, most) = (days.values().min().unwrap(), days.values().max().unwrap());
        assert!(most - least <= 1, "{days:?}");
        // Before the hand-over of Monday, its person is on call already.
        let monday = utc("2026-01-12T07:30:00Z");
        let later = utc("2026-01-12T11:00:00Z");
        assert_eq!(desk.on_call("web", monday).person, desk.on_call("web", later).person);
        assert_eq!(desk.on_call("web", later).person, Some(people[5 % count].clone()));
        let ics = calendar(&daily, utc("2026-01-05T11:00:00Z"), 27);
        // Monday is one entry; on other days the hour before the hand-over is another person's.
        assert_eq!(ics.matches("BEGIN:VEVENT").count(), 4 * 9, "{ics}");
    }
}
