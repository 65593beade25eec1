//! A receiver that was away: its notices go out within 5 s of its return, and it is not flooded.

use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_actions::{Notice, NoticeKind};

use super::doubles::{Behaviour, ScriptedReceiver, Stage, incident, notice};
use crate::receiver::RetryAdvice;

const BACKOFF: Behaviour = Behaviour::Refuse(RetryAdvice::Backoff);

fn page(name: &'static str) -> Notice {
    Notice { incident: incident(name), ..notice("chat", NoticeKind::Page, 1, name) }
}

impl Stage {
    /// From now on the receiver accepts everything.
    fn bring_back(&self) {
        self.chat.script.lock().clear();
        self.chat.is_reachable.store(true, Ordering::SeqCst);
    }
}

/// A link that was down for some seconds, or an hour: louislam/uptime-kuma#6046.
#[tokio::test(start_paused = true)]
async fn waiting_notices_go_out_within_five_seconds_of_a_return() {
    for away_seconds in [3, 47, 200, 3600] {
        let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 5000]));
        stage.play(&["a", "b", "c"].map(page), away_seconds).await;
        assert_eq!(stage.chat.arrived(), [""; 0]);
        stage.bring_back();
        stage.play(&[], 5).await;
        let mut arrived = stage.chat.arrived();
        arrived.sort_unstable();
        assert_eq!(arrived, ["a", "b", "c"], "away for {away_seconds} s");
        stage.stop().await;
    }
}

/// A notice that comes first after the return takes the others along.
#[tokio::test(start_paused = true)]
async fn one_failure_before_a_success_is_enough_to_end_the_pause() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 6]));
    stage.play(&[page("old")], 33).await;
    stage.chat.script.lock().clear();
    stage.play(&[page("new")], 1).await;
    assert_eq!(stage.chat.arrived(), ["new", "old"]);
}

/// Two hundred requests in ten minutes for one notice: prometheus/alertmanager#2286.
#[tokio::test(start_paused = true)]
async fn receiver_that_answers_and_refuses_is_tried_more_and_more_seldom() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 500]));
    stage.chat.is_reachable.store(true, Ordering::SeqCst);
    stage.play(&[page("p")], 600).await;
    let attempts = stage.record("p").attempt;
    assert!((10..=30).contains(&attempts), "{attempts} attempts in 10 minutes");
    assert!(stage.chat.probes.lock().len() <= 20);
}

/// What a busy receiver demands, it gets: louislam/uptime-kuma#6242.
#[tokio::test(start_paused = true)]
async fn demanded_pause_is_kept_without_a_probe() {
    let after = Behaviour::Refuse(RetryAdvice::After(Duration::from_secs(180)));
    let mut stage = Stage::new(ScriptedReceiver::new(&[after]));
    stage.chat.is_reachable.store(true, Ordering::SeqCst);
    stage.play(&[page("p")], 179).await;
    assert_eq!((stage.chat.arrived().len(), stage.chat.probes.lock().len()), (0, 0));
    stage.play(&[], 2).await;
    assert_eq!(stage.chat.arrived(), ["p"]);
}

/// Retries for one receiver reach no other: prometheus/alertmanager#1494.
#[tokio::test(start_paused = true)]
async fn failing_receiver_neither_delays_nor_repeats_what_another_accepts() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF; 500]));
    let both = [page("p"), notice("mail", NoticeKind::Mail, 1, "m")];
    stage.play(&both, 300).await;
    stage.bring_back();
    stage.play(&[], 5).await;
    assert_eq!((stage.chat.arrived(), stage.mail.arrived()), (vec!["p".into()], vec!["m".into()]));
    assert!(stage.mail.probes.lock().is_empty());
}

/// A message that the receiver cannot take is not tried after each one that it takes.
#[tokio::test(start_paused = true)]
async fn refused_notice_is_hurried_once_by_the_success_of_others() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[BACKOFF]));
    stage.chat.is_reachable.store(true, Ordering::SeqCst);
    stage.play(&[page("bad")], 0).await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    for name in names {
        tokio::time::sleep(Duration::from_millis(50)).await;
        // The next message to arrive is accepted, the one after it is `bad` again.
        *stage.chat.script.lock() = [Behaviour::Accept, BACKOFF, BACKOFF].into();
        stage.play(&[page(name)], 0).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let attempts = stage.record("bad").attempt;
    assert!(attempts <= 3, "{attempts} attempts within a second");
}
