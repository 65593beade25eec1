//! A unified diff of the lines of configurations that should change, for `patch -p0`.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Edit, Proposal};

/// The diff, and what could not be put into it.
pub(super) fn diff(proposals: &[Proposal], root: &Path) -> (String, Vec<String>) {
    let mut by_file: BTreeMap<&str, Vec<&Edit>> = BTreeMap::new();
    for edit in proposals.iter().filter_map(|proposal| proposal.edit.as_ref()) {
        by_file.entry(&edit.file).or_default().push(edit);
    }
    let (mut out, mut problems) = (String::new(), Vec::new());
    for (file, mut edits) in by_file {
        let path = root.join(file.trim_start_matches('/'));
        match std::fs::read_to_string(&path) {
            Err(error) => problems.push(format!("cannot read `{}`: {error}", path.display())),
            Ok(text) => {
                edits.sort_by_key(|edit| edit.line);
                edits.dedup_by_key(|edit| edit.line);
                let (hunks, lost) = hunks(&text, &edits);
                if !hunks.is_empty() {
                    out += &format!("--- {file}\n+++ {file}\n{hunks}");
                }
                problems.extend(lost.iter().map(|edit| {
                    format!(
                        "`{file}:{}` is no longer `{} {}`",
                        edit.line, edit.directive, edit.arguments
                    )
                }));
            }
        }
    }
    (out, problems)
}

/// Hunks without context lines: one per line that changes. Edits whose line reads otherwise now are given back.
fn hunks<'a>(text: &str, edits: &[&'a Edit]) -> (String, Vec<&'a Edit>) {
    let lines: Vec<&str> = text.lines().collect();
    let (mut out, mut lost) = (String::new(), Vec::new());
    for edit in edits {
        let line = edit.line.checked_sub(1).and_then(|at| lines.get(at).copied());
        match line.and_then(|line| Some((line, changed(line, edit)?))) {
            Some((line, new)) => {
                out += &format!("@@ -{at} +{at} @@\n-{line}\n+{new}\n", at = edit.line);
            }
            None => lost.push(*edit),
        }
    }
    (out, lost)
}

/// The line with the new arguments; what stands before and behind them stays.
fn changed(line: &str, edit: &Edit) -> Option<String> {
    let start = line.find(&edit.directive)? + edit.directive.len();
    let rest = &line[start..];
    let begin = start + rest.len() - rest.trim_start().len();
    let end = line[begin..].find([';', '#']).map_or(line.len(), |at| begin + at);
    let old = line[begin..end].trim_end();
    let is_same = old.split_whitespace().eq(edit.arguments.split_whitespace());
    is_same
        .then(|| format!("{}{}{}", &line[..begin], edit.new_arguments, &line[begin + old.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(line: usize) -> Edit {
        Edit {
            file: "/etc/nginx/nginx.conf".into(),
            line,
            directive: "listen".into(),
            arguments: "80 default_server".into(),
            new_arguments: "80 default_server backlog=4096".into(),
        }
    }

    #[test]
    fn only_the_arguments_of_the_line_change() {
        let text = "server {\n    listen   80  default_server; # all\n}\n";
        let second = edit(2);
        let (hunks, lost) = hunks(text, &[&second]);
        assert!(lost.is_empty());
        let line = "    listen   80 default_server backlog=4096; # all";
        assert_eq!(
            hunks,
            format!("@@ -2 +2 @@\n-    listen   80  default_server; # all\n+{line}\n")
        );
    }

    #[test]
    fn a_line_that_was_changed_meanwhile_is_left_alone() {
        let (one, nine) = (edit(1), edit(9));
        let (hunks, lost) = hunks("    listen 8080;\n", &[&one, &nine]);
        assert!(hunks.is_empty());
        assert_eq!(lost.len(), 2);
    }
}
