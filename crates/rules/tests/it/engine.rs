//! The life of findings: pending, firing, resolved, flapping, restored.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray, Int64Array, RecordBatch, StringArray};
use expect_test::{Expect, expect};
use weir_rules::{
    Class, Engine, Precision, Rule, RuleSet, SourceFile, State, Transition, headline,
};
use weir_tables::{Finding, FindingRows, Micros, Rows};

/// A rule `test.NAME` with these lines in its head.
pub(crate) fn rule(name: &str, head: &str) -> Rule {
    Rule::parse(SourceFile { origin: "test", text: &text(name, head) })
        .unwrap_or_else(|error| panic!("{error}"))
}

fn text(name: &str, head: &str) -> String {
    format!(
        "/*---\nid = \"test.{name}\"\ntitle = \"t\"\ntier = \"kernel\"\nclass = \"mail\"\nkey = [\"netns\"]\n\
         subject = \"{{netns}}\"\nsummary = \"{{n}} drops in {{netns}}\"\nwhy = \"w\"\nlook_at = \"l\"\n\
         silent_when = \"s\"\nfix = \"f\"\nsource = \"x\"\n{head}\n---*/\nselect $now"
    )
}

fn plain() -> Rule {
    rule("plain", "for = \"4s\"\nevery = \"2s\"")
}

