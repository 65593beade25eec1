//! One message: attempts, pauses, fallbacks, and a ledger that fails.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weir_actions::{Notice, NoticeKind};
use weir_ledger::{BODY_BYTES_MAX, Change, Document, LedgerBackend, LedgerError};

use super::doubles::{
    Behaviour, MemoryLedger, SECOND_US, START_US, ScriptedReceiver, Stage, TestClock, incident,
    notice,
};
use super::{NOTICE_KIND, NoticeState, insert_changes};
use crate::receiver::RetryAdvice;

const BACKOFF: Behaviour = Behaviour::Refuse(RetryAdvice::Backoff);
const NEVER: Behaviour = Behaviour::Refuse(RetryAdvice::Never);

fn page(name: &'static str) -> Notice {
    notice("chat", NoticeKind::Page, 1, name)
}

#[tokio::test(start_paused = true)]
async fn notice_is_sent_once_and_each_change_reported() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    stage.play(&[page("p")], 1).await;
    assert_eq!(stage.outbox.commit(&[], &[page("p")]), Ok(0));
    stage.play(&[], 120).await;
    assert_eq!(stage.chat.arrived(), ["p"]);
    assert_eq!(stage.changes.states("p"), ["queued", "sending", "sent"]);
    let record = stage.record("p");
    assert_eq!((record.attempt, record.answer.as_deref()), (1, Some("202")));
    assert_eq!(record.external_id.as_deref(), Some("id of p"));
    assert_eq!(record.history.len(), 2);
    let status = stage.outbox.status();
    assert_eq!((status.waiting, status.oldest_due_us), (0, None));
    assert_eq!(status.receivers["chat"].last_success.as_ref().unwrap().text, "202");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn attempts_pause_longer_and_longer() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 9]));
    stage.play(&[page("p")], 600).await;
    assert_eq!(stage.chat.arrived(), ["p"], "a definite refusal is no repeat");
    let times: Vec<i64> = stage
        .record("p")
        .history
        .iter()
        .filter(|step| step.state == NoticeState::Sending)
        .map(|step| step.ts_us - START_US)
        .collect();
    let pauses: Vec<f64> = times
        .windows(2)
        .map(|pair| Duration::from_micros(pair[1].abs_diff(pair[0])).as_secs_f64())
        .collect();
    for (pause, usual) in pauses.iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]) {
        assert!((0.79 * usual..1.21 * usual).contains(pause), "{pause} s, not {usual} s");
    }
    assert_eq!(pauses.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn pause_that_the_receiver_orders_is_kept() {
    let after = Behaviour::Refuse(RetryAdvice::After(Duration::from_secs(90)));
    let mut stage = Stage::new(ScriptedReceiver::new(&[after]));
    stage.play(&[page("p")], 89).await;
    assert_eq!(stage.chat.arrived(), [""; 0]);
    stage.play(&[], 2).await;
    assert_eq!(stage.chat.seconds(), [90.0]);
}

#[tokio::test(start_paused = true)]
async fn lost_answer_makes_a_marked_repeat() {
    for unclear in [Behaviour::Swallow, Behaviour::Refuse(RetryAdvice::Unclear)] {
        let mut stage = Stage::new(ScriptedReceiver::new(&[unclear]));
        stage.play(&[page("p")], 60).await;
        assert_eq!(stage.chat.arrived().last().unwrap(), "p again");
        let states = ["queued", "sending", "uncertain", "sending", "sent"];
        assert_eq!(stage.changes.states("p"), states);
        let changes = stage.changes.0.lock();
        assert!(changes.last().unwrap().is_repeat && changes.last().unwrap().attempt == 2);
    }
}

#[tokio::test(start_paused = true)]
async fn repeat_to_an_idempotent_receiver_has_no_mark() {
    let receiver =
        ScriptedReceiver { is_idempotent: true, ..ScriptedReceiver::new(&[Behaviour::Swallow]) };
    let mut stage = Stage::new(receiver);
    stage.play(&[page("p")], 60).await;
    assert_eq!(stage.chat.arrived(), ["p", "p"]);
}

#[tokio::test(start_paused = true)]
async fn refusal_for_good_goes_to_the_next_contact_at_once_and_so_does_the_end() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[NEVER]));
    let home = Some("ada@example.net".to_owned());
    let fallbacks = vec![("mail".to_owned(), home.clone())];
    stage.play(&[Notice { fallbacks, ..page("p") }], 1).await;
    assert_eq!(stage.mail.arrived(), ["p"]);
    assert_eq!(stage.mail.arrivals.lock()[0].1.notice.address, home);
    assert_eq!(stage.mail.arrivals.lock()[0].1.notice.id.len(), 32);
    assert_eq!(
        stage.changes.states("p"),
        ["queued", "sending", "failed", "queued", "sending", "sent"]
    );
    stage.play(&[notice("chat", NoticeKind::Resolved, 2, "r")], 1).await;
    assert_eq!(stage.chat.arrived(), [""; 0]);
    assert_eq!(stage.mail.arrived(), ["p", "r"]);
    assert_eq!(stage.mail.arrivals.lock()[1].1.thread.as_deref(), Some("id of p"));
}

