//! JSON as PostgreSQL's `json` and `jsonb` write and compare it.
//!
//! A `jsonb` is kept as its text in PostgreSQL's form: keys by length, then by bytes, the last of
//! equal keys, numbers without exponents. A part of such a text is in that form too, so that `->`
//! returns parts of the text for both types.

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 256;
/// Largest exponent of a number: its digits are written out.
const EXPONENT_MAX: i32 = 400;
/// Digits that a number may get beside twice its own.
const DIGITS_ADDED_MAX: usize = 16;

/// A value and its text.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonValue<'a> {
    /// Text that the value was read from.
    pub raw: &'a str,
    kind: JsonKind<'a>,
}

#[derive(Clone, Debug, PartialEq)]
enum JsonKind<'a> {
    Null,
    Bool,
    Number,
    Text(String),
    Array(Vec<JsonValue<'a>>),
    Object(Vec<(String, JsonValue<'a>)>),
}

/// Reads a JSON text; the error says what is wrong.
pub fn parse_json(text: &str) -> Result<JsonValue<'_>, String> {
    let mut reader = JsonReader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.at == text.len() { Ok(value) } else { Err(reader.unexpected()) }
}

/// Canonical text of a number, without trailing zeros if it is compared; `None` if it has too many
/// digits.
fn number_text(raw: &str, is_compared: bool) -> Option<String> {
    let (sign, unsigned) = raw.strip_prefix('-').map_or(("", raw), |rest| ("-", rest));
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (unsigned, 0),
    };
    if exponent.abs() > EXPONENT_MAX {
        return None;
    }
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{decimals}");
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let (whole, decimals) = match usize::try_from(point) {
        Ok(point) if point >= digits.len() => (format!("{digits:0<point$}"), String::new()),
        Ok(point) => (digits[..point].to_owned(), digits[point..].to_owned()),
        Err(_) => {
            let zeros = "0".repeat(usize::try_from(-point).ok()?);
            (String::new(), format!("{zeros}{digits}"))
        }
    };
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let decimals = if is_compared { decimals.trim_end_matches('0') } else { &decimals };
    let is_zero = whole == "0" && decimals.bytes().all(|digit| digit == b'0');
    let sign = if is_zero { "" } else { sign };
    let point = if decimals.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{decimals}"))
}

/// A text as a JSON string.
#[must_use]
pub fn quote_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(&mut out, text);
    out
}

