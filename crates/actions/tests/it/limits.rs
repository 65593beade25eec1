//! Bounds: open incidents, sizes of documents, documents that cannot be read.

use weir_actions::Desk;

use crate::bench_desk::{BenchDesk, at, page, pages, policy, symptom};

#[test]
fn a_thousand_incidents_are_open_and_the_rest_is_counted() {
    let mut bench = BenchDesk::new(policy());
    for index in 0..1_200 {
        let mut finding = page(&format!("rule.{index}"), "web1");
        if index < 700 {
            finding.class = weir_actions::Urgency::Note;
        }
        bench.fire(finding);
    }
    bench.run(1);
    assert_eq!((bench.open().len(), bench.desk.uncounted()), (1_000, 200));
    assert_eq!(pages(&bench.sent), 500, "pages come before notes");
}

#[test]
fn documents_stay_small_whatever_the_findings_have() {
    let mut bench = BenchDesk::new(policy());
    let mut root = page("disk.stuck", "db1");
    root.summary = "\u{1}".repeat(100_000);
    root.why = "ä\"".repeat(100_000);
    root.evidence = format!("[{{\"text\":\"{}\"}}]", "\\\"".repeat(3_900));
    bench.fire(root.clone());
    for index in 0..1_000 {
        let mut finding = page("app.slow", &format!("web{index}"));
        finding.summary = "\"".repeat(10_000);
        bench.fire(symptom(&root, finding));
    }
    // The size of each document is checked there.
    bench.run(400);
    assert_eq!(bench.open()[0].summary().finding_count, 1_001);
    bench.firing.clear();
    bench.run(1);
    assert!(bench.open().is_empty());
}

#[test]
fn documents_that_cannot_be_read_are_reported_and_not_deleted() {
    let documents = [
        ("incident".to_owned(), "abc".to_owned(), "{\"id\":".to_owned()),
        ("silence".to_owned(), "def".to_owned(), "[]".to_owned()),
        ("notice".to_owned(), "ghi".to_owned(), "of another crate".to_owned()),
    ];
    let mut desk = Desk::restore(policy(), &documents);
    let keys: Vec<&str> = desk.unreadable().iter().map(|each| each.key.as_str()).collect();
    assert_eq!(keys, ["abc", "def"]);
    let decisions = desk.tick(at(1), &[page("app.down", "web1")]);
    assert_eq!(pages(&decisions.notices), 1);
    assert!(decisions.documents.iter().all(|each| each.body.is_some()));
}
