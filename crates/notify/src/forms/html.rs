//! The HTML form of a mail: the text's sections, without styles that a mail reader would drop.

use crate::forms::{
    CHART_ID, NoticeText, REPEAT_MARK, escape_html, has_chart, own_form, sections, unlinked,
};
use crate::receiver::Message;
use crate::templates::TemplateForm;

/// The HTML of a mail: data is escaped, and the only links are those of the page.
pub fn html(message: &Message) -> String {
    let notice = NoticeText::new(message);
    let own = own_form(TemplateForm::Html, message).map(|own| {
        let mark =
            if message.is_repeat { format!("<p>{REPEAT_MARK}</p>\n") } else { String::new() };
        format!("{mark}{own}\n")
    });
    let mut body = own.unwrap_or_else(|| built_in_body(message, &notice));
    if let Some((link, pin)) = &notice.act {
        let link = escape_html(link.as_str());
        let words = "Acknowledge or resolve";
        if !body.contains(&link) {
            body.push_str(&format!("<p><a href=\"{link}\">{words}</a> (PIN {pin})</p>\n"));
        }
    }
    if let Some(link) = &notice.link {
        let link = escape_html(link.as_str());
        if !body.contains(&link) {
            body.push_str(&format!("<p><a href=\"{link}\">{link}</a></p>\n"));
        }
    }
    format!("<!DOCTYPE html>\n<html><body>\n{body}</body></html>\n")
}

/// Head and sections, and the chart of a report.
fn built_in_body(message: &Message, notice: &NoticeText) -> String {
    let mut body = format!("<h2>{}</h2>\n", safe(&notice.head()));
    for section in sections(notice) {
        if section.heading.is_empty() {
            for line in &section.lines {
                body.push_str(&format!("<p>{}</p>\n", safe(line)));
            }
            continue;
        }
        body.push_str(&format!("<h3>{}</h3>\n<ul>\n", section.heading));
        for line in &section.lines {
            body.push_str(&format!("<li>{}</li>\n", safe(line)));
        }
        body.push_str("</ul>\n");
    }
    if has_chart(message) {
        let words = "Pages by rule, in the order of the list; red: judged as real";
        body.push_str(&format!("<p><img src=\"cid:{CHART_ID}\" alt=\"{words}\"><br>{words}</p>\n"));
    }
    body
}

fn safe(text: &str) -> String {
    escape_html(&unlinked(text))
}

#[cfg(test)]
mod tests {
    use weir_actions::NoticeKind;

    use super::*;
    use crate::testing::samples::{evil_message, message};

    #[test]
    fn html_has_the_sections_of_the_text_and_one_link() {
        let page = html(&message(NoticeKind::Page));
        for part in
            ["<h2>PAGE web3 app.down", "<h3>Evidence</h3>", "<li>failed = 12</li>", "ada, bo"]
        {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(page.contains("<a href=\"https://weir.example.net/#/incidents/k3f9\">"), "{page}");
    }

    #[test]
    fn data_makes_no_element_and_no_link() {
        let evil = html(&evil_message());
        assert!(!evil.contains("<script"), "{evil}");
        assert!(evil.contains("&lt;script&gt;"), "{evil}");
        assert_eq!(evil.matches("<a ").count(), 1, "{evil}");
        assert!(!evil.contains("http://evil"), "{evil}");
    }
}
