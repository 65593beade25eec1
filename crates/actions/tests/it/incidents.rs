//! What an incident is: joining, late causes, merging, roots that end, what comes back.

use weir_actions::{IncidentEvent, IncidentState, Urgency};

use crate::bench_desk::{BenchDesk, brief, mail, page, pages, policy, symptom};

#[test]
fn page_goes_out_in_the_tick_in_which_the_finding_fires() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada opened"]);
    assert_eq!(bench.last.changes[0].event, IncidentEvent::Opened);
    assert!(bench.run(200).is_empty(), "nothing else before it escalates");
    assert_eq!(bench.sent[0].incident.title, "web1 app.down refuses connections");
    assert_eq!(bench.sent[0].reason, "the route names ada");
}

#[test]
fn symptoms_belong_to_their_root_and_are_not_sent() {
    let mut bench = BenchDesk::new(policy());
    let root = bench.fire(page("disk.stuck", "db1"));
    for host in ["web1", "web2", "web3"] {
        bench.fire(symptom(&root, page("app.slow", host)));
    }
    assert_eq!(pages(&bench.run(120)), 1);
    let summary = bench.open()[0].summary();
    assert_eq!((summary.finding_count, summary.host_count, summary.symptoms.len()), (4, 4, 3));
    assert_eq!(summary.title, "db1 disk.stuck refuses connections (+3 behind)");
}

#[test]
fn late_cause_becomes_the_root_of_the_incident_that_its_symptom_opened() {
    let mut bench = BenchDesk::new(policy());
    let slow = bench.fire(page("app.slow", "web1"));
    bench.run(10);
    let id = bench.only_id();
    let root = bench.fire(page("disk.stuck", "db1"));
    bench.fire(symptom(&root, slow));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada root is now disk.stuck on db1"]);
    assert_eq!(bench.only_id(), id);
    assert_eq!(bench.open()[0].summary().root_rule, "disk.stuck");
}

#[test]
fn incidents_with_one_late_root_merge_into_the_older() {
    let mut bench = BenchDesk::new(policy());
    let one = bench.fire(page("app.slow", "web1"));
    bench.run(5);
    let older = bench.only_id();
    let two = bench.fire(page("proxy.errors", "lb1"));
    bench.run(5);
    assert_eq!(bench.open().len(), 2);
    let younger = bench.open().iter().find(|each| each.id() != older).unwrap().id().to_owned();
    let root = bench.fire(page("disk.stuck", "db1"));
    bench.fire(symptom(&root, one));
    bench.fire(symptom(&root, two));
    let sent = bench.run(1);
    assert_eq!(bench.only_id(), older);
    let merged = bench.desk.incidents().find(|each| each.id() == younger).unwrap();
    assert_eq!((merged.state(), merged.merged_into()), (IncidentState::Merged, Some(&*older)));
    let texts = brief(&sent);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].starts_with("resolved pager:ada merged into"), "{texts:?}");
    assert_eq!(texts[1], "page pager:ada root is now disk.stuck on db1");
    // The younger id still works, and goes with the older incident.
    bench.act(|desk, now| desk.acknowledge(now, &younger, "ada")).unwrap();
    assert_eq!(bench.open()[0].acknowledgement().map(|ack| ack.by.as_str()), Some("ada"));
    bench.firing.clear();
    bench.run(301);
    assert_eq!(bench.desk.incidents().count(), 0);
    assert!(bench.documents().is_empty());
}

#[test]
fn fifty_hosts_with_one_root_rule_are_one_page() {
    let mut bench = BenchDesk::new(policy());
    for host in 0..50 {
        bench.fire(page("app.down", &format!("web{host}")));
        bench.run(1);
    }
    bench.run(200);
    assert_eq!(pages(&bench.sent), 1);
    let summary = bench.open()[0].summary();
    assert_eq!((summary.finding_count, summary.host_count, summary.symptoms.len()), (50, 50, 20));
    // The root's host recovers first: the root changes its host, which is no news.
    bench.end(&page("app.down", "web0"));
    assert!(bench.run(1).is_empty());
    assert_eq!(bench.open()[0].summary().finding_count, 49);
}

#[test]
fn fifty_hosts_in_one_tick_are_one_page() {
    let mut bench = BenchDesk::new(policy());
    for host in 0..50 {
        bench.fire(page("app.down", &format!("web{host}")));
    }
    bench.run(299);
    assert_eq!(brief(&bench.sent), ["page pager:ada opened"]);
    assert_eq!(bench.sent[0].incident.finding_count, 50);
}

#[test]
fn other_tiers_and_later_hosts_open_incidents_of_their_own() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(1);
    let mut other = page("app.down", "lb1");
    other.tier = "proxy".to_owned();
    bench.fire(other);
    bench.run(301);
    assert_eq!(bench.open().len(), 2);
    bench.fire(page("app.down", "web2"));
    bench.run(1);
    assert_eq!(bench.open().len(), 3);
}

#[test]
fn what_begins_after_an_acknowledgement_pages_again() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.down", "web1"));
    bench.run(10);
    let first = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &first, "ada")).unwrap();
    bench.fire(page("app.down", "web2"));
    bench.fire(page("app.down", "web3"));
    bench.run(10);
    assert_eq!(bench.open().len(), 2, "the two new ones are one incident");
    assert_eq!(pages(&bench.sent), 2);
    assert!(bench.open().iter().any(|incident| incident.summary().finding_count == 2));
}

