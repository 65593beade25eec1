//! Data of hosts and visitors as plain text: one line, no control characters, no links.
//!
//! A host name, a user agent or a path in a finding comes from outside. Mail readers and chats turn
//! `http://…` into a link, notify everybody of `@here`, and reorder text by bidirectional controls.
//! All of this is taken away before a form escapes what its own markup needs, because a service
//! passes texts on to others: Alertmanager to Slack, PagerDuty to Teams.

/// Whether a character is not shown but changes how its neighbours are shown.
pub(crate) fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Text in one line: controls and line ends become spaces, invisible characters are left out.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars().filter(|letter| !is_invisible(*letter)) {
        if letter.is_control() || letter.is_whitespace() {
            if !line.ends_with(' ') && !line.is_empty() {
                line.push(' ');
            }
        } else {
            line.push(letter);
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// Words that notify a whole channel after `@`.
const MENTION_WORDS: &[&str] = &["all", "channel", "everyone", "here", "room", "team"];
/// Words that make an address without `//`.
const SCHEMES: &[&str] = &["mailto", "tel", "sms", "javascript", "data"];

/// Text in which no reader finds an address to click or a name to notify:
/// `http[:]//evil.example`, `www[.]evil`, `@ here`, `< !channel>`.
pub(crate) fn unlinked(text: &str) -> String {
    let text = text.replace("://", "[:]//");
    let mut plain = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        let (before, after) = (&text[..at], &text[at + letter.len_utf8()..]);
        match letter {
            '.' if last_word(before).eq_ignore_ascii_case("www") => plain.push_str("[.]"),
            ':' if is_scheme(last_word(before)) => plain.push_str("[:]"),
            '@' if !is_in_word(before) && is_mention(after) => plain.push_str("@ "),
            '<' if after.starts_with(['!', '@', '#']) => plain.push_str("< "),
            letter => plain.push(letter),
        }
    }
    plain
}

/// Letters of the alphabet at the end of a text.
fn last_word(text: &str) -> &str {
    let start = text.rfind(|letter: char| !letter.is_ascii_alphabetic());
    start.map_or(text, |at| &text[at..][text[at..].chars().next().map_or(0, char::len_utf8)..])
}

/// Whether a word and a colon make an address without `//`.
pub(crate) fn is_scheme(word: &str) -> bool {
    is_one_of(word, SCHEMES)
}

/// Whether a word after `@` notifies a whole channel.
pub(crate) fn is_mention_word(word: &str) -> bool {
    is_one_of(word, MENTION_WORDS)
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Whether an `@` after this text is in a mail address.
fn is_in_word(before: &str) -> bool {
    before.ends_with(|letter: char| letter.is_alphanumeric())
}

/// Whether an `@` before this text begins a mention.
fn is_mention(after: &str) -> bool {
    let end = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
    is_mention_word(&after[..end])
}

/// Text as its start, with `…` when something is cut off; `unit` measures a character.
pub(crate) fn cut_by(text: &str, max: usize, unit: fn(char) -> usize) -> String {
    if text.chars().map(unit).sum::<usize>() <= max {
        return text.to_owned();
    }
    let has_mark = max >= unit('…');
    let mut used = if has_mark { unit('…') } else { 0 };
    let fits = text.chars().take_while(|letter| {
        used += unit(*letter);
        used <= max
    });
    let mut start: String = fits.collect();
    if has_mark {
        start.truncate(start.trim_end().len());
        start.push('…');
    }
    start
}

/// The start of a text: at most `max` bytes of UTF-8.
pub(crate) fn cut_bytes(text: &str, max: usize) -> String {
    cut_by(text, max, char::len_utf8)
}

/// The start of a text: at most `max` UTF-16 units, which are at least as many as characters.
pub(crate) fn cut_units(text: &str, max: usize) -> String {
    cut_by(text, max, char::len_utf16)
}

/// Text for HTML and its relatives.
pub(crate) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Text as printable ASCII; what has no letter there becomes `?`.
pub(crate) fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in one_line(text).chars() {
        match letter {
            '×' => plain.push('x'),
            '–' | '—' | '−' => plain.push('-'),
            '…' => plain.push_str("..."),
            '≥' => plain.push_str(">="),
            '≤' => plain.push_str("<="),
            'µ' | 'μ' => plain.push('u'),
            '‘' | '’' => plain.push('\''),
            '“' | '”' => plain.push('"'),
            ' '..='~' => plain.push(letter),
            _ => plain.push('?'),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_one_line_without_controls_and_overrides() {
        assert_eq!(one_line(" a\r\nb\u{0}\u{1b}c\u{2028}d "), "a b c d");
        assert_eq!(one_line("gpj.\u{202e}exe\u{2066}\u{200b}\u{feff}"), "gpj.exe");
        assert_eq!(one_line("\n\n"), "");
    }

    #[test]
    fn addresses_are_not_clickable() {
        assert_eq!(unlinked("see HTTP://evil/x"), "see HTTP[:]//evil/x");
        assert_eq!(unlinked("WwW.evil.example"), "WwW[.]evil.example");
        assert_eq!(
            unlinked("mailto:a@b and a data:text/html"),
            "mailto[:]a@b and a data[:]text/html"
        );
        assert_eq!(unlinked("10.0.0.7:8080 é."), "10.0.0.7:8080 é.");
    }

    #[test]
    fn mentions_notify_nobody() {
        assert_eq!(unlinked("@everyone, @HERE! @room"), "@ everyone, @ HERE! @ room");
        assert_eq!(unlinked("<!channel> <@U1> <#C1> <b>"), "< !channel> < @U1> < #C1> <b>");
        assert_eq!(unlinked("ada@here.example @hereafter é@"), "ada@here.example @hereafter é@");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut_bytes("déjà vu", 99), "déjà vu");
        assert_eq!(cut_bytes("déjà vu", 6), "dé…");
        assert_eq!(cut_units("a😀😀", 5), "a😀😀");
        assert_eq!(cut_units("a😀😀", 4), "a😀…");
        assert_eq!(cut_bytes("déjà", 2), "d");
        for max in 0..12 {
            assert!(cut_bytes("é😀a… b", max).len() <= max);
        }
    }

    #[test]
    fn ascii_keeps_the_meaning_of_common_signs() {
        assert_eq!(ascii("3.2× — ≥ 5 µs\r\nBcc: x"), "3.2x - >= 5 us Bcc: x");
        assert_eq!(ascii("日本"), "??");
    }
}
