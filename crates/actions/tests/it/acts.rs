//! What people do by hand: resolve, wrong ids, tests of receivers.

use weir_actions::{NoticeKind, TestTarget, Urgency};

use crate::bench_desk::{BenchDesk, at, brief, mail, page, pages, policy, symptom};

#[test]
fn incident_resolved_by_hand_stays_resolved_while_its_findings_go_on() {
    let mut bench = BenchDesk::new(policy());
    let root = bench.fire(page("app.down", "web1"));
    bench.run(10);
    let id = bench.only_id();
    let sent = bench.act(|desk, now| desk.resolve(now, &id, "ada")).unwrap();
    assert_eq!(brief(&sent), ["resolved pager:ada resolved by ada"]);
    bench.fire(symptom(&root, page("app.slow", "web2")));
    assert!(bench.run(3_600).is_empty());
    assert!(bench.open().is_empty());
    let error = bench.act(|desk, now| desk.acknowledge(now, &id, "bo")).unwrap_err();
    assert_eq!(error.message, format!("cannot acknowledge incident `{id}`: it is resolved"));
    bench.firing.clear();
    bench.run(301);
    assert_eq!(bench.desk.incidents().count(), 0);
}

#[test]
fn higher_finding_opens_what_a_person_resolved() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(mail("disk.fill", "db1"));
    bench.run(70);
    let id = bench.only_id();
    bench.act(|desk, now| desk.resolve(now, &id, "ada")).unwrap();
    bench.run(10);
    bench.fire(page("disk.fill", "db1"));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada reopened: a new or worse finding"]);
    assert_eq!(bench.only_id(), id);
}

#[test]
fn new_finding_opens_what_a_person_resolved() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(70);
    let id = bench.only_id();
    bench.act(|desk, now| desk.resolve(now, &id, "ada")).unwrap();
    bench.fire(page("app.down", "web2"));
    assert_eq!(pages(&bench.run(1)), 1);
    assert_eq!(bench.only_id(), id);
}

#[test]
fn symptom_of_a_root_that_a_person_resolved_pages_on_its_own_after_a_minute() {
    let mut bench = BenchDesk::new(policy());
    let root = bench.fire(page("disk.stuck", "db1"));
    bench.fire(symptom(&root, page("app.slow", "web1")));
    bench.run(10);
    let id = bench.only_id();
    bench.act(|desk, now| desk.resolve(now, &id, "ada")).unwrap();
    bench.free(&root, Urgency::Page);
    assert!(bench.run(60).is_empty());
    assert_eq!(pages(&bench.run(1)), 1);
}

#[test]
fn unknown_ids_have_a_near_one_in_the_hint() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(1);
    let id = bench.only_id();
    let typed = format!("{}x", &id[..id.len() - 1]);
    let error = bench.act(|desk, now| desk.resolve(now, &typed, "ada")).unwrap_err();
    assert_eq!(error.hint, format!("did you mean `{id}`?"));
    let upper = id.to_uppercase();
    bench.act(|desk, now| desk.acknowledge(now, &upper, "ada")).unwrap();
    assert!(bench.act(|desk, now| desk.acknowledge(now, &id, " ")).is_err());
}

#[test]
fn test_messages_go_to_receivers_people_and_routes() {
    let bench = BenchDesk::new(policy());
    let test = |target| bench.desk.test_notice(at(0), &target);
    let receiver = test(TestTarget::Receiver("mail".to_owned())).unwrap();
    assert_eq!(brief(&receiver), ["test mail:- test"]);
    let person = test(TestTarget::Person("ada".to_owned())).unwrap();
    assert_eq!(brief(&person), ["test pager:ada test", "test mail:ada test"]);
    let route = test(TestTarget::Route(0)).unwrap();
    assert_eq!(brief(&route), ["test pager:ada test", "test mail:bo test"]);
    assert!(route.iter().all(|notice| notice.kind == NoticeKind::Test));
    for target in [
        TestTarget::Receiver("ada".to_owned()),
        TestTarget::Person("mail".to_owned()),
        TestTarget::Route(1),
    ] {
        assert!(test(target).is_err());
    }
}
