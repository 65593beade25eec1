//! Key columns that cause and symptom share: they are compared by value, so a column has one meaning
//! on both sides, one type, and one word for "unknown".

use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect_file;
use weir_rules::{Rule, RuleSet};
use weir_tables::{DataKind, TABLES};

/// What each shared key column holds. A new one is declared here once all rules that `keys.txt`
/// lists for it mean that.
const MEANINGS: &[(&str, &str)] = &[
    ("backend", "name of a backend of HAProxy or of the edge, without its servers"),
    ("database_address", "address of a database, as weir connects to it"),
    ("destination", "address and port that a program connects to"),
    ("device", "whole disk, array or network device in the kernel's words, no partition"),
    ("log_program", "program whose log has the lines, `other` for one without a name"),
    ("mount_point", "where a file system is mounted"),
    ("name", "host name that a proxy resolves"),
    ("netns", "network namespace of the sockets, counters or devices"),
    ("path", "file of a certificate"),
    ("peer", "address of the server that a replica copies"),
    ("pool", "pool of a proxy, as its configuration names it"),
    ("process", "name of a process (comm)"),
    ("program", "proxy that logged the requests or the lines"),
    ("server", "application server by its program, with the pool of PHP-FPM"),
    ("server_address", "address of a listening socket"),
    ("server_name", "name that a TLS client sends"),
    ("server_port", "port of a listening socket"),
    ("site", "pool or name of the requests, `requests in FILE` without either"),
    ("source", "file or stream that rows are read from"),
    ("target", "what a check, a probe or an objective of checks looks at"),
    ("upstream", "server of a pool by address, or the pool by name"),
];

/// Words for an unknown value that agree although they differ: the engine compares them so.
const AGREEING_WORDS: &[&[&str]] = &[&["an upstream", "its upstreams"]];

/// By key column, the rules on either side of an edge whose two rules both have it.
fn shared_keys(set: &RuleSet) -> BTreeMap<String, BTreeSet<String>> {
    let mut shared: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for symptom in set.iter() {
        for cause in symptom.causes.iter().filter_map(|cause| set.get(cause)) {
            for column in symptom.key.iter().filter(|column| cause.key.contains(column)) {
                let rules = shared.entry(column.clone()).or_default();
                rules.extend([cause.id.clone(), symptom.id.clone()]);
            }
        }
    }
    shared
}

/// The literals that a query falls back to for a column: `'x'` of `coalesce(…, 'x') as column`.
fn fallback_words(rule: &Rule, column: &str) -> BTreeSet<String> {
    let end = format!("') as {column}");
    let mut words = BTreeSet::new();
    for (at, _) in rule.sql.match_indices(&end) {
        let is_whole = !rule.sql[at + end.len()..]
            .starts_with(|next: char| next == '_' || next.is_alphanumeric());
        let before = &rule.sql[..at];
        let word = before.rfind('\'').map(|quote| &before[quote + 1..]);
        words.extend(word.filter(|word| is_whole && !word.is_empty()).map(str::to_owned));
    }
    words
}

/// Whether two rules without a value have the same word for that, or only one of them has a word.
fn words_agree(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    let all: BTreeSet<&str> = one.iter().chain(other).map(String::as_str).collect();
    one.is_empty()
        || other.is_empty()
        || one == other
        || AGREEING_WORDS.iter().any(|words| all.iter().all(|word| words.contains(word)))
}

/// `keys.txt` shows the shared columns for reviews; `UPDATE_EXPECT=1` writes it again. Before that,
/// compare how the rules of the line make the column: a partition never equals its disk.
#[test]
fn shared_key_columns_have_the_meaning_that_was_reviewed() {
    let meanings: BTreeMap<&str, &str> = MEANINGS.iter().copied().collect();
    let shared = shared_keys(&RuleSet::built_in());
    let declared: Vec<&str> = meanings.keys().copied().collect();
    assert_eq!(shared.keys().map(String::as_str).collect::<Vec<_>>(), declared);
    let shown: String = shared
        .iter()
        .map(|(column, rules)| {
            let rules = rules.iter().cloned().collect::<Vec<_>>().join(", ");
            format!("{column} ({}): {rules}\n", meanings[column.as_str()])
        })
        .collect();
    expect_file!["./keys.txt"].assert_eq(&shown);
}

#[test]
fn shared_key_columns_have_one_type_in_the_tables_of_their_rules() {
    let set = RuleSet::built_in();
    for (column, rules) in shared_keys(&set) {
        let mut kinds: Vec<(DataKind, &str)> = Vec::new();
        for rule in rules.iter().filter_map(|id| set.get(id)) {
            for table in
                TABLES.iter().filter(|table| rule.needs.iter().any(|name| name == table.name))
            {
                kinds.extend(table.column(&column).map(|found| (found.kind, table.name)));
            }
        }
        let (first, rest) = (kinds.first(), kinds.iter().skip(1));
        for other in rest {
            assert_eq!(
                first.map(|first| first.0),
                Some(other.0),
                "{column}: {first:?} and {other:?}"
            );
        }
    }
}

/// `the proxy` never equals `a proxy`: a cause without a program would explain no symptom.
#[test]
fn an_unknown_value_has_the_same_word_on_both_sides() {
    let set = RuleSet::built_in();
    let mut differing = Vec::new();
    for symptom in set.iter() {
        for cause in symptom.causes.iter().filter_map(|cause| set.get(cause)) {
            for column in symptom.key.iter().filter(|column| cause.key.contains(column)) {
                let (one, other) = (fallback_words(cause, column), fallback_words(symptom, column));
                if !words_agree(&one, &other) {
                    differing
                        .push(format!("{column}: {} {one:?}, {} {other:?}", cause.id, symptom.id));
                }
            }
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
}
