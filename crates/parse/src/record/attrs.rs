//! Attributes, for texts without a column: unique keys, and limits per line and stream.

use super::Record;

/// Most attributes of one row; the rest goes into one attribute as JSON.
pub(super) const MAX_ATTRS: usize = 256;

impl<'a> Record<'a> {
    /// Adds an attribute with a unique key: the second `a` becomes `a#2`, because map readers
    /// refuse
    pub(super) fn keep_attr(&mut self, [key, value]: [&'a str; 2]) {
        if self.attrs.len() >= MAX_ATTRS || !self.keys.admits(key) {
            return self.more.push((key, value));
        }
        let is_known = |name: &str| self.attrs.iter().any(|(other, _)| *other == name);
        if !is_known(key) {
            return self.attrs.push((key, value));
        }
        let is_numbered =
            |name: &str| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('#'));
        let earlier = self.attrs.iter().filter(|(other, _)| is_numbered(other)).count();
        let mut names = (earlier + 2..).map(|number| format!("{key}#{number}"));
        let name = names.find(|name| !is_known(name)).expect("the range is unbounded");
        self.attrs.push((self.arena.alloc_str(&name), value));
    }

    /// Adds an attribute of the log itself, before those of its line and beyond their budget.
    pub(crate) fn keep_source_attr(&mut self, pair: [&'a str; 2]) {
        self.attrs.push(pair.into());
    }

    /// Keeps an attribute whose name is not on the user's list.
    pub(super) fn keep_unlisted(&mut self, [key, value]: [&'a str; 2]) {
        self.more.push((key, value));
    }

    /// Converts attributes over a limit to one JSON text and a count.
    pub(crate) fn settle_budget(&mut self) {
        if self.more.is_empty() {
            return;
        }
        let mut json = String::from("{");
        for (key, value) in &self.more {
            if json.len() > 1 {
                json.push(',');
            }
            push_json_text(&mut json, key);
            json.push(':');
            push_json_text(&mut json, value);
        }
        json.push('}');
        let count = self.more.len().to_string();
        self.more.clear();
        self.attrs.push(("weir.more", self.arena.alloc_str(&json)));
        self.attrs.push(("weir.more_count", self.arena.alloc_str(&count)));
    }
}

fn push_json_text(out: &mut String, text: &str) {
    use std::fmt::Write as _;
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                write!(out, "\\u{:04x}", u32::from(control))
                    .expect("writing to a String does not fail");
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
