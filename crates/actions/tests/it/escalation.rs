//! Unacknowledged pages, acknowledgements, and their end.

use weir_actions::{NoticeKind, Policy};

use crate::bench_desk::{BenchDesk, brief, mail, page, pages, person, policy};

/// The seconds in which pages went out, with their addresses.
fn page_times(bench: &mut BenchDesk, seconds: i64) -> Vec<(i64, String)> {
    let mut times = Vec::new();
    for _ in 0..seconds {
        for notice in bench.run(1).iter().filter(|each| each.kind == NoticeKind::Page) {
            times.push((bench.now, notice.address.clone().expect("people have one")));
        }
    }
    times
}

#[test]
fn page_escalates_through_three_rounds_and_then_every_half_hour() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    let times = page_times(&mut bench, 2 * 3_600);
    let mut expected = vec![(1, "ada")];
    for round in 0..3 {
        let start = 1 + round * 900;
        expected.extend([(start + 300, "ada"), (start + 600, "bo")]);
        expected.extend([(start + 900, "ada"), (start + 900, "bo")]);
    }
    expected.extend([(4_501, "ada"), (6_301, "bo")]);
    let times: Vec<(i64, &str)> = times.iter().map(|(at, who)| (*at, who.as_str())).collect();
    assert_eq!(times, expected);
}

#[test]
fn acknowledgement_stops_escalation_and_reaches_all_that_were_notified() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(605);
    let id = bench.only_id();
    let sent = bench.act(|desk, now| desk.acknowledge(now, &id, "bo")).unwrap();
    assert_eq!(
        brief(&sent),
        ["ack pager:ada acknowledged by bo", "ack pager:bo acknowledged by bo"]
    );
    assert_eq!(sent[0].incident.acked_by.as_deref(), Some("bo"));
    let again = bench.act(|desk, now| desk.acknowledge(now, &id, "bo")).unwrap();
    assert!(again.is_empty(), "a second tap is the same acknowledgement");
    assert!(bench.run(3_599).is_empty());
    assert_eq!(
        brief(&bench.run(1)),
        [
            "ack pager:ada the acknowledgement by bo expired",
            "ack pager:bo the acknowledgement by bo expired",
            "page pager:ada escalated: not acknowledged",
        ]
    );
    assert_eq!(pages(&bench.run(300)), 1, "then the next target");
}

#[test]
fn page_voids_the_acknowledgement_of_a_mail() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(mail("disk.fill", "db1"));
    bench.run(61);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "bo")).unwrap();
    bench.fire(page("disk.fill", "db1"));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada worse: now a page"]);
    assert!(bench.open()[0].acknowledgement().is_none());
    assert_eq!(pages(&bench.run(300)), 1, "it escalates");
}

#[test]
fn end_reaches_everyone_that_got_a_page_or_mail_in_order() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(mail("disk.fill", "db1"));
    bench.run(61);
    bench.fire(page("disk.fill", "db1"));
    bench.run(305);
    bench.firing.clear();
    assert_eq!(brief(&bench.run(1)), ["resolved mail:bo resolved", "resolved pager:ada resolved"]);
    let orders: Vec<u64> = bench.sent.iter().map(|notice| notice.order).collect();
    assert!(orders.is_sorted(), "{orders:?}");
}

#[test]
fn without_routes_everybody_and_without_people_every_receiver_is_notified() {
    let mut policy = Policy {
        people: vec![person("ada"), person("bo")],
        receivers: vec!["pager".to_owned(), "mail".to_owned()],
        ..Policy::default()
    };
    let mut bench = BenchDesk::new(policy.clone());
    bench.fire(page("app.down", "web1"));
    bench.fire(mail("disk.fill", "db1"));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada opened", "page pager:bo opened"]);
    assert_eq!(brief(&bench.run(60)), ["mail mail:ada opened", "mail mail:bo opened"]);
    policy.people.clear();
    let mut bench = BenchDesk::new(policy);
    bench.fire(page("app.down", "web1"));
    assert_eq!(brief(&bench.run(1)), ["page pager:- opened", "page mail:- opened"]);
}

#[test]
fn route_that_does_not_fit_or_names_nobody_is_everybody() {
    let mut narrow = policy();
    narrow.routes[0].rules = vec!["proxy.*".to_owned()];
    let mut bench = BenchDesk::new(narrow);
    bench.fire(page("app.down", "web1"));
    assert_eq!(pages(&bench.run(1)), 2);
    let mut wrong = policy();
    wrong.routes[0].page = "rota:wbe".to_owned();
    let mut bench = BenchDesk::new(wrong);
    bench.fire(page("app.down", "web1"));
    let sent = bench.run(1);
    assert_eq!(pages(&sent), 2);
    assert_eq!(sent[0].reason, "rota wbe reaches no one: everyone is notified");
}
