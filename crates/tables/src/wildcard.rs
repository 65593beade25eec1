//! Names in which `*` matches any characters, as the configuration lists them.

/// Whether `text` matches a pattern in which `*` matches any characters.
pub fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    while let Some((part, later)) = rest.split_once('*') {
        let Some(at) = text.find(part) else { return false };
        (text, rest) = (&text[at + part.len()..], later);
    }
    text.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::matches_wildcard;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, text, is_match) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("a*c", "abc", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("a", "ab", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches_wildcard(pattern, text), is_match, "{pattern} {text}");
        }
    }
}
