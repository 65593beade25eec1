//! Limits of a host over time: runs in an hour, cool-downs, one repair at a time, the journal.

use std::fs;
use std::sync::atomic::Ordering;

use weir_act::{JournalEntry, Order, OrderJournal, RepairLock, order_id_text};

use crate::kit::{GOOD, NOW, SECOND, TestHost, own_uid, params};

impl TestHost {
    /// Code of an order with this value after a pause.
    fn code_after(&self, seconds: i64, value: &str) -> String {
        self.clock.0.fetch_add(seconds * SECOND, Ordering::SeqCst);
        let order = Order { params: params(&[("value", value)]), ..self.order() };
        self.send(&order)[0]["code"].as_str().expect("a code").to_owned()
    }

    fn why(&self) -> String {
        self.refused(&self.sign(&self.order()), own_uid(), "a limit")
    }
}

fn limited(host: &TestHost, runs_per_hour: u32, cooldown_seconds: u32) {
    let text = GOOD
        .replace("runs_per_hour = 60", &format!("runs_per_hour = {runs_per_hour}"))
        .replace("cooldown_seconds = 0", &format!("cooldown_seconds = {cooldown_seconds}"));
    host.list("tool", &text);
}

#[test]
fn runs_of_an_hour_are_counted_over_all_parameters() {
    let host = TestHost::new();
    limited(&host, 2, 0);
    assert_eq!(host.code_after(0, "good"), "taken");
    assert_eq!(host.code_after(60, "fine"), "taken");
    assert_eq!(host.code_after(60, "good"), "refused");
    assert!(host.why().contains("ran 2 times within an hour"), "{}", host.why());
    assert_eq!(host.code_after(3470, "good"), "refused");
    assert_eq!(host.code_after(30, "good"), "taken", "the first run is an hour old");
    assert_eq!(host.marks(), ["good", "fine", "good"]);
}

#[test]
fn a_cooldown_doubles_with_repeats_and_forgets_after_calm() {
    let host = TestHost::new();
    limited(&host, 60, 100);
    assert_eq!(host.code_after(0, "good"), "taken");
    assert_eq!(host.code_after(99, "good"), "refused");
    assert_eq!(host.code_after(0, "fine"), "taken", "other parameters are another subject");
    assert_eq!(host.code_after(2, "good"), "taken");
    // It came 101 s after the first: the next waits 200 s.
    assert_eq!(host.code_after(199, "good"), "refused");
    assert!(host.why().contains("cools down for another"), "{}", host.why());
    assert_eq!(host.code_after(2, "good"), "taken");
    assert_eq!(host.code_after(399, "good"), "refused");
    // More than twice the wait of calm: it begins from the start.
    assert_eq!(host.code_after(1000, "good"), "taken");
    assert_eq!(host.code_after(101, "good"), "taken");
}

#[test]
fn a_failed_run_doubles_the_cooldown_at_once() {
    let host = TestHost::new();
    limited(&host, 60, 100);
    host.script("usr/bin/tool", "echo $1 >> MARK; exit 1");
    assert_eq!(host.code_after(0, "good"), "taken");
    assert_eq!(host.code_after(199, "good"), "refused");
    assert_eq!(host.code_after(2, "good"), "taken");
    assert_eq!(host.code_after(399, "good"), "refused");
    assert_eq!(host.code_after(2, "good"), "taken");
    assert_eq!(host.marks().len(), 3);
}

#[test]
fn a_clock_that_was_set_back_neither_repeats_nor_blocks_for_ever() {
    let host = TestHost::new();
    limited(&host, 2, 100);
    host.clock.0.store(NOW + 3600 * 24 * 365 * SECOND, Ordering::SeqCst);
    let early = host.order();
    assert_eq!(host.send(&early)[0]["code"], "taken");
    // The clock is right again: the year is over at once, and the order is known all the same.
    host.clock.0.store(NOW, Ordering::SeqCst);
    assert_eq!(host.send(&early)[0]["code"], "seen");
    assert_eq!(host.code_after(0, "good"), "taken");
    assert_eq!(host.code_after(-50, "good"), "refused", "50 s back is within the cool-down");
}

#[test]
fn one_repair_runs_at_a_time_and_the_other_is_refused() {
    let host = TestHost::new();
    let state = host.path("var/lib/weir-act");
    fs::create_dir_all(&state).expect("a directory");
    let lock = RepairLock::take(&state).expect("it can be locked").expect("nothing runs");
    assert!(host.why().contains("another repair runs"), "{}", host.why());
    drop(lock);
    assert_eq!(host.send(&host.order())[0]["code"], "taken");
}

