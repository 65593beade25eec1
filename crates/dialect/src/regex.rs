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
            // `[:alpha:]` is the same; `[.x.]` and `[=x=]` are PostgreSQL's only.
            '[' => match chars.peek() {
                Some(':') => {
                    text.push('[');
                    while let Some(inner) = chars.next() {
                        text.push(inner);
                        if inner == ':' && chars.peek() == Some(&']') {
                            text.extend(chars.next());
                            break;
                        }
                    }
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
                text.push('[');
                for inner in chars.by_ref() {
                    text.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
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
        assert_eq!(rust_regex(r"[]a[:digit:][]").unwrap(), r"[\]a[:digit:]\[]");
        assert!(rust_regex(r"(a)\1").is_err());
    }

    #[test]
    fn similar_patterns_match_the_whole_text() {
        assert_eq!(similar_regex("a%_", Some('\\')).unwrap(), "(?s)^(?:a.*.)$");
        assert_eq!(similar_regex(r"a\_.", Some('\\')).unwrap(), r"(?s)^(?:a\_\.)$");
        assert_eq!(similar_regex("[^a-c]+", None).unwrap(), "(?s)^(?:[^a-c]+)$");
    }
}
