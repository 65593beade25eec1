//! Digests: mails of several incidents that are due at one time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use weir_actions::NoticeKind::{Ack, Mail, Page, Resolved};
use weir_actions::{IncidentSummary, Notice, NoticeKind, Urgency};
use weir_ledger::LedgerBackend;

use super::doubles::{Behaviour, SECOND_US, START_US, ScriptedReceiver, Stage, incident, notice};
use super::{MemoryLedger, NOTICE_KIND, NoticeRecord, NoticeState};
use crate::receiver::RetryAdvice;

const NAMES: [&str; 8] = ["i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7"];
const MORNING_US: i64 = START_US + 9 * 3600 * SECOND_US;

/// A notice of the incident with this number, for `chat`.
fn of_incident(number: usize, kind: NoticeKind, order: u64, name: &'static str) -> Notice {
    let incident = IncidentSummary { class: Urgency::Mail, ..incident(NAMES[number]) };
    Notice { incident, ..notice("chat", kind, order, name) }
}

fn mails(count: usize, due_us: i64) -> Vec<Notice> {
    let mails = (0..count).map(|number| of_incident(number, Mail, 1, NAMES[number]));
    mails.map(|mail| Notice { due_us, expires_us: due_us + 86_400 * SECOND_US, ..mail }).collect()
}

fn titles(stage: &Stage) -> Vec<String> {
    let arrivals = stage.chat.arrivals.lock();
    arrivals.iter().map(|(_, message)| message.notice.incident.title.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn mails_held_for_the_morning_are_one_message() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    stage.play(&mails(8, MORNING_US), 9 * 3600 - 1).await;
    assert!(titles(&stage).is_empty());
    stage.play(&[], 5).await;
    assert_eq!(titles(&stage), ["digest: 8 open incidents"]);
    for name in NAMES {
        assert_eq!(stage.state(name), NoticeState::Superseded);
        assert_eq!(stage.record(name).answer.as_deref(), Some("sent in a digest"));
    }
    // The end of one of them is sent: its mail has arrived.
    stage.play(&[of_incident(3, Resolved, 2, "over")], 5).await;
    assert_eq!(stage.state("over"), NoticeState::Sent);
    assert_eq!(stage.outbox.status().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn four_mails_are_sent_one_by_one() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    stage.play(&mails(4, MORNING_US), 9 * 3600 + 5).await;
    assert_eq!(stage.chat.arrived(), ["i0", "i1", "i2", "i3"]);
}

/// Uninett/Argus#471: in the morning only what is not over is news.
#[tokio::test(start_paused = true)]
async fn incident_that_is_over_before_the_morning_is_not_in_the_digest() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    let mut notices = mails(6, MORNING_US);
    notices.push(Notice { due_us: MORNING_US, ..of_incident(2, Resolved, 2, "over") });
    notices.push(Notice { due_us: MORNING_US, ..of_incident(4, Ack, 2, "acked") });
    stage.play(&notices, 9 * 3600 + 5).await;
    assert_eq!(titles(&stage), ["digest: 5 open incidents"]);
    let arrivals = stage.chat.arrivals.lock();
    let lines = &arrivals[0].1.notice.incident.symptoms;
    let words: Vec<&str> = lines.iter().map(|line| line.rule.as_str()).collect();
    assert_eq!(words, ["MAIL", "MAIL", "MAIL", "ACK", "MAIL"], "{lines:?}");
    assert!(lines.iter().all(|line| line.host != "i2"), "{lines:?}");
    drop(arrivals);
    assert_eq!(stage.state("over"), NoticeState::Superseded);
}

#[tokio::test(start_paused = true)]
async fn pages_other_addresses_and_programs_get_their_own_messages() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    let mut notices = mails(8, START_US);
    for (at, notice) in notices.iter_mut().enumerate() {
        match at % 2 {
            0 => notice.incident.class = Urgency::Page,
            _ => notice.address = Some(format!("address {at}")),
        }
    }
    notices.push(Notice { kind: Page, id: "page".to_owned(), order: 2, ..notices[1].clone() });
    stage.play(&notices, 5).await;
    assert!(titles(&stage).iter().all(|title| !title.starts_with("digest")));
    assert_eq!(stage.chat.arrivals.lock().len(), 9);

    let mut for_programs = ScriptedReceiver::new(&[]);
    for_programs.is_for_people = false;
    let mut stage = Stage::new(for_programs);
    stage.play(&mails(8, START_US), 5).await;
    assert_eq!(stage.chat.arrivals.lock().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn mails_that_waited_for_a_receiver_are_one_message_after_its_return() {
    let refusals = [Behaviour::Refuse(RetryAdvice::Backoff); 200];
    let mut stage = Stage::new(ScriptedReceiver::new(&refusals));
    for (at, mail) in mails(8, START_US).into_iter().enumerate() {
        let due_us = START_US + i64::try_from(at).unwrap() * 20 * SECOND_US;
        stage.play(&[Notice { due_us, ..mail }], 20).await;
    }
    stage.chat.script.lock().clear();
    stage.chat.is_reachable.store(true, Ordering::SeqCst);
    stage.play(&[], 90).await;
    let titles = titles(&stage);
    assert!(titles.len() <= 4, "{titles:?}");
    assert!(titles.last().unwrap().starts_with("digest: "), "{titles:?}");
    assert_eq!(stage.outbox.status().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn digest_of_two_hubs_is_one_message() {
    let stage = Stage::new(ScriptedReceiver::new(&[]));
    stage.outbox.commit(&[], &mails(8, START_US)).unwrap();
    let before = stage.ledger.lock().due(NOTICE_KIND, i64::MAX, 100).unwrap();
    // The other hub folds them first; this one has the copy of before.
    let mut other = Stage::over(
        Arc::clone(&stage.ledger),
        Arc::<Mutex<MemoryLedger>>::clone(&stage.ledger),
        Arc::clone(&stage.clock),
        ScriptedReceiver::new(&[]),
    );
    stage.outbox.dispatcher.board().replace(&before, stage.outbox.dispatcher.now());
    other.play(&[], 5).await;
    assert_eq!(titles(&other), ["digest: 8 open incidents"]);
    stage.outbox.dispatcher.work(|work| work.fold("chat")).unwrap();
    let kept = stage.ledger.lock().all(NOTICE_KIND).unwrap();
    let digests = kept.iter().filter_map(NoticeRecord::parse).filter(|it| it.notice.is_digest());
    assert_eq!(digests.count(), 1);
}
