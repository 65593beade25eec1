//! Attributes of rows that have no columns for them: unique keys, and a budget.

use std::borrow::Cow;

/// Attributes of one row at most; the rest is one attribute of JSON and a count, as the parser does it.
const MAX_ATTRS: usize = 256;

/// Keys and values in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attrs<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    more: serde_json::Map<String, serde_json::Value>,
    more_count: usize,
}

impl<'a> Attrs<'a> {
    /// Adds a pair; a key that is there already gets a number, an empty value is left out.
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
                .expect("numbers go on")
                .into();
        }
        self.pairs.push((key, value));
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_ref())
    }

    /// Takes the value of the first of `keys` that is there.
    pub(crate) fn take(&mut self, keys: &[&str]) -> Option<Cow<'a, str>> {
        let at =
            keys.iter().find_map(|key| self.pairs.iter().position(|(known, _)| known == key))?;
        Some(self.pairs.remove(at).1)
    }

    /// Takes the value of the first of `keys` that is there and reads as a number.
    pub(crate) fn take_number<T: std::str::FromStr>(&mut self, keys: &[&str]) -> Option<T> {
        let is_number = |key: &&&str| self.get(key).is_some_and(|value| value.parse::<T>().is_ok());
        let key = *keys.iter().find(is_number)?;
        self.take(&[key])?.parse().ok()
    }

    /// Adds all of another list.
    pub(crate) fn extend(&mut self, other: &Attrs<'a>) {
        for (key, value) in &other.pairs {
            self.push(key.clone(), value.clone());
        }
    }

    /// The pairs as rows take them.
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
    fn keys_stay_unique_and_the_budget_holds() {
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
    fn numbers_are_taken_where_they_are_numbers() {
        let mut attrs = Attrs::default();
        attrs.push("old", "x");
        attrs.push("new", "200");
        assert_eq!(attrs.take_number::<i64>(&["old", "new"]), Some(200));
        assert_eq!(attrs.finish(), [("old", "x")]);
    }
}
