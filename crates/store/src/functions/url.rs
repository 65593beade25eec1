//! Parts of addresses of pages.

use arrow_schema::DataType;
use datafusion::logical_expr::ScalarUDF;

use super::{of_text, text_of};

/// `url_parameter(query, name)`: the first value of a parameter in a query string or a whole URL, decoded.
pub(super) fn url_parameter() -> ScalarUDF {
    of_text("url_parameter", vec![DataType::Utf8], |constants| {
        let name = text_of(constants.first()).map(str::to_owned);
        Ok(move |text: &str| parameter(text, name.as_deref()?))
    })
}

fn parameter(text: &str, name: &str) -> Option<String> {
    let query = text.split_once('?').map_or(text, |(_, query)| query);
    let query = query.split_once('#').map_or(query, |(query, _)| query);
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::parameter;

    #[test]
    fn values_are_decoded_and_the_first_counts() {
        let get = |text, name| parameter(text, name);
        assert_eq!(get("a=1&b=x%20y+z&b=2", "b").as_deref(), Some("x y z"));
        assert_eq!(get("https://example.org/p?q=%C3%A4#q=no", "q").as_deref(), Some("\u{e4}"));
        assert_eq!(get("/p?flag&n=", "flag").as_deref(), Some(""));
        assert_eq!(get("/p", "q"), None);
    }
}
