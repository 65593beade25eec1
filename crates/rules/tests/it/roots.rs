//! Causes and symptoms: who explains whom, and what a root pages for.

use std::sync::Arc;

use arrow_array::{Array, Int64Array, RecordBatch, StringArray};
use expect_test::expect;
use weir_rules::{Class, Engine, Rule, RuleSet, State, Transition, headline};
use weir_tables::{FindingRows, Rows};

use crate::engine::{answer, at, rule, show, texts, yes};

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
}

/// A cause and its symptom that fire at 0 s; the cause ends at 2 s.
struct EndedRoot {
    engine: Engine,
    cause: Rule,
    symptom: Rule,
}

impl EndedRoot {
    fn new(class: &str) -> Self {
        let cause = rule("cause", "for = \"0s\"\nevery = \"2s\"\nclear = \"0s\"");
        let symptom =
            rule("symptom", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.cause\"]");
        let mut engine = Engine::new(&RuleSet::default());
        engine.observe(&cause, at(0), &yes());
        engine.observe(&symptom, at(0), &answer(&[("a", 1, class, true)]));
        engine.observe(&cause, at(2), &answer(&[]));
        Self { engine, cause, symptom }
    }

    /// The changes of the symptom with evidence of this class.
    fn observe(&mut self, second: i64, class: &str) -> Vec<Transition> {
        let row = [("a", 1, class, true)];
        self.engine.observe(&self.symptom, at(second), &answer(&row))
    }

    fn class(&self) -> Class {
        self.engine.firing().next().expect("the symptom fires").class
    }
}

#[test]
fn symptom_stays_a_note_for_a_minute_after_its_cause_ended() {
    let mut ended = EndedRoot::new("page");
    let changes = ended.observe(2, "page");
    expect![[
        r#"{"netns":"a"}: firing > firing 1 drops in a (its cause test.cause ended 0 s ago)"#
    ]]
    .assert_eq(&show(&changes));
    assert_eq!(changes[0].finding.class, Class::Note);
    assert_eq!(changes[0].finding.cause_ended_ts(), Some(at(2)));
    assert_eq!(changes[0].row().cause_rule, None);
    expect!["Since 00:16:40 UTC: 1 drops in a (its cause test.cause ended 0 s ago)."]
        .assert_eq(&headline(ended.engine.open()).expect("it is still there"));
    for second in (4..62).step_by(2) {
        ended.observe(second, "page");
        assert_eq!(ended.class(), Class::Note, "{second}");
    }
    let changes = ended.observe(62, "page");
    expect![[r#"{"netns":"a"}: firing > firing 1 drops in a"#]].assert_eq(&show(&changes));
    assert_eq!(changes[0].finding.class, Class::Page);
    assert_eq!(changes[0].finding.cause_ended_ts(), None);
    assert_eq!(ended.observe(64, "page"), []);
}

#[test]
fn former_symptom_that_becomes_worse_takes_its_class_at_once() {
    let mut ended = EndedRoot::new("mail");
    ended.observe(2, "mail");
    assert_eq!(ended.class(), Class::Note);
    let changes = ended.observe(4, "page");
    assert_eq!(changes.first().map(|change| change.finding.class), Some(Class::Page));
    // No worse than that: it is not held again.
    ended.observe(6, "page");
    assert_eq!(ended.class(), Class::Page);
    let mut at_once = EndedRoot::new("mail");
    at_once.observe(2, "page");
    assert_eq!(at_once.class(), Class::Page);
}

#[test]
fn former_symptom_ends_as_a_note_if_it_follows_its_cause() {
    let mut ended = EndedRoot::new("page");
    ended.observe(2, "page");
    let mut changes = Vec::new();
    for second in (4..60).step_by(2) {
        changes.extend(ended.engine.observe(&ended.symptom, at(second), &answer(&[])));
    }
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].finding.state, State::Resolved);
    assert_eq!(changes[0].finding.class, Class::Note);
}

#[test]
fn cause_that_is_back_within_the_minute_explains_its_symptom_again() {
    let mut ended = EndedRoot::new("page");
    ended.observe(2, "page");
    ended.engine.observe(&ended.cause, at(30), &yes());
    ended.observe(30, "page");
    let symptom = ended.engine.open().find(|f| f.rule == "test.symptom").expect("it fires");
    assert!(!symptom.is_root());
    assert_eq!(symptom.cause_ended_ts(), None);
    ended.engine.observe(&ended.cause, at(32), &answer(&[]));
    ended.observe(32, "page");
    ended.observe(90, "page");
    assert_eq!(ended.class(), Class::Note, "the minute begins at the second end");
    ended.observe(92, "page");
    assert_eq!(ended.class(), Class::Page);
}

