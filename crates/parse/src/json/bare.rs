//! Values without quotes: numbers and words of JSON, and what hand-made formats write instead.

use memchr::memchr3;

use super::{JsonScanner, JsonValue};
use crate::record::LineFault;

impl<'a> JsonScanner<'a> {
    /// A value without quotes. Numbers, `true`, `false` and `null` are JSON; the rest is forgiven.
    #[inline]
    pub(super) fn bare(&mut self) -> Result<JsonValue<'a>, LineFault> {
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let is_end = matches!(&rest[length..], [b',', b'"', ..] | [b'}', ..]);
        if is_end && is_number(&rest[..length]) {
            let start = self.at;
            self.at += length;
            return Ok(JsonValue::Bare(&self.text[start..self.at]));
        }
        self.any_bare()
    }

    fn any_bare(&mut self) -> Result<JsonValue<'a>, LineFault> {
        let start = self.at;
        let mut end = start;
        loop {
            let Some(length) = memchr3(b',', b'}', b'"', &self.text.as_bytes()[end..]) else {
                self.at = self.text.len();
                return Err(self.fault("the line ends inside a value"));
            };
            end += length;
            match self.text.as_bytes()[end] {
                b',' if !self.is_list_comma(end) => break,
                b'}' => break,
                b'"' => {
                    self.at = end;
                    return Err(self.fault("a quote inside a value without quotes"));
                }
                _ => end += 1,
            }
        }
        self.at = end;
        Ok(self.bare_value(self.text[start..end].trim_ascii_end()))
    }

    /// Whether the comma parts a list (`0.1, 0.2`) rather than two members: no key and no end
    /// follows.
    fn is_list_comma(&self, at: usize) -> bool {
        let rest = self.text[at + 1..].trim_ascii_start();
        !rest.starts_with(['"', '}']) && !rest.is_empty()
    }

    fn bare_value(&mut self, value: &'a str) -> JsonValue<'a> {
        match value {
            "null" => JsonValue::Null,
            "true" | "false" => JsonValue::Bare(value),
            _ if is_number(value.as_bytes()) => JsonValue::Bare(value),
            _ => {
                self.repair.loose_json = true;
                if value.is_empty() { JsonValue::Null } else { JsonValue::Bare(value) }
            }
        }
    }
}

/// RFC 8259 §6.
fn is_number(bytes: &[u8]) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let bytes = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let whole = digits(bytes);
    if whole == 0 || (whole > 1 && bytes[0] == b'0') {
        return false;
    }
    let mut rest = &bytes[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    match rest {
        [] => true,
        [b'e' | b'E', power @ ..] => {
            let power = power.strip_prefix(b"+").or(power.strip_prefix(b"-")).unwrap_or(power);
            !power.is_empty() && digits(power) == power.len()
        }
        _ => false,
    }
}
