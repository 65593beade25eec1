//! Several messages about one incident: order, and what is overtaken.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weir_actions::NoticeKind::{Ack, Mail, Page, Resolved, Test};
use weir_actions::{Notice, NoticeKind};
use weir_ledger::LedgerBackend;

use super::doubles::{
    Behaviour, MemoryLedger, SECOND_US, START_US, ScriptedReceiver, Stage, incident, notice,
};
use super::{NoticeState, THREAD_KIND};
use crate::receiver::{RateLimit, RetryAdvice};

const BACKOFF: Behaviour = Behaviour::Refuse(RetryAdvice::Backoff);
const NEVER: Behaviour = Behaviour::Refuse(RetryAdvice::Never);
const NONE: [&str; 0] = [];

fn chat(kind: NoticeKind, order: u64, name: &'static str) -> Notice {
    notice("chat", kind, order, name)
}

#[tokio::test(start_paused = true)]
async fn notices_go_out_in_their_order_and_in_one_thread() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF, BACKOFF]));
    stage.play(&[chat(Ack, 2, "a"), chat(Page, 1, "p"), chat(Page, 3, "worse")], 20).await;
    stage.play(&[chat(Resolved, 4, "r")], 5).await;
    assert_eq!(stage.chat.arrived(), ["p", "a", "worse", "r"]);
    let arrivals = stage.chat.arrivals.lock();
    let threads: Vec<_> = arrivals.iter().map(|(_, message)| message.thread.as_deref()).collect();
    let first = Some("id of p");
    assert_eq!(threads, [None, first, first, first]);
}

#[tokio::test(start_paused = true)]
async fn page_that_was_never_sent_is_dropped_with_its_end() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 4]));
    stage.play(&[chat(Page, 1, "p"), chat(Ack, 2, "a")], 10).await;
    stage.play(&[chat(Resolved, 3, "r")], 600).await;
    assert_eq!(stage.chat.arrived(), NONE);
    for id in ["p", "a", "r"] {
        assert_eq!(stage.state(id), NoticeState::Superseded, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn end_is_sent_when_the_page_may_have_arrived() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[Behaviour::Swallow, BACKOFF, BACKOFF]));
    stage.play(&[chat(Page, 1, "p")], 12).await;
    assert_eq!(stage.state("p"), NoticeState::Uncertain);
    stage.play(&[chat(Resolved, 2, "r")], 60).await;
    assert_eq!(stage.state("p"), NoticeState::Superseded);
    assert_eq!(stage.chat.arrived(), ["p", "r"]);
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_before_its_end_was_sent_is_paged() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF]));
    let notices = [chat(Page, 1, "p"), chat(Resolved, 2, "r"), chat(Page, 3, "back")];
    stage.play(&notices, 20).await;
    assert_eq!(stage.chat.arrived(), ["back"]);
}

#[tokio::test(start_paused = true)]
async fn acknowledgement_of_a_page_that_was_never_sent_is_dropped() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[NEVER]));
    stage.play(&[chat(Page, 1, "p"), chat(Ack, 2, "a")], 20).await;
    assert_eq!(stage.chat.arrived(), NONE);
    assert_eq!(stage.state("a"), NoticeState::Superseded);
}

/// An acknowledgement by another person.
fn acked(order: u64, name: &'static str) -> Notice {
    let mut ack = chat(Ack, order, name);
    ack.incident.acked_by = Some("bo".to_owned());
    ack
}

#[tokio::test(start_paused = true)]
async fn page_that_waits_for_its_receiver_is_withdrawn_by_an_acknowledgement() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 4]));
    stage.play(&[chat(Page, 1, "p")], 5).await;
    stage.play(&[acked(2, "a")], 600).await;
    assert_eq!(stage.chat.arrived(), NONE);
    assert_eq!(stage.state("p"), NoticeState::Superseded);
    assert_eq!(stage.state("a"), NoticeState::Superseded);
    // The acknowledgement expires, and the incident pages again.
    stage.play(&[chat(Ack, 3, "expired"), chat(Page, 4, "again")], 60).await;
    assert_eq!(stage.chat.arrived(), ["again"]);
}

