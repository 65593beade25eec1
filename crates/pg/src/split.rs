//! Splits a simple query into statements at each `;` outside of quotes and comments.

/// The statements of `text` without their `;`, except those of blanks and comments only.
pub(crate) fn statements(text: &str) -> Vec<&str> {
    let (mut out, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let end = end_of(rest);
        let (one, after) = rest.split_at(end);
        if !is_blank(one) {
            out.push(one.trim());
        }
        rest = after.strip_prefix(';').unwrap_or(after);
    }
    out
}

/// Whether `text` has only blanks and comments.
pub(crate) fn is_blank(text: &str) -> bool {
    words(text).next().is_none()
}

/// Words and symbols of a statement without comments. Quoted texts keep their quotes.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            let length = token(rest)?;
            let (word, after) = rest.split_at(length);
            rest = after;
            if !(word.starts_with("--") || word.starts_with("/*")) {
                return Some(word);
            }
        }
    })
}

fn end_of(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let blanks = rest.len() - rest.trim_start().len();
        match token(&rest[blanks..]) {
            None => return text.len(),
            Some(_) if rest[blanks..].starts_with(';') => return at + blanks,
            Some(length) => at += blanks + length,
        }
    }
}

/// Length of the token at the start: a comment, quoted text, a word, a symbol. `None` at the end.
fn token(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    Some(match first {
        '-' if text.starts_with("--") => length_until(text, 2, "\n"),
        '/' if text.starts_with("/*") => length_until(text, 2, "*/"),
        '\'' => quoted(text, '\'', false),
        '"' => quoted(text, '"', false),
        'e' | 'E' if text[1..].starts_with('\'') => 1 + quoted(&text[1..], '\'', true),
        '$' => match dollar_tag(text) {
            Some(tag) => length_until(text, tag.len(), tag),
            None => 1,
        },
        _ if is_word_char(first) => {
            text.find(|letter: char| !is_word_char(letter) && letter != '$').unwrap_or(text.len())
        }
        _ => first.len_utf8(),
    })
}

/// Length up to and including the first `end` after offset `from`.
fn length_until(text: &str, from: usize, end: &str) -> usize {
    text[from..].find(end).map_or(text.len(), |at| from + at + end.len())
}

fn is_word_char(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Length of a quoted text, in which two quotes stand for one.
fn quoted(text: &str, quote: char, has_escapes: bool) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' && has_escapes {
            letters.next();
        } else if letter == quote && letters.next_if(|next| next.1 == quote).is_none() {
            return at + 1;
        }
    }
    text.len()
}

/// The tag of a dollar-quoted text, `$$` or `$name$`; `$1` is a parameter.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = 1 + text[1..].find('$')?;
    let name = &text[1..end];
    let is_name = name.chars().all(is_word_char) && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then(|| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_in_quotes_and_comments_do_not_split() {
        let text = "select ';' ; -- a;b\n select \"x;\", 'it''s;', E'\\';' /* ; */;; select $$;$$, $a$ $$; $a$, $1;";
        assert_eq!(
            statements(text),
            [
                "select ';'",
                "-- a;b\n select \"x;\", 'it''s;', E'\\';' /* ; */",
                "select $$;$$, $a$ $$; $a$, $1",
            ]
        );
        assert!(statements(" ;; -- nothing\n /* at all */ ").is_empty());
    }

    #[test]
    fn words_exclude_comments() {
        let found: Vec<_> = words("/* a */ SET  x TO 'b c'--d").collect();
        assert_eq!(found, ["SET", "x", "TO", "'b c'"]);
    }

    #[test]
    fn any_text_is_split_into_nonempty_statements() {
        arbtest::arbtest(|bytes| {
            let text: String = bytes.arbitrary()?;
            for one in statements(&text) {
                assert!(text.contains(one));
                assert!(!one.is_empty());
            }
            Ok(())
        });
    }
}