/// grafana/grafana#118274 and #18735: a contact that is away for an hour keeps the page from the
/// others; MinnDevelopment/discord-webhooks#97 and discord/discord-api-docs#5385: a service that
/// orders a pause of 38 minutes, or of an hour.
#[tokio::test(start_paused = true)]
async fn page_leaves_a_contact_that_is_away_within_a_minute_and_its_end_follows() {
    let hour = Behaviour::Refuse(RetryAdvice::After(Duration::from_secs(3_600)));
    let long = Behaviour::Refuse(RetryAdvice::After(Duration::from_secs(2_285)));
    for (away, seconds) in [(BACKOFF, 60), (Behaviour::Swallow, 75), (hour, 1), (long, 1)] {
        let mut stage = Stage::new(ScriptedReceiver::new(&[away; 50]));
        let fallbacks = vec![("mail".to_owned(), None)];
        stage.play(&[Notice { fallbacks, ..page("p") }], seconds).await;
        assert_eq!(stage.mail.arrived(), ["p"], "{away:?}");
        assert_eq!(stage.state("p"), NoticeState::Failed);
        stage.play(&[notice("mail", NoticeKind::Resolved, 2, "r")], 1).await;
        assert_eq!(stage.mail.arrived(), ["p", "r"]);
    }
}

#[tokio::test(start_paused = true)]
async fn short_pause_a_mail_and_the_last_contact_wait() {
    let short = Behaviour::Refuse(RetryAdvice::After(Duration::from_secs(20)));
    let mut stage = Stage::new(ScriptedReceiver::new(&[short]));
    let fallbacks = vec![("mail".to_owned(), None)];
    stage.play(&[Notice { fallbacks: fallbacks.clone(), ..page("p") }], 25).await;
    assert_eq!((stage.chat.arrived(), stage.mail.arrived().len()), (vec!["p".to_owned()], 0));
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 9]));
    let mail = notice("chat", NoticeKind::Mail, 1, "m");
    stage.play(&[Notice { fallbacks, ..mail }], 600).await;
    assert_eq!((stage.chat.arrived(), stage.mail.arrived().len()), (vec!["m".to_owned()], 0));
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 9]));
    stage.play(&[page("p")], 600).await;
    assert_eq!(stage.chat.arrived(), ["p"]);
}

/// `Retry-After: 0` uses the normal backoff.
#[tokio::test(start_paused = true)]
async fn pause_of_nothing_is_as_long_as_the_usual_one() {
    let at_once = Behaviour::Refuse(RetryAdvice::After(Duration::ZERO));
    let mut stage = Stage::new(ScriptedReceiver::new(&[at_once; 100]));
    stage.play(&[page("p")], 30).await;
    assert!(stage.record("p").attempt <= 6, "{}", stage.record("p").attempt);
}

