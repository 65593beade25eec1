//! The rules in force: the built-in ones, with a directory's own rules laid over them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::built_in::{BUILT_IN, ORIGIN};
use crate::causes::{causes_first, resolve_causes};
use crate::suggest::nearest;
use crate::{Rule, RuleError, SourceFile};

/// Rules by id, each after the rules that explain it.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<Arc<Rule>>,
}

impl RuleSet {
    /// The rules that are compiled in.
    ///
    /// # Panics
    /// Never in a tested build: a built-in rule that does not parse fails the tests.
    pub fn built_in() -> Self {
        Self::in_order(parse_built_in())
    }

    /// The built-in rules with a directory's own rules, given as (path, text), laid over them.
    ///
    /// A rule with the id of a built-in one replaces it, any other id is added. Unusable files are
    /// left out and reported.
    ///
    /// # Panics
    /// Never in a tested build, as [`RuleSet::built_in`].
    pub fn with_directory(files: &[(String, String)]) -> (Self, Vec<RuleError>) {
        let mut rules = parse_built_in();
        let mut errors = Vec::new();
        let mut own = BTreeSet::new();
        for (path, text) in files {
            match Rule::parse(SourceFile { origin: path, text }) {
                Ok(rule) if own.contains(&rule.id) => errors.push(duplicate(&rule)),
                Ok(rule) => {
                    own.insert(rule.id.clone());
                    put(&mut rules, rule);
                }
                Err(error) => errors.push(error),
            }
        }
        let own_rules = rules.iter().filter(|rule| own.contains(&rule.id));
        errors.extend(own_rules.filter_map(|rule| unknown_symptom(rule, &rules)));
        (Self::in_order(rules), errors)
    }

    fn in_order(mut rules: Vec<Rule>) -> Self {
        resolve_causes(&mut rules);
        Self { rules: causes_first(rules).into_iter().map(Arc::new).collect() }
    }

    /// The rules, causes before their symptoms: a symptom then finds its cause in the same round.
    pub fn iter(&self) -> std::slice::Iter<'_, Arc<Rule>> {
        self.rules.iter()
    }

    /// The rule with this id, or `None`.
    pub fn get(&self, id: &str) -> Option<&Arc<Rule>> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// The text of the `.test` file of a built-in rule, or `None`.
    pub fn built_in_test(id: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, ..)| *known == id).map(|(_, _, test)| *test)
    }

    /// The text of the `.sql` file of a built-in rule, or `None`.
    pub fn built_in_text(id: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, ..)| *known == id).map(|(_, sql, _)| *sql)
    }
}

fn parse_built_in() -> Vec<Rule> {
    let rules = BUILT_IN.iter().map(|(id, sql, _)| {
        let file = SourceFile { origin: ORIGIN, text: sql };
        Rule::parse(file).unwrap_or_else(|error| panic!("{id}: {error}"))
    });
    rules.collect()
}

/// Replaces the rule of the same id, or adds this one.
fn put(rules: &mut Vec<Rule>, mut rule: Rule) {
    match rules.iter_mut().find(|known| known.id == rule.id) {
        Some(known) => {
            // A copy made before rules had `explains` keeps the symptoms of the original.
            rule.explains = rule.explains.or_else(|| known.explains.clone());
            *known = rule;
        }
        None => rules.push(rule),
    }
}

fn duplicate(rule: &Rule) -> RuleError {
    let message = format!("rule `{}` is in another file of the directory too", rule.id);
    RuleError::new(&rule.origin, 1, message).hint("give one of them another `id`")
}

/// Reports an id in `explains` that no rule has. The rule itself stays in force.
fn unknown_symptom(rule: &Rule, rules: &[Rule]) -> Option<RuleError> {
    let ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    let symptoms = rule.explains.iter().flatten();
    let unknown = symptoms.map(String::as_str).find(|symptom| !ids.contains(symptom))?;
    let message = format!("`explains` names `{unknown}`, which is no rule");
    let error = RuleError::new(&rule.origin, 1, message);
    Some(match nearest(unknown, &ids) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`weir rules` lists them"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_replaces_by_id_and_broken_files_are_named() {
        let original = BUILT_IN[0].1;
        let changed = original.replacen("class = \"", "clear = \"99s\"\nclass = \"", 1);
        let changed = changed.replacen("clear = \"99s\"", "clear = \"99s\" # ours", 1);
        let without_clear: String = changed
            .lines()
            .filter(|line| !line.starts_with("clear") || line.ends_with("# ours"))
            .map(|line| format!("{line}\n"))
            .collect();
        let files = [
            ("a.sql".to_owned(), without_clear.clone()),
            ("b.sql".to_owned(), "nonsense".to_owned()),
            ("c.sql".to_owned(), without_clear),
        ];
        let (set, errors) = RuleSet::with_directory(&files);
        assert_eq!(set.get(BUILT_IN[0].0).unwrap().clear_seconds, 99);
        assert_eq!(set.get(BUILT_IN[0].0).unwrap().origin, "a.sql");
        assert_eq!(set.iter().count(), BUILT_IN.len());
        let origins: Vec<&str> = errors.iter().map(|error| error.origin.as_str()).collect();
        assert_eq!(origins, ["b.sql", "c.sql"]);
    }

    #[test]
    fn file_name_is_the_id_and_tables_are_named() {
        let set = RuleSet::built_in();
        assert_eq!(set.iter().count(), BUILT_IN.len());
        for (id, ..) in BUILT_IN {
            let rule = set.get(id).unwrap_or_else(|| panic!("{id} has another id in its head"));
            assert!(!rule.needs.is_empty(), "{id} does not say which tables it needs");
        }
    }
}
