//! The nearest known word to a misspelt one, for hints.

/// The word of `known` nearest to `word`, if it is close enough to be a typo.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    weir_tables::nearest(word, known.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["summary", "subject", "silent_when", "for"];
        assert_eq!(nearest("sumary", &known), Some("summary"));
        assert_eq!(nearest("silentwhen", &known), Some("silent_when"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