#[tokio::test(start_paused = true)]
async fn refusal_without_another_contact_fails() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[NEVER]));
    stage.play(&[page("p")], 1).await;
    assert_eq!(stage.changes.states("p"), ["queued", "sending", "failed"]);
    assert_eq!(stage.outbox.status().receivers["chat"].failures_in_a_row, 1);
}

#[tokio::test(start_paused = true)]
async fn receiver_without_configuration_is_refused_after_a_minute() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    let fallbacks = vec![("mail".to_owned(), None)];
    let lost = notice("gone", NoticeKind::Page, 1, "p");
    stage.play(&[Notice { fallbacks, ..lost }], 55).await;
    assert_eq!(stage.mail.arrived(), [""; 0]);
    stage.play(&[], 10).await;
    assert_eq!(stage.mail.arrived(), ["p"]);
    let answer = stage.record("p").answer;
    assert_eq!(answer.as_deref(), Some("receiver `gone` is not configured"));
}

#[tokio::test(start_paused = true)]
async fn expired_notice_fails() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 100]));
    let expires_us = START_US + 30 * SECOND_US;
    stage.play(&[Notice { expires_us, ..page("p") }], 29).await;
    assert_eq!(stage.state("p"), NoticeState::Queued);
    stage.play(&[], 3).await;
    assert_eq!(stage.state("p"), NoticeState::Failed);
}

#[tokio::test(start_paused = true)]
async fn slow_receiver_delays_no_other() {
    let mut stage =
        Stage::new(ScriptedReceiver::new(&[Behaviour::Slow(Duration::from_secs(9)); 5]));
    let mut slow = page("slow");
    slow.incident = incident("other");
    stage.play(&[slow, page("p"), notice("mail", NoticeKind::Mail, 1, "m")], 1).await;
    assert_eq!(stage.mail.arrived(), ["m"]);
    assert_eq!(stage.chat.arrived().len(), 1);
    stage.play(&[], 10).await;
    assert_eq!(stage.chat.arrived().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_receiver_ends_in_a_marked_repeat() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[Behaviour::Panic]));
    stage.play(&[page("p")], 40).await;
    assert_eq!(stage.chat.arrived(), ["p", "p again"]);
    assert_eq!(stage.chat.seconds(), [0.0, 30.0]);
}

#[tokio::test(start_paused = true)]
async fn success_after_an_outage_cuts_pauses_short() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 60]));
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let notices = names.map(|name| Notice { incident: incident(name), ..page(name) });
    stage.play(&notices, 1200).await;
    let seconds = stage.chat.seconds();
    assert_eq!(seconds.len(), 8);
    assert_eq!(seconds.first(), seconds.last(), "all within one second");
}

#[tokio::test(start_paused = true)]
async fn ledger_that_fails_loses_nothing_and_repeats_nothing() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[Behaviour::Slow(Duration::from_secs(5))]));
    stage.play(&[page("p")], 1).await;
    // The receiver has it, and the answer cannot be written for longer than the lease.
    stage.ledger.lock().outages = 10_000;
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(stage.outbox.status().ledger_error.is_some());
    stage.ledger.lock().outages = 0;
    assert_eq!(stage.state("p"), NoticeState::Sending);
    stage.play(&[notice("chat", NoticeKind::Resolved, 2, "r")], 10).await;
    assert_eq!(stage.chat.arrived(), ["p", "r"]);
    assert_eq!(stage.outbox.status().ledger_error, None);
}

#[tokio::test(start_paused = true)]
async fn clock_that_is_set_back_delays_nothing() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 3]));
    stage.play(&[page("p")], 2).await;
    stage.clock.step(-3600 * SECOND_US);
    stage.play(&[], 10).await;
    assert_eq!(stage.chat.arrived(), ["p"]);
}

