//! The graph of causes: the built-in edges, evaluation order, and a user's rules in it.

use std::collections::BTreeMap;

use weir_rules::{Rule, RuleSet, SourceFile};

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

/// `causes.txt` shows the graph from the symptoms' side, where a review sees what an edge adds.
#[test]
fn built_in_edges_are_those_of_the_reviewed_list() {
    let set = RuleSet::built_in();
    let mut edges = BTreeMap::new();
    for rule in set.iter().filter(|rule| !rule.causes.is_empty()) {
        let mut causes = rule.causes.clone();
        causes.sort();
        edges.insert(rule.id.clone(), causes.join(", "));
    }
    let shown: String = edges.iter().map(|(id, causes)| format!("{id}: {causes}\n")).collect();
    assert_eq!(shown, include_str!("causes.txt"));
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
    let before = causes(&RuleSet::built_in(), "app.slow").len();
    assert_eq!(causes(&set, "app.slow").len(), before + 1);
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
