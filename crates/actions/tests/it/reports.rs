//! Situations of public reports about other programs, replayed: what people on call were hurt by.
//!
//! Each test names its reports as `owner/repository#number`.

use weir_actions::{
    Contact, NoticeKind, Policy, Rota, Route, ShiftOverride, SilenceRequest, Urgency, Window,
};
use weir_tables::Micros;

use crate::bench_desk::{BenchDesk, at, brief, mail, page, pages, person, policy};

/// Ada has the web servers, Bo the databases.
fn two_teams() -> Policy {
    let route = |hosts: &str, name: &str| Route {
        hosts: vec![hosts.to_owned()],
        page: name.to_owned(),
        mail: name.to_owned(),
        escalate: vec![name.to_owned()],
        ..Route::default()
    };
    Policy { routes: vec![route("web*", "ada"), route("db*", "bo")], ..policy() }
}

fn silence(bench: &mut BenchDesk, request: SilenceRequest) {
    let reason = ("known".to_owned(), "bo".to_owned());
    let request = SilenceRequest { reason: reason.0, by: reason.1, ..request };
    bench.act(|desk, now| desk.silence(now, request.clone())).expect("a right request");
}

fn silence_of(host: &str) -> SilenceRequest {
    SilenceRequest {
        rules: vec!["*".to_owned()],
        hosts: vec![host.to_owned()],
        ..SilenceRequest::default()
    }
}

/// prometheus/alertmanager#1587: an alert that joins a group is not notified, and goes unnoticed.
#[test]
fn finding_of_another_teams_host_is_paged_though_the_same_rule_fires() {
    let mut bench = BenchDesk::new(two_teams());
    bench.fire(page("disk.full", "web1"));
    bench.run(60);
    bench.fire(page("disk.full", "db1"));
    assert_eq!(brief(&bench.run(1)), ["page pager:bo opened"]);
    bench.fire(page("disk.full", "web2"));
    bench.fire(page("disk.full", "db2"));
    assert!(bench.run(60).is_empty(), "each joins the incident of its team");
    assert_eq!(bench.open().len(), 2);
}

/// As above: routes that differ in their patterns only have the same people.
#[test]
fn hosts_of_two_routes_with_the_same_targets_are_one_page() {
    let mut policy = two_teams();
    for route in &mut policy.routes {
        (route.page, route.mail) = ("ada".to_owned(), "ada".to_owned());
        route.escalate = vec!["ada".to_owned()];
    }
    let mut bench = BenchDesk::new(policy);
    bench.fire(page("disk.full", "web1"));
    bench.fire(page("disk.full", "db1"));
    bench.run(60);
    assert_eq!((bench.open().len(), pages(&bench.sent)), (1, 1));
}

/// prometheus/alertmanager#2423: of several hosts some are silenced, and the others' notices have
/// the silenced one's name.
#[test]
fn page_of_a_host_does_not_have_the_title_of_a_silenced_one() {
    let mut bench = BenchDesk::new(policy());
    silence(&mut bench, silence_of("web1"));
    bench.fire(page("app.down", "web1"));
    assert!(bench.run(30).is_empty());
    bench.fire(page("app.down", "web2"));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada opened"]);
    assert_eq!(bench.sent[0].incident.host, "web2");
    bench.fire(page("app.down", "web3"));
    assert!(bench.run(30).is_empty(), "it joins the one that is not silenced");
    assert_eq!(bench.open().len(), 2);
}

/// A fault that comes and goes every four minutes never stays for the five of an escalation. The
/// engine takes it for flapping only from the fourth time on.
#[test]
fn unacknowledged_page_escalates_while_its_fault_flaps() {
    let mut bench = BenchDesk::new(policy());
    let finding = page("app.down", "web1");
    let mut paged = Vec::new();
    for _ in 0..4 {
        bench.fire(finding.clone());
        bench.run(200);
        bench.end(&finding);
        bench.run(60);
    }
    let sent = bench.sent.iter().filter(|notice| notice.kind == NoticeKind::Page);
    paged.extend(sent.map(|notice| notice.address.clone().expect("people have one")));
    assert_eq!(paged, ["ada", "ada", "bo", "ada", "bo"], "{:?}", brief(&bench.sent));
    // What was acknowledged stays so.
    let mut bench = BenchDesk::new(policy());
    bench.fire(finding.clone());
    bench.run(10);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).unwrap();
    for _ in 0..8 {
        bench.end(&finding);
        bench.run(60);
        bench.fire(finding.clone());
        bench.run(200);
    }
    assert_eq!(pages(&bench.sent), 1);
}

