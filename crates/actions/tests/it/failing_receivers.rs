//! A receiver that accepts no messages: its page goes elsewhere.

use weir_actions::{Contact, Finding, Policy, Urgency};

use crate::bench_desk::{BenchDesk, brief, mail, page, policy};

/// The finding of a failing receiver.
fn failing(receiver: &str) -> Finding {
    let key = serde_json::json!({"receiver": receiver}).to_string();
    let (tier, host) = ("weir".to_owned(), String::new());
    Finding { key, tier, host, ..page("notify.failing", receiver) }
}

/// Ada's address at a receiver.
fn contact(receiver: &str) -> Contact {
    Contact { receiver: receiver.to_owned(), address: Some("ada".to_owned()) }
}

/// Ada has a chat and a phone; Bo has a phone.
fn with_chat() -> Policy {
    let mut policy = policy();
    policy.receivers.push("chat".to_owned());
    policy.people[0].page = vec![contact("chat"), contact("pager")];
    policy
}

/// getsentry/sentry#104511, ministryofjustice/cloud-platform#3541: a chat refuses every message, and
/// the alarm about it goes to the same chat or to none.
#[test]
fn page_about_a_receiver_goes_to_the_next_contact_of_the_person() {
    let mut bench = BenchDesk::new(with_chat());
    bench.fire(page("app.down", "web1"));
    assert_eq!(brief(&bench.run(1)), ["page chat:ada opened"]);
    bench.firing.push(failing("chat"));
    assert_eq!(brief(&bench.run(1)), ["page pager:ada opened"]);
    let sent = bench.sent.last().unwrap();
    assert!(sent.fallbacks.iter().all(|(receiver, _)| receiver != "chat"), "{sent:?}");
    // Other incidents try the receiver first: it may be back.
    bench.fire(page("disk.full", "db1"));
    assert_eq!(brief(&bench.run(1)), ["page chat:ada opened"]);
}

#[test]
fn page_about_a_receiver_without_another_contact_goes_to_everyone_else() {
    let mut policy = policy();
    policy.people[0].page = vec![contact("pager")];
    policy.people[0].mail.clear();
    let mut bench = BenchDesk::new(policy);
    bench.firing.push(failing("pager"));
    let sent = bench.run(1);
    assert_eq!(brief(&sent), ["page mail:bo opened"]);
    assert_eq!(sent[0].reason, "the usual receiver does not accept messages");
    // The escalation avoids it, too, and the end reaches who was notified.
    let sent = bench.run(3_600);
    assert!(sent.len() >= 5 && sent.iter().all(|notice| notice.receiver == "mail"), "{sent:?}");
    bench.firing.clear();
    assert_eq!(brief(&bench.run(1)), ["resolved mail:bo resolved"]);
}

#[test]
fn mail_about_the_mail_server_goes_to_phones() {
    let mut bench = BenchDesk::new(policy());
    bench.firing.push(Finding { class: Urgency::Mail, ..failing("mail") });
    assert_eq!(brief(&bench.run(61)), ["mail pager:ada opened", "mail pager:bo opened"]);
}

#[test]
fn second_receiver_that_fails_is_an_incident_of_its_own() {
    let mut bench = BenchDesk::new(with_chat());
    bench.firing.push(failing("chat"));
    assert_eq!(brief(&bench.run(10)), ["page pager:ada opened"]);
    bench.firing.push(failing("pager"));
    assert_eq!(brief(&bench.run(1)), ["page mail:ada opened"]);
    assert_eq!(bench.open().len(), 2);
}

#[test]
fn with_every_receiver_failing_the_page_waits_at_its_own() {
    let mut bench = BenchDesk::new(policy());
    bench.firing.push(failing("pager"));
    bench.firing.push(failing("mail"));
    let sent = brief(&bench.run(1));
    assert_eq!(sent, ["page pager:ada opened", "page pager:ada opened"]);
    bench.fire(mail("disk.full", "db1"));
    assert_eq!(brief(&bench.run(61)), ["mail mail:bo opened"]);
}