#[tokio::test(start_paused = true)]
async fn acknowledgement_is_sent_when_the_withdrawn_page_may_have_arrived() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[Behaviour::Swallow, BACKOFF, BACKOFF]));
    stage.play(&[chat(Page, 1, "p")], 12).await;
    stage.play(&[acked(2, "a")], 60).await;
    assert_eq!(stage.state("p"), NoticeState::Superseded);
    assert_eq!(stage.chat.arrived(), ["p", "a"]);
}

#[tokio::test(start_paused = true)]
async fn page_in_flight_does_not_fall_back_after_an_acknowledgement() {
    let slow = Behaviour::Fail(Duration::from_secs(5), RetryAdvice::Never);
    let mut stage = Stage::new(ScriptedReceiver::new(&[slow]));
    let fallbacks = vec![("mail".to_owned(), None)];
    stage.play(&[Notice { fallbacks, ..chat(Page, 1, "p") }], 3).await;
    stage.play(&[acked(2, "a")], 60).await;
    assert_eq!(stage.state("p"), NoticeState::Failed);
    assert_eq!(stage.mail.arrived(), NONE);
    assert_eq!(stage.state("a"), NoticeState::Superseded);
}

#[tokio::test(start_paused = true)]
async fn mail_that_waits_is_sent_after_an_acknowledgement_of_the_incident() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 2]));
    stage.play(&[chat(Mail, 1, "m"), acked(2, "a")], 60).await;
    assert_eq!(stage.chat.arrived(), ["m", "a"]);
}

#[tokio::test(start_paused = true)]
async fn page_does_not_wait_behind_a_mail_held_until_morning() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    let morning = START_US + 8 * 3600 * SECOND_US;
    let held = Notice { due_us: morning, ..chat(Mail, 1, "held") };
    stage.play(&[held, chat(Ack, 2, "a")], 20).await;
    assert_eq!(stage.chat.arrived(), NONE, "nothing to acknowledge yet");
    stage.play(&[chat(Page, 3, "p")], 8 * 3600).await;
    assert_eq!(stage.chat.arrived(), ["p"]);
    assert_eq!(stage.state("held"), NoticeState::Superseded);
    assert_eq!(stage.state("a"), NoticeState::Superseded);
}

#[tokio::test(start_paused = true)]
async fn page_does_not_wait_for_the_next_attempt_of_a_mail() {
    let pause = Behaviour::Refuse(RetryAdvice::After(Duration::from_secs(50)));
    let mut stage = Stage::new(ScriptedReceiver::new(&[pause]));
    stage.play(&[chat(Mail, 1, "m")], 10).await;
    stage.play(&[chat(Page, 2, "p")], 1).await;
    assert_eq!(stage.chat.arrived(), ["p"]);
    assert_eq!(stage.chat.seconds(), [10.0]);
    assert_eq!(stage.state("m"), NoticeState::Superseded);
}

#[tokio::test(start_paused = true)]
async fn mail_waits_for_its_time() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    let due_us = START_US + 60 * SECOND_US;
    stage.play(&[Notice { due_us, ..chat(Mail, 1, "m") }], 59).await;
    assert_eq!(stage.outbox.status().oldest_due_us, Some(due_us));
    stage.play(&[chat(Ack, 2, "a")], 2).await;
    assert_eq!(stage.chat.arrived(), ["m", "a"]);
    assert_eq!(stage.chat.seconds(), [60.0, 60.0]);
}

#[tokio::test(start_paused = true)]
async fn late_fallback_is_dropped_after_the_end_of_the_incident() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    stage.play(&[chat(Page, 1, "p")], 5).await;
    stage.play(&[chat(Resolved, 3, "r")], 5).await;
    let fallbacks = vec![("chat".to_owned(), None)];
    stage.mail.script.lock().push_back(NEVER);
    let late = Notice { fallbacks, ..notice("mail", Page, 2, "late") };
    stage.play(&[late], 60).await;
    // The page of order 2 comes to a chat that has the end, order 3.
    assert_eq!(stage.chat.arrived(), ["p", "r"]);
    let states = ["queued", "sending", "failed", "queued", "superseded"];
    assert_eq!(stage.changes.states("late"), states);
}