/// prometheus/alertmanager#1057: a silence that ends with its alert brings every flap to people.
#[test]
fn silence_until_resolved_outlives_a_flap() {
    let mut bench = BenchDesk::new(policy());
    let finding = bench.fire(page("app.down", "web1"));
    bench.run(1);
    let until_resolved = SilenceRequest::for_incident(bench.open()[0]);
    silence(&mut bench, until_resolved);
    let count = bench.sent.len();
    for _ in 0..3 {
        bench.end(&finding);
        bench.run(240);
        bench.fire(finding.clone());
        bench.run(120);
    }
    assert_eq!(pages(&bench.sent[count..]), 0, "{:?}", brief(&bench.sent));
    assert_eq!(bench.desk.silences().count(), 1);
    bench.end(&finding);
    bench.run(301);
    assert_eq!(bench.desk.silences().count(), 0);
}

/// grafana/grafana#80996: what ended while it was silenced and returns after that is not sent.
#[test]
fn what_ended_in_silence_and_returns_is_sent() {
    let mut bench = BenchDesk::new(policy());
    let finding = bench.fire(page("app.down", "web1"));
    bench.run(10);
    silence(&mut bench, silence_of("web1"));
    bench.end(&finding);
    // prometheus/alertmanager#226 and #3664: the end reaches those who got the beginning.
    assert_eq!(brief(&bench.run(1)), ["resolved pager:ada resolved"]);
    let id = bench.desk.silences().next().expect("it holds").id.clone();
    bench.act(|desk, _| desk.end_silence(&id)).unwrap();
    bench.run(30);
    bench.fire(finding);
    assert_eq!(brief(&bench.run(61)), ["mail pager:ada firing again"]);
    assert_eq!(pages(&bench.run(239)), 1, "and it escalates when the page's time is over");
}

/// prometheus/alertmanager#2896 and #3367: after a silence or muted hours nothing is sent until the
/// next repetition.
#[test]
fn end_of_a_silence_sends_what_still_fires_at_once() {
    let mut bench = BenchDesk::new(policy());
    let short = SilenceRequest { until: Some(at(600)), ..silence_of("web1") };
    silence(&mut bench, short);
    bench.fire(page("app.down", "web1"));
    assert!(bench.run(599).is_empty());
    assert_eq!(brief(&bench.run(1)), ["page pager:ada opened (was silenced by bo: known)"]);
}

/// grafana-cold-storage/oncall#4654: the acknowledgement of one person does not stop the others'
/// notifications.
#[test]
fn acknowledgement_ends_the_escalation_for_everyone() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(299);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).unwrap();
    assert!(bench.run(3_000).is_empty());
}

/// Open mails must not exhaust the limit of open pages.
#[test]
fn pages_open_though_many_mails_are_open() {
    let mut bench = BenchDesk::new(policy());
    for index in 0..1_000 {
        bench.fire(mail(&format!("rule.{index}"), "web1"));
    }
    bench.run(1);
    bench.fire(page("app.down", "web1"));
    assert_eq!(pages(&bench.run(1)), 1);
    assert!(bench.desk.uncounted() > 0);
}

fn utc(text: &str) -> Micros {
    Micros(text.parse::<jiff::Timestamp>().expect("RFC 3339").as_microsecond())
}

fn rota([zone, start]: [&str; 2]) -> Rota {
    Rota {
        name: "web".to_owned(),
        people: vec!["ada".to_owned(), "bo".to_owned()],
        zone: zone.to_owned(),
        start: start.to_owned(),
        shift_seconds: 7 * 86_400,
        ..Rota::default()
    }
}

fn desk_of(rota: Rota) -> weir_actions::Desk {
    weir_actions::Desk::new(Policy { rotas: vec![rota], ..policy() })
}

