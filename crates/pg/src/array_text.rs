//! The text form of arrays: `{a,"b \"c\"",NULL}` (PostgreSQL's manual, section "Array Input and
//! Output Syntax").

/// Parses a one-dimensional array; `None` if the text is none. An item without quotes that reads
/// `NULL` is one.
pub(crate) fn parse(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut letters = inner.chars().peekable();
    let mut items = Vec::new();
    if inner.trim().is_empty() {
        return Some(items);
    }
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        items.push(match letters.peek()? {
            '"' => Some(quoted(&mut letters)?),
            _ => plain(&mut letters)?,
        });
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        match letters.next() {
            None => return Some(items),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn quoted(letters: &mut Letters<'_>) -> Option<String> {
    letters.next();
    let mut item = String::new();
    loop {
        match letters.next()? {
            '"' => return Some(item),
            '\\' => item.push(letters.next()?),
            letter => item.push(letter),
        }
    }
}

/// An item without quotes; the inner `None` for NULL.
fn plain(letters: &mut Letters<'_>) -> Option<Option<String>> {
    let mut item = String::new();
    let mut has_escape = false;
    while let Some(letter) = letters.next_if(|letter| *letter != ',') {
        match letter {
            '{' | '}' | '"' => return None,
            '\\' => {
                has_escape = true;
                item.push(letters.next()?);
            }
            letter => item.push(letter),
        }
    }
    let item = item.trim_end();
    if item.is_empty() && !has_escape {
        return None;
    }
    let is_null = item.eq_ignore_ascii_case("null") && !has_escape;
    Some((!is_null).then(|| item.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn items_are_read_with_quotes_escapes_and_nulls() {
        let items = parse(r#"{a, "b \"c\"" ,NULL,"NULL", d\,e ,"",é}"#).expect("an array");
        let items: Vec<_> = items.iter().map(Option::as_deref).collect();
        assert_eq!(
            items,
            [Some("a"), Some("b \"c\""), None, Some("NULL"), Some("d,e"), Some(""), Some("é")]
        );
        assert_eq!(parse(" {} "), Some(Vec::new()));
        for wrong in ["", "a", "{a", "{a,}", "{,a}", "{{1},{2}}", r#"{"a}"#, r#"{"a"b}"#, "{a\\"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn any_text_is_parsed_without_a_panic() {
        arbtest::arbtest(|bytes| {
            let text: String = bytes.arbitrary()?;
            let _ = parse(&text);
            let quoted = format!("{{\"{}\"}}", text.replace('\\', "\\\\").replace('"', "\\\""));
            assert_eq!(parse(&quoted), Some(vec![Some(text)]));
            Ok(())
        });
    }
}
