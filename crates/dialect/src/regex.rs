//! PostgreSQL's patterns as regular expressions of Rust: `~` and `similar to`.
//!
//! In PostgreSQL a dot matches a line feed too. What Rust's engine lacks (back references, look-around)
//! is an error here, never another meaning.

/// Regular expression of Rust with the meaning of PostgreSQL's; the error says what is not supported.
pub fn rust_regex(pattern: &str) -> Result<String, &'static str> {
    if pattern.starts_with("***") {
        return Err("patterns that begin with `***` are not supported");
    }
    let mut text = String::with_capacity(pattern.len() + 4);
    let (mut has_dot, mut in_class) = (false, false);
    let mut chars = pattern.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '\\' => match chars.next() {
                Some('m') if !in_class => text.push_str(r"\b{start}"),
                Some('M') if !in_class => text.push_str(r"\b{end}"),
                Some('y') if !in_class => text.push_str(r"\b"),
                Some('Y') if !in_class => text.push_str(r"\B"),
                Some('Z') if !in_class => text.push_str(r"\z"),
                Some('b' | 'B') if in_class => return Err("`\\b` in brackets is not supported"),
                Some('b') => text.push_str(r"\x08"),
                Some('B') => text.push_str(r"\\"),
                Some('e') => text.push_str(r"\x1b"),
                Some('1'..='9') if !in_class => return Err("back references are not supported"),
                Some('0') => text.push_str(r"\x00"),
                Some('d') => text.push_str(if in_class { "0-9" } else { "[0-9]" }),
                Some('D') if !in_class => text.push_str("[^0-9]"),
                Some(escaped) => text.extend(['\\', escaped]),
                None => return Err("it ends with a backslash"),
            },
            '[' if !in_class => {
                in_class = true;
                text.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    text.push('^');
                }
                if chars.next_if_eq(&']').is_some() {
                    text.push_str(r"\]");
                }
            }
            // `[:alpha:]` has the letters of all languages; `[.x.]` and `[=x=]` are PostgreSQL's only.
            '[' => match chars.peek() {
                Some(':') => {
                    text.push_str(named_class(&mut chars)?);
                }
                Some('.' | '=') => return Err("`[.` and `[=` in brackets are not supported"),
                _ => text.push_str(r"\["),
            },
            ']' if in_class => {
                in_class = false;
                text.push(']');
            }
            // Set operations of Rust are plain characters in PostgreSQL.
            '&' | '~' if in_class => text.extend(['\\', next]),
            '.' if !in_class => {
                has_dot = true;
                text.push('.');
            }
            other => text.push(other),
        }
    }
    Ok(if has_dot { format!("(?s){text}") } else { text })
}

/// The class behind `[`, such as `:alpha:]`.
fn named_class(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
) -> Result<&'static str, &'static str> {
    chars.next();
    let name: String = std::iter::from_fn(|| chars.next_if(|next| *next != ':')).collect();
    if chars.next() != Some(':') || chars.next() != Some(']') {
        return Err("a class such as `[:alpha:]` is not closed");
    }
    class(&name).ok_or("there is no such class of characters")
}

/// A class of characters as part of a set.
fn class(name: &str) -> Option<&'static str> {
    Some(match name {
        "alpha" => r"\p{Alphabetic}",
        "alnum" => r"\p{Alphabetic}\p{Nd}",
        "upper" => r"\p{Uppercase}",
        "lower" => r"\p{Lowercase}",
        "digit" => "0-9",
        "xdigit" => "0-9A-Fa-f",
        "space" => r"\s",
        "blank" => r"\t\p{Zs}",
        "punct" => r"\p{P}\p{S}",
        "cntrl" => r"\p{Cc}",
        "word" => r"\w",
        "graph" => r"\p{L}\p{M}\p{N}\p{P}\p{S}",
        "print" => r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}",
        _ => return None,
    })
}

/// Regular expression of Rust for a pattern of `similar to`; `escape` is the escape character, if
/// there is one.
pub fn similar_regex(pattern: &str, escape: Option<char>) -> Result<String, &'static str> {
    let mut text = String::from("(?s)^(?:");
    let mut in_class = false;
    let mut chars = pattern.chars().peekable();
    while let Some(next) = chars.next() {
        if Some(next) == escape {
            let Some(escaped) = chars.next() else {
                return Err("it ends with its escape character");
            };
            if escaped == '"' {
                return Err("parts of a `similar to` pattern are not supported");
            }
            push_literal(&mut text, escaped);
            continue;
        }
        match next {
            ']' if in_class => {
                in_class = false;
                text.push(']');
            }
            '^' | '-' if in_class => text.push(next),
            '[' if in_class && chars.peek() == Some(&':') => {
                text.push_str(named_class(&mut chars)?)
            }
            _ if in_class => push_literal(&mut text, next),
            '[' => {
                in_class = true;
                text.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    text.push('^');
                }
            }
            '%' => text.push_str(".*"),
            '_' => text.push('.'),
            '(' => text.push_str("(?:"),
            ')' | '|' | '*' | '+' | '?' | '{' | '}' => text.push(next),
            _ => push_literal(&mut text, next),
        }
    }
    text.push_str(")$");
    // `$` of Rust is the end of the text only.
    Ok(text)
}

fn push_literal(text: &mut String, literal: char) {
    if literal.is_ascii_punctuation() {
        text.push('\\');
    }
    text.push(literal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_postgresql_have_their_meaning() {
        assert_eq!(rust_regex(r"\merr\M").unwrap(), r"\b{start}err\b{end}");
        assert_eq!(rust_regex("a.b").unwrap(), "(?s)a.b");
        assert_eq!(rust_regex(r"a\.b[.&]").unwrap(), r"a\.b[.\&]");
        assert_eq!(rust_regex(r"[]a[:digit:][]").unwrap(), r"[\]a0-9\[]");
        assert_eq!(rust_regex(r"\d[[:alpha:]]").unwrap(), r"[0-9][\p{Alphabetic}]");
        assert!(rust_regex("[[:nothing:]]").is_err());
        assert!(rust_regex(r"(a)\1").is_err());
    }

    #[test]
    fn similar_patterns_match_the_whole_text() {
        assert_eq!(similar_regex("a%_", Some('\\')).unwrap(), "(?s)^(?:a.*.)$");
        assert_eq!(similar_regex(r"a\_.", Some('\\')).unwrap(), r"(?s)^(?:a\_\.)$");
        assert_eq!(similar_regex("[^a-c]+", None).unwrap(), "(?s)^(?:[^a-c]+)$");
    }
}