#[test]
fn minute_after_the_cause_goes_on_after_a_restart() {
    let mut ended = EndedRoot::new("page");
    let row = ended.observe(2, "page").remove(0);
    let mut rows = FindingRows::default();
    rows.push(&row.row());
    ended.engine = Engine::new(&RuleSet::default());
    ended.engine.restore(&[rows.finish()]);
    let changes = ended.observe(40, "page");
    assert_eq!(ended.class(), Class::Note);
    expect![[r#"{"netns":"a"}: firing > firing 1 drops in a (its cause ended 38 s ago)"#]]
        .assert_eq(&show(&changes));
    ended.observe(62, "page");
    assert_eq!(ended.class(), Class::Page);
}

#[test]
fn clock_that_goes_back_ends_the_minute_after_the_cause() {
    let mut ended = EndedRoot::new("page");
    ended.observe(1002, "page");
    assert_eq!(ended.class(), Class::Note);
    ended.observe(2, "page");
    assert_eq!(ended.class(), Class::Page);
}

#[test]
fn symptom_that_no_longer_fits_its_firing_cause_takes_its_class_at_once() {
    let cause = rule("cause", "for = \"0s\"\nevery = \"2s\"\nequal = [\"process_name\"]");
    let symptom = rule("symptom", "for = \"0s\"\nevery = \"2s\"\nexplained_by = [\"test.cause\"]");
    let mut engine = Engine::new(&RuleSet::default());
    engine.observe(&cause, at(0), &of_process(Some("tar"), None));
    engine.observe(&symptom, at(0), &of_process(Some("tar"), None));
    let changes = engine.observe(&symptom, at(2), &of_process(Some("gunicorn"), None));
    assert_eq!(changes[0].finding.class, Class::Page);
    assert_eq!(changes[0].finding.cause_ended_ts(), None);
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
    // A log that names no upstream, and requests that name none.
    assert!(
        is_explained("an upstream", "its upstreams") && is_explained("app/s1", "its upstreams")
    );
    assert!(
        is_explained("an upstream", "shop.example") && is_explained("an upstream", "192.0.2.7:80")
    );
}

/// One row with these texts; an empty one is NULL.
fn row_of(columns: &[(&str, &str)]) -> Vec<RecordBatch> {
    let columns = columns.iter().map(|(name, text)| {
        let text = Some(*text).filter(|text| !text.is_empty());
        (*name, Arc::new(StringArray::from(vec![text])) as Arc<dyn Array>)
    });
    vec![RecordBatch::try_from_iter(columns).expect("columns have one length")]
}

#[test]
fn a_database_explains_no_failure_of_another_service_on_its_host() {
    let set = RuleSet::built_in();
    let is_explained = |cause: (&str, &[(&str, &str)]), symptom: (&str, &[(&str, &str)])| {
        let mut engine = Engine::new(&set);
        // A cause that must hold for some seconds.
        for (second, (id, columns)) in [(0, cause), (4, cause), (4, symptom)] {
            let rule = set.get(id).expect("the rule is built in");
            let keys = rule.key.iter().filter(|key| columns.iter().all(|column| column.0 != **key));
            let columns: Vec<_> = [("host", "web1"), ("class", "mail")]
                .into_iter()
                .chain(columns.iter().copied())
                .chain(keys.map(|key| (key.as_str(), "any")))
                .collect();
            engine.observe(rule, at(second), &row_of(&columns));
        }
        engine.open().any(|finding| finding.rule == symptom.0 && !finding.is_root())
    };
    let full = ("db.server_log", &[("database_program", "postgresql")][..]);
    let frozen = ("db.not_answering", &[("service_names", "6379, redis")][..]);
    let stuck = ("app.service_hangs", &[("service_names", "8081")][..]);
    for (programs, names, by_full, by_frozen, by_stuck) in [
        ("redis", "6379", false, true, false),
        // A second Redis; a client that names neither port nor address; a pooler.
        ("redis", "6380", false, false, false),
        ("redis", "redis, 6379", false, true, false),
        ("postgresql, pgbouncer", "5433", true, false, false),
        ("pgbouncer, postgresql", "6432, postgresql", true, false, false),
        ("", "8081", true, false, true),
        ("", "", true, true, true),
    ] {
        let columns = [("database_program", programs), ("service_names", names)];
        let symptom = ("app.service_unreachable", &columns[..]);
        let found = [full, frozen, stuck].map(|cause| is_explained(cause, symptom));
        assert_eq!(found, [by_full, by_frozen, by_stuck], "{programs} {names}");
    }
}
