//! Settings of receivers: every kind names its keys and reads its own settings.
//!
//! ```text
//!  [[receivers]] ─► ReceiverSpec::read(settings) ─► dyn Receiver
//!                   (secrets were read from files; no network)
//! ```

use std::fmt;

use reqwest::Url;

use crate::receiver::Receiver;

/// A kind of receiver: its name in `kind = "…"` and how its settings are read.
pub struct ReceiverSpec {
    /// The value of `kind`.
    pub name: &'static str,
    /// One sentence for the documentation.
    pub doc: &'static str,
    /// The keys that this kind has besides `name` and `kind`.
    pub keys: &'static [&'static str],
    /// Reads the settings; connects to nothing.
    pub read: fn(&ReceiverSettings<'_>) -> Result<Box<dyn Receiver>, SettingError>,
}

/// The settings of one receiver, as the configuration has them.
pub trait SettingSource {
    /// The text of a key; `None` when it is not set.
    fn text(&self, key: &str) -> Option<&str>;
}

/// The settings of one receiver, with secrets already read from their files.
pub struct ReceiverSettings<'a> {
    /// Keys and values of the configuration.
    pub source: &'a dyn SettingSource,
    /// First line of `token_file`.
    pub token: Option<String>,
    /// First line of `password_file`.
    pub password: Option<String>,
    /// First line of `secret_file`, by which a webhook is signed.
    pub secret: Option<String>,
    /// First line of `url_file`: an address that is itself a secret, in place of `url`.
    pub secret_url: Option<String>,
    /// Contents of `ca_file`: PEM, trusted besides the system's authorities.
    pub authority: Option<Vec<u8>>,
}

/// A setting that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum SettingError {
    /// A required key is not set.
    Missing {
        /// The key.
        key: &'static str,
        /// A value as it could be.
        example: &'static str,
    },
    /// The value of a key cannot be used.
    Wrong {
        /// The key.
        key: &'static str,
        /// The problem.
        message: String,
        /// What to do about it.
        hint: String,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { key, example } => {
                write!(f, "`{key}` is missing: {key} = \"{example}\"")
            }
            Self::Wrong { key, message, hint } => {
                write!(f, "cannot use `{key}`: {message}; {hint}")
            }
        }
    }
}

impl std::error::Error for SettingError {}

/// A text that no error and no debug output shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretText(pub(crate) String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// A required key and a value as it could be.
#[derive(Clone, Copy)]
pub(crate) struct RequiredKey {
    pub(crate) key: &'static str,
    pub(crate) example: &'static str,
}

impl RequiredKey {
    fn missing(self) -> SettingError {
        SettingError::Missing { key: self.key, example: self.example }
    }
}

/// The address of a kind: the documented one, or none where every site has its own.
#[derive(Clone, Copy)]
pub(crate) struct UrlDefault {
    /// Used when neither `url` nor `url_file` is set.
    pub(crate) url: Option<&'static str>,
    /// An address for the error.
    pub(crate) example: &'static str,
}

impl ReceiverSettings<'_> {
    /// The text of a key; `None` when it is not set or empty.
    pub(crate) fn text(&self, key: &'static str) -> Option<&str> {
        self.source.text(key).map(str::trim).filter(|text| !text.is_empty())
    }

    /// The text of a required key, without control characters.
    pub(crate) fn required(&self, wanted: RequiredKey) -> Result<String, SettingError> {
        let text = self.text(wanted.key).ok_or(wanted.missing())?;
        if text.chars().any(char::is_control) {
            let message = "the value has control characters".to_owned();
            return Err(wrong(wanted.key, message, format!("write it as `{}`", wanted.example)));
        }
        Ok(text.to_owned())
    }

    /// The token.
    pub(crate) fn required_token(&self) -> Result<SecretText, SettingError> {
        let token = self.optional_token()?;
        token.ok_or(SettingError::Missing { key: "token_file", example: "/etc/weir/token" })
    }

    /// The token, if there is one.
    pub(crate) fn optional_token(&self) -> Result<Option<SecretText>, SettingError> {
        checked_secret("token_file", self.token.as_deref())
    }

    /// Certificates that are trusted besides the system's.
    pub(crate) fn authority(&self) -> Result<Option<&[u8]>, SettingError> {
        let Some(pem) = self.authority.as_deref() else { return Ok(None) };
        if String::from_utf8_lossy(pem).contains("-----BEGIN CERTIFICATE-----") {
            return Ok(Some(pem));
        }
        let message = "the file has no certificate".to_owned();
        Err(wrong("ca_file", message, "write PEM: -----BEGIN CERTIFICATE-----"))
    }

    /// User and password, if there are any.
    pub(crate) fn login(&self) -> Result<Option<Login>, SettingError> {
        let password = checked_secret("password_file", self.password.as_deref())?;
        match (self.text("user"), password) {
            (None, None) => Ok(None),
            (Some(user), Some(password)) => Ok(Some(Login { user: user.to_owned(), password })),
            (None, Some(_)) => Err(SettingError::Missing { key: "user", example: "weir" }),
            (Some(_), None) => {
                Err(SettingError::Missing { key: "password_file", example: "/etc/weir/password" })
            }
        }
    }

    /// A whole number within bounds.
    pub(crate) fn number(&self, wanted: &NumberKey) -> Result<Option<u64>, SettingError> {
        let Some(text) = self.text(wanted.key) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| wanted.bounds.contains(number));
        number.map(Some).ok_or_else(|| {
            let (low, high) = (wanted.bounds.start(), wanted.bounds.end());
            let message = format!("`{text}` is not a number from {low} to {high}");
            wrong(wanted.key, message, "write a whole number")
        })
    }

    /// The address: `url_file`, else `url`, else the documented one.
    pub(crate) fn address(&self, default: UrlDefault) -> Result<Url, SettingError> {
        let is_secret = self.secret_url.is_some();
        let key = if is_secret { "url_file" } else { "url" };
        let text = self.secret_url.as_deref().map(str::trim).or_else(|| self.text("url"));
        let Some(text) = text.or(default.url) else {
            return Err(SettingError::Missing { key: "url", example: default.example });
        };
        let url = Url::parse(text).ok();
        let url = url.filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
        let Some(url) = url else {
            let shown = if is_secret { "its content" } else { text };
            let message = format!("`{shown}` is not an HTTP address");
            return Err(wrong(key, message, format!("write it as {}", default.example)));
        };
        if !url.username().is_empty() || url.password().is_some() {
            let message = "the address holds a login, which would be shown with it".to_owned();
            let hint = "write the login to files: `password_file`, `token_file`";
            return Err(wrong(key, message, hint));
        }
        Ok(url)
    }
}

