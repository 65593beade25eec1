//! Attributes of rows, for fields without a column: unique keys, and a limit.

use std::borrow::Cow;

/// Most attributes of one row; the rest becomes one JSON attribute and a count, as in the parser.
const MAX_ATTRS: usize = 256;

/// Keys and values in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attrs<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    more: serde_json::Map<String, serde_json::Value>,
    more_count: usize,
}

impl<'a> Attrs<'a> {
    /// Adds a pair; a repeated key gets a number, an empty value is left out.
    pub(crate) fn push(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        let (mut key, value) = (key.into(), value.into());
        if value.is_empty() {
            return;
        }
        if self.pairs.len() >= MAX_ATTRS {
            self.more_count += 1;
            self.more.insert(key.into_owned(), value.into_owned().into());
            return;
        }
        if self.get(&key).is_some_and(|known| known == value) {
            return;
        }
        if self.get(&key).is_some() {
            let numbered = (2..).map(|number| format!("{key}#{number}"));
            key = numbered
                .into_iter()
                .find(|name| self.get(name).is_none())
                .expect("the range is unbounded")
                .into();
        }
        self.pairs.push((key, value));
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_ref())
    }

    /// Removes and returns the value of the first of `keys` that exists.
    pub(crate) fn take(&mut self, keys: &[&str]) -> Option<Cow<'a, str>> {
        let at =
            keys.iter().find_map(|key| self.pairs.iter().position(|(known, _)| known == key))?;
        Some(self.pairs.remove(at).1)
    }

    /// Removes and returns the value of the first of `keys` that exists and is a number.
    pub(crate) fn take_number<T: std::str::FromStr>(&mut self, keys: &[&str]) -> Option<T> {
        let numbers = keys.iter().map(|key| self.get(key)?.parse::<T>().ok());
        let at = numbers.into_iter().position(|number| number.is_some())?;
        self.take(&[keys[at]])?.parse().ok()
    }

    /// Adds all pairs of another list.
    pub(crate) fn extend(&mut self, other: &Attrs<'a>) {
        for (key, value) in &other.pairs {
            self.push(key.clone(), value.clone());
        }
    }

    /// The pairs in the form that rows need.
    pub(crate) fn finish(&mut self) -> Vec<(&str, &str)> {
        if self.more_count > 0 {
            let more = serde_json::Value::Object(std::mem::take(&mut self.more)).to_string();
            self.pairs.push(("weir.more".into(), more.into()));
            self.pairs.push(("weir.more_count".into(), self.more_count.to_string().into()));
            self.more_count = 0;
        }
        self.pairs.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_unique_and_their_number_is_limited() {
        let mut attrs = Attrs::default();
        for (key, value) in [("a", "1"), ("a", "1"), ("a", "2"), ("a", "3"), ("b", "")] {
            attrs.push(key, value);
        }
        assert_eq!(attrs.finish(), [("a", "1"), ("a#2", "2"), ("a#3", "3")]);
        for number in 0..1000 {
            attrs.push(format!("k{number}"), "v");
        }
        let pairs = attrs.finish();
        assert_eq!(pairs.len(), MAX_ATTRS + 2);
        assert_eq!(pairs[MAX_ATTRS + 1], ("weir.more_count", "747"));
    }

    #[test]
    fn only_numbers_are_taken_as_numbers() {
        let mut attrs = Attrs::default();
        attrs.push("old", "x");
        attrs.push("new", "200");
        assert_eq!(attrs.take_number::<i64>(&["old", "new"]), Some(200));
        assert_eq!(attrs.finish(), [("old", "x")]);
    }
}
