//! One kind of value in the configuration: read from TOML, from text (environment, flags), written
//! back as TOML.

use std::path::PathBuf;

use toml::Value;

/// A type that a configuration key can have.
pub(crate) trait Setting: Sized {
    /// The kind for a person: `text`, `whole number`.
    const KIND: &'static str;
    /// From a TOML value; `None` when it is of another kind.
    fn from_toml(value: &Value) -> Option<Self>;
    /// From the text of an environment variable; `None` when it does not read as one.
    fn from_text(text: &str) -> Option<Self>;
    /// As TOML; `None` when the key is not set.
    fn to_toml(&self) -> Option<Value>;
}

impl Setting for String {
    const KIND: &'static str = "text";
    fn from_toml(value: &Value) -> Option<Self> {
        value.as_str().map(Self::from)
    }
    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
    fn to_toml(&self) -> Option<Value> {
        Some(Value::String(self.clone()))
    }
}

impl Setting for PathBuf {
    const KIND: &'static str = "path";
    fn from_toml(value: &Value) -> Option<Self> {
        value.as_str().map(Self::from)
    }
    fn from_text(text: &str) -> Option<Self> {
        Some(text.into())
    }
    fn to_toml(&self) -> Option<Value> {
        Some(Value::String(self.display().to_string()))
    }
}

impl Setting for Option<PathBuf> {
    const KIND: &'static str = "path";
    fn from_toml(value: &Value) -> Option<Self> {
        PathBuf::from_toml(value).map(Some)
    }
    fn from_text(text: &str) -> Option<Self> {
        Some(Some(text.into()))
    }
    fn to_toml(&self) -> Option<Value> {
        self.as_ref().and_then(Setting::to_toml)
    }
}

impl Setting for u64 {
    const KIND: &'static str = "whole number";
    fn from_toml(value: &Value) -> Option<Self> {
        value.as_integer().and_then(|number| Self::try_from(number).ok())
    }
    fn from_text(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
    fn to_toml(&self) -> Option<Value> {
        Some(Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX)))
    }
}

impl Setting for bool {
    const KIND: &'static str = "true or false";
    fn from_toml(value: &Value) -> Option<Self> {
        value.as_bool()
    }
    fn from_text(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
    fn to_toml(&self) -> Option<Value> {
        Some(Value::Boolean(*self))
    }
}

impl Setting for Vec<u16> {
    const KIND: &'static str = "list of whole numbers";
    fn from_toml(value: &Value) -> Option<Self> {
        value
            .as_array()?
            .iter()
            .map(|item: &Value| item.as_integer().and_then(|number| u16::try_from(number).ok()))
            .collect()
    }
    /// Separated by commas.
    fn from_text(text: &str) -> Option<Self> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(|part| part.parse().ok()).collect()
    }
    fn to_toml(&self) -> Option<Value> {
        Some(Value::Array(self.iter().map(|number| Value::Integer((*number).into())).collect()))
    }
}

impl Setting for Vec<String> {
    const KIND: &'static str = "list of texts";
    fn from_toml(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    }
    /// Separated by commas.
    fn from_text(text: &str) -> Option<Self> {
        Some(text.split(',').map(|part| part.trim().to_owned()).filter(|p| !p.is_empty()).collect())
    }
    fn to_toml(&self) -> Option<Value> {
        Some(Value::Array(self.iter().cloned().map(Value::String).collect()))
    }
}
