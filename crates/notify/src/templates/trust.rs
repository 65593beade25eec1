//! Separates a template's own words from data in its output: only the former make links, mentions and
//! elements.
//!
//! ```text
//! https://wiki/{{ rule }}   stays a link: scheme and host are the template's
//! https://{{ host }}/       https[:]//web3/
//! {{ a }}{{ b }}            also where `http:` and `//evil` come from two values
//! <td class="{{ x }}">      letters, digits, `-`, `_` and `.`; anything else becomes `_`
//! ```

use std::ops::Range;

use super::TemplateForm;
use crate::forms::{ascii, is_invisible, is_mention_word, is_scheme};

/// What begins and ends data in the output; in no text, since data is freed from them.
pub(super) const MARKS: [char; 2] = ['\u{f8f0}', '\u{f8f1}'];

/// A character of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Letter {
    is: char,
    is_data: bool,
}

/// The output as a form: links and mentions of data are broken, data is escaped.
pub(super) fn finished(form: TemplateForm, output: &str) -> String {
    let letters = unlinked(&letters(output));
    match form {
        TemplateForm::Html => escaped(&letters),
        TemplateForm::Text => letters.iter().map(|letter| letter.is).collect(),
        TemplateForm::Subject | TemplateForm::Phone => {
            let line: String = letters.iter().map(|letter| letter.is).collect();
            ascii(&line)
        }
    }
}

fn letters(output: &str) -> Vec<Letter> {
    let mut is_data = false;
    let mut letters = Vec::with_capacity(output.len());
    for is in output.chars() {
        match is {
            mark if mark == MARKS[0] => is_data = true,
            mark if mark == MARKS[1] => is_data = false,
            '\n' => letters.push(Letter { is, is_data }),
            is if is.is_control() || is_invisible(is) => {}
            is => letters.push(Letter { is, is_data }),
        }
    }
    letters
}

/// Breaks links and mentions in which data has a part.
fn unlinked(letters: &[Letter]) -> Vec<Letter> {
    let mut out = Vec::with_capacity(letters.len());
    for (at, letter) in letters.iter().enumerate() {
        let broken = match letter.is {
            ':' if is_at(letters, at + 1, "//") => {
                (!is_own_authority(letters, word_start(letters, at)..at + 3)).then_some("[:]")
            }
            ':' if is_scheme(&word(letters, word_start(letters, at)..at)) => {
                let is_own = is_own(letters, word_start(letters, at)..at + 2);
                (!is_own).then_some("[:]")
            }
            '.' if word(letters, word_start(letters, at)..at).eq_ignore_ascii_case("www") => {
                (!is_own_authority(letters, word_start(letters, at)..at + 1)).then_some("[.]")
            }
            '@' if !at
                .checked_sub(1)
                .is_some_and(|before| letters[before].is.is_alphanumeric()) =>
            {
                let end = word_end(letters, at + 1);
                let is_mention = is_mention_word(&word(letters, at + 1..end));
                (is_mention && !is_own(letters, at..end)).then_some("@ ")
            }
            '<' if letters.get(at + 1).is_some_and(|next| ['!', '@', '#'].contains(&next.is)) => {
                (!is_own(letters, at..at + 2)).then_some("< ")
            }
            _ => None,
        };
        match broken {
            Some(text) => out.extend(text.chars().map(|is| Letter { is, is_data: true })),
            None => out.push(*letter),
        }
    }
    out
}

/// Whether the template wrote the letters of `front` and the host behind them.
fn is_own_authority(letters: &[Letter], front: Range<usize>) -> bool {
    let Range { start, end: host } = front;
    let rest = letters.get(host..).unwrap_or_default();
    let end = host + rest.iter().position(|letter| ends_host(letter.is)).unwrap_or(rest.len());
    is_own(letters, start..end)
}

/// Whether a host ends before a letter.
fn ends_host(letter: char) -> bool {
    letter.is_whitespace() || "/?#\\\"'<>()[]{},;|".contains(letter)
}

/// Whether no letter of a range is data.
fn is_own(letters: &[Letter], range: Range<usize>) -> bool {
    let end = range.end.min(letters.len());
    letters[range.start.min(end)..end].iter().all(|letter| !letter.is_data)
}

fn is_at(letters: &[Letter], at: usize, text: &str) -> bool {
    text.chars()
        .enumerate()
        .all(|(index, is)| letters.get(at + index).is_some_and(|it| it.is == is))
}