/// An answer with one row per (netns, n, class, opens).
pub(crate) fn answer(rows: &[(&str, i64, &str, bool)]) -> Vec<RecordBatch> {
    let batch = RecordBatch::try_from_iter([
        ("host", texts(vec!["web1"; rows.len()])),
        ("netns", texts(rows.iter().map(|row| row.0).collect())),
        ("n", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("class", texts(rows.iter().map(|row| row.2).collect())),
        ("opens", Arc::new(BooleanArray::from(rows.iter().map(|row| row.3).collect::<Vec<_>>()))),
    ]);
    vec![batch.expect("columns have one length")]
}

pub(crate) fn texts(column: Vec<&str>) -> Arc<dyn Array> {
    Arc::new(StringArray::from(column))
}

fn no() -> Vec<RecordBatch> {
    answer(&[])
}

pub(crate) fn yes() -> Vec<RecordBatch> {
    answer(&[("a", 5, "mail", true)])
}

/// A row that keeps a finding open and opens none.
fn keep() -> Vec<RecordBatch> {
    answer(&[("a", 5, "mail", false)])
}

fn is_due(engine: &Engine, rule: &Rule, second: i64) -> bool {
    engine.due(at(second)).iter().any(|due| due.id == rule.id)
}

pub(crate) fn at(second: i64) -> Micros {
    Micros(1_000_000_000 + second * 1_000_000)
}

pub(crate) fn show(transitions: &[Transition]) -> String {
    let line = |change: &Transition| {
        let finding = &change.finding;
        format!(
            "{}: {} > {} {}",
            finding.key,
            change.from.as_str(),
            finding.state.as_str(),
            finding.summary()
        )
    };
    transitions.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The transitions at the seconds 0, 2, 4 … for these results.
fn check(rule: &Rule, answers: &[Vec<RecordBatch>], expected: Expect) {
    let mut engine = Engine::new(&RuleSet::default());
    let mut out = String::new();
    for (index, answer) in answers.iter().enumerate() {
        let second = 2 * i64::try_from(index).expect("small");
        for line in show(&engine.observe(rule, at(second), answer)).lines() {
            out.push_str(&format!("{second} {line}\n"));
        }
    }
    expected.assert_eq(&out);
}

#[test]
fn finding_goes_from_pending_to_firing_to_resolved() {
    check(
        &plain(),
        &[no(), yes(), yes(), yes(), yes(), no(), yes(), no(), no(), no(), no(), no()],
        expect![[r#"
            2 {"netns":"a"}: inactive > pending 5 drops in a
            6 {"netns":"a"}: pending > firing 5 drops in a
            20 {"netns":"a"}: firing > resolved 5 drops in a
        "#]],
    );
}

#[test]
fn pending_finding_that_goes_away_never_fires() {
    check(
        &plain(),
        &[yes(), yes(), answer(&[]), yes(), yes(), answer(&[])],
        expect![[r#"
            0 {"netns":"a"}: inactive > pending 5 drops in a
            4 {"netns":"a"}: pending > resolved 5 drops in a
            6 {"netns":"a"}: inactive > pending 5 drops in a
            10 {"netns":"a"}: pending > resolved 5 drops in a
        "#]],
    );
}

#[test]
fn subjects_are_apart_and_for_zero_fires_at_once() {
    check(
        &rule("now", "for = \"0s\"\nevery = \"2s\"\nclear = \"0s\""),
        &[
            answer(&[("b", 1, "note", true), ("a", 2, "page", true)]),
            answer(&[("a", 2, "page", true)]),
        ],
        expect![[r#"
             0 {"netns":"a"}: inactive > firing 2 drops in a
             0 {"netns":"b"}: inactive > firing 1 drops in b
             2 {"netns":"b"}: firing > resolved 1 drops in b
        "#]],
    );
}

#[test]
fn row_that_does_not_open_keeps_an_open_finding() {
    check(
        &rule("keep", "for = \"2s\"\nevery = \"2s\"\nclear = \"2s\""),
        &[keep(), yes(), keep(), keep(), keep(), keep(), no(), no()],
        expect![[r#"
            2 {"netns":"a"}: inactive > pending 5 drops in a
            4 {"netns":"a"}: pending > firing 5 drops in a
            14 {"netns":"a"}: firing > resolved 5 drops in a
        "#]],
    );
}

#[test]
fn rising_class_is_written_at_once_and_does_not_fall() {
    let mut engine = Engine::new(&RuleSet::default());
    let rule = rule("class", "for = \"0s\"\nevery = \"2s\"");
    let mut classes = Vec::new();
    for (second, class) in [(0, "note"), (2, "page"), (4, "note"), (6, "mail")] {
        for change in engine.observe(&rule, at(second), &answer(&[("a", 5, class, true)])) {
            classes.push((second, change.finding.class, change.is_state_change()));
        }
    }
    assert_eq!(classes, [(0, Class::Note, true), (2, Class::Page, false)]);
}

#[test]
fn rule_that_was_mostly_judged_wrong_mails_what_it_would_page() {
    let rule = rule("judged", "for = \"0s\"\nevery = \"2s\"");
    let mut engine = Engine::new(&RuleSet::default());
    let judged = |real| [(rule.id.clone(), Precision { judged: 5, real })].into();
    let mut class = |real, second| {
        engine.set_precision(judged(real));
        let changes = engine.observe(&rule, at(second), &answer(&[("a", 1, "page", true)]));
        let finding = &changes.last().expect("the finding changes").finding;
        (finding.class, finding.summary().contains("of the last 5 judged findings were real"))
    };
    assert_eq!(class(2, 0), (Class::Mail, true));
    assert_eq!(class(3, 2), (Class::Page, false), "half of them were real again");
}

#[test]
fn moving_evidence_is_written_every_thirty_seconds_and_still_evidence_is_not() {
    let rule = rule("move", "for = \"0s\"\nevery = \"2s\"");
    let mut engine = Engine::new(&RuleSet::default());
    let mut written = Vec::new();
    for second in (0..=120).step_by(2) {
        let n = if second < 60 { 100 + second / 10 } else { 100 + second };
        for change in engine.observe(&rule, at(second), &answer(&[("a", n, "mail", true)])) {
            written.push((second, change.finding.summary().to_owned()));
        }
    }
    let seconds: Vec<i64> = written.iter().map(|row| row.0).collect();
    assert_eq!(seconds, [0, 60, 114], "{written:?}");
}

#[test]
fn young_finding_is_renewed_sooner() {
    let rule = rule("young", "for = \"0s\"\nevery = \"2s\"");
    let mut engine = Engine::new(&RuleSet::default());
    let mut written = Vec::new();
    for second in (0..=100).step_by(2) {
        let rows = answer(&[("a", 1 << (second / 2), "mail", true)]);
        written.extend(engine.observe(&rule, at(second), &rows).iter().map(|_| second));
    }
    assert_eq!(written, [0, 6, 12, 18, 24, 54, 84]);
}

#[test]
fn finding_that_comes_and_goes_stays_firing_until_it_is_calm() {
    let rule = rule("flap", "for = \"0s\"\nevery = \"2s\"\nclear = \"0s\"");
    let mut engine = Engine::new(&RuleSet::default());
    let mut states = Vec::new();
    for second in (0..600).step_by(2) {
        let rows = if second < 200 && second % 20 == 0 { yes() } else { answer(&[]) };
        for change in engine.observe(&rule, at(second), &rows) {
            if change.is_state_change() {
                states.push((second, change.finding.state));
            }
        }
    }
    let (firing, resolved) = (State::Firing, State::Resolved);
    expect![[r#"[(0, Firing), (2, Resolved), (20, Firing), (22, Resolved), (40, Firing), (42, Resolved), (60, Firing), (482, Resolved)]"#]]
        .assert_eq(&format!("{states:?}"));
    assert_eq!(states.iter().filter(|state| state.1 == firing).count(), 4);
    assert_eq!(states.last(), Some(&(482, resolved)));
}

#[test]
fn failing_query_keeps_findings_and_says_why() {
    let rule = rule("fail", "for = \"0s\"\nevery = \"2s\"\nclear = \"4s\"");
    let mut engine = Engine::new(&RuleSet::default());
    engine.observe(&rule, at(0), &yes());
    for second in (2..100).step_by(2) {
        engine.record_failure(&rule, at(second), "no such table");
    }
    let status = engine.status("test.fail");
    assert_eq!((status.state, status.open_findings), (State::Firing, 1));
    assert_eq!(status.error.as_deref(), Some("no such table"));
    assert_eq!(
        engine.observe(&rule, at(100), &answer(&[])),
        [],
        "absence counts from the first good answer"
    );
    assert_eq!(engine.observe(&rule, at(102), &answer(&[])), []);
    assert_eq!(
        show(&engine.observe(&rule, at(104), &answer(&[]))),
        "{\"netns\":\"a\"}: firing > resolved 5 drops in a"
    );
    assert_eq!(engine.status("test.fail").error, None);
}

#[test]
fn a_rule_that_takes_long_runs_less_often() {
    let set = RuleSet::built_in();
    let mut engine = Engine::new(&set);
    let rule = Arc::clone(set.iter().find(|rule| rule.every_seconds == 2).expect("there is one"));
    let mut runs_every = |took: f64| {
        engine.observe(&rule, at(0), &[]);
        engine.record_duration(&rule, took);
        engine.record_duration(&rule, took);
        (0..60).find(|second| is_due(&engine, &rule, *second))
    };
    assert_eq!([0.001, 0.01, 0.02, 9.0].map(&mut runs_every), [2, 2, 4, 5].map(Some));
    assert_eq!(runs_every(0.001), Some(2));
    engine.record_duration(&rule, 9.0);
    assert!(is_due(&engine, &rule, 2), "one slow run is no evidence");
    engine.record_duration(&rule, 9.0);
    assert!(!is_due(&engine, &rule, 2));
}

#[test]
fn a_rule_runs_each_second_while_something_begins() {
    let file = ("test.slow.sql".to_owned(), text("slow", "for = \"4s\"\nevery = \"10s\""));
    let (set, _) = RuleSet::with_directory(&[file]);
    let rule = Arc::clone(set.get("test.slow").expect("it is there"));
    let mut engine = Engine::new(&set);
    let runs = |engine: &Engine, from: i64| (from..).find(|second| is_due(engine, &rule, *second));
    engine.observe(&rule, at(0), &[]);
    assert_eq!(runs(&engine, 0), Some(10));
    engine.wake(&rule, at(3));
    assert_eq!(runs(&engine, 3), Some(3), "its condition became true");
    engine.observe(&rule, at(3), &[]);
    assert_eq!(runs(&engine, 3), Some(4));
    engine.observe(&rule, at(32), &[]);
    assert_eq!(runs(&engine, 32), Some(42), "nothing came of it within 30 s");
    engine.observe(&rule, at(42), &yes());
    assert_eq!(runs(&engine, 42), Some(43), "a finding is pending");
    engine.record_duration(&rule, 0.4);
    engine.record_duration(&rule, 0.4);
    assert_eq!(runs(&engine, 42), Some(46), "what takes long runs less often nevertheless");
    engine.observe(&rule, at(46), &yes());
    engine.record_duration(&rule, 0.01);
    assert_eq!(runs(&engine, 46), Some(56), "it fires");
}

#[test]
fn a_round_that_comes_a_little_early_counts() {
    let rule = plain();
    let mut engine = Engine::new(&RuleSet::default());
    engine.observe(&rule, at(0), &yes());
    assert_eq!(engine.observe(&rule, Micros(at(3).0 + 850_000), &yes()), []);
    assert_eq!(
        show(&engine.observe(&rule, Micros(at(4).0 - 50_000), &yes())),
        "{\"netns\":\"a\"}: pending > firing 5 drops in a"
    );
}

#[test]
fn answer_without_the_key_column_is_a_failure() {
    let rule = rule("key", "for = \"0s\"\nevery = \"2s\"");
    let mut engine = Engine::new(&RuleSet::default());
    let batch =
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as Arc<dyn Array>)]);
    assert_eq!(engine.observe(&rule, at(0), &[batch.expect("one column")]), []);
    expect!["the result of `test.key` lacks the key column `netns`"]
        .assert_eq(&engine.status("test.key").error.unwrap_or_default());
}

#[test]
fn time_for_which_nobody_looked_does_not_count_as_pending() {
    let rule = plain();
    let mut engine = Engine::new(&RuleSet::default());
    engine.observe(&rule, at(0), &yes());
    assert_eq!(
        engine.observe(&rule, at(3600), &yes()),
        [],
        "a sleeping machine saw nothing for an hour"
    );
    assert_eq!(
        show(&engine.observe(&rule, at(3604), &yes())),
        "{\"netns\":\"a\"}: pending > firing 5 drops in a"
    );
}

#[test]
fn clock_that_goes_back_neither_fires_nor_resolves_early() {
    let rule = plain();
    let mut engine = Engine::new(&RuleSet::default());
    engine.observe(&rule, at(1000), &yes());
    engine.observe(&rule, at(1004), &yes());
    assert_eq!(engine.observe(&rule, at(0), &answer(&[])), []);
    assert_eq!(engine.observe(&rule, at(4), &answer(&[])), []);
    assert_eq!(
        show(&engine.observe(&rule, at(6), &answer(&[]))),
        "{\"netns\":\"a\"}: firing > resolved 5 drops in a"
    );
}

#[test]
fn same_rule_on_many_subjects_is_one_sentence() {
    let rule = rule("many", "for = \"0s\"\nevery = \"2s\"");
    let mut engine = Engine::new(&RuleSet::default());
    assert_eq!(headline(engine.open()), None);
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let rows: Vec<(&str, i64, &str, bool)> =
        names.iter().map(|name| (*name, 1, "mail", true)).collect();
    engine.observe(&rule, at(0), &answer(&rows));
    expect!["Since 00:16:40 UTC: 1 drops in a. Also on b of web1, c of web1, d of web1, e of web1 and 2 more."]
        .assert_eq(&headline(engine.open()).expect("seven fire"));
    engine.observe(&rule, at(2), &answer(&[("a", 1, "note", true)]));
}

#[test]
fn more_than_a_thousand_subjects_are_counted_and_not_kept() {
    let rule = rule("many", "for = \"0s\"\nevery = \"2s\"");
    let mut engine = Engine::new(&RuleSet::default());
    let names: Vec<String> = (0..1500).map(|number| format!("n{number:04}")).collect();
    let rows: Vec<(&str, i64, &str, bool)> =
        names.iter().map(|name| (name.as_str(), 1, "mail", true)).collect();
    let changes = engine.observe(&rule, at(0), &answer(&rows));
    assert_eq!(changes.len(), 1000);
    let status = engine.status("test.many");
    assert_eq!((status.open_findings, status.findings_over_limit), (1000, 500));
    let last = changes.last().expect("there are some").finding.summary().to_owned();
    expect!["1 drops in n0999 (and 500 more, not listed)"].assert_eq(&last);
}

#[test]
fn evidence_has_at_most_fifty_rows() {
    let rule = rule("rows", "for = \"0s\"\nevery = \"2s\"");
    let mut engine = Engine::new(&RuleSet::default());
    let rows: Vec<(&str, i64, &str, bool)> = (0..200).map(|n| ("a", n, "mail", true)).collect();
    engine.observe(&rule, at(0), &answer(&rows));
    let finding = engine.open().next().expect("one is open").clone();
    assert_eq!(finding.evidence().matches("{\"host\"").count(), 50);
    let row: Finding<'_> = finding.row(at(0));
    assert_eq!((row.rule, row.host, row.state, row.class), ("test.rows", "web1", "firing", "mail"));
    assert_eq!(row.finding_id.len(), 32);
}

/// The table `finding` after these changes.
fn table(changes: &[Transition]) -> RecordBatch {
    let mut rows = FindingRows::default();
    changes.iter().for_each(|change| rows.push(&change.row()));
    rows.finish()
}

#[test]
fn open_findings_go_on_after_a_restart() {
    let rule = rule("again", "for = \"2s\"\nevery = \"2s\"\nclear = \"2s\"");
    let mut before = Engine::new(&RuleSet::default());
    let two = answer(&[("a", 1, "page", true), ("b", 1, "mail", true)]);
    let mut changes = before.observe(&rule, at(0), &two);
    changes.extend(before.observe(&rule, at(2), &two));
    changes.extend(before.observe(&rule, at(4), &yes()));
    changes.extend(before.observe(&rule, at(6), &yes()));
    let id = before.open().next().expect("a is open").finding_id.clone();
    changes.reverse();

    let mut after = Engine::new(&RuleSet::default());
    after.restore(&[table(&changes)]);
    let open: Vec<(&str, &str, State)> = after
        .open()
        .map(|finding| (finding.finding_id.as_str(), finding.key.as_str(), finding.state))
        .collect();
    assert_eq!(open, [(id.as_str(), "{\"netns\":\"a\"}", State::Firing)]);
    assert_eq!(
        after.observe(&rule, at(60), &answer(&[("a", 1, "page", true)])),
        [],
        "it goes on without a new row"
    );
    assert_eq!(after.observe(&rule, at(62), &answer(&[])), []);
    let end = after.observe(&rule, at(64), &answer(&[]));
    assert_eq!(end[0].finding.finding_id, id);
    assert_eq!(end[0].finding.state, State::Resolved);
}

#[test]
fn finding_whose_rows_were_lost_keeps_its_subject_and_not_its_id() {
    let rule = rule("lost", "for = \"2s\"\nevery = \"2s\"");
    let mut before = Engine::new(&RuleSet::default());
    let first = before.observe(&rule, at(0), &yes());
    before.observe(&rule, at(2), &yes());
    let lost = before.firing().next().expect("it fires").clone();

    // Only the row of its start was durable: that is enough for the same id.
    let mut after = Engine::new(&RuleSet::default());
    after.restore(&[table(&first)]);
    after.observe(&rule, at(4), &yes());
    assert_eq!(after.firing().next().expect("it fires").finding_id, lost.finding_id);

    let mut after = Engine::new(&RuleSet::default());
    assert_eq!(after.observe(&rule, at(4), &yes()).len(), 1);
    assert_eq!(after.firing().count(), 0, "it is pending again");
    after.observe(&rule, at(6), &yes());
    let same = after.firing().next().expect("it fires");
    assert_ne!(same.finding_id, lost.finding_id);
    assert_eq!((&same.rule, &same.host, &same.key), (&lost.rule, &lost.host, &lost.key));
}

#[test]
fn only_the_oldest_of_two_restored_findings_about_a_subject_goes_on() {
    let head = "for = \"0s\"\nevery = \"2s\"";
    let rule = rule("twice", head);
    let (set, _) = RuleSet::with_directory(&[("twice.sql".to_owned(), text("twice", head))]);
    let mut engines = [(); 2].map(|()| Engine::new(&RuleSet::default()));
    let older = engines[0].observe(&rule, at(0), &yes()).remove(0);
    let newer = engines[1].observe(&rule, at(4), &yes()).remove(0);
    for rows in [[older.clone(), newer.clone()], [newer.clone(), older.clone()]] {
        let mut after = Engine::new(&set);
        after.restore(&[table(&rows)]);
        assert_eq!(after.firing().next().map(|f| &f.finding_id), Some(&older.finding.finding_id));
        let retired = after.retire(at(10));
        assert_eq!(retired.len(), 1);
        assert_eq!(retired[0].finding.finding_id, newer.finding.finding_id);
        assert_eq!(retired[0].finding.state, State::Resolved);
        assert_eq!(after.retire(at(12)), []);
    }
}

#[test]
fn root_gives_back_its_symptoms_class_after_a_restart_too() {
    let root = rule("root", "for = \"0s\"\nevery = \"2s\"");
    let symptom = rule("symptom", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.root\"]");
    let page = answer(&[("a", 1, "page", true)]);
    let mut before = Engine::new(&RuleSet::default());
    let mut changes = before.observe(&root, at(0), &yes());
    changes.extend(before.observe(&symptom, at(0), &page));
    changes.extend(before.observe(&root, at(2), &yes()));
    let class = |engine: &Engine, rule: &str| {
        engine.open().find(|finding| finding.rule == rule).map(|finding| finding.class)
    };
    assert_eq!(class(&before, "test.root"), Some(Class::Page));

    let mut after = Engine::new(&RuleSet::default());
    after.restore(&[table(&changes)]);
    after.observe(&root, at(4), &yes());
    assert_eq!(class(&after, "test.root"), Some(Class::Page), "the symptom is restored as well");
    for second in [6, 8, 10, 12] {
        after.observe(&symptom, at(second), &answer(&[]));
        after.observe(&root, at(second), &yes());
    }
    assert_eq!(class(&after, "test.root"), Some(Class::Mail), "it is what it is by itself");
}

#[test]
fn finding_of_a_rule_that_is_gone_is_resolved() {
    let rule = rule("gone", "for = \"0s\"\nevery = \"2s\"");
    let mut before = Engine::new(&RuleSet::default());
    let changes = before.observe(&rule, at(0), &yes());
    let mut after = Engine::new(&RuleSet::built_in());
    after.restore(&[table(&changes)]);
    let retired = after.retire(at(10));
    expect![[r#"{"netns":"a"}: firing > resolved 5 drops in a (the rule no longer exists)"#]]
        .assert_eq(&show(&retired));
    assert_eq!(after.open().count(), 0);
    assert_eq!(after.retire(at(12)), []);
}

#[test]
fn rules_are_due_when_their_time_has_come() {
    let mut engine = Engine::new(&RuleSet::built_in());
    let all = engine.due(at(0)).len();
    assert_eq!(all, RuleSet::built_in().iter().count());
    for rule in engine.due(at(0)) {
        engine.observe(&rule, at(0), &[]);
    }
    let within =
        |seconds: u64| engine.rules().iter().filter(|rule| rule.every_seconds <= seconds).count();
    assert!(0 < within(1) && within(1) < within(2) && within(2) < all);
    assert_eq!(engine.due(at(1)).len(), within(1));
    assert_eq!(engine.due(at(2)).len(), within(2));
    assert_eq!(engine.due(at(-5)).len(), all, "a clock that went back does not stop the rules");
}
