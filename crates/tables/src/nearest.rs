//! The name that was probably meant: for hints at unknown keys, tables, rules and patterns.

/// The candidate nearest to `name` by edit distance, if near enough to be a typing mistake.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance with one row of memory.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn nearest_finds_the_typing_mistake_and_nothing_far_away() {
        assert_eq!(nearest("listne", ["listen", "token_file"]), Some("listen"));
        assert_eq!(nearest("colour", ["listen", "token_file"]), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
