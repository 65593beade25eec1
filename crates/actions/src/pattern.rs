//! Patterns of rules, hosts and tiers: `*` stands for any text, everything else for itself.

/// Whether a text matches one of the patterns; every text matches an empty list.
pub(crate) fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| Pattern(pattern).matches(text))
}

/// A text in which `*` stands for any text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern<'a>(
    /// The text: `app.*`.
    &'a str,
);

impl Pattern<'_> {
    /// Whether the whole text matches.
    pub(crate) fn matches(self, text: &str) -> bool {
        let Some((start, rest)) = self.0.split_once('*') else { return self.0 == text };
        let Some(mut text) = text.strip_prefix(start) else { return false };
        let parts: Vec<&str> = rest.split('*').collect();
        let (last, inner) = parts.split_last().expect("split returns at least one part");
        for part in inner {
            // The leftmost match leaves the most text for the parts that follow.
            let Some(at) = text.find(part) else { return false };
            text = &text[at + part.len()..];
        }
        text.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_text() {
        let cases = [
            ("app.*", "app.down", true),
            ("app.*", "tcp.app.down", false),
            ("*", "", true),
            ("web*-eu", "web12-eu", true),
            ("web*-eu", "web-eu", true),
            ("web*eu", "weeu", false),
            ("a*b*b", "ab", false),
            ("a*b*b", "abb", true),
            ("*.*", "nodot", false),
            ("disk.full", "disk.full", true),
            ("disk.full", "disk.fuller", false),
        ];
        for (pattern, text, matches) in cases {
            assert_eq!(Pattern(pattern).matches(text), matches, "{pattern} on {text}");
        }
        assert!(matches_any(&[], "anything"));
    }
}
