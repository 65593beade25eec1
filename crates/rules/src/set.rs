//! The rules that are in force: the built-in ones, and a directory's over them.

use std::sync::Arc;

use crate::built_in::BUILT_IN;
use crate::{Rule, RuleError};

/// Rules by id, in the order of the list of built-in rules, a directory's own ones after them.
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
        let rules = BUILT_IN
            .iter()
            .map(|(id, sql, _)| {
                let rule =
                    Rule::parse("built in", sql).unwrap_or_else(|error| panic!("{id}: {error}"));
                Arc::new(rule)
            })
            .collect();
        Self { rules }
    }

    /// The built-in rules with those of a directory, given as (path, text), over them: the same id replaces, another id
    /// is added. A file that cannot be used is left out and named.
    pub fn with_directory(files: &[(String, String)]) -> (Self, Vec<RuleError>) {
        let mut set = Self::built_in();
        let mut errors = Vec::new();
        let mut own: Vec<String> = Vec::new();
        for (path, text) in files {
            match Rule::parse(path, text) {
                Ok(rule) if own.contains(&rule.id) => {
                    let message =
                        format!("rule `{}` is in another file of the directory too", rule.id);
                    errors.push(
                        RuleError::new(path, 1, message).hint("give one of them another `id`"),
                    );
                }
                Ok(rule) => {
                    own.push(rule.id.clone());
                    set.put(rule);
                }
                Err(error) => errors.push(error),
            }
        }
        (set, errors)
    }

    fn put(&mut self, rule: Rule) {
        let rule = Arc::new(rule);
        match self.rules.iter_mut().find(|known| known.id == rule.id) {
            Some(known) => *known = rule,
            None => self.rules.push(rule),
        }
    }

    /// The rules.
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
    fn file_name_is_the_id_and_explaining_rules_exist() {
        let set = RuleSet::built_in();
        for (rule, (id, ..)) in set.iter().zip(BUILT_IN) {
            assert_eq!(rule.id, *id);
            assert!(!rule.needs.is_empty(), "{id} does not say which tables it needs");
            for other in &rule.explained_by {
                assert!(
                    set.get(other).is_some(),
                    "{id} is explained by `{other}`, which does not exist"
                );
            }
        }
    }
}
