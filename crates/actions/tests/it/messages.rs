//! Notices: their ids, who they name, quiet hours.

use std::collections::BTreeSet;

use weir_actions::{QuietHours, Rota};

use crate::bench_desk::{BenchDesk, START, mail, page, policy};

#[test]
fn mails_wait_for_the_end_of_quiet_hours_and_pages_do_not() {
    let mut policy = policy();
    // The tests begin at 10:00 UTC, 11:00 in Berlin.
    let hours = vec!["fri 09:00-24:00".to_owned(), "sat-sun 00:00-24:00".to_owned()];
    policy.people[0].quiet = Some(QuietHours { hours, zone: "Europe/Berlin".to_owned() });
    policy.people[1].quiet = policy.people[0].quiet.clone();
    let mut bench = BenchDesk::new(policy);
    bench.fire(mail("disk.fill", "db1"));
    let sent = bench.run(61);
    let monday = (START + 61 * 3_600) * 1_000_000;
    assert_eq!(sent[0].due_us, monday, "2026-11-30 00:00 in Berlin");
    assert!(sent[0].expires_us > monday);
    bench.fire(page("app.down", "web1"));
    let sent = bench.run(1);
    assert_eq!(sent[0].due_us, (START + bench.now) * 1_000_000);
}

#[test]
fn person_refused_by_one_contact_is_reached_by_the_others() {
    let mut policy = policy();
    policy.people[0].page.push("unknown:x".parse().unwrap());
    let mut bench = BenchDesk::new(policy);
    bench.fire(page("app.down", "web1"));
    let sent = bench.run(1);
    assert_eq!(sent[0].fallbacks, [("mail".to_owned(), Some("ada".to_owned()))]);
    assert_eq!(sent[0].person.as_deref(), Some("ada"));
}

#[test]
fn rota_gives_the_person_the_reason_and_who_is_on_call() {
    let mut policy = policy();
    policy.rotas = vec![Rota {
        name: "web".to_owned(),
        people: vec!["ada".to_owned(), "bo".to_owned()],
        zone: "UTC".to_owned(),
        start: "2026-11-20T10:00".to_owned(),
        shift_seconds: 7 * 86_400,
        ..Rota::default()
    }];
    policy.routes[0].page = "rota:web".to_owned();
    policy.routes[0].escalate = vec!["rota:web+1".to_owned()];
    let mut bench = BenchDesk::new(policy);
    bench.fire(page("app.down", "web1"));
    let sent = bench.run(1);
    assert_eq!(sent[0].reason, "bo is on call for rota web");
    assert_eq!(sent[0].on_call, ["bo"]);
    let sent = bench.run(300);
    assert_eq!(sent[0].person.as_deref(), Some("ada"));
}

#[test]
fn ids_are_unique_and_the_same_for_whoever_computes_them() {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut bench = BenchDesk::new(policy());
        bench.fire(page("app.down", "web1"));
        bench.fire(mail("disk.fill", "db1"));
        bench.run(2_000);
        ids.push(bench.sent.iter().map(|notice| notice.id.clone()).collect::<Vec<_>>());
    }
    assert_eq!(ids[0], ids[1]);
    let distinct: BTreeSet<&String> = ids[0].iter().collect();
    assert_eq!(distinct.len(), ids[0].len());
    assert!(ids[0].iter().all(|id| id.len() == 32));
}