/// grafana-cold-storage/oncall#5247 and #5455: a weekly shift is an hour short or long at the change
/// of the clock.
#[test]
fn weekly_shifts_neither_overlap_nor_leave_a_gap_at_the_change_of_the_clock() {
    let desk = desk_of(rota(["America/Chicago", "2024-10-01T09:00"]));
    // From UTC-5 to UTC-6 on November 3, and back on March 9.
    for (before, hand_over) in [
        ("2024-11-05T14:59:59Z", "2024-11-05T15:00:00Z"),
        ("2025-03-11T13:59:59Z", "2025-03-11T14:00:00Z"),
    ] {
        let (last, next) = (desk.on_call("web", utc(before)), desk.on_call("web", utc(hand_over)));
        assert_eq!(last.until, utc(hand_over));
        assert!(last.person.is_some() && next.person.is_some() && last.person != next.person);
    }
}

/// grafana-cold-storage/oncall#4755: the next shift seems to end behind the start of an override;
/// #1021: an override within another one.
#[test]
fn shift_ends_where_an_override_begins_and_a_later_override_covers_an_earlier_one() {
    let mut rota = rota(["UTC", "2024-07-29T00:00"]);
    let substitute = |person: &str, start: &str, end: &str| ShiftOverride {
        person: person.to_owned(),
        start: start.to_owned(),
        end: end.to_owned(),
    };
    rota.overrides = vec![
        substitute("cy", "2024-08-02T00:00", "2024-08-04T00:00"),
        substitute("di", "2024-08-03T10:00", "2024-08-03T12:00"),
    ];
    let desk = desk_of(rota);
    let steps = [
        ("2024-08-01T00:00:00Z", "ada", "2024-08-02T00:00:00Z"),
        ("2024-08-02T00:00:00Z", "cy", "2024-08-03T10:00:00Z"),
        ("2024-08-03T10:00:00Z", "di", "2024-08-03T12:00:00Z"),
        ("2024-08-03T12:00:00Z", "cy", "2024-08-04T00:00:00Z"),
        ("2024-08-04T00:00:00Z", "ada", "2024-08-05T00:00:00Z"),
    ];
    for (moment, person, until) in steps {
        let duty = desk.on_call("web", utc(moment));
        assert_eq!((duty.person.as_deref(), duty.until), (Some(person), utc(until)), "{moment}");
    }
}

/// Whether a window of one span is on at moments.
fn window_is_on([weekly, zone]: [&str; 2], moments: &[(&str, bool)]) {
    let window = Window {
        name: "night".to_owned(),
        weekly: vec![weekly.to_owned()],
        zone: zone.to_owned(),
        ..Window::default()
    };
    let desk = weir_actions::Desk::new(Policy { windows: vec![window], ..policy() });
    for (moment, is_on) in moments {
        let muted = desk.muted_by(utc(moment), &page("app.down", "web1"));
        assert_eq!(muted.is_some(), *is_on, "{weekly} in {zone} at {moment}");
    }
}

/// Icinga/icinga2#7951: on the day after the change the period is an hour off;
/// centreon-archive/centreon-archived#3883: the downtime of a week-end lasts into Monday.
#[test]
fn windows_have_their_local_hours_on_and_after_the_day_of_the_change() {
    window_is_on(
        ["06:00-24:00", "Europe/Warsaw"],
        &[
            ("2020-03-29T03:59:59Z", false),
            ("2020-03-29T04:00:00Z", true),
            ("2020-03-29T21:59:59Z", true),
            ("2020-03-29T22:00:00Z", false),
            ("2020-03-30T03:59:59Z", false),
            ("2020-03-30T04:00:00Z", true),
        ],
    );
    window_is_on(
        ["sat-sun 00:00-24:00", "Europe/Paris"],
        &[
            ("2015-10-25T22:59:59Z", true),
            ("2015-10-25T23:00:00Z", false),
            ("2015-10-26T12:00:00Z", false),
            ("2016-03-27T21:59:59Z", true),
            ("2016-03-27T22:00:00Z", false),
        ],
    );
}

