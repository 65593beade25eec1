//! Performance data: `'label'=value[UOM];[warn];[crit];[min];[max]`, separated by spaces.
//!
//! The surprising thing: a label may contain spaces, `=` and doubled quotes, but only in quotes.

use std::fmt;

use crate::threshold_range::ThresholdRange;

/// Further values of one output are dropped.
const VALUES_MAX: usize = 1_000;

/// One figure of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PerformanceValue {
    /// The name, without quotes.
    pub label: String,
    /// The figure; `None` if the plugin could not determine it (`U`).
    pub value: Option<f64>,
    /// The unit as the plugin has it: `s`, `ms`, `%`, `B`, `c` (a counter); empty for a number.
    pub unit: String,
    /// The range that is no warning.
    pub warn: Option<ThresholdRange>,
    /// The range that is not critical.
    pub crit: Option<ThresholdRange>,
    /// The least possible value.
    pub min: Option<f64>,
    /// The greatest possible value.
    pub max: Option<f64>,
}

impl fmt::Display for PerformanceValue {
    /// The figure with unit and bounds, in the form of performance data without its label.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, unit, warn, crit, min, max, .. } = self;
        let [warn, crit] = [warn, crit].map(|range| text_of(range.as_ref()));
        let [min, max] = [min, max].map(|number| text_of(number.as_ref()));
        let fields = [warn, crit, min, max];
        let value = value.map_or_else(|| "U".to_owned(), |value| value.to_string());
        write!(f, "{}", format!("{value}{unit};{}", fields.join(";")).trim_end_matches(';'))
    }
}

fn text_of(part: Option<&impl fmt::Display>) -> String {
    part.map(ToString::to_string).unwrap_or_default()
}

/// Parses performance data; appends what is not in its form to `unread`.
pub(crate) fn parse_values(text: &str, unread: &mut Vec<String>) -> Vec<PerformanceValue> {
    let mut values = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && values.len() < VALUES_MAX {
        let end = item_end(rest);
        let (item, after) = rest.split_at(end);
        match parse_item(item) {
            Some(value) => values.push(value),
            None => unread.push(item.to_owned()),
        }
        rest = after.trim_start();
    }
    values
}

/// The end of the first item: the first space outside of quotes.
fn item_end(text: &str) -> usize {
    let mut is_quoted = false;
    for (at, char) in text.char_indices() {
        match char {
            '\'' => is_quoted = !is_quoted,
            _ if char.is_whitespace() && !is_quoted => return at,
            _ => {}
        }
    }
    // A quote that does not end quotes nothing.
    if is_quoted { text.find(char::is_whitespace).unwrap_or(text.len()) } else { text.len() }
}

fn parse_item(item: &str) -> Option<PerformanceValue> {
    let (label, figures) = split_label(item)?;
    let mut fields = figures.split(';');
    let first = fields.next().unwrap_or_default();
    let (value, unit) = match first {
        "U" => (None, ""),
        _ => {
            let end = number_end(first);
            let (number, unit) = first.split_at(end);
            (Some(parse_number(number)?), unit)
        }
    };
    let mut fields = fields.chain(std::iter::repeat(""));
    let (warn, crit) = (next_range(&mut fields), next_range(&mut fields));
    let (min, max) = (next_number(&mut fields), next_number(&mut fields));
    Some(PerformanceValue { label, value, unit: unit.to_owned(), warn, crit, min, max })
}

fn next_range<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Option<ThresholdRange> {
    ThresholdRange::parse(fields.next()?)
}

fn next_number<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Option<f64> {
    parse_number(fields.next()?)
}

/// Label and figures: `'a ''b'''=1` is `a 'b'` and `1`.
fn split_label(item: &str) -> Option<(String, &str)> {
    let Some(quoted) = item.strip_prefix('\'') else {
        let (label, figures) = item.split_once('=')?;
        return (!label.is_empty()).then(|| (label.to_owned(), figures));
    };
    let mut label = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('\'')?;
        label += part;
        match after.strip_prefix('\'') {
            Some(more) => {
                label.push('\'');
                rest = more;
            }
            None => return after.strip_prefix('=').map(|figures| (label, figures)),
        }
    }
}

/// The length of the number at the start; an exponent is a part of it, as in `1e-05s`.
fn number_end(text: &str) -> usize {
    let end = digits_end(text, sign_end(text, 0));
    if text[end..].starts_with(['e', 'E']) {
        let exponent = sign_end(text, end + 1);
        let exponent_end = digits_end(text, exponent);
        if exponent_end > exponent {
            return exponent_end;
        }
    }
    end
}

fn sign_end(text: &str, from: usize) -> usize {
    from + usize::from(text[from..].starts_with(['-', '+']))
}

fn digits_end(text: &str, from: usize) -> usize {
    let bytes = text[from..].bytes();
    from + bytes.take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',')).count()
}

/// A finite number; plugins of some locales write a decimal comma.
pub(crate) fn parse_number(text: &str) -> Option<f64> {
    let is_numeric = text.bytes().any(|byte| byte.is_ascii_digit());
    let number: f64 = text.replace(',', ".").parse().ok()?;
    (is_numeric && number.is_finite()).then_some(number)
}