fn word(letters: &[Letter], range: Range<usize>) -> String {
    letters[range].iter().map(|letter| letter.is).collect()
}

/// Where the letters of the alphabet before a position begin.
fn word_start(letters: &[Letter], at: usize) -> usize {
    let before = letters[..at].iter().rev().take_while(|letter| letter.is.is_ascii_alphabetic());
    at - before.count()
}

/// Where the letters of the alphabet from a position end.
fn word_end(letters: &[Letter], at: usize) -> usize {
    let rest = letters.get(at..).unwrap_or_default();
    at.min(letters.len()) + rest.iter().take_while(|letter| letter.is.is_ascii_alphabetic()).count()
}

/// HTML: data is text, and within an element it is a word.
fn escaped(letters: &[Letter]) -> String {
    let mut html = String::with_capacity(letters.len() * 2);
    let mut is_in_element = false;
    for letter in letters {
        match (letter.is_data, letter.is) {
            (false, is) => {
                is_in_element = (is_in_element || is == '<') && is != '>';
                html.push(is);
            }
            (true, is) if is_in_element => {
                let is_plain = is.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&is);
                html.push(if is_plain { is } else { '_' });
            }
            (true, '&') => html.push_str("&amp;"),
            (true, '<') => html.push_str("&lt;"),
            (true, '>') => html.push_str("&gt;"),
            (true, '"') => html.push_str("&quot;"),
            (true, '\'') => html.push_str("&#39;"),
            (true, is) => html.push(is),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output in which the parts between `«` and `»` are data.
    fn check(form: TemplateForm, marked: &str) -> String {
        let output = marked.replace('«', &MARKS[0].to_string()).replace('»', &MARKS[1].to_string());
        finished(form, &output)
    }

    #[test]
    fn links_of_the_template_stay_and_those_of_data_are_broken() {
        for (marked, expected) in [
            ("see https://wiki.example/«app.down»", "see https://wiki.example/app.down"),
            ("https://«web3»/", "https[:]//web3/"),
            ("https://wiki«.evil.example/»", "https[:]//wiki.evil.example/"),
            ("«http:»«//evil»", "http[:]//evil"),
            ("«http»://x", "http[:]//x"),
            ("http:«//evil»", "http[:]//evil"),
            ("https://wiki/?q=«http://evil»", "https://wiki/?q=http[:]//evil"),
            ("https://wiki«@evil»/", "https[:]//wiki@evil/"),
            ("«www»«.evil.example»", "www[.]evil.example"),
            ("www.«evil»", "www[.]evil"),
            ("www.example.org", "www.example.org"),
            ("mailto:«a@b»", "mailto[:]a@b"),
            ("mailto:ops@example.org «x»", "mailto:ops@example.org x"),
            ("«java»script:«x»", "javascript[:]x"),
        ] {
            assert_eq!(check(TemplateForm::Text, marked), expected, "{marked}");
        }
    }

    #[test]
    fn mentions_of_the_template_stay_and_those_of_data_are_broken() {
        for (marked, expected) in [
            ("@here «x»", "@here x"),
            ("@«here»", "@ here"),
            ("«@»here", "@ here"),
            ("«@every»one", "@ everyone"),
            ("<!channel>", "<!channel>"),
            ("<«!channel>»", "< !channel>"),
            ("«<»@U123>", "< @U123>"),
            ("ops@here.example «x»", "ops@here.example x"),
        ] {
            assert_eq!(check(TemplateForm::Text, marked), expected, "{marked}");
        }
    }

    #[test]
    fn data_makes_no_element_and_no_attribute() {
        for (marked, expected) in [
            ("<b>«<script>»</b>", "<b>&lt;script&gt;</b>"),
            ("<td class=\"«page»\">", "<td class=\"page\">"),
            ("<td class=\"«a\" onclick=\"b()»\">", "<td class=\"a__onclick__b__\">"),
            ("<a href=\"«//evil/x»\">", "<a href=\"__evil_x\">"),
            ("<«img src=x»>", "<img_src_x>"),
            ("<p>«a & 'b'»</p>", "<p>a &amp; &#39;b&#39;</p>"),
        ] {
            assert_eq!(check(TemplateForm::Html, marked), expected, "{marked}");
        }
    }

    #[test]
    fn a_subject_is_one_ascii_line() {
        assert_eq!(check(TemplateForm::Subject, "a\n«b\u{202e}»\r\nBcc: «x» ≥"), "a b Bcc: x >=");
    }
}