/// A number's key and bounds.
pub(crate) struct NumberKey {
    pub(crate) key: &'static str,
    pub(crate) bounds: std::ops::RangeInclusive<u64>,
}

/// User and password.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: SecretText,
}

fn checked_secret(
    key: &'static str,
    secret: Option<&str>,
) -> Result<Option<SecretText>, SettingError> {
    let Some(secret) = secret.map(str::trim).filter(|secret| !secret.is_empty()) else {
        return Ok(None);
    };
    if secret.chars().any(|letter| letter.is_control() || !letter.is_ascii()) {
        let message = "the first line has characters that are not printable ASCII".to_owned();
        return Err(wrong(key, message, "write the secret alone to the file"));
    }
    Ok(Some(SecretText(secret.to_owned())))
}

pub(crate) fn wrong(key: &'static str, message: String, hint: impl Into<String>) -> SettingError {
    SettingError::Wrong { key, message, hint: hint.into() }
}

/// An address below `base`: each part is one segment, percent-encoded.
pub(crate) fn below(base: &Url, parts: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(parts);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pairs(&'static [(&'static str, &'static str)]);

    impl SettingSource for Pairs {
        fn text(&self, key: &str) -> Option<&str> {
            self.0.iter().find(|(name, _)| *name == key).map(|(_, text)| *text)
        }
    }

    fn settings(source: &Pairs) -> ReceiverSettings<'_> {
        ReceiverSettings {
            source,
            token: None,
            password: None,
            secret: None,
            secret_url: None,
            authority: None,
        }
    }

    const DEFAULT: UrlDefault =
        UrlDefault { url: Some("https://api.example.net/v1"), example: "https://a.example.net" };

    #[test]
    fn an_address_is_the_files_then_the_keys_then_the_documented_one() {
        let pairs = Pairs(&[("url", "http://127.0.0.1:8080/x")]);
        let mut given = settings(&pairs);
        assert_eq!(given.address(DEFAULT).unwrap().as_str(), "http://127.0.0.1:8080/x");
        given.secret_url = Some("https://hooks.example.net/s3cr3t".to_owned());
        assert_eq!(given.address(DEFAULT).unwrap().as_str(), "https://hooks.example.net/s3cr3t");
        let none = Pairs(&[]);
        assert_eq!(
            settings(&none).address(DEFAULT).unwrap().as_str(),
            "https://api.example.net/v1"
        );
        let required = UrlDefault { url: None, ..DEFAULT };
        assert_eq!(
            settings(&none).address(required).unwrap_err().to_string(),
            "`url` is missing: url = \"https://a.example.net\""
        );
    }

    #[test]
    fn addresses_with_a_login_or_of_another_scheme_are_refused() {
        for url in ["https://ada:pw@example.net/", "ftp://example.net", "example.net", "http://"] {
            let pairs: &'static [_] = vec![("url", url)].leak();
            let pairs = Pairs(pairs);
            let error = settings(&pairs).address(DEFAULT).unwrap_err();
            assert!(matches!(error, SettingError::Wrong { key: "url", .. }), "{url}: {error}");
        }
        let none = Pairs(&[]);
        let mut given = settings(&none);
        given.secret_url = Some("s3cr3t".to_owned());
        assert!(!given.address(DEFAULT).unwrap_err().to_string().contains("s3cr3t"));
    }

    #[test]
    fn secrets_are_not_in_debug_output_and_must_be_printable() {
        assert_eq!(format!("{:?}", SecretText("hunter2".to_owned())), "SecretText");
        let none = Pairs(&[]);
        let mut given = settings(&none);
        given.token = Some("abc\ndef".to_owned());
        let error = given.required_token().unwrap_err().to_string();
        assert!(error.contains("token_file") && !error.contains("abc"), "{error}");
    }

    #[test]
    fn parts_of_a_path_stay_one_segment_each() {
        let base = Url::parse("https://m.example.net/base/").unwrap();
        let url = below(&base, &["rooms", "!a/b?c#d:example.net", "send"]);
        assert_eq!(
            url.as_str(),
            "https://m.example.net/base/rooms/!a%2Fb%3Fc%23d:example.net/send"
        );
    }
}