#[test]
fn finding_with_another_id_is_the_same_fault() {
    let mut bench = BenchDesk::new(policy());
    let mut finding = bench.fire(page("app.down", "web1"));
    bench.run(5);
    let id = bench.only_id();
    finding.finding_id = "after-the-crash".to_owned();
    bench.fire(finding);
    assert!(bench.run(5).is_empty());
    assert_eq!(bench.only_id(), id);
}

#[test]
fn symptom_whose_root_ended_does_not_page_before_a_minute() {
    let mut bench = BenchDesk::new(policy());
    let root = bench.fire(page("disk.stuck", "db1"));
    bench.fire(symptom(&root, page("app.slow", "web1")));
    bench.run(200);
    bench.free(&root, Urgency::Page);
    assert!(bench.run(60).is_empty(), "{:?}", brief(&bench.sent));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada root is now app.slow on web1"]);
    // Ends within the minute: resolved, and nothing else.
    let mut calm = BenchDesk::new(policy());
    let root = calm.fire(page("disk.stuck", "db1"));
    let slow = calm.fire(symptom(&root, page("app.slow", "web1")));
    calm.run(10);
    calm.free(&root, Urgency::Page);
    calm.run(50);
    calm.end(&slow);
    assert_eq!(brief(&calm.run(30)), ["resolved pager:ada resolved"]);
}

#[test]
fn root_that_comes_and_goes_is_paged_once() {
    let mut bench = BenchDesk::new(policy());
    let root = page("disk.stuck", "db1");
    let slow = page("app.slow", "web1");
    bench.fire(root.clone());
    bench.fire(symptom(&root, slow.clone()));
    bench.run(1);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).unwrap();
    for _ in 0..5 {
        bench.free(&root, Urgency::Page);
        bench.run(90);
        bench.fire(root.clone());
        bench.fire(symptom(&root, slow.clone()));
        bench.run(30);
    }
    assert_eq!(pages(&bench.sent), 1, "{:?}", brief(&bench.sent));
}

#[test]
fn what_comes_back_within_five_minutes_is_an_update_without_a_page() {
    let mut bench = BenchDesk::new(policy());
    let finding = bench.fire(page("app.down", "web1"));
    bench.run(10);
    let id = bench.only_id();
    bench.end(&finding);
    assert_eq!(brief(&bench.run(1)), ["resolved pager:ada resolved"]);
    bench.run(200);
    bench.fire(finding.clone());
    assert_eq!(brief(&bench.run(80)), ["mail pager:ada firing again"]);
    assert_eq!(bench.only_id(), id);
    // The page is unacknowledged: it escalates as if there had been no recovery.
    assert_eq!(brief(&bench.run(10)), ["page pager:ada escalated: not acknowledged"]);
    bench.end(&finding);
    assert_eq!(brief(&bench.run(1)), ["resolved pager:ada resolved"]);
    bench.run(300);
    bench.fire(finding);
    assert_eq!(brief(&bench.run(1)), ["page pager:ada opened"], "later it is another incident");
    assert_ne!(bench.only_id(), id);
}

#[test]
fn short_flaps_after_the_end_are_not_sent() {
    let mut bench = BenchDesk::new(policy());
    let finding = bench.fire(page("app.down", "web1"));
    bench.run(10);
    bench.end(&finding);
    bench.run(1);
    let count = bench.sent.len();
    for _ in 0..10 {
        bench.fire(finding.clone());
        bench.run(20);
        bench.end(&finding);
        bench.run(20);
    }
    assert_eq!(bench.sent.len(), count, "{:?}", brief(&bench.sent));
}

#[test]
fn worse_is_sent_when_class_rises_or_findings_double() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(mail("disk.fill", "db1"));
    assert!(bench.run(60).is_empty(), "a mail is gathered for a minute");
    assert_eq!(brief(&bench.run(1)), ["mail mail:bo opened"]);
    let root = bench.fire(page("disk.fill", "db1"));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada worse: now a page"]);
    bench.run(61);
    for host in ["web1", "web2"] {
        bench.fire(symptom(&root, page("app.slow", host)));
    }
    assert!(bench.run(5).is_empty(), "2 more are no reason");
    bench.fire(symptom(&root, page("app.slow", "web3")));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada worse: 4 findings on 4 hosts"]);
    bench.run(61);
    bench.fire(symptom(&root, page("app.slow", "web4")));
    assert!(bench.run(5).is_empty());
}

#[test]
fn mail_that_ends_while_it_is_gathered_is_not_sent() {
    let mut bench = BenchDesk::new(policy());
    let finding = bench.fire(mail("disk.fill", "db1"));
    bench.run(50);
    bench.end(&finding);
    bench.run(400);
    assert!(bench.sent.is_empty());
}

#[test]
fn notes_are_listed_and_never_sent() {
    let mut bench = BenchDesk::new(policy());
    let mut finding = mail("cpu.busy", "db1");
    finding.class = Urgency::Note;
    bench.fire(finding);
    bench.run(400);
    assert_eq!((bench.open().len(), bench.sent.len()), (1, 0));
}

#[test]
fn findings_that_explain_each_other_are_sent_nevertheless() {
    let mut bench = BenchDesk::new(policy());
    let (mut one, mut two) = (page("a.rule", "h1"), page("b.rule", "h1"));
    one.cause_finding_id = Some(two.finding_id.clone());
    two.cause_finding_id = Some(one.finding_id.clone());
    bench.fire(one);
    bench.fire(two);
    assert!(pages(&bench.run(1)) > 0);
}
