//! Performance data: `'label'=value[UOM];[warn];[crit];[min];[max]`, separated by spaces.
//!
//! The surprising thing: a label may contain spaces, `=` and doubled quotes, but only in quotes, and
//! many plugins write spaces without them.

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
        let Some(equals) = equals_sign(rest) else {
            unread.extend(rest.split_whitespace().map(str::to_owned));
            break;
        };
        let (before, figures) = (&rest[..equals], figures_start(&rest[equals + 1..]));
        let end = figures.find(char::is_whitespace).unwrap_or(figures.len());
        let (figures, after) = figures.split_at(end);
        let (other, label) = split_label(before);
        unread.extend(other.split_whitespace().map(str::to_owned));
        match label.and_then(|label| Some(PerformanceValue { label, ..parse_figures(figures)? })) {
            Some(value) => values.push(value),
            None => unread.push(format!("{}={figures}", before[other.len()..].trim())),
        }
        rest = after.trim_start();
    }
    values
}

/// The first `=` outside of quotes; a quote that does not end quotes nothing.
fn equals_sign(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    let found = text.char_indices().find(|(_, char)| {
        is_quoted ^= *char == '\'';
        *char == '=' && !is_quoted
    });
    found.map(|(at, _)| at).or_else(|| text.find('='))
}

/// The figures behind a `=` and spaces; none if the next word is an item of its own.
fn figures_start(after: &str) -> &str {
    let figures = after.trim_start();
    let word = figures.split_whitespace().next().unwrap_or_default();
    let is_next = figures.len() < after.len() && word.contains(['=', '\'']);
    if is_next || word.is_empty() { after } else { figures }
}

/// A value without its label.
fn parse_figures(figures: &str) -> Option<PerformanceValue> {
    // Some plugins put commas between items.
    let mut fields = figures.trim_end_matches(',').split(';');
    let first = fields.next().unwrap_or_default();
    let (value, unit) = match first {
        "U" => (None, ""),
        _ => {
            let end = number_end(first);
            let (number, unit) = first.split_at(end);
            (Some(parse_number(number)?), unit)
        }
    };
    let fields = fields.chain(std::iter::repeat(""));
    // Some plugins repeat the unit behind each bound.
    let mut bounds = fields.map(|bound| match unit {
        "" => bound.to_owned(),
        unit => bound.replace(unit, ""),
    });
    let (warn, crit) = (next_range(&mut bounds), next_range(&mut bounds));
    let (min, max) = (next_number(&mut bounds), next_number(&mut bounds));
    let (label, unit) = (String::new(), unit.to_owned());
    Some(PerformanceValue { label, value, unit, warn, crit, min, max })
}

fn next_range(bounds: &mut impl Iterator<Item = String>) -> Option<ThresholdRange> {
    ThresholdRange::parse(&bounds.next()?)
}

fn next_number(bounds: &mut impl Iterator<Item = String>) -> Option<f64> {
    parse_number(&bounds.next()?)
}

/// What stands before a label, and the label, with doubled quotes as one. Without quotes it is all
/// words of the line, as Icinga reads it: `h:\ Used Space=21Gb`.
fn split_label(before: &str) -> (&str, Option<String>) {
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let label = before[line..].trim();
    if !label.contains(['\'', '"', ';']) {
        return (&before[..line], (!label.is_empty()).then(|| label.to_owned()));
    }
    if let Some((other, quoted)) = label.strip_suffix('\'').and_then(|it| it.split_once('\'')) {
        let start = line + before[line..].find(label).unwrap_or(0) + other.len();
        return (&before[..start], Some(quoted.replace("''", "'")));
    }
    let word = label.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_clear = !word.starts_with('\'') && !word.contains(['"', ';']);
    let other = &before[..before.trim_end().len() - word.len()];
    (other, is_clear.then(|| word.to_owned()))
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