/// NagiosEnterprises/nagioscore#203 and Icinga/icinga-core#603: periods in the hour that the change
/// skips. Jobs of that hour run right after the jump, and so does their window.
#[test]
fn window_in_a_skipped_hour_is_on_after_the_jump() {
    // 02:00 becomes 03:00 at 01:00 UTC.
    for (weekly, until) in [
        ("02:00-03:00", "2027-03-28T02:00:00Z"),
        ("02:15-02:45", "2027-03-28T01:30:00Z"),
        ("02:30-03:15", "2027-03-28T01:15:00Z"),
        ("02:30-04:00", "2027-03-28T02:00:00Z"),
    ] {
        window_is_on(
            [weekly, "Europe/Berlin"],
            &[("2027-03-28T00:59:59Z", false), ("2027-03-28T01:00:00Z", true), (until, false)],
        );
    }
    // A day that begins at 01:00, and a span that ends in the skipped hour.
    let brazil = [
        ("2013-10-20T02:59:59Z", false),
        ("2013-10-20T03:00:00Z", true),
        ("2013-10-20T04:00:00Z", false),
    ];
    window_is_on(["sun 00:00-02:00", "America/Sao_Paulo"], &brazil);
    let berlin = [("2027-03-28T00:59:59Z", true), ("2027-03-28T01:00:00Z", false)];
    window_is_on(["01:00-02:30", "Europe/Berlin"], &berlin);
    // An hour that occurs twice is in the window both times.
    let autumn = [("2026-10-25T00:10:00Z", true), ("2026-10-25T01:10:00Z", true)];
    window_is_on(["02:00-03:00", "Europe/Berlin"], &autumn);
}

/// A person without a contact cannot be paged, so everybody is.
#[test]
fn person_whose_contacts_are_gone_is_everybody() {
    let mut policy = policy();
    policy.people[0].page = vec!["retired:ada".parse::<Contact>().expect("a contact")];
    policy.people[0].mail = Vec::new();
    policy.people.push(person("cy"));
    let mut bench = BenchDesk::new(policy);
    bench.fire(page("app.down", "web1"));
    let sent = bench.run(1);
    assert_eq!(brief(&sent), ["page pager:bo opened", "page pager:cy opened"]);
    assert!(sent.iter().all(|notice| notice.incident.class == Urgency::Page));
}

/// prometheus/alertmanager#2805, alerta/alerta#278: the end of a fault that was silenced in between
/// is not sent, and the other system keeps it open.
#[test]
fn end_of_a_silenced_fault_reaches_who_was_paged() {
    let mut bench = BenchDesk::new(policy());
    let fault = bench.fire(page("app.down", "web1"));
    bench.run(10);
    silence(&mut bench, silence_of("web1"));
    assert!(bench.run(600).is_empty(), "it does not escalate");
    bench.end(&fault);
    let sent = brief(&bench.run(1));
    assert_eq!(sent.len(), 1);
    assert!(sent[0].starts_with("resolved pager:ada resolved"), "{sent:?}");
}

/// SoulKyu/notificator#105: the same fault comes back after its end, and has the acknowledgement of
/// last time.
#[test]
fn fault_that_comes_back_later_is_not_acknowledged() {
    let mut bench = BenchDesk::new(policy());
    let fault = bench.fire(page("app.down", "web1"));
    bench.run(10);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).unwrap();
    bench.end(&fault);
    bench.run(301);
    bench.fire(page("app.down", "web1"));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada opened"]);
    assert_eq!(bench.open()[0].acknowledgement(), None);
}

/// grafana-cold-storage/oncall#1792: a page is acknowledged at night and forgotten.
#[test]
fn forgotten_acknowledgement_pages_again_after_its_hour() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(10);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).unwrap();
    assert!(bench.run(3_599).is_empty());
    let sent = brief(&bench.run(1));
    assert!(sent.iter().any(|it| it == "ack pager:ada the acknowledgement by ada expired"));
    assert!(sent.iter().any(|it| it.starts_with("page pager:ada")), "{sent:?}");
}

/// opensearch-project/alerting#971: a third server fails after the alert of two was acknowledged.
#[test]
fn server_that_fails_after_an_acknowledgement_is_paged() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("cpu.saturated", "web1"));
    bench.fire(page("cpu.saturated", "web2"));
    bench.run(10);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).unwrap();
    bench.fire(page("cpu.saturated", "web3"));
    let sent = bench.run(1);
    assert_eq!(brief(&sent), ["page pager:ada opened"]);
    assert_eq!(sent[0].incident.host, "web3");
}