/// Appends a text in quotes.
fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for next in text.chars() {
        match next {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            other if u32::from(other) < 32 => {
                out.push_str(&format!("\\u{:04x}", u32::from(other)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

impl<'a> JsonValue<'a> {
    /// Text of the value as a `jsonb`; `None` for a number with too many digits.
    pub fn canonical(&self) -> Option<String> {
        let mut text = String::with_capacity(self.raw.len());
        self.push_canonical(&mut text, false)?;
        Some(text)
    }

    /// Text that equal values of `jsonb` have in common.
    pub fn comparison_key(&self) -> Option<String> {
        let mut text = String::with_capacity(self.raw.len());
        self.push_canonical(&mut text, true)?;
        Some(text)
    }

    fn push_canonical(&self, out: &mut String, is_compared: bool) -> Option<()> {
        match &self.kind {
            JsonKind::Null | JsonKind::Bool => out.push_str(self.raw),
            JsonKind::Number => {
                let text = number_text(self.raw, is_compared)?;
                // A few bytes may not become many: memory is counted before.
                if text.len() > self.raw.len() * 2 + DIGITS_ADDED_MAX {
                    return None;
                }
                out.push_str(&text);
            }
            JsonKind::Text(text) => push_quoted(out, text),
            JsonKind::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    item.push_canonical(out, is_compared)?;
                }
                out.push(']');
            }
            JsonKind::Object(_) => {
                out.push('{');
                for (at, (key, value)) in self.members().into_iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    push_quoted(out, key);
                    out.push_str(": ");
                    value.push_canonical(out, is_compared)?;
                }
                out.push('}');
            }
        }
        Some(())
    }

    /// Members of an object in the order of `jsonb`; of equal keys the last.
    pub fn members(&self) -> Vec<(&str, &JsonValue<'a>)> {
        let JsonKind::Object(members) = &self.kind else { return Vec::new() };
        let mut sorted: Vec<_> = members.iter().map(|(key, value)| (key.as_str(), value)).collect();
        sorted.sort_by_key(|(key, _)| (key.len(), *key));
        sorted.reverse();
        sorted.dedup_by_key(|(key, _)| *key);
        sorted.reverse();
        sorted
    }

    /// Name of the value's kind, as `jsonb_typeof` has it.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            JsonKind::Null => "null",
            JsonKind::Bool => "boolean",
            JsonKind::Number => "number",
            JsonKind::Text(_) => "string",
            JsonKind::Array(_) => "array",
            JsonKind::Object(_) => "object",
        }
    }

    /// Items of an array; `None` for other values.
    pub fn items(&self) -> Option<&[JsonValue<'a>]> {
        match &self.kind {
            JsonKind::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        matches!(self.kind, JsonKind::Object(_))
    }

    /// Text of the value for `->>`; `None` for JSON's null.
    pub fn plain_text(&self) -> Option<&str> {
        match &self.kind {
            JsonKind::Null => None,
            JsonKind::Text(text) => Some(text),
            _ => Some(self.raw),
        }
    }

    /// Member of an object.
    pub fn member(&self, key: &str) -> Option<&JsonValue<'a>> {
        let JsonKind::Object(members) = &self.kind else { return None };
        members.iter().rev().find(|(own, _)| own == key).map(|(_, value)| value)
    }

    /// Item of an array; a negative number counts from its end.
    pub fn item(&self, at: i64) -> Option<&JsonValue<'a>> {
        let items = self.items()?;
        let at = if at < 0 { at + i64::try_from(items.len()).ok()? } else { at };
        items.get(usize::try_from(at).ok()?)
    }

    /// Value at the end of a path of keys and numbers of items.
    pub fn at_path(&self, path: &[String]) -> Option<&JsonValue<'a>> {
        path.iter().try_fold(self, |value, step| match &value.kind {
            JsonKind::Object(_) => value.member(step),
            JsonKind::Array(_) => value.item(step.trim().parse().ok()?),
            _ => None,
        })
    }

    /// Whether a text is a key of the object, an item of the array, or the value itself (`?`).
    pub fn has_key(&self, key: &str) -> bool {
        match &self.kind {
            JsonKind::Object(_) => self.member(key).is_some(),
            JsonKind::Array(items) => items.iter().any(|item| item.is_text(key)),
            _ => self.is_text(key),
        }
    }

    fn is_text(&self, text: &str) -> bool {
        matches!(&self.kind, JsonKind::Text(own) if own == text)
    }

    /// Whether the value contains another one (`@>`).
    pub fn contains(&self, part: &Self) -> bool {
        match &self.kind {
            // An array contains a scalar that is an item of it, on the outermost level only.
            JsonKind::Array(items) if part.is_scalar() => {
                items.iter().any(|item| item.equals(part))
            }
            _ => self.covers(part),
        }
    }

    fn is_scalar(&self) -> bool {
        !matches!(self.kind, JsonKind::Array(_) | JsonKind::Object(_))
    }

    fn covers(&self, part: &Self) -> bool {
        match (&self.kind, &part.kind) {
            (JsonKind::Object(_), JsonKind::Object(_)) => part
                .members()
                .into_iter()
                .all(|(key, value)| self.member(key).is_some_and(|own| own.covers(value))),
            (JsonKind::Array(items), JsonKind::Array(parts)) => {
                parts.iter().all(|part| items.iter().any(|item| item.covers(part)))
            }
            _ => self.equals(part),
        }
    }

    fn equals(&self, other: &Self) -> bool {
        self.kind_name() == other.kind_name() && self.comparison_key() == other.comparison_key()
    }
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonReader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn unexpected(&self) -> String {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(next) => format!("`{next}` at byte {} is no JSON", self.at),
            None => "the JSON text ends too early".into(),
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, depth: usize) -> Result<JsonValue<'a>, String> {
        if depth > DEPTH_MAX {
            return Err(format!("JSON is nested in more than {DEPTH_MAX} levels"));
        }
        self.skip_space();
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => JsonKind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(JsonValue { raw: &self.text[start..self.at], kind })
    }

    fn word(&mut self) -> Result<JsonKind<'a>, String> {
        for (word, kind) in
            [("null", JsonKind::Null), ("true", JsonKind::Bool), ("false", JsonKind::Bool)]
        {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(kind);
            }
        }
        Err(self.unexpected())
    }

    fn object(&mut self, depth: usize) -> Result<JsonKind<'a>, String> {
        self.at += 1;
        let mut members = Vec::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(JsonKind::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let key = self.string()?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.unexpected());
            }
            members.push((key, self.value(depth + 1)?));
            self.skip_space();
            if self.take(b'}') {
                return Ok(JsonKind::Object(members));
            }
            if !self.take(b',') {
                return Err(self.unexpected());
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<JsonKind<'a>, String> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(JsonKind::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b']') {
                return Ok(JsonKind::Array(items));
            }
            if !self.take(b',') {
                return Err(self.unexpected());
            }
        }
    }

    fn digits(&mut self) -> Result<(), String> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(self.unexpected()) }
    }

    fn number(&mut self) -> Result<JsonKind<'a>, String> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'-') || self.take(b'+');
            self.digits()?;
        }
        // `01` and `1x` are no numbers.
        if self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            return Err(self.unexpected());
        }
        Ok(JsonKind::Number)
    }

    /// A text without its quotes and escapes.
    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(next) = rest.chars().next() else { return Err(self.unexpected()) };
            self.at += next.len_utf8();
            match next {
                '"' => return Ok(text),
                '\\' => text.push(self.escape()?),
                next if u32::from(next) < 32 => {
                    return Err("a control character in a JSON text is not escaped".into());
                }
                next => text.push(next),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let byte = self.peek().ok_or_else(|| self.unexpected())?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.code()?;
                let code = if (0xd800..0xdc00).contains(&first) {
                    if !self.text[self.at..].starts_with("\\u") {
                        return Err("a JSON text has half of a surrogate pair".into());
                    }
                    self.at += 2;
                    let second = self.code()?.wrapping_sub(0xdc00);
                    0x1_0000 + ((first - 0xd800) << 10) + second.min(0x3ff)
                } else {
                    first
                };
                char::from_u32(code)
                    .filter(|next| *next != '\0')
                    .ok_or("a JSON text has an escape of no character")?
            }
            _ => return Err("a JSON text has an unknown escape".into()),
        })
    }

    /// Four hexadecimal digits.
    fn code(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).ok_or_else(|| self.unexpected())?;
        let code = u32::from_str_radix(digits, 16).map_err(|_| self.unexpected())?;
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        parse_json(text).unwrap().canonical().unwrap()
    }

    #[test]
    fn values_have_the_form_of_jsonb() {
        for (text, expected) in [
            (r#"{"bb":1,"a":2,"c":3,"a":4}"#, r#"{"a": 4, "c": 3, "bb": 1}"#),
            ("[1e2, 1.0, -0, 1.50e1, 12e-3, -0.0]", "[100, 1.0, 0, 15.0, 0.012, 0.0]"),
            (r#""\u00e9\n\ud83d\udc4d""#, "\"é\\n👍\""),
            (" null ", "null"),
            ("{}", "{}"),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
        }
        for wrong in ["", "{", "nonsense", r#"{"a":}"#, "01", "1x", "[1,]", "\"\\u0000\"", "'a'"] {
            assert!(parse_json(wrong).is_err(), "{wrong}");
        }
        assert!(parse_json(&"[".repeat(100_000)).is_err());
        assert_eq!(parse_json("[1e300]").unwrap().canonical(), None);
    }

    #[test]
    fn parts_are_found_by_key_number_and_path() {
        let value = parse_json(r#"{"a": {"b": [10, "x"]}, "n": null}"#).unwrap();
        let path = ["a", "b", "-1"].map(str::to_owned);
        assert_eq!(value.at_path(&path).unwrap().plain_text(), Some("x"));
        assert_eq!(value.member("a").unwrap().raw, r#"{"b": [10, "x"]}"#);
        assert_eq!(value.member("n").unwrap().plain_text(), None);
        assert!(value.has_key("a") && !value.has_key("b"));
    }

    #[test]
    fn containment_is_that_of_jsonb() {
        for (whole, part, expected) in [
            (r#"{"a": {"b": 1, "c": 2}}"#, r#"{"a": {"b": 1.0}}"#, true),
            (r#"{"a": 1}"#, r#"{"a": 2}"#, false),
            ("[1, 2, 2]", "[2, 1, 1]", true),
            ("[1, 2]", "1", true),
            ("[[1, 2]]", "[1]", false),
            ("[[1, 2]]", "[[1]]", true),
            ("1", "[1]", false),
        ] {
            let [whole, part] = [whole, part].map(|text| parse_json(text).unwrap());
            assert_eq!(whole.contains(&part), expected, "{} {}", whole.raw, part.raw);
        }
    }
}
