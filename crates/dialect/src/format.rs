//! `format(…)` and the functions that quote.

use crate::word_list::is_word;

/// Text of `format(template, …)`; the error says what is wrong with the template.
pub fn format_text(template: &str, arguments: &[Option<String>]) -> Result<String, String> {
    let mut text = String::with_capacity(template.len());
    let mut chars = template.chars().peekable();
    let mut used = 0;
    while let Some(next) = chars.next() {
        if next != '%' {
            text.push(next);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            text.push('%');
            continue;
        }
        let mut digits = String::new();
        let mut is_left = chars.next_if_eq(&'-').is_some();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        if !is_left && chars.next_if_eq(&'$').is_some() {
            used = digits
                .parse::<usize>()
                .ok()
                .filter(|at| *at > 0)
                .map(|at| at - 1)
                .ok_or("`format` counts its arguments from 1")?;
            digits.clear();
            is_left = chars.next_if_eq(&'-').is_some();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
        }
        let mut width = digits.parse::<i64>().unwrap_or(0);
        if chars.next_if_eq(&'*').is_some() {
            let argument = arguments.get(used).ok_or("`format` has too few arguments")?;
            used += 1;
            width = argument
                .as_deref()
                .map_or(Ok(0), str::parse)
                .map_err(|_| String::from("the width in `format` has to be an integer"))?;
            is_left |= width < 0;
        }
        let kind = chars.next().ok_or("a `%` of `format` lacks its type")?;
        let argument = arguments.get(used).ok_or("`format` has too few arguments")?;
        used += 1;
        let value = formatted(kind, argument.as_deref())?;
        let width = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
        push_padded(&mut text, &value, width, is_left);
    }
    Ok(text)
}

fn formatted(kind: char, argument: Option<&str>) -> Result<String, String> {
    Ok(match (kind, argument) {
        ('s', argument) => argument.unwrap_or_default().to_owned(),
        ('I', Some(name)) => quote_identifier(name),
        ('I', None) => return Err("NULL cannot be an identifier in `format`".into()),
        ('L', argument) => argument.map_or_else(|| "NULL".into(), quote_literal),
        (other, _) => return Err(format!("`format` has no type `{other}`: use s, I or L")),
    })
}

/// Widest field that `format` fills.
const WIDTH_MAX: usize = 10_000;

fn push_padded(text: &mut String, value: &str, width: usize, is_left: bool) {
    let width = width.min(WIDTH_MAX);
    let padding = " ".repeat(width.saturating_sub(value.chars().count()));
    if is_left {
        text.extend([value, &padding]);
    } else {
        text.extend([&padding, value]);
    }
}

/// The name, in quotes if it needs them.
pub fn quote_identifier(name: &str) -> String {
    let is_plain =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    let is_name = !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_plain && is_name && !is_word(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The text as a literal of SQL.
pub fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') {
        return format!(" E'{}'", quoted.replace('\\', "\\\\")).trim_start().to_owned();
    }
    format!("'{quoted}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_taken_by_number_and_padded() {
        let of = [Some("ab".to_owned()), None];
        assert_eq!(
            format_text("[%5s][%-5s]|%2$s|%1$L%%", &[of[0].clone(), of[0].clone()]).unwrap(),
            "[   ab][ab   ]|ab|'ab'%"
        );
        assert_eq!(format_text("%2$L %1$I", &of).unwrap(), "NULL ab");
        let width = [Some("-5".to_owned()), Some("ab".to_owned())];
        assert_eq!(format_text("%*s|", &width).unwrap(), "ab   |");
        assert_eq!(quote_identifier("select"), "\"select\"");
        assert!(format_text("%s %s %s", &of).is_err());
        assert!(format_text("%d", &of).is_err());
    }
}
