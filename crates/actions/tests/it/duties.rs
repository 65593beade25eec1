//! Hand-overs and gaps of rotas, and the states that are sent again.

use weir_actions::{Desk, Notice, NoticeKind, Policy, Rota, ShiftOverride};
use weir_tables::Micros;

use crate::bench_desk::{BenchDesk, at, brief, page, person, policy};

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Ada, Bo and Cy in turn from Friday 2026-11-27 10:00:10 UTC on, ten seconds after the start.
fn web() -> Rota {
    Rota {
        name: "web".to_owned(),
        people: ["ada", "bo", "cy"].map(str::to_owned).to_vec(),
        zone: "UTC".to_owned(),
        start: "2026-11-26T10:00:10".to_owned(),
        shift_seconds: 86_400,
        ..Rota::default()
    }
}

fn bench(rota: Rota) -> BenchDesk {
    let people = ["ada", "bo", "cy"].map(person).to_vec();
    let mut with_rota = Policy { people, rotas: vec![rota], ..policy() };
    with_rota.routes[0].page = "rota:web".to_owned();
    BenchDesk::new(with_rota)
}

impl BenchDesk {
    /// A tick each ten minutes.
    fn pass(&mut self, seconds: i64) -> Vec<Notice> {
        let mut sent = Vec::new();
        for _ in 0..seconds / 600 {
            self.now += 600;
            sent.extend(self.tick());
        }
        sent
    }
}

/// The person whose shift begins gets what is open: target/goalert#583, target/goalert#2865.
#[test]
fn hand_over_lists_incidents_silences_and_pages_of_the_shift() {
    let mut bench = bench(web());
    bench.run(1);
    bench.fire(page("app.down", "web1"));
    bench.run(2);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).unwrap();
    let silence = weir_actions::SilenceRequest {
        rules: vec!["disk.*".to_owned()],
        reason: "disk is being replaced".to_owned(),
        by: "ada".to_owned(),
        until: Some(at(2 * HOUR)),
        ..weir_actions::SilenceRequest::default()
    };
    bench.act(|desk, now| desk.silence(now, silence.clone())).unwrap();
    let sent = bench.run(20);
    assert_eq!(brief(&sent), ["mail mail:bo ada hands over"]);
    let letter = &sent[0];
    assert!(letter.is_letter() && letter.kind == NoticeKind::Mail);
    assert_eq!(letter.incident.title, "hand-over of rota web: bo is on call");
    assert!(letter.incident.summary.contains("until 2026-11-28 10:00 (UTC)"), "{letter:?}");
    let lines: Vec<String> = letter.incident.symptoms.iter().map(|it| it.rule.clone()).collect();
    assert_eq!(lines, ["open", "silence", "page"]);
    assert!(letter.incident.symptoms[0].summary.ends_with("(acknowledged by ada)"));
    assert!(letter.incident.symptoms[1].summary.contains("disk is being replaced"));
    assert!(letter.incident.evidence.contains("\"pages of the last shift\":1"));
    assert_eq!(bench.run(60).len(), 0, "once");
}

/// Icinga/icinga2#8644, Icinga/icinga2#8680: whose hours begin is paged for what another person
/// acknowledged before.
#[test]
fn acknowledged_incident_does_not_page_the_person_whose_shift_begins() {
    let mut bench = bench(web());
    bench.run(1);
    bench.fire(page("app.down", "web1"));
    bench.run(2);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).unwrap();
    let sent = brief(&bench.run(3_599));
    assert_eq!(sent, ["mail mail:bo ada hands over"]);
    let sent = brief(&bench.run(1));
    assert_eq!(sent[0], "ack pager:ada the acknowledgement by ada expired");
    assert!(sent.iter().any(|it| it == "page pager:ada escalated: not acknowledged"), "{sent:?}");
}

/// A swap of shifts changes who hands over to whom: grafana/oncall#3096.
#[test]
fn hand_over_goes_to_the_person_that_took_the_shift_over() {
    let swap = ShiftOverride {
        person: "cy".to_owned(),
        start: "2026-11-27T09:00".to_owned(),
        end: "2026-11-28T08:00".to_owned(),
    };
    let mut bench = bench(Rota { overrides: vec![swap], ..web() });
    bench.tick();
    assert!(bench.pass(20 * HOUR).is_empty(), "cy had it and has it");
    assert_eq!(brief(&bench.pass(3 * HOUR)), ["mail mail:bo cy hands over"]);
    // The end of the override and that of the shift.
    assert_eq!(brief(&bench.pass(DAY)), ["mail mail:cy bo hands over"]);
}

