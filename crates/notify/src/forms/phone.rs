//! The form for a phone: one text message of at most 160 letters of GSM 03.38.
//!
//! The alphabet's basic table counts one each; eight more letters are written with an escape and
//! count two. Any other letter would make the whole message UCS-2, of which 70 fit.

use crate::forms::{NoticeText, ascii, own_form, repeat_mark, unlinked};
use crate::receiver::Message;
use crate::templates::TemplateForm;

const LETTERS_MAX: usize = 160;
/// Letters of the extension table, each with an escape before it.
const EXTENDED: &str = "^{}\\[~]|";
/// ASCII that the alphabet lacks.
const LACKING: &str = "`";

/// One line of at most 160 GSM letters: kind, host, rule, figure, and the link if it fits whole.
pub fn phone(message: &Message) -> String {
    let notice = NoticeText::new(message);
    let act = notice.act.as_ref().map(|(link, pin)| format!(" {link} PIN {pin}"));
    let link = act.or_else(|| notice.link.as_ref().map(|link| format!(" {link}")));
    let link = link.unwrap_or_default();
    let link =
        if link.is_ascii() && letters(&link) <= LETTERS_MAX / 2 { link } else { String::new() };
    let line = own_form(TemplateForm::Phone, message)
        .map_or_else(|| built_in_line(&notice), |own| format!("{own}{}", repeat_mark(message)));
    let line = gsm(&line);
    format!("{}{link}", cut(&line, LETTERS_MAX - letters(&link)))
}

/// Head and summary.
fn built_in_line(notice: &NoticeText) -> String {
    let mut line = notice.head();
    if !notice.summary.is_empty() {
        line = format!("{line}: {}", notice.summary);
    }
    unlinked(&line)
}

/// Text in letters of the alphabet.
fn gsm(text: &str) -> String {
    ascii(text).chars().map(|letter| if LACKING.contains(letter) { '\'' } else { letter }).collect()
}

fn width(letter: char) -> usize {
    if EXTENDED.contains(letter) { 2 } else { 1 }
}

fn letters(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// The start of a text, with dots when something is cut off.
fn cut(text: &str, max: usize) -> String {
    if letters(text) <= max {
        return text.to_owned();
    }
    let mut used = 3;
    let fits = text.chars().take_while(|letter| {
        used += width(*letter);
        used <= max
    });
    let start: String = fits.collect();
    format!("{}...", start.trim_end())
}

#[cfg(test)]
mod tests {
    use weir_actions::NoticeKind;

    use super::*;
    use crate::testing::samples::{evil_message, message};

    #[test]
    fn a_text_message_has_kind_host_rule_and_link() {
        let line = phone(&message(NoticeKind::Page));
        assert!(line.starts_with("PAGE web3 app.down 10.0.0.7:8080"), "{line}");
        assert!(line.ends_with(" https://weir.example.net/#/incidents/k3f9"), "{line}");
        assert!(letters(&line) <= LETTERS_MAX, "{line}");
    }

    #[test]
    fn every_letter_is_of_the_alphabet_and_the_limit_counts_escapes() {
        let mut sample = evil_message();
        sample.notice.incident.title = "[]{}|~^\\`é日".repeat(40);
        let line = phone(&sample);
        assert!(letters(&line) <= LETTERS_MAX, "{line}");
        assert!(line.is_ascii() && !line.contains('`') && !line.contains('\n'), "{line}");
        assert!(letters(&line) > LETTERS_MAX - 3, "space is used: {line}");
    }

    #[test]
    fn a_link_too_long_is_left_out_rather_than_cut() {
        let mut sample = message(NoticeKind::Page);
        sample.page_url = format!("https://{}.example.net", "w".repeat(90));
        assert!(!phone(&sample).contains("https"));
    }
}
