//! Doubles of receivers for tests: servers that enforce the documented contracts, and messages.

pub(crate) mod http;
pub(crate) mod samples;
pub(crate) mod smtp;

use crate::receiver::Receiver;
use crate::receivers::RECEIVERS;
use crate::settings::{ReceiverSettings, SettingError, SettingSource};

/// Characters of a JSON text; 0 of anything else.
pub(crate) fn char_count(text: &serde_json::Value) -> usize {
    text.as_str().map_or(0, |text| text.chars().count())
}

/// Settings of one receiver of a test.
#[derive(Clone, Default)]
pub(crate) struct TestSettings {
    pub(crate) pairs: Vec<(String, String)>,
    pub(crate) token: Option<&'static str>,
    pub(crate) password: Option<&'static str>,
    pub(crate) secret: Option<&'static str>,
    pub(crate) secret_url: Option<String>,
    pub(crate) authority: Option<Vec<u8>>,
}

impl SettingSource for TestSettings {
    fn text(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, text)| text.as_str())
    }
}

impl TestSettings {
    pub(crate) fn new(pairs: &[(&str, &str)]) -> Self {
        let pairs = pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        Self { pairs: pairs.collect(), ..Self::default() }
    }

    /// Opens a receiver of `kind`; keys that its list lacks fail the test.
    pub(crate) fn open(&self, kind: &str) -> Result<Box<dyn Receiver>, SettingError> {
        let spec = RECEIVERS.iter().find(|spec| spec.name == kind).expect("a kind of the list");
        for (key, _) in &self.pairs {
            assert!(spec.keys.contains(&key.as_str()), "`{key}` is not in the keys of {kind}");
        }
        (spec.read)(&self.settings())
    }

    pub(crate) fn settings(&self) -> ReceiverSettings<'_> {
        ReceiverSettings {
            source: self,
            token: self.token.map(str::to_owned),
            password: self.password.map(str::to_owned),
            secret: self.secret.map(str::to_owned),
            secret_url: self.secret_url.clone(),
            authority: self.authority.clone(),
        }
    }
}