/// A gap is reported before it comes and none that is past: grafana/oncall#1108.
#[test]
fn coming_gap_is_one_mail_and_a_gap_of_now_one_page_with_its_end() {
    let hours = vec!["fri 00:00-24:00".to_owned(), "sat 12:00-24:00".to_owned()];
    let mut bench = bench(Rota { hours, ..web() });
    let sent = bench.tick();
    let who: Vec<&str> = sent.iter().filter_map(|notice| notice.person.as_deref()).collect();
    assert_eq!((who, sent[0].kind), (vec!["ada", "bo", "cy"], NoticeKind::Mail));
    assert!(sent[0].is_letter());
    let gap = "from 2026-11-28 00:00 (UTC) to 2026-11-28 12:00 (UTC)";
    assert!(sent[0].incident.summary.contains(gap), "{}", sent[0].incident.summary);
    let all = bench.pass(30 * HOUR);
    let pages: Vec<&Notice> = all.iter().filter(|it| it.kind == NoticeKind::Page).collect();
    assert_eq!(pages.len(), 3, "{:?}", brief(&all));
    assert!(pages[0].is_about_rota() && !pages[0].is_letter() && !pages[0].is_actionable());
    let over: Vec<&Notice> = all.iter().filter(|it| it.kind == NoticeKind::Resolved).collect();
    assert_eq!(over.len(), 3);
    assert_eq!(over[0].incident.id, pages[0].incident.id);
    let later = bench.pass(5 * DAY);
    assert!(later.iter().all(|it| it.change != "gap in a rota"), "{:?}", brief(&later));
}

/// Hand-over at the same hour across a change of the clock: grafana/oncall#3261,
/// target/goalert#1252, OneUptime/oneuptime#1890.
#[test]
fn hand_over_keeps_its_local_hour_across_daylight_saving() {
    for (zone, start, hand_overs) in [
        ("Europe/Berlin", "2026-10-24T09:00", ["2026-10-24T07:00:00Z", "2026-10-25T08:00:00Z"]),
        ("America/New_York", "2026-03-07T02:30", ["2026-03-07T07:30:00Z", "2026-03-08T07:30:00Z"]),
        ("Europe/London", "2027-03-27T08:30", ["2027-03-27T08:30:00Z", "2027-03-28T07:30:00Z"]),
    ] {
        let rota = Rota { zone: zone.to_owned(), start: start.to_owned(), ..web() };
        let desk = Desk::new(Policy { rotas: vec![rota], ..policy() });
        for (hand_over, person) in hand_overs.iter().zip(["ada", "bo"]) {
            let at_us = hand_over.parse::<jiff::Timestamp>().unwrap().as_microsecond();
            let duty = desk.on_call("web", Micros(at_us));
            assert_eq!(duty.person.as_deref(), Some(person), "{zone} {hand_over}");
            let before = desk.on_call("web", Micros(at_us - 1));
            assert_ne!(before.person.as_deref(), Some(person), "{zone} {hand_over}");
        }
    }
}

/// Alerts of one cause within seconds are one message: prometheus/alertmanager#880,
/// prometheus/alertmanager#1642; and their state is one, which grows: prometheus/alertmanager#1587.
#[test]
fn standing_state_has_the_figures_of_now_and_ends_five_minutes_after_the_incident() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    assert_eq!(bench.run(3).len(), 1);
    let first = bench.desk.standing(at(bench.now));
    assert_eq!((first.len(), first[0].kind, first[0].order), (1, NoticeKind::Page, 1));
    bench.fire(page("app.down", "web2"));
    assert!(bench.run(30).is_empty());
    let grown = bench.desk.standing(at(bench.now));
    assert_eq!((grown.len(), grown[0].incident.finding_count), (1, 2));
    assert_eq!((&grown[0].id, grown[0].order), (&first[0].id, 1));
    bench.firing.clear();
    bench.run(1);
    let over = bench.desk.standing(at(bench.now));
    assert_eq!((over.len(), over[0].kind), (1, NoticeKind::Resolved));
    assert!(over[0].order > grown[0].order && over[0].incident.resolved_us.is_some());
    bench.run(301);
    assert!(bench.desk.standing(at(bench.now)).is_empty());
}

/// A forgotten acknowledgement ends, and the incident escalates again: target/goalert#3378.
#[test]
fn acknowledged_incident_stays_so_through_growth_and_is_open_again_after_an_hour() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(3);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).unwrap();
    let acked = bench.desk.standing(at(bench.now));
    assert_eq!(acked[0].incident.acked_by.as_deref(), Some("ada"));
    // The same again is no reason to open it: alerta/alerta#263.
    bench.fire(page("app.down", "web1"));
    assert!(bench.run(120).is_empty());
    let later = bench.run(3_600);
    assert!(brief(&later)[0].ends_with("the acknowledgement by ada expired"), "{later:?}");
    assert_eq!(bench.desk.standing(at(bench.now))[0].incident.acked_by, None);
}
