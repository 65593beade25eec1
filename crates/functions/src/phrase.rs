//! Phrase search in texts: whole words in sequence, case-insensitive.

use arrow_schema::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;
use weir_datafile::text_index::is_word;

use super::{of_text, text_of};

/// `has_phrase(text, phrase)`: whether `text` contains `phrase` with word boundaries at both ends;
/// ASCII letters match in either case. A trailing `*` makes the last word a prefix.
pub(super) fn has_phrase() -> ScalarUDF {
    of_text("has_phrase", vec![DataType::Utf8], |constants| {
        let phrase = phrase_of(constants)?;
        Ok(move |text: &str| Some(phrase.as_ref()?.is_in(text.as_bytes())))
    })
}

fn phrase_of(constants: &[Option<ScalarValue>]) -> Result<Option<Phrase>> {
    let Some(text) = text_of(constants.first()) else { return Ok(None) };
    match Phrase::new(text) {
        Some(phrase) => Ok(Some(phrase)),
        None => exec_err!("has_phrase: `{text}` has no word; use `like` for other characters"),
    }
}

/// Phrase to search, in lower case.
pub(crate) struct Phrase {
    bytes: Vec<u8>,
    is_open: bool,
}

impl Phrase {
    /// Parses a phrase; `None` for a text without a word.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let (text, is_open) = text.strip_suffix('*').map_or((text, false), |text| (text, true));
        let bytes = text.to_ascii_lowercase().into_bytes();
        bytes.iter().any(|byte| is_word(*byte)).then_some(Self { bytes, is_open })
    }

    fn is_in(&self, text: &[u8]) -> bool {
        let (first, length) = (self.bytes[0], self.bytes.len());
        let starts = memchr::memchr2_iter(first, first.to_ascii_uppercase(), text);
        starts.take_while(|start| start + length <= text.len()).any(|start| {
            let end = start + length;
            text[start..end].eq_ignore_ascii_case(&self.bytes)
                && is_edge(start.checked_sub(1).map(|before| text[before]), Some(first))
                && (self.is_open || is_edge(self.bytes.last().copied(), text.get(end).copied()))
        })
    }
}

/// Whether there is a word boundary between `left` and `right`.
fn is_edge(left: Option<u8>, right: Option<u8>) -> bool {
    !(left.is_some_and(is_word) && right.is_some_and(is_word))
}

#[cfg(test)]
mod tests {
    use super::Phrase;

    #[test]
    fn phrases_are_found_between_the_edges_of_words() {
        let is_in = |text: &str, phrase: &str| Phrase::new(phrase).unwrap().is_in(text.as_bytes());
        for phrase in ["cart", "GET /CART", "/cart?", "get", "id=4711", "47*", "/c*"] {
            assert!(is_in("GET /Cart?id=4711", phrase), "{phrase}");
        }
        for phrase in ["car", "et /cart", "471", "/ca", "art*", "GET  /Cart", "4711 and more"] {
            assert!(!is_in("GET /Cart?id=4711", phrase), "{phrase}");
        }
        assert!(is_in("carts cart", "cart"), "the second one is the word");
        assert!(is_in("\u{e4}pfel B\u{e4}ume", "b\u{e4}ume"));
        assert!(Phrase::new("%*").is_none() && Phrase::new("").is_none());
    }
}
