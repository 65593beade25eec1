//! Statements of a simple query: parted by `;` outside of quotes and comments.

/// The statements of `text`, without their `;`, in order. Those of blanks and comments only are left out.
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

/// Whether nothing stands there but blanks and comments.
pub(crate) fn is_blank(text: &str) -> bool {
    words(text).next().is_none()
}

/// The bare words and signs of a statement, comments left out; quoted texts come as they are written.
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

/// Length of what begins here: a comment, something quoted, a word, a sign. `None` at the end.
fn token(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let until = |end: &str, from: usize| {
        text[from..].find(end).map_or(text.len(), |at| from + at + end.len())
    };
    Some(match first {
        '-' if text.starts_with("--") => until("\n", 2),
        '/' if text.starts_with("/*") => until("*/", 2),
        '\'' => quoted(text, '\'', false),
        '"' => quoted(text, '"', false),
        'e' | 'E' if text[1..].starts_with('\'') => 1 + quoted(&text[1..], '\'', true),
        '$' => match dollar_tag(text) {
            Some(tag) => until(tag, tag.len()),
            None => 1,
        },
        _ if is_of_word(first) => {
            text.find(|letter: char| !is_of_word(letter) && letter != '$').unwrap_or(text.len())
        }
        _ => first.len_utf8(),
    })
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Two quotes in a row are one within.
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

/// `$$` or `$name$`; `$1` is a parameter.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = 1 + text[1..].find('$')?;
    let name = &text[1..end];
    let is_name = name.chars().all(is_of_word) && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then(|| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_in_quotes_and_comments_part_nothing() {
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
    fn words_are_those_outside_of_comments() {
        let found: Vec<_> = words("/* a */ SET  x TO 'b c'--d").collect();
        assert_eq!(found, ["SET", "x", "TO", "'b c'"]);
    }

    #[test]
    fn any_text_is_cut_without_loss_of_statements() {
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
