//! Mails over a day: gathered, held in quiet hours, at most 20 messages an hour for one mailbox.

use std::collections::BTreeMap;

use weir_actions::{Finding, Notice, NoticeKind, Policy, QuietHours, Urgency, digest};

use crate::bench_desk::{BenchDesk, START, at, mail, page, policy};

const HOUR: i64 = 3_600;

/// Bo gets all mails, and sleeps from 22 to 7.
fn with_quiet_hours() -> Policy {
    let mut policy = policy();
    let hours = vec!["22:00-07:00".to_owned()];
    policy.people[1].quiet = Some(QuietHours { hours, zone: "UTC".to_owned() });
    policy
}

/// Messages by the time at which they are due, in seconds after the start.
fn messages(sent: &[Notice]) -> BTreeMap<i64, Vec<&Notice>> {
    let mut messages: BTreeMap<i64, Vec<&Notice>> = BTreeMap::new();
    for notice in sent.iter().filter(|notice| notice.receiver == "mail") {
        messages.entry(notice.due_us / 1_000_000 - START).or_default().push(notice);
    }
    messages
}

fn fault(number: usize) -> Finding {
    mail(&format!("rule{number}.mail"), "web1")
}

#[test]
fn a_day_with_a_fault_a_minute_is_at_most_20_messages_an_hour_and_none_at_night() {
    let mut bench = BenchDesk::new(with_quiet_hours());
    // From 10:00 to 10:00: a fault each minute that lasts for ten.
    for minute in 0..24 * 60 {
        bench.fire(fault(minute));
        if let Some(old) = minute.checked_sub(10) {
            bench.end(&fault(old));
        }
        bench.now += 60;
        bench.tick();
    }
    let messages = messages(&bench.sent);
    let times: Vec<i64> = messages.keys().copied().collect();
    for (at, time) in times.iter().enumerate() {
        let within = times[at..].iter().take_while(|next| **next < time + HOUR).count();
        assert!(within <= 20, "{within} messages within an hour of {time}");
        let hour = (time / HOUR + 10) % 24;
        assert!((7..22).contains(&hour), "a message at {hour}:00");
    }
    // Nothing is lost: each fault of the day that was sent has its mail and, after its end, the end.
    let kinds = |kind| bench.sent.iter().filter(|notice| notice.kind == kind).count();
    assert_eq!(kinds(NoticeKind::Mail), 24 * 60 - 1);
    assert_eq!(kinds(NoticeKind::Resolved), 24 * 60 - 10);
    let longest = bench.sent.iter().map(|notice| notice.due_us).max().unwrap();
    assert!(longest <= at(25 * HOUR).0);
    // The morning is one message.
    let morning = &messages[&(21 * HOUR)];
    assert!(morning.len() > 900, "{}", morning.len());
}

#[test]
fn pages_and_what_follows_them_do_not_wait_for_a_full_mailbox() {
    let mut policy = policy();
    policy.people[1].page = policy.people[1].mail.clone();
    policy.routes[0].page = "bo".to_owned();
    let mut bench = BenchDesk::new(policy);
    for number in 0..40 {
        bench.fire(fault(number));
        bench.run(61);
    }
    let held = bench.sent.iter().filter(|notice| notice.due_us > at(bench.now).0).count();
    assert!(held >= 18, "{held}");
    let fault = bench.fire(page("app.down", "web1"));
    let sent = bench.run(1);
    let paged: Vec<&Notice> = sent.iter().filter(|it| it.kind == NoticeKind::Page).collect();
    assert_eq!((paged.len(), paged[0].due_us), (1, at(bench.now).0));
    bench.end(&fault);
    let sent = bench.run(1);
    let end: Vec<&Notice> = sent.iter().filter(|it| it.kind == NoticeKind::Resolved).collect();
    assert_eq!((end.len(), end[0].due_us), (1, at(bench.now).0));
}

#[test]
fn mailbox_is_forgotten_an_hour_after_its_last_mail() {
    let mut bench = BenchDesk::new(policy());
    let fault = bench.fire(fault(0));
    bench.run(61);
    bench.end(&fault);
    bench.run(1);
    let mailboxes = |bench: &BenchDesk| {
        bench.documents().iter().filter(|(kind, _, _)| kind == "mailbox").count()
    };
    assert_eq!(mailboxes(&bench), 1);
    bench.run(3_600);
    assert_eq!(mailboxes(&bench), 0);
}

#[test]
fn digest_has_a_line_for_each_incident_with_its_last_state() {
    let mut bench = BenchDesk::new(policy());
    let faults: Vec<Finding> = (0..3).map(|number| bench.fire(fault(number))).collect();
    bench.run(61);
    bench.end(&faults[1]);
    bench.run(1);
    let mails: Vec<&Notice> =
        bench.sent.iter().filter(|notice| notice.receiver == "mail").collect();
    assert_eq!(mails.len(), 4);
    let digest = digest(at(100).0, &mails).unwrap();
    assert!(digest.is_digest() && digest.is_letter() && !digest.is_about_rota());
    assert!(!digest.is_actionable());
    let incident = &digest.incident;
    assert_eq!(incident.title, "digest: 2 open incidents, 1 resolved");
    let lines: Vec<String> =
        incident.symptoms.iter().map(|it| format!("{} {}", it.rule, it.summary)).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("MAIL web1 rule"), "{lines:?}");
    assert_eq!(lines[2], "OK web1 rule1.mail refuses connections; resolved");
    assert_eq!((digest.address.as_deref(), digest.person.as_deref()), (Some("bo"), Some("bo")));
    assert!(weir_actions::digest(0, &[]).is_none());
    // The same notices are the same digest, in any order.
    let reversed: Vec<&Notice> = mails.iter().rev().copied().collect();
    assert_eq!(weir_actions::digest(at(100).0, &reversed).unwrap().id, digest.id);
}

#[test]
fn page_that_becomes_a_mail_is_reported_after_five_minutes() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.slow", "web1"));
    bench.run(10);
    bench.fire(mail("app.slow", "web1"));
    assert!(bench.run(300).is_empty(), "it may be a page again in a moment");
    let sent = bench.run(1);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].kind, &*sent[0].change), (NoticeKind::Mail, "less urgent: now a mail"));
    assert_eq!(sent[0].address.as_deref(), Some("ada"));
    assert!(bench.run(7_200).is_empty(), "a mail does not escalate");
    bench.fire(page("app.slow", "web1"));
    let sent = bench.run(1);
    assert_eq!((sent[0].kind, &*sent[0].change), (NoticeKind::Page, "worse: now a page"));
}

#[test]
fn class_that_falls_for_a_short_time_and_a_silenced_page_are_not_reported() {
    let mut bench = BenchDesk::new(policy());
    bench.fire(page("app.slow", "web1"));
    bench.run(10);
    let id = bench.only_id();
    bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).unwrap();
    for _ in 0..5 {
        bench.fire(mail("app.slow", "web1"));
        bench.run(200);
        bench.fire(page("app.slow", "web1"));
        bench.run(10);
    }
    assert_eq!(bench.sent.len(), 2, "{:?}", bench.sent);
    let class = Some(Urgency::Page);
    let request = weir_actions::SilenceRequest {
        rules: vec!["app.*".to_owned()],
        reason: "known".to_owned(),
        by: "ada".to_owned(),
        class,
        ..Default::default()
    };
    bench.act(|desk, now| desk.silence(now, request.clone())).unwrap();
    bench.fire(mail("disk.fill", "web1"));
    let sent = bench.run(900);
    assert!(sent.iter().all(|notice| !notice.change.starts_with("less urgent")), "{sent:?}");
}
