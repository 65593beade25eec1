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
    assert_eq!(brief(&sent), ["resolved pager:ada resolved by ada while a finding fires"]);
    bench.fire(symptom(&root, page("app.slow", "web2")));
    assert!(bench.run(3_599).is_empty());
    assert!(bench.open().is_empty());
    let error = bench.act(|desk, now| desk.acknowledge(now, &id, "bo")).unwrap_err();
    assert_eq!(error.message, format!("cannot acknowledge incident `{id}`: it is resolved"));
    bench.firing.clear();
    bench.run(301);
    assert_eq!(bench.desk.incidents().count(), 0);
}

/// alerta/alerta#156, alerta/alerta#380: what a person closed and still fires stays closed for good,
/// or opens at its next duplicate.
#[test]
fn incident_that_still_fires_an_hour_after_a_person_resolved_it_is_paged_again() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(10);
    let id = bench.only_id();
    bench.act(|desk, now| desk.resolve(now, &id, "bo")).unwrap();
    assert!(bench.run(3_599).is_empty());
    let sent = brief(&bench.run(1));
    assert_eq!(sent, ["page pager:ada still firing 60 min after bo resolved it"]);
    assert_eq!(bench.only_id(), id);
    assert_eq!(brief(&bench.run(300)), ["page pager:ada escalated: not acknowledged"]);
    bench.firing.clear();
    assert_eq!(brief(&bench.run(1)), ["resolved pager:ada resolved"]);
}

#[test]
fn clock_that_is_set_back_after_a_resolve_does_not_lengthen_its_hour() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(10);
    let id = bench.only_id();
    bench.act(|desk, now| desk.resolve(now, &id, "bo")).unwrap();
    bench.now -= 7_200;
    assert!(bench.run(3_600).is_empty());
    let sent = brief(&bench.run(1));
    assert_eq!(sent, ["page pager:ada still firing 60 min after bo resolved it"]);
}

#[test]
fn silenced_page_that_a_person_resolved_is_paged_when_the_silence_is_over() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(10);
    let id = bench.only_id();
    bench.act(|desk, now| desk.resolve(now, &id, "bo")).unwrap();
    let request = weir_actions::SilenceRequest {
        rules: vec!["app.*".to_owned()],
        reason: "known".to_owned(),
        by: "ada".to_owned(),
        class: Some(Urgency::Page),
        ..Default::default()
    };
    bench.act(|desk, now| desk.silence(now, request.clone())).unwrap();
    assert!(bench.run(7_190).is_empty());
    let sent = brief(&bench.run(20));
    assert_eq!(sent.len(), 1);
    assert!(sent[0].starts_with("page pager:ada still firing 60 min after bo"), "{sent:?}");
}

#[test]
fn mail_that_a_person_resolved_is_mailed_again_after_an_hour_and_a_symptom_is_not() {
    let mut bench = BenchDesk::new(policy());
    let root = bench.fire(mail("disk.fill", "db1"));
    bench.run(70);
    let id = bench.only_id();
    bench.act(|desk, now| desk.resolve(now, &id, "ada")).unwrap();
    let sent = brief(&bench.run(3_600));
    assert_eq!(sent, ["mail mail:bo still firing 60 min after ada resolved it"]);
    bench.act(|desk, now| desk.resolve(now, &id, "ada")).unwrap();
    // Another incident explains it now: that one has been sent.
    bench.end(&root);
    let cause = bench.fire(mail("disk.stuck", "db1"));
    bench.fire(symptom(&cause, mail("disk.fill", "db1")));
    let sent = brief(&bench.run(7_200));
    assert!(!sent.iter().any(|it| it.contains("still firing")), "{sent:?}");
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