#[tokio::test(start_paused = true)]
async fn incidents_and_addresses_have_no_common_order() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 3]));
    let other = Notice { incident: incident("other"), ..chat(Page, 7, "other") };
    let address = Some("#web".to_owned());
    let elsewhere = Notice { address, ..chat(Page, 9, "elsewhere") };
    stage.play(&[chat(Page, 1, "p"), other, elsewhere], 60).await;
    let mut arrived = stage.chat.arrived();
    arrived.sort();
    assert_eq!(arrived, ["elsewhere", "other", "p"]);
}

#[tokio::test(start_paused = true)]
async fn pages_go_before_mails_at_a_slow_rate() {
    let limit = RateLimit { burst: 1.0, per_second: 0.1 };
    let mut stage = Stage::new(ScriptedReceiver { limit, ..ScriptedReceiver::new(&[]) });
    let names = ["m1", "m2", "m3"];
    let mails = names.map(|name| Notice { incident: incident(name), ..chat(Mail, 1, name) });
    stage.play(&mails, 5).await;
    stage.play(&[chat(Page, 1, "p")], 60).await;
    assert_eq!(stage.chat.arrived(), ["m1", "p", "m2", "m3"]);
    assert_eq!(stage.chat.seconds(), [0.0, 10.0, 20.0, 30.0]);
}

#[tokio::test(start_paused = true)]
async fn tests_are_sent_whatever_the_incident_does() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF]));
    stage.play(&[chat(Test, 1, "t"), chat(Resolved, 2, "r")], 60).await;
    assert_eq!(stage.chat.arrived(), ["t"]);
    assert_eq!(stage.state("r"), NoticeState::Superseded);
}

#[tokio::test(start_paused = true)]
async fn thread_is_deleted_a_month_after_the_end() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    stage.play(&[chat(Page, 1, "p")], 5).await;
    stage.play(&[chat(Resolved, 2, "r")], 5).await;
    let threads = stage.ledger.lock().all(THREAD_KIND).unwrap();
    assert_eq!(threads.len(), 1);
    stage.clock.skip(31 * 86_400 * SECOND_US);
    stage.play(&[], 5).await;
    assert_eq!(stage.ledger.lock().all(THREAD_KIND), Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn end_waits_for_a_page_in_flight_at_another_hub() {
    let late = [Behaviour::Late(Duration::from_secs(8))];
    let mut one = Stage::new(ScriptedReceiver::new(&late));
    let (ledger, clock) = (Arc::clone(&one.ledger), Arc::clone(&one.clock));
    let for_outbox: Arc<Mutex<dyn LedgerBackend>> = Arc::<Mutex<MemoryLedger>>::clone(&ledger);
    let mut two = Stage::over(ledger, for_outbox, clock, ScriptedReceiver::new(&[]));
    one.play(&[chat(Page, 1, "p")], 1).await;
    two.play(&[chat(Resolved, 2, "r")], 6).await;
    assert_eq!((one.chat.arrived(), two.chat.arrived()), (Vec::new(), Vec::new()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(one.chat.arrived()[0], "p");
    assert_eq!([one.chat.arrived(), two.chat.arrived()].concat(), ["p", "r"]);
}

#[tokio::test(start_paused = true)]
async fn fallbacks_keep_the_order_of_the_messages() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[NEVER, NEVER]));
    let fallbacks = vec![("mail".to_owned(), None)];
    let notices = [chat(Page, 1, "p"), chat(Page, 2, "worse")];
    let notices = notices.map(|notice| Notice { fallbacks: fallbacks.clone(), ..notice });
    stage.play(&notices, 5).await;
    stage.play(&[chat(Resolved, 3, "r")], 5).await;
    assert_eq!(stage.mail.arrived(), ["p", "worse", "r"]);
}
