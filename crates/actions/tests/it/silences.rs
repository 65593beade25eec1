//! Silences and maintenance windows: notices wait, findings do not.

use weir_actions::{SilenceRequest, Urgency, Window};
use weir_tables::Micros;

use crate::bench_desk::{BenchDesk, at, brief, mail, page, pages, policy};

fn request(rule: &str) -> SilenceRequest {
    SilenceRequest {
        rules: vec![rule.to_owned()],
        reason: "disk is being replaced".to_owned(),
        by: "ada".to_owned(),
        ..SilenceRequest::default()
    }
}

fn silence(bench: &mut BenchDesk, request: &SilenceRequest) {
    bench.act(|desk, now| desk.silence(now, request.clone())).expect("a right request");
}

#[test]
fn silence_holds_back_pages_for_two_hours_and_the_next_message_mentions_it() {
    let mut bench = BenchDesk::new(policy());
    silence(&mut bench, &request("app.*"));
    bench.fire(page("app.down", "web1"));
    assert!(bench.run(7_199).is_empty());
    assert_eq!(bench.open().len(), 1, "the incident is there");
    assert_eq!(
        brief(&bench.run(1)),
        ["page pager:ada opened (was silenced by ada: disk is being replaced)"]
    );
    assert_eq!(bench.desk.silences().count(), 0);
}

#[test]
fn silence_stops_escalation_and_other_rules_still_page() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(10);
    silence(&mut bench, &request("app.down"));
    assert!(bench.run(1_000).is_empty());
    bench.fire(page("proxy.errors", "lb1"));
    assert_eq!(pages(&bench.run(1)), 1);
}

#[test]
fn higher_class_breaks_through() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(mail("disk.fill", "db1"));
    bench.run(10);
    assert_eq!(bench.desk.preview(&request("disk.*")).len(), 1);
    silence(&mut bench, &request("disk.*"));
    assert_eq!(bench.desk.silences().next().unwrap().class, Urgency::Mail);
    assert!(bench.run(100).is_empty());
    bench.fire(page("disk.fill", "db1"));
    assert_eq!(pages(&bench.run(1)), 1);
}

#[test]
fn silence_until_resolved_ends_with_what_it_matched() {
    let mut bench = BenchDesk::new(policy());
    let finding = bench.fire(page("app.down", "web1"));
    bench.run(1);
    let made = SilenceRequest {
        reason: "known".to_owned(),
        by: "bo".to_owned(),
        ..SilenceRequest::for_incident(bench.open()[0])
    };
    assert_eq!(
        (&made.rules[..], &made.hosts[..]),
        (&["app.down".to_owned()][..], &["web1".to_owned()][..])
    );
    silence(&mut bench, &made);
    assert!(bench.run(20_000).is_empty());
    bench.end(&finding);
    bench.run(300);
    assert_eq!(bench.desk.silences().count(), 1, "it may come back");
    bench.run(1);
    assert_eq!(bench.desk.silences().count(), 0);
}

#[test]
fn silence_without_a_match_ends_after_a_day() {
    let mut bench = BenchDesk::new(policy());
    let long = SilenceRequest { until: Some(at(20 * 86_400)), ..request("app.*") };
    silence(&mut bench, &long);
    let finding = bench.fire(page("app.down", "web1"));
    bench.run(10);
    bench.now += 3_600;
    bench.run(1);
    bench.end(&finding);
    bench.now += 86_400 - 700;
    bench.run(1);
    assert_eq!(bench.desk.silences().count(), 1);
    bench.now += 700;
    bench.run(1);
    assert_eq!(bench.desk.silences().count(), 0);
}

#[test]
fn silences_without_pattern_reason_or_end_are_refused() {
    let mut bench = BenchDesk::new(policy());
    let wrong = [
        SilenceRequest { rules: Vec::new(), ..request("x") },
        SilenceRequest { reason: " ".to_owned(), ..request("x") },
        SilenceRequest { by: String::new(), ..request("x") },
        SilenceRequest { until: Some(at(31 * 86_400)), ..request("x") },
        SilenceRequest { until: Some(at(-1)), ..request("x") },
        SilenceRequest { reason: "x".repeat(501), ..request("x") },
        SilenceRequest { hosts: vec!["x".to_owned(); 50], ..request("x") },
    ];
    for request in wrong {
        assert!(bench.act(|desk, now| desk.silence(now, request.clone())).is_err(), "{request:?}");
    }
    silence(&mut bench, &request("x"));
    let id = bench.desk.silences().next().unwrap().id.clone();
    assert!(bench.act(|desk, _| desk.end_silence("nosuchid")).is_err());
    bench.act(|desk, _| desk.end_silence(&id)).unwrap();
    assert!(bench.documents().is_empty());
}

#[test]
fn what_still_fires_at_the_end_of_a_window_pages_then() {
    let mut policy = policy();
    policy.windows = vec![Window {
        name: "patch day".to_owned(),
        // 10:00 UTC is 11:00 in Berlin.
        weekly: vec!["fri 10:30-12:00".to_owned()],
        zone: "Europe/Berlin".to_owned(),
        hosts: vec!["web*".to_owned()],
        ..Window::default()
    }];
    let mut bench = BenchDesk::new(policy);
    bench.fire(page("app.down", "web1"));
    let short = bench.fire(page("app.slow", "web2"));
    bench.run(1_000);
    bench.end(&short);
    assert!(bench.run(2_599).is_empty());
    assert_eq!(
        brief(&bench.run(1)),
        ["page pager:ada opened (was in maintenance window patch day)"]
    );
    bench.fire(page("app.down", "db1"));
    let noon = Micros(at(3_600).0);
    assert_eq!(at(bench.now), noon);
}
