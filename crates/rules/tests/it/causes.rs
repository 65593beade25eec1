//! The graph of causes: the built-in edges, evaluation order, and a user's rules in it.

use std::collections::BTreeMap;

use expect_test::expect_file;
use weir_rules::{Rule, RuleSet, SourceFile};

/// What makes requests wait, deepest first. A rule on one line may be caused by each rule of the
/// lines above it, also where the rules in between cannot see their part: a log without times shows
/// no slow application.
const WAITING: &[&[&str]] = &[
    &[
        "disk.stuck",
        "disk.member_outlier",
        "disk.slow",
        "mem.thrash",
        "cpu.steal",
        "cpu.cgroup_throttled",
    ],
    &["db.not_answering", "db.connections_exhausted"],
    &["app.blocked_on_store"],
    &["app.service_hangs"],
    &["app.slow"],
    &["tcp.listen_overflow"],
    &["tcp.accept_queue_high", "tcp.accept_wait"],
    &["tcp.close_wait_leak"],
    &["proxy.haproxy_queue", "proxy.retry_amplification", "proxy.worker_connections"],
    &["client.aborts_499"],
];

/// What a store makes wait.
const STORES: &[&[&str]] = &[
    &["pg.lock_pileup", "redis.evictions", "db.not_answering", "db.connections_exhausted"],
    &["app.blocked_on_store"],
    &["app.service_hangs"],
    &["app.slow"],
    &["tcp.listen_overflow", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak"],
    &["proxy.haproxy_queue", "proxy.retry_amplification", "proxy.worker_connections"],
];

/// What makes a quiet site's requests slow, or all requests hang without a line in the log.
const UNSEEN: &[&[&str]] = &[
    &["disk.stuck", "pg.lock_pileup", "db.not_answering", "db.connections_exhausted"],
    &["app.blocked_on_store"],
    &["app.slow"],
    &["tcp.listen_overflow"],
    &["tcp.accept_queue_high"],
    &["app.slow_quiet", "app.errors_quiet", "app.requests_stopped"],
];

/// What fails for good makes clients retry.
const RETRY_CAUSES: &[&[&str]] = &[
    &["disk.stuck", "pg.lock_pileup", "db.not_answering", "app.down", "wire.host_unreachable"],
    &["proxy.retry_storm"],
];

/// What an overload that retries keep up looks like.
const RETRY_SYMPTOMS: &[&[&str]] = &[
    &["proxy.retry_storm"],
    &["app.errors", "app.slow", "tcp.listen_overflow", "tcp.accept_queue_high"],
];

/// One member of a pool, and the pool.
const MEMBERS: &[&[&str]] = &[
    &["disk.stuck", "cpu.cgroup_throttled", "mem.thrash"],
    &["app.slow_outlier"],
    &["app.slow", "proxy.haproxy_queue", "proxy.retry_amplification", "proxy.worker_connections"],
];

/// What makes requests fail, deepest first.
const FAILING: &[&[&str]] = &[
    &["mem.oom_kill", "disk.full", "disk.inodes_full", "disk.readonly", "disk.stuck"],
    &["db.not_answering"],
    &["app.errors"],
];

/// Stores that refuse, and what that makes fail.
const REFUSING: &[&[&str]] =
    &[&["pg.lock_pileup", "db.not_answering", "db.connections_exhausted"], &["app.errors"]];

/// Failures that a proxy hides by a retry, deepest first.
const RETRIED: &[&[&str]] = &[
    &[
        "app.crash_loop",
        "app.segfault",
        "app.fd_limit",
        "mem.oom_kill",
        "app.down",
        "app.error_outlier",
        "wire.host_unreachable",
        "wire.syn_blackhole",
    ],
    &["proxy.masked_errors"],
    &["proxy.retry_amplification"],
];

/// Each list of tiers.
const TIERS: &[&[&[&str]]] =
    &[WAITING, STORES, UNSEEN, RETRY_CAUSES, RETRY_SYMPTOMS, MEMBERS, FAILING, REFUSING, RETRIED];

/// A rule file `own.NAME` with these lines in its head.
fn file(id: &str, head: &str) -> (String, String) {
    let text = format!(
        "/*---\nid = \"{id}\"\ntitle = \"t\"\ntier = \"kernel\"\nclass = \"mail\"\nfor = \"0s\"\nevery = \"2s\"\n\
         key = [\"netns\"]\nsubject = \"s\"\nsummary = \"s\"\nwhy = \"w\"\nlook_at = \"l\"\nsilent_when = \"s\"\n\
         fix = \"f\"\nsource = \"x\"\n{head}\n---*/\nselect $now"
    );
    (format!("{id}.sql"), text)
}

fn set(files: &[(String, String)]) -> RuleSet {
    let (set, errors) = RuleSet::with_directory(files);
    assert!(errors.is_empty(), "{errors:?}");
    set
}

fn causes(set: &RuleSet, id: &str) -> Vec<String> {
    set.get(id).expect("there is such a rule").causes.clone()
}

fn place(set: &RuleSet, id: &str) -> usize {
    set.iter().position(|rule| rule.id == id).expect("there is such a rule")
}

/// `causes.txt` shows the graph by symptom, for reviews; `UPDATE_EXPECT=1` writes it again.
#[test]
fn built_in_edges_are_those_that_were_reviewed() {
    let set = RuleSet::built_in();
    let mut edges = BTreeMap::new();
    for rule in set.iter().filter(|rule| !rule.causes.is_empty()) {
        let mut causes = rule.causes.clone();
        causes.sort();
        edges.insert(rule.id.clone(), causes.join(", "));
    }
    let shown: String = edges.iter().map(|(id, causes)| format!("{id}: {causes}\n")).collect();
    expect_file!["./causes.txt"].assert_eq(&shown);
}

/// The pairs of a list in which the first is deeper than the second.
fn pairs(tiers: &[&[&'static str]]) -> Vec<(&'static str, &'static str)> {
    let mut pairs = Vec::new();
    for (floor, causes) in tiers.iter().enumerate() {
        for symptom in tiers[floor + 1..].iter().copied().flatten() {
            pairs.extend(causes.iter().map(|cause| (*cause, *symptom)));
        }
    }
    pairs
}

#[test]
fn each_symptom_is_explained_by_every_deeper_rule_that_can_cause_it() {
    let set = RuleSet::built_in();
    let mut missing = Vec::new();
    for (cause, symptom) in TIERS.iter().copied().flat_map(pairs) {
        if !causes(&set, symptom).contains(&cause.into()) {
            missing.push(format!("{cause} does not explain {symptom}"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn no_rule_is_explained_by_a_shallower_one() {
    let set = RuleSet::built_in();
    for (deep, shallow) in TIERS.iter().copied().flat_map(pairs) {
        assert!(!causes(&set, deep).contains(&shallow.into()), "{shallow} explains {deep}");
    }
}

#[test]
fn causes_are_evaluated_before_their_symptoms() {
    let set = RuleSet::built_in();
    for rule in set.iter() {
        for cause in &rule.causes {
            assert!(place(&set, cause) < place(&set, &rule.id), "{cause} explains {}", rule.id);
        }
    }
}

#[test]
fn preferred_causes_come_first_and_in_their_order() {
    let set = set(&[
        file("own.first", "explains = [\"own.symptom\"]"),
        file("own.second", "explains = [\"own.symptom\"]"),
        file("own.third", "explains = [\"own.symptom\"]"),
        file("own.symptom", "prefers = [\"own.third\", \"own.second\"]"),
    ]);
    assert_eq!(causes(&set, "own.symptom"), ["own.third", "own.second", "own.first"]);
    let slow = causes(&RuleSet::built_in(), "app.slow");
    assert_eq!(slow[..2], ["disk.stuck", "disk.member_outlier"]);
}

#[test]
fn own_cause_of_a_built_in_symptom_takes_its_place_in_the_graph() {
    let set = set(&[file("own.cause", "explains = [\"app.slow\"]")]);
    assert!(causes(&set, "app.slow").contains(&"own.cause".to_owned()));
    let built_in = causes(&RuleSet::built_in(), "app.slow").len();
    assert_eq!(causes(&set, "app.slow").len(), built_in + 1);
    assert!(place(&set, "own.cause") < place(&set, "app.slow"));
}

#[test]
fn older_form_names_all_causes_and_own_rules_add_theirs() {
    let symptom = file("app.slow", "explained_by = [\"disk.slow\", \"disk.stuck\"]");
    let alone = set(std::slice::from_ref(&symptom));
    assert_eq!(causes(&alone, "app.slow"), ["disk.slow", "disk.stuck"]);
    let with_cause = set(&[symptom, file("own.cause", "explains = [\"app.slow\"]")]);
    assert_eq!(causes(&with_cause, "app.slow"), ["disk.slow", "disk.stuck", "own.cause"]);
    let closed = set(&[file("app.slow", "explained_by = []")]);
    assert!(causes(&closed, "app.slow").is_empty());
}

#[test]
fn replaced_cause_keeps_its_symptoms_unless_it_names_others() {
    let copy = set(&[file("disk.stuck", "")]);
    assert!(causes(&copy, "app.slow").contains(&"disk.stuck".to_owned()));
    let other = set(&[file("disk.stuck", "explains = []")]);
    assert!(!causes(&other, "app.slow").contains(&"disk.stuck".to_owned()));
}

#[test]
fn rules_that_explain_each_other_are_all_evaluated() {
    let set = set(&[
        file("own.left", "explains = [\"own.right\"]"),
        file("own.right", "explains = [\"own.left\", \"own.right\"]"),
    ]);
    assert_eq!(set.iter().count(), RuleSet::built_in().iter().count() + 2);
    assert!(place(&set, "own.left") < place(&set, "own.right"));
}

#[test]
fn unknown_symptom_is_named_with_the_nearest_rule() {
    let (set, errors) = RuleSet::with_directory(&[file("own.cause", "explains = [\"app.slwo\"]")]);
    assert!(set.get("own.cause").is_some());
    assert_eq!(
        errors[0].to_string(),
        "cannot use `own.cause.sql:1`: `explains` names `app.slwo`, which is no rule\n\
         hint: did you mean `app.slow`?"
    );
}

#[test]
fn rule_outside_of_a_set_has_the_causes_of_its_head() {
    let (path, text) = file("own.symptom", "explained_by = [\"disk.stuck\"]");
    let file = SourceFile { origin: &path, text: &text };
    assert_eq!(Rule::parse(file).expect("it parses").causes, ["disk.stuck"]);
}
