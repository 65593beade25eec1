//! Writing an accepted threshold: a copy of the rule with another value, in the user's directory of
//! rules.

use std::path::{Path, PathBuf};

use weir_process::failure::{Failure, read_failure};
use weir_rules::{Rule, RuleSet};

/// Writes a copy of the rule with another value of its threshold into a directory of rules; where
/// it is.
pub fn write_value(rule: &Rule, value: f64, dir: &Path) -> Result<PathBuf, Failure> {
    let (text, path) = source_of(rule, dir)?;
    let changed = with_value(&text, value).ok_or_else(|| {
        Failure::new(format!(
            "cannot change the threshold of `{}`: its file has no `value` line",
            rule.id
        ))
    })?;
    std::fs::create_dir_all(dir)
        .and_then(|()| {
            let draft = path.with_extension("sql.new");
            std::fs::write(&draft, changed)?;
            std::fs::rename(&draft, &path)
        })
        .map_err(|error| Failure::new(format!("cannot write `{}`: {error}", path.display())))?;
    Ok(path)
}

/// The text of a rule's file, and where its changed copy belongs.
fn source_of(rule: &Rule, dir: &Path) -> Result<(String, PathBuf), Failure> {
    match RuleSet::built_in_text(&rule.id).filter(|_| rule.origin == "built in") {
        Some(text) => Ok((text.to_owned(), dir.join(format!("{}.sql", rule.id)))),
        None => {
            let path = PathBuf::from(&rule.origin);
            let text =
                std::fs::read_to_string(&path).map_err(|error| read_failure(&path, &error))?;
            Ok((text, path))
        }
    }
}

/// The text with another value in its section `[threshold]`; `None` when there is none.
fn with_value(text: &str, value: f64) -> Option<String> {
    let section = text.find("\n[threshold]")?;
    let is_value =
        |line: &str| line.split_once('=').is_some_and(|(name, _)| name.trim() == "value");
    let mut at = section + 1;
    for line in text[at..].split_inclusive('\n') {
        if is_value(line) {
            let end = at + line.trim_end().len();
            return Some(format!("{}value = {value:?}{}", &text[..at], &text[end..]));
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use weir_rules::{Rule, RuleSet, SourceFile};

    use super::with_value;

    #[test]
    fn only_the_value_of_the_threshold_changes() {
        let text = RuleSet::built_in_text("app.slow").unwrap();
        let changed = with_value(text, 0.41).unwrap();
        let rule = Rule::parse(SourceFile { origin: "x", text: &changed }).unwrap();
        assert_eq!(rule.mining.unwrap().value, Some(0.41));
        assert!(rule.sql.contains(">= 0.41") && !rule.sql.contains("$threshold"));
        let differing = text.lines().zip(changed.lines()).filter(|(old, new)| old != new).count();
        assert_eq!((differing, text.lines().count()), (1, changed.lines().count()));
        assert_eq!(with_value("/*---\nid = \"a.b\"\n", 1.0), None);
    }
}