/// Stops the process for 16 s after the first claim.
struct PausingLedger {
    inner: Arc<Mutex<MemoryLedger>>,
    clock: Arc<TestClock>,
    is_paused: bool,
}

impl LedgerBackend for PausingLedger {
    fn apply(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        self.inner.lock().apply(changes)?;
        let is_claim = |change: &Change| {
            change
                .body
                .as_ref()
                .is_some_and(|(body, _)| body.contains("\"state\":\"sending\",\"attempt\""))
        };
        if !self.is_paused && changes.iter().any(is_claim) {
            self.is_paused = true;
            self.clock.skip(16 * SECOND_US);
        }
        Ok(())
    }

    fn get(&mut self, kind: &str, key: &str) -> Result<Option<Document>, LedgerError> {
        self.inner.lock().get(kind, key)
    }

    fn all(&mut self, kind: &str) -> Result<Vec<Document>, LedgerError> {
        self.inner.lock().all(kind)
    }

    fn due(&mut self, kind: &str, now_us: i64, limit: usize) -> Result<Vec<Document>, LedgerError> {
        self.inner.lock().due(kind, now_us, limit)
    }
}

#[tokio::test(start_paused = true)]
async fn claim_that_became_old_is_given_back_unsent() {
    let (inner, clock) = (Arc::new(Mutex::new(MemoryLedger::default())), TestClock::new());
    let (inner_too, clock_too) = (Arc::clone(&inner), Arc::clone(&clock));
    let pausing = PausingLedger { inner: inner_too, clock: clock_too, is_paused: false };
    let pausing = Arc::new(Mutex::new(pausing));
    let mut stage = Stage::over(inner, pausing, clock, ScriptedReceiver::new(&[]));
    stage.play(&[page("p")], 5).await;
    assert_eq!(stage.changes.states("p"), ["queued", "sending", "queued", "sending", "sent"]);
    assert_eq!(stage.chat.arrived(), ["p"], "it never left, so it is no repeat");
}

#[tokio::test(start_paused = true)]
async fn documents_and_notices_are_committed_together() {
    let stage = Stage::new(ScriptedReceiver::new(&[]));
    let body = Some(("{}".to_owned(), None));
    let (kind, key) = ("incident".to_owned(), "inc".to_owned());
    let document = Change { kind, key, expected: 0, body };
    let second = notice("chat", NoticeKind::Ack, 2, "a");
    stage.ledger.lock().apply(&insert_changes(&[page("p")])).unwrap();
    let both = [page("p"), second.clone(), second];
    assert_eq!(stage.outbox.commit(std::slice::from_ref(&document), &both), Ok(1));
    let third = [notice("chat", NoticeKind::Resolved, 3, "r")];
    assert!(stage.outbox.commit(&[document], &third).is_err());
    assert_eq!(stage.ledger.lock().get(NOTICE_KIND, "r"), Ok(None));
}

#[tokio::test(start_paused = true)]
async fn silenced_notice_is_not_sent() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF]));
    stage.play(&[page("p")], 0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(stage.outbox.silence("p", "silence 7 of ada"), Ok(true));
    assert_eq!(stage.outbox.silence("p", "silence 7 of ada"), Ok(false));
    stage.play(&[], 60).await;
    assert_eq!(stage.chat.arrived(), [""; 0]);
    assert_eq!(stage.state("p"), NoticeState::Silenced);
}

#[test]
fn notice_with_too_much_evidence_is_kept_without_it() {
    let mut large = page("p");
    large.incident.evidence = format!("[\"{}\"]", "x".repeat(BODY_BYTES_MAX));
    let (body, _) = insert_changes(&[large])[0].body.clone().unwrap();
    assert!(body.len() < BODY_BYTES_MAX && body.contains("\"evidence\":\"[]\""));
}
