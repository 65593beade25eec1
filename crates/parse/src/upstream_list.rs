//! nginx's lists of upstream tries: `0.010, 0.020 : -` has one entry per try.
//!
//! `, ` separates servers of one group, ` : ` separates groups after an internal redirect
//! (ngx_http_upstream_module, `$upstream_addr`). A `-` is a try without a response.

use weir_values::number;

/// The entries of a list.
pub(crate) fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(", ").flat_map(|part| part.split(" : ")).map(str::trim_ascii)
}

fn is_single(text: &str) -> bool {
    memchr::memchr(b' ', text.as_bytes()).is_none()
}

/// The last entry that is not `-`.
pub(crate) fn last(text: &str) -> Option<&str> {
    if is_single(text) {
        return Some(text);
    }
    entries(text).filter(|entry| *entry != "-").last()
}

/// Number of tries.
pub(crate) fn count(text: &str) -> i64 {
    if is_single(text) {
        return 1;
    }
    i64::try_from(entries(text).count()).unwrap_or(i64::MAX)
}

/// Sum of the entries that are numbers; `None` without any, or if one is neither a number nor `-`.
///
/// Entries are decimal milliseconds, so the sum is rounded to their precision.
pub(crate) fn sum_seconds(text: &str) -> Option<f64> {
    if is_single(text) {
        return number::seconds(text);
    }
    let mut sum = None;
    for entry in entries(text).filter(|entry| *entry != "-") {
        sum = Some(sum.unwrap_or(0.0) + number::seconds(entry)?);
    }
    sum.map(|sum: f64| (sum * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_summed_counted_and_the_last_kept() {
        assert_eq!(sum_seconds("0.1, 0.11 : -"), Some(0.21));
        assert_eq!(last("10.0.0.1:80, 10.0.0.2:80 : unix:/run/a"), Some("unix:/run/a"));
        assert_eq!(last("502, -"), Some("502"));
        assert_eq!(count("10.0.0.1:80, 10.0.0.2:80 : [::1]:80"), 3);
        assert_eq!((sum_seconds("0.1, x"), sum_seconds("-, -"), last("-, -")), (None, None, None));
    }
}
