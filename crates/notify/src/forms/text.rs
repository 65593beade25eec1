//! The text form: verdict, what to change, evidence, symptoms, who is on call, why it was sent,
//! link.

use crate::forms::{NoticeText, REPEAT_MARK, unlinked};
use crate::receiver::Message;

/// A heading and its lines; the first section has no heading.
pub(crate) struct TextSection {
    pub(crate) heading: &'static str,
    pub(crate) lines: Vec<String>,
}

/// What a message consists of, in the order of reading, without the link. Lines have no control
/// characters and are not escaped.
pub(crate) fn sections(notice: &NoticeText) -> Vec<TextSection> {
    if let Some(text) = &notice.own_text {
        let lines = text.lines().map(str::to_owned).collect();
        return vec![TextSection { heading: "", lines }];
    }
    let figures = notice.figures.iter().map(|(name, value)| format!("{name} = {value}"));
    let mut symptoms = notice.symptoms.clone();
    if notice.more_symptoms > 0 && !symptoms.is_empty() {
        symptoms.push(format!("and {} more", notice.more_symptoms));
    }
    let all = [
        ("", vec![notice.summary.clone(), notice.change.clone()]),
        ("What to change", vec![notice.fix.clone()]),
        ("Why it matters", vec![notice.why.clone()]),
        (if notice.is_letter { "Figures" } else { "Evidence" }, figures.collect()),
        (if notice.is_letter { "Details" } else { "Symptoms" }, symptoms),
        ("On call", vec![notice.on_call.clone()]),
        ("Why you get this", vec![notice.reason.clone()]),
    ];
    let filled = all.into_iter().map(|(heading, mut lines)| {
        lines.retain(|line| !line.is_empty());
        TextSection { heading, lines }
    });
    filled.filter(|section| !section.lines.is_empty()).collect()
}

/// The text of a mail: no line of it is a link but the page's own.
pub fn text(message: &Message) -> String {
    let notice = NoticeText::new(message);
    let mut text = match &notice.own_text {
        Some(own) => own_text(own, message.is_repeat),
        None => built_in_text(&notice),
    };
    if let Some((link, pin)) = &notice.act
        && !text.contains(link.as_str())
    {
        text.push_str(&format!("\nAcknowledge or resolve (PIN {pin}):\n{link}\n"));
    }
    if let Some(link) = &notice.link
        && !text.contains(link.as_str())
    {
        text.push_str(&format!("\n{link}\n"));
    }
    text
}

/// The text of a template, which has its own links.
fn own_text(own: &str, is_repeat: bool) -> String {
    let mark = if is_repeat { format!("{REPEAT_MARK}\n\n") } else { String::new() };
    format!("{mark}{}\n", own.trim_end())
}

fn built_in_text(notice: &NoticeText) -> String {
    let mut text = format!("{}\n", unlinked(&notice.head()));
    for section in sections(notice) {
        text.push('\n');
        if !section.heading.is_empty() {
            text.push_str(section.heading);
            text.push_str(":\n");
        }
        for line in &section.lines {
            let indent = if section.heading.is_empty() { "" } else { "  " };
            text.push_str(&format!("{indent}{}\n", unlinked(line)));
        }
    }
    text
}

/// The sections for a chat, without head and link: fewer lines, not escaped.
pub(crate) fn chat_text(notice: &NoticeText) -> String {
    let parts = sections(notice).into_iter().map(|section| match section.heading {
        "" => section.lines.join("\n"),
        "Evidence" | "Figures" => format!("{}: {}", section.heading, section.lines.join(" · ")),
        heading if section.lines.len() > 1 => {
            format!("{heading}:\n• {}", section.lines.join("\n• "))
        }
        heading => format!("{heading}: {}", section.lines.concat()),
    });
    parts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_actions::NoticeKind;

    use super::*;
    use crate::testing::samples::{evil_message, message};

    #[test]
    fn a_page_reads_from_the_verdict_to_the_link() {
        expect![[r#"
            PAGE web3 app.down 10.0.0.7:8080 refuses connections (+3 behind)

            10.0.0.7:8080 refuses connections: 12 of 40 requests (30 %) failed in 15 s
            opened

            What to change:
              Restart shop.service, then read its log

            Why it matters:
              Visitors get 502

            Evidence:
              failed = 12
              requests = 40
              backend = 10.0.0.7:8080

            Symptoms:
              proxy.errors web1: 30 % of requests fail
              proxy.errors web2: 29 % of requests fail
              and 1 more

            On call:
              ada, bo

            Why you get this:
              ada is on call for rota web

            https://weir.example.net/#/incidents/k3f9
        "#]]
        .assert_eq(&text(&message(NoticeKind::Page)));
    }

    #[test]
    fn data_makes_no_line_and_no_link() {
        let evil = text(&evil_message());
        assert!(!evil.contains("http://evil"), "{evil}");
        assert!(!evil.lines().any(|line| line.starts_with("INJECTED")), "{evil}");
        assert!(evil.chars().all(|letter| letter == '\n' || !letter.is_control()), "{evil}");
        assert_eq!(evil.matches("://").count(), 1, "{evil}");
    }

    #[test]
    fn link_to_act_stands_beside_its_pin() {
        let mut sample = message(NoticeKind::Page);
        let (url, pin) = ("https://weir.example.net/a/0af1".to_owned(), "4711".to_owned());
        sample.act_link = Some(crate::receiver::ActLink { url, pin });
        let text = text(&sample);
        let line = "\nAcknowledge or resolve (PIN 4711):\nhttps://weir.example.net/a/0af1\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_repeat_is_marked_in_the_first_line() {
        let mut sample = message(NoticeKind::Page);
        sample.is_repeat = true;
        assert!(text(&sample).lines().next().unwrap().ends_with("(may be a repeat)"));
    }
}
