//! "Did you mean …?": the nearest known name, for hints about unknown keys, tables, rules and
//! patterns.

/// The candidate nearest to `name` by [`edit_distance`], if near enough to be a typo.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edits between two names: characters inserted, deleted or replaced, and neighbours swapped.
pub use strsim::osa_distance as edit_distance;

#[cfg(test)]
mod tests {
    use super::{edit_distance, nearest};

    #[test]
    fn nearest_finds_the_typo_and_nothing_far_away() {
        assert_eq!(nearest("listne", ["listen", "token_file"]), Some("listen"));
        assert_eq!(nearest("colour", ["listen", "token_file"]), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("stauts", "status"), 1, "swapped neighbours are one edit");
    }
}
