//! Word search in texts.

use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;
use weir_datafile::text_index::is_word;

use super::{of_text, text_of};

/// `has_token(text, token)`: whether `text` contains `token` as a whole word, case-sensitive.
pub(super) fn has_token() -> ScalarUDF {
    of_text("has_token", vec![arrow_schema::DataType::Utf8], |constants| {
        let token = token_of(constants)?;
        Ok(move |text: &str| Some(contains(text, token.as_deref()?)))
    })
}

fn token_of(constants: &[Option<ScalarValue>]) -> Result<Option<String>> {
    match text_of(constants.first()) {
        Some(token) if token.is_empty() || !token.bytes().all(is_word) => exec_err!(
            "has_token: `{token}` is not one word of letters, digits and `_`; ask for each word, joined by `and`"
        ),
        token => Ok(token.map(str::to_owned)),
    }
}

fn contains(text: &str, token: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_none_or(|byte| !is_word(*byte));
    let bytes = text.as_bytes();
    memchr::memmem::find_iter(bytes, token.as_bytes()).any(|start| {
        let before = start.checked_sub(1).and_then(|at| bytes.get(at));
        is_edge(before) && is_edge(bytes.get(start + token.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::contains;

    #[test]
    fn only_whole_words_count() {
        assert!(contains("GET /cart?id=4711 200", "cart"));
        assert!(contains("cart", "cart"));
        assert!(contains("carts cart", "cart"), "the second one is a word");
        for text in ["carts", "xcart", "cart_2", "Cart", "", "cart\u{e4}"] {
            assert!(!contains(text, "cart"), "{text}");
        }
    }
}
