//! The life of findings: pending, firing, resolved, flapping, explained, restored.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray, Int64Array, RecordBatch, StringArray};
use expect_test::{Expect, expect};
use weir_rules::{
    Class, Engine, Precision, Rule, RuleSet, SourceFile, State, Transition, headline,
};
use weir_tables::{Finding, FindingRows, Micros, Rows};

/// A rule `test.NAME` with these lines in its head.
fn rule(name: &str, head: &str) -> Rule {
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
fn answer(rows: &[(&str, i64, &str, bool)]) -> Vec<RecordBatch> {
    let batch = RecordBatch::try_from_iter([
        ("host", texts(vec!["web1"; rows.len()])),
        ("netns", texts(rows.iter().map(|row| row.0).collect())),
        ("n", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("class", texts(rows.iter().map(|row| row.2).collect())),
        ("opens", Arc::new(BooleanArray::from(rows.iter().map(|row| row.3).collect::<Vec<_>>()))),
    ]);
    vec![batch.expect("columns have one length")]
}

fn texts(column: Vec<&str>) -> Arc<dyn Array> {
    Arc::new(StringArray::from(column))
}

fn no() -> Vec<RecordBatch> {
    answer(&[])
}

fn yes() -> Vec<RecordBatch> {
    answer(&[("a", 5, "mail", true)])
}

/// A row that keeps a finding open and opens none.
fn keep() -> Vec<RecordBatch> {
    answer(&[("a", 5, "mail", false)])
}

fn is_due(engine: &Engine, rule: &Rule, second: i64) -> bool {
    engine.due(at(second)).iter().any(|due| due.id == rule.id)
}

fn at(second: i64) -> Micros {
    Micros(1_000_000_000 + second * 1_000_000)
}

fn show(transitions: &[Transition]) -> String {
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
fn explained_finding_is_a_note_while_its_cause_fires() {
    let cause = rule("cause", "for = \"0s\"\nevery = \"2s\"\nclear = \"0s\"");
    let symptom = rule("symptom", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.cause\"]");
    let mut engine = Engine::new(&RuleSet::default());
    engine.observe(&cause, at(0), &yes());
    let both = answer(&[("a", 1, "page", true), ("b", 1, "page", true)]);
    let changes = engine.observe(&symptom, at(0), &both);
    expect![[r#"
        {"netns":"a"}: inactive > firing 1 drops in a (explained by test.cause on a)
        {"netns":"b"}: inactive > firing 1 drops in b"#]]
    .assert_eq(&show(&changes));
    let classes: Vec<Class> = changes.iter().map(|change| change.finding.class).collect();
    assert_eq!(classes, [Class::Note, Class::Page]);
    engine.observe(&cause, at(2), &answer(&[]));
    let changes = engine.observe(&symptom, at(2), &both);
    expect![[r#"{"netns":"a"}: firing > firing 1 drops in a"#]].assert_eq(&show(&changes));
    assert_eq!(changes[0].finding.class, Class::Page);
}

#[test]
fn a_row_may_leave_out_what_cannot_explain_it() {
    let cause = rule("cause", "for = \"0s\"\nevery = \"2s\"");
    let symptom = rule("symptom", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.cause\"]");
    let named = |rules: Option<&str>| {
        let row = on_host("a", None).remove(0);
        let (schema, mut columns, _) = row.into_parts();
        let mut names: Vec<String> = schema.fields().iter().map(|one| one.name().clone()).collect();
        names.push("explained_by".to_owned());
        columns.push(Arc::new(StringArray::from(vec![rules])));
        let row = RecordBatch::try_from_iter(names.into_iter().zip(columns));
        vec![row.expect("columns have one length")]
    };
    for (rules, is_symptom) in
        [(None, true), (Some("other, test.cause"), true), (Some("other"), false), (Some(""), false)]
    {
        let mut engine = Engine::new(&RuleSet::default());
        engine.observe(&cause, at(0), &on_host("a", None));
        let changes = engine.observe(&symptom, at(0), &named(rules));
        assert_eq!(changes[0].finding.cause.is_some(), is_symptom, "{rules:?}");
    }
}

/// A row with a column `process_name`, and maybe `explains`.
fn of_process(name: Option<&str>, explains: Option<&str>) -> Vec<RecordBatch> {
    let columns = [
        ("host", texts(vec!["web1"])),
        ("netns", texts(vec!["a"])),
        ("n", Arc::new(Int64Array::from(vec![1])) as Arc<dyn Array>),
        ("class", texts(vec!["page"])),
        ("process_name", Arc::new(StringArray::from(vec![name]))),
        ("explains", Arc::new(StringArray::from(vec![explains]))),
    ];
    vec![RecordBatch::try_from_iter(columns).expect("columns have one length")]
}

#[test]
fn cause_of_another_process_explains_nothing() {
    let equal = rule("cause", "for = \"0s\"\nevery = \"2s\"\nequal = [\"process_name\"]");
    let any = rule("cause", "for = \"0s\"\nevery = \"2s\"");
    let symptom = rule("symptom", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.cause\"]");
    for (cause, killed, failing, is_symptom) in [
        (&equal, Some("tar"), Some("gunicorn"), false),
        (&equal, Some("tar, gunicorn"), Some("nginx, gunicorn"), true),
        (&equal, Some("systemd-journald"), Some("systemd-journal"), true),
        (&equal, Some("tar"), None, true),
        (&equal, None, Some("gunicorn"), true),
        (&any, Some("tar"), Some("gunicorn"), true),
    ] {
        let mut engine = Engine::new(&RuleSet::default());
        engine.observe(cause, at(0), &of_process(killed, None));
        let changes = engine.observe(&symptom, at(0), &of_process(failing, None));
        assert_eq!(changes[0].finding.cause.is_some(), is_symptom, "{killed:?} {failing:?}");
    }
}

#[test]
fn a_row_of_a_cause_may_limit_what_it_explains() {
    let cause = rule("cause", "for = \"0s\"\nevery = \"2s\"");
    let symptom = rule("symptom", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.cause\"]");
    for (explains, is_symptom) in [
        (None, true),
        (Some("other, test.symptom"), true),
        (Some("other"), false),
        (Some(""), false),
    ] {
        let mut engine = Engine::new(&RuleSet::default());
        engine.observe(&cause, at(0), &of_process(None, explains));
        let changes = engine.observe(&symptom, at(0), &of_process(None, None));
        assert_eq!(changes[0].finding.cause.is_some(), is_symptom, "{explains:?}");
    }
}

#[test]
fn a_page_is_held_as_a_mail_while_what_may_explain_it_is_pending_and_not_for_long() {
    let cause = rule("cause", "for = \"100s\"\nevery = \"2s\"");
    let symptom = rule("symptom", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.cause\"]");
    let mut engine = Engine::new(&RuleSet::default());
    let page = answer(&[("a", 1, "page", true)]);
    engine.observe(&cause, at(0), &page);
    let class = |changes: &[Transition]| changes.first().map(|change| change.finding.class);
    let changes = engine.observe(&symptom, at(2), &page);
    assert_eq!(class(&changes), Some(Class::Mail));
    assert_eq!(changes[0].finding.cause, None);
    // It does not fire within half a minute: the page need not wait for it.
    for second in (4..=34).step_by(2) {
        engine.observe(&cause, at(second), &page);
        let changes = engine.observe(&symptom, at(second), &page);
        let is_held = second <= 30;
        let now = engine.open().find(|finding| finding.rule == "test.symptom").expect("it is open");
        assert_eq!(now.class, if is_held { Class::Mail } else { Class::Page }, "{second}");
        assert_eq!(class(&changes).is_some(), second == 32, "a rise of the class is told at once");
    }
    // Without a pending cause it is a page at once.
    let mut engine = Engine::new(&RuleSet::default());
    assert_eq!(class(&engine.observe(&symptom, at(0), &page)), Some(Class::Page));
}

/// An answer of one subject on `host`, with a key column `upstream`.
fn on_host(host: &str, upstream: Option<&str>) -> Vec<RecordBatch> {
    let columns = [
        ("host", texts(vec![host])),
        ("netns", texts(vec!["a"])),
        ("upstream", texts(vec![upstream.unwrap_or_default()])),
        ("n", Arc::new(Int64Array::from(vec![1])) as Arc<dyn Array>),
        ("class", texts(vec!["page"])),
    ];
    vec![RecordBatch::try_from_iter(columns).expect("columns have one length")]
}

#[test]
fn symptom_of_a_symptom_belongs_to_the_root_and_only_the_root_pages() {
    let disk = rule("disk", "for = \"0s\"\nevery = \"2s\"");
    let app = rule("app", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.disk\"]");
    let queue = rule("queue", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.app\"]");
    let mut engine = Engine::new(&RuleSet::default());
    let page = answer(&[("a", 1, "page", true)]);
    for rule in [&disk, &app, &queue] {
        engine.observe(rule, at(0), &page);
    }
    let root = engine.open().find(|finding| finding.rule == "test.disk").expect("it is open");
    let root_id = root.finding_id.clone();
    for finding in engine.open() {
        let cause = finding.cause.as_ref().map(|cause| cause.finding_id.as_str());
        let is_root = finding.rule == "test.disk";
        assert_eq!(cause, (!is_root).then_some(root_id.as_str()), "{}", finding.rule);
        assert_eq!(finding.class == Class::Page, is_root, "{}", finding.rule);
        assert_eq!(finding.row(at(0)).cause_finding_id, cause);
    }
    expect![
        "Since 00:16:40 UTC: 1 drops in a. Symptoms: a of web1 (test.app), a of web1 (test.queue)."
    ]
    .assert_eq(&headline(engine.open()).expect("a root fires"));
}

#[test]
fn root_that_only_mails_pages_while_its_symptom_would() {
    let disk = rule("disk", "for = \"0s\"\nevery = \"2s\"");
    let app = rule("app", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.disk\"]");
    let mut engine = Engine::new(&RuleSet::default());
    engine.observe(&disk, at(0), &yes());
    engine.observe(&app, at(0), &answer(&[("a", 1, "page", true)]));
    let changes = engine.observe(&disk, at(2), &yes());
    assert_eq!(changes.iter().map(|c| c.finding.class).collect::<Vec<_>>(), [Class::Page]);
    assert!(changes[0].finding.is_root());
}

#[test]
fn rules_that_explain_each_other_leave_one_root() {
    let left = rule("left", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.right\"]");
    let right = rule("right", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.left\"]");
    let mut engine = Engine::new(&RuleSet::default());
    for second in [0, 2, 4] {
        engine.observe(&left, at(second), &yes());
        engine.observe(&right, at(second), &yes());
        let roots: Vec<&str> =
            engine.open().filter(|f| f.is_root()).map(|f| f.rule.as_str()).collect();
        assert_eq!(roots, ["test.left"]);
    }
}

#[test]
fn upstream_on_another_host_is_blamed_once_its_address_is_known() {
    let down = rule("down", "for = \"0s\"\nevery = \"2s\"");
    let slow = rule("slow", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.down\"]");
    let slow = Rule { key: vec!["upstream".to_owned()], ..slow };
    let mut engine = Engine::new(&RuleSet::default());
    engine.observe(&down, at(0), &on_host("app1", None));
    let changes = engine.observe(&slow, at(0), &on_host("edge1", Some("192.0.2.7:8080")));
    assert!(changes[0].finding.is_root());
    engine.set_hosts([("192.0.2.7".to_owned(), "app1".to_owned())].into());
    let changes = engine.observe(&slow, at(2), &on_host("edge1", Some("192.0.2.7:8080")));
    assert_eq!(changes[0].finding.cause.as_ref().expect("is explained").rule, "test.down");
    expect!["1 drops in a (explained by test.down on a of app1)"]
        .assert_eq(changes[0].finding.summary());
    let other = engine.observe(&slow, at(4), &on_host("edge1", Some("192.0.2.8:8080")));
    assert!(other.iter().any(|change| change.finding.is_root()));
}

#[test]
fn an_upstream_is_compared_by_what_its_name_is() {
    let down = rule("down", "for = \"0s\"\nevery = \"2s\"");
    let slow = rule("slow", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.down\"]");
    let key = vec!["upstream".to_owned()];
    let (down, slow) = (Rule { key: key.clone(), ..down }, Rule { key, ..slow });
    let is_explained = |cause: &str, symptom: &str| {
        let mut engine = Engine::new(&RuleSet::default());
        engine.observe(&down, at(0), &on_host("web1", Some(cause)));
        let changes = engine.observe(&slow, at(0), &on_host("web1", Some(symptom)));
        !changes[0].finding.is_root()
    };
    // One of two members, both known by address.
    assert!(is_explained("192.0.2.7:8080", "192.0.2.7:8080"));
    assert!(!is_explained("192.0.2.7:8080", "192.0.2.8:8080"));
    assert!(!is_explained("unix:/run/a.sock", "192.0.2.8:8080"));
    // A pool and its server, as HAProxy names them; another pool.
    assert!(is_explained("app", "app/s1") && is_explained("app/s1", "app"));
    assert!(!is_explained("app", "apple/s1") && !is_explained("app/s2", "app/s1"));
    // The log of a proxy has only addresses, and a rule about a whole site has its name.
    assert!(is_explained("[2001:db8::1]:80", "shop.example"));
    assert!(is_explained("shop.example", "unix:/run/app.sock"));
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
