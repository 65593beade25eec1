//! Word search in texts.

use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;
use weir_datafile::text_index::is_word;

use super::{of_text, text_of};

/// `has_token(text, token)`: whether `text` contains `token` as a whole word, case-sensitive.
pub(super) fn has_token() -> ScalarUDF {
    of_text("has_token", vec![arrow_schema::DataType::Utf8], |constants| {
        let token = SearchToken::parse(constants)?;
        Ok(move |text: &str| Some(token.as_ref()?.is_in(text)))
    })
}

/// A word of letters, digits and `_`.
struct SearchToken(String);

impl SearchToken {
    fn parse(constants: &[Option<ScalarValue>]) -> Result<Option<Self>> {
        match text_of(constants.first()) {
            Some(token) if token.is_empty() || !token.bytes().all(is_word) => exec_err!(
                "has_token: `{token}` is not one word of letters, digits and `_`; ask for each word, joined by `and`"
            ),
            token => Ok(token.map(|token| Self(token.to_owned()))),
        }
    }

    fn is_in(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        memchr::memmem::find_iter(bytes, self.0.as_bytes()).any(|start| {
            let before = start.checked_sub(1).and_then(|at| bytes.get(at));
            is_edge(before) && is_edge(bytes.get(start + self.0.len()))
        })
    }
}

fn is_edge(byte: Option<&u8>) -> bool {
    byte.is_none_or(|byte| !is_word(*byte))
}

#[cfg(test)]
mod tests {
    use super::SearchToken;

    #[test]
    fn only_whole_words_count() {
        let token = SearchToken("cart".to_owned());
        assert!(token.is_in("GET /cart?id=4711 200"));
        assert!(token.is_in("cart"));
        assert!(token.is_in("carts cart"), "the second one is a word");
        for text in ["carts", "xcart", "cart_2", "Cart", "", "cart\u{e4}"] {
            assert!(!token.is_in(text), "{text}");
        }
    }
}
