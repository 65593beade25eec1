//! Digests: mails of several incidents that are due at one time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use weir_actions::NoticeKind::{Ack, Mail, Page, Resolved};
use weir_actions::{IncidentSummary, Notice, NoticeKind, Urgency};
use weir_ledger::{Change, Document, LedgerBackend, LedgerError};

use super::doubles::{
    Behaviour, SECOND_US, START_US, ScriptedReceiver, Stage, TestClock, incident, notice,
};
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

/// louislam/uptime-kuma#2500: a router fails, and 33 mails report what is away, then 33 its return.
#[tokio::test(start_paused = true)]
async fn faults_that_begin_and_end_together_are_two_messages() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    stage.play(&mails(8, START_US), 60).await;
    let ends = NAMES.iter().enumerate().map(|(number, name)| Notice {
        id: format!("end of {name}"),
        ..of_incident(number, Resolved, 2, name)
    });
    stage.play(&ends.collect::<Vec<Notice>>(), 60).await;
    assert_eq!(titles(&stage), ["digest: 8 open incidents", "digest: 8 resolved incidents"]);
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
    let is_folded = stage.outbox.dispatcher.work(|work| Ok(work.fold("chat"))).unwrap();
    assert!(!is_folded);
    let kept = stage.ledger.lock().all(NOTICE_KIND).unwrap();
    let digests = kept.iter().filter_map(NoticeRecord::parse).filter(|it| it.notice.is_digest());
    assert_eq!(digests.count(), 1);
}

/// A page of the incident with this number.
fn page_of(number: usize, name: &'static str) -> Notice {
    let mut page = of_incident(number, Page, 2, name);
    page.incident.class = Urgency::Page;
    page
}

/// chmonitor/chmonitor#2663: what is critical waits for no digest.
#[tokio::test(start_paused = true)]
async fn page_is_sent_before_the_mails_that_become_a_digest() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    let mut notices = Vec::new();
    for address in 0..40 {
        let of_address = mails(8, START_US).into_iter().map(|mail| Notice {
            id: format!("{address} {}", mail.id),
            address: Some(format!("address {address:02}")),
            ..mail
        });
        notices.extend(of_address);
    }
    let mut page = Notice { address: Some("address 39".to_owned()), ..page_of(0, "page") };
    page.incident.id = "another".to_owned();
    notices.push(page);
    stage.play(&notices, 5).await;
    let titles = titles(&stage);
    assert_eq!(stage.chat.arrived()[0], "page");
    assert_eq!(titles.iter().filter(|title| title.starts_with("digest")).count(), 40);
}

#[tokio::test(start_paused = true)]
async fn page_of_a_mailbox_that_waits_for_its_digest_is_sent_at_once() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    stage.play(&mails(8, MORNING_US), 60).await;
    stage.play(&[page_of(0, "page")], 1).await;
    assert_eq!((stage.chat.arrived(), stage.chat.seconds()), (vec!["page".to_owned()], vec![60.0]));
    stage.play(&[], 9 * 3600).await;
    assert_eq!(titles(&stage)[1], "digest: 7 open incidents");
}

/// A ledger that refuses digests.
#[derive(Debug)]
struct SmallLedger(Arc<Mutex<MemoryLedger>>);

impl LedgerBackend for SmallLedger {
    fn apply(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        let is_digest = |change: &Change| {
            change.body.as_ref().is_some_and(|(body, _)| body.contains("digest: "))
        };
        if changes.iter().any(is_digest) {
            return Err(LedgerError::Unusable("cannot write: its body is too large".to_owned()));
        }
        self.0.lock().apply(changes)
    }

    fn get(&mut self, kind: &str, key: &str) -> Result<Option<Document>, LedgerError> {
        self.0.lock().get(kind, key)
    }

    fn all(&mut self, kind: &str) -> Result<Vec<Document>, LedgerError> {
        self.0.lock().all(kind)
    }

    fn due(&mut self, kind: &str, now_us: i64, limit: usize) -> Result<Vec<Document>, LedgerError> {
        self.0.lock().due(kind, now_us, limit)
    }
}

#[tokio::test(start_paused = true)]
async fn digest_that_cannot_be_written_holds_up_no_message() {
    let ledger = Arc::new(Mutex::new(MemoryLedger::default()));
    let small = Arc::new(Mutex::new(SmallLedger(Arc::clone(&ledger))));
    let chat = ScriptedReceiver::new(&[]);
    let mut stage = Stage::over(ledger, small, TestClock::new(), chat);
    stage.play(&mails(8, START_US), 2).await;
    assert_eq!(stage.chat.arrived(), NAMES);
    stage.play(&[page_of(0, "page")], 1).await;
    assert_eq!(stage.chat.arrived()[8], "page");
}

/// A letter to a mailbox, held until a time.
fn letter(order: u64, name: &'static str, due_us: i64) -> Notice {
    let mut letter = Notice { due_us, ..of_incident(0, Mail, order, name) };
    letter.incident.id = String::new();
    letter
}

/// A shared mailbox: one person's quiet hours end before another's.
#[tokio::test(start_paused = true)]
async fn letter_that_is_held_longer_than_a_digest_is_sent_and_answers_none() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    let hour_us = 3600 * SECOND_US;
    let mut notices = mails(6, MORNING_US);
    notices.push(letter(1, "hand-over", MORNING_US + hour_us));
    stage.play(&notices, 9 * 3600 + 5).await;
    assert_eq!(titles(&stage), ["digest: 6 open incidents"]);
    stage.play(&[], 3600).await;
    assert_eq!(stage.state("hand-over"), NoticeState::Sent);
    let arrivals = stage.chat.arrivals.lock();
    assert!(arrivals.iter().all(|(_, message)| message.thread.is_none()));
}

#[tokio::test(start_paused = true)]
async fn end_of_a_mail_that_went_elsewhere_is_sent_there_and_is_in_no_digest() {
    let script = [Behaviour::Accept, Behaviour::Refuse(RetryAdvice::Never)];
    let mut stage = Stage::new(ScriptedReceiver::new(&script));
    let fallbacks = vec![("mail".to_owned(), None)];
    stage.play(&[of_incident(0, Mail, 1, "first")], 5).await;
    stage.play(&[Notice { fallbacks, ..of_incident(0, Mail, 2, "second") }], 5).await;
    assert_eq!(stage.mail.arrived(), ["second"]);
    let mut notices = mails(8, START_US)[1..].to_vec();
    notices.push(of_incident(0, Resolved, 3, "over"));
    stage.play(&notices, 5).await;
    assert_eq!(stage.mail.arrived(), ["second", "over"]);
    assert!(titles(&stage).contains(&"digest: 7 open incidents".to_owned()));
}