#[test]
fn an_order_that_arrives_again_while_it_runs_is_seen_as_running() {
    let host = TestHost::new();
    let pipe = host.dir().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).expect("a pipe");
    // Opening the pipe waits for this test on its other end.
    host.script("usr/bin/tool", &format!("echo $1 >> MARK; echo > {0}; cat {0}", pipe.display()));
    let order = host.order();
    std::thread::scope(|threads| {
        let running = threads.spawn(|| host.send(&order));
        fs::read_to_string(&pipe).expect("it started");
        let again = host.send(&order);
        assert_eq!((&again[0]["code"], &again[0]["why"]), (&"seen".into(), &"it runs".into()));
        assert_eq!((again.len(), &again[0]["has_report"]), (1, &true.into()));
        assert_eq!(host.send(&host.order())[0]["code"], "refused");
        fs::write(&pipe, "end").expect("it reads");
        assert_eq!(running.join().expect("no panic")[1]["state"], "ended");
    });
    assert_eq!(host.send(&order)[1]["state"], "ended");
    assert_eq!(host.marks(), ["good"]);
}

/// A loss of power while a line was written: the order of that line never started.
#[test]
fn half_a_line_at_the_end_of_the_journal_is_cut_off() {
    let host = TestHost::new();
    let first = host.order();
    assert_eq!(host.send(&first)[0]["code"], "taken");
    let path = host.path("var/lib/weir-act/journal");
    let whole = fs::read(&path).expect("a journal");
    for length in [1, 20, whole.len() - 1] {
        let half = [whole.as_slice(), &whole[..length]].concat();
        fs::write(&path, half).expect("it can be written");
        assert_eq!(host.send(&first)[0]["code"], "seen");
        let next = host.order();
        assert_eq!(host.send(&next)[0]["code"], "taken");
        assert_eq!(host.send(&next)[0]["code"], "seen");
        fs::write(&path, &whole).expect("it can be written");
    }
}

/// Bit rot: any changed byte is reported, and no order runs or is forgotten.
#[test]
fn a_changed_byte_in_the_journal_stops_all_orders() {
    let host = TestHost::new();
    let (first, second) = (host.order(), host.order());
    host.send(&first);
    host.send(&second);
    let path = host.path("var/lib/weir-act/journal");
    let whole = fs::read(&path).expect("a journal");
    let marks = host.marks();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&path, &changed).expect("it can be written");
        let answer = &host.send(&first)[0];
        assert_ne!(answer["code"], "seen", "byte {at}");
        assert_ne!(answer["code"], "taken", "byte {at}");
        assert_eq!(host.marks(), marks, "byte {at}");
        assert_eq!(fs::read(&path).expect("a journal"), changed, "byte {at}");
    }
}

#[test]
fn a_journal_without_checksums_is_read_as_before() {
    let host = TestHost::new();
    let first = host.order();
    host.send(&first);
    let path = host.path("var/lib/weir-act/journal");
    let whole = fs::read_to_string(&path).expect("a journal");
    let old = whole.lines().map(|line| format!("{}\n", &line[line.find('{').expect("JSON")..]));
    fs::write(&path, old.collect::<String>()).expect("it can be written");
    assert_eq!(host.send(&first)[0]["code"], "seen");
}

#[test]
fn a_journal_of_many_orders_stays_small_and_forgets_no_recent_one() {
    let host = TestHost::new();
    let dir = tempfile::tempdir().expect("a directory");
    let mut ids: Vec<[u8; 16]> = Vec::new();
    for number in 0..200_u32 {
        let order = host.order();
        let mut journal = OrderJournal::open(dir.path()).expect("it is whole");
        let recent = &ids[ids.len().saturating_sub(100)..];
        assert!(recent.iter().all(|id| journal.seen(id).is_some()), "{number}");
        let entry = JournalEntry {
            id: order_id_text(&order.id),
            at: NOW + i64::from(number) * 60 * SECOND,
            subject: "x".repeat(10_000),
            action: "tool".into(),
            mode: order.mode,
            refused: Some("no".into()),
            report: None,
        };
        journal.record(entry).expect("it can be written");
        ids.push(order.id);
    }
    let journal = OrderJournal::open(dir.path()).expect("it is whole");
    assert!(journal.seen(&ids[0]).is_none(), "the oldest was dropped");
    let bytes = fs::metadata(dir.path().join("journal")).expect("a journal").len();
    assert!(bytes < 2 << 20, "{bytes} bytes");
}
