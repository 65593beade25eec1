//! States of incidents that are sent again, and letters that no machine gets.

use std::time::Duration;

use weir_actions::{Notice, NoticeKind};

use super::doubles::{ScriptedReceiver, Stage, notice};

const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

fn state(kind: NoticeKind, order: u64) -> Notice {
    notice("chat", kind, order, "state")
}

fn forgetful() -> Stage {
    Stage::new(ScriptedReceiver {
        refresh: MINUTE,
        is_idempotent: true,
        ..ScriptedReceiver::new(&[])
    })
}

/// An alert that is sent once ends by itself while it still fires: uptrace/uptrace#241,
/// prometheus/prometheus#5277.
#[tokio::test(start_paused = true)]
async fn open_incident_is_sent_again_each_minute_and_the_end_for_a_while() {
    let mut stage = forgetful();
    stage.outbox.stand(vec![state(NoticeKind::Page, 1)]);
    stage.play(&[notice("chat", NoticeKind::Page, 1, "p")], 200).await;
    assert_eq!(stage.chat.arrived(), ["p", "state", "state", "state"]);
    // The end is repeated as well: prometheus/prometheus#1945.
    stage.play(&[notice("chat", NoticeKind::Resolved, 2, "r")], 1).await;
    stage.outbox.stand(vec![state(NoticeKind::Resolved, 2)]);
    stage.play(&[], 120).await;
    let kinds: Vec<NoticeKind> =
        stage.chat.arrivals.lock().iter().map(|(_, message)| message.notice.kind).collect();
    assert_eq!(kinds[4..], [NoticeKind::Resolved; 3]);
    stage.outbox.stand(Vec::new());
    stage.play(&[], 300).await;
    assert_eq!(stage.chat.arrived().len(), 7);
    assert_eq!(stage.changes.states("state"), [""; 0], "a repeat is no notice");
}

/// A late repeat must not open an alert again: prometheus/alertmanager#2366.
#[tokio::test(start_paused = true)]
async fn state_that_a_later_message_replaced_is_not_sent() {
    let mut stage = forgetful();
    stage.outbox.stand(vec![state(NoticeKind::Page, 1)]);
    let both =
        [notice("chat", NoticeKind::Page, 1, "p"), notice("chat", NoticeKind::Resolved, 2, "r")];
    stage.play(&both[..1], 5).await;
    stage.play(&both[1..], 300).await;
    assert_eq!(stage.chat.arrived(), ["p", "r"]);
}

#[tokio::test(start_paused = true)]
async fn state_is_sent_only_where_the_incident_was_reported() {
    let mut stage = forgetful();
    stage.outbox.stand(vec![state(NoticeKind::Page, 1)]);
    stage.play(&[], 300).await;
    assert_eq!(stage.chat.arrived(), [""; 0]);
    let mut lasting = Stage::new(ScriptedReceiver::new(&[]));
    lasting.outbox.stand(vec![state(NoticeKind::Page, 1)]);
    lasting.play(&[notice("chat", NoticeKind::Page, 1, "p")], 300).await;
    assert_eq!(lasting.chat.arrived(), ["p"], "this receiver keeps what it got");
}

#[tokio::test(start_paused = true)]
async fn answers_are_read_for_messages_that_arrived_and_are_not_acknowledged() {
    let mut stage = forgetful();
    stage.play(&[notice("chat", NoticeKind::Page, 1, "p")], 1).await;
    stage.outbox.stand(vec![state(NoticeKind::Page, 1)]);
    let sent = stage.outbox.answerable("chat").unwrap();
    assert_eq!(sent.len(), 1);
    assert_eq!(
        (sent[0].incident.as_str(), &sent[0].external_ids[..]),
        ("inc", &["id of p".into()][..])
    );
    let mut acked = state(NoticeKind::Page, 1);
    acked.incident.acked_by = Some("ada".to_owned());
    for state in [acked, state(NoticeKind::Resolved, 1)] {
        stage.outbox.stand(vec![state]);
        assert_eq!(stage.outbox.answerable("chat"), Ok(Vec::new()));
    }
}

#[tokio::test(start_paused = true)]
async fn letter_about_no_incident_reaches_people_only() {
    let mut letter = notice("chat", NoticeKind::Mail, 1, "handover");
    letter.incident.id.clear();
    for (is_for_people, count) in [(true, 1), (false, 0)] {
        let receiver = ScriptedReceiver { is_for_people, ..ScriptedReceiver::new(&[]) };
        let mut stage = Stage::new(receiver);
        stage.play(std::slice::from_ref(&letter), 5).await;
        assert_eq!(stage.chat.arrived().len(), count);
        assert_eq!(stage.changes.states("handover"), ["queued", "sending", "sent"]);
    }
}

#[tokio::test(start_paused = true)]
async fn page_has_a_link_to_act_and_its_end_has_none() {
    let mut stage = Stage::new(ScriptedReceiver::new(&[]));
    stage.play(&[notice("chat", NoticeKind::Page, 1, "p")], 1).await;
    stage.play(&[notice("chat", NoticeKind::Resolved, 2, "r")], 1).await;
    let arrivals = stage.chat.arrivals.lock();
    let link = arrivals[0].1.act_link.clone().unwrap();
    assert!(link.url.starts_with("https://weir.example.net/a/") && link.pin.len() == 4);
    assert_eq!(arrivals[1].1.act_link, None);
}
