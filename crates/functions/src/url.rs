//! Parts of URLs.

use arrow_schema::DataType;
use datafusion::logical_expr::ScalarUDF;
use url::Url;

use super::{of_text, text_of};

/// `url_parameter(query, name)`: the first value of a parameter in a query string or a whole URL,
/// decoded.
pub(super) fn url_parameter() -> ScalarUDF {
    of_text("url_parameter", vec![DataType::Utf8], |constants| {
        let name = text_of(constants.first()).map(str::to_owned);
        Ok(move |text: &str| parameter(text, name.as_deref()?))
    })
}

/// `url_host(url)`: the host of a whole URL, in lower case, without port.
pub(super) fn url_host() -> ScalarUDF {
    of_text("url_host", Vec::new(), |_| Ok(host))
}

fn host(text: &str) -> Option<String> {
    Url::parse(text).ok()?.host_str().map(str::to_lowercase)
}

fn parameter(text: &str, name: &str) -> Option<String> {
    let query = text.split_once('?').map_or(text, |(_, query)| query);
    let query = query.split_once('#').map_or(query, |(query, _)| query);
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::{host, parameter};

    #[test]
    fn values_are_decoded_and_the_first_counts() {
        let get = |text, name| parameter(text, name);
        assert_eq!(get("a=1&b=x%20y+z&b=2", "b").as_deref(), Some("x y z"));
        assert_eq!(get("https://example.org/p?q=%C3%A4#q=no", "q").as_deref(), Some("\u{e4}"));
        assert_eq!(get("/p?flag&n=", "flag").as_deref(), Some(""));
        assert_eq!(get("/p", "q"), None);
    }

    #[test]
    fn hosts_are_of_whole_urls() {
        assert_eq!(
            host("https://User@Www.Example.ORG:8443/a?b#c").as_deref(),
            Some("www.example.org")
        );
        assert_eq!(host("http://[2001:DB8::1]:80/").as_deref(), Some("[2001:db8::1]"));
        assert_eq!(host("https://b\u{fc}cher.example/").as_deref(), Some("xn--bcher-kva.example"));
        for none in ["", "-", "/cart", "example.org/cart", "mailto:a@b.org"] {
            assert_eq!(host(none), None, "{none}");
        }
    }
}
