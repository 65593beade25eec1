//! Templates as messages use them: choice, fallback, bounds, hostile data.

use std::sync::Arc;

use expect_test::expect;

use super::*;
use crate::forms::{html, phone, subject, text};
use crate::receiver::ActLink;
use crate::testing::samples::{EVIL, evil_message, message};

fn source(form: TemplateForm, scope: TemplateScope, text: &str) -> TemplateSource {
    let (text, file) = (text.to_owned(), "weir.toml".to_owned());
    TemplateSource { form, scope, text, file, first_line: 10 }
}

fn set(sources: Vec<TemplateSource>) -> Arc<TemplateSet> {
    Arc::new(TemplateSet::new(sources))
}

fn one(form: TemplateForm, template: &str) -> Arc<TemplateSet> {
    set(vec![source(form, TemplateScope::All, template)])
}

fn with(mut message: Message, templates: &Arc<TemplateSet>) -> Message {
    message.templates = Some(Arc::clone(templates));
    message
}

/// Why a template cannot be used, or nothing.
fn error(form: TemplateForm, template: &str) -> String {
    let errors = one(form, template).errors();
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn template_replaces_its_form_and_the_links_are_kept() {
    let templates = set(vec![
        source(
            TemplateForm::Subject,
            TemplateScope::All,
            "[{{ class|upper }}] {{ host }} {{ rule }}",
        ),
        source(
            TemplateForm::Text,
            TemplateScope::All,
            "{{ summary }}\n{% for s in symptoms %}- {{ s.host }}: {{ s.summary }}\n{% endfor %}Runbook: https://wiki/{{ rule }}\n",
        ),
        source(TemplateForm::Phone, TemplateScope::All, "{{ host }} {{ rule }}"),
        source(
            TemplateForm::Html,
            TemplateScope::All,
            "<h1 class=\"{{ class }}\">{{ title }}</h1>",
        ),
    ]);
    let mut sample = with(message(NoticeKind::Page), &templates);
    let (url, pin) = ("https://weir.example.net/a/0af1".to_owned(), "4711".to_owned());
    sample.act_link = Some(ActLink { url, pin });
    assert_eq!(subject(&sample), "[PAGE] web3 app.down");
    expect![[r"
        10.0.0.7:8080 refuses connections: 12 of 40 requests (30 %) failed in 15 s
        - web1: 30 % of requests fail
        - web2: 29 % of requests fail
        Runbook: https://wiki/app.down

        Acknowledge or resolve (PIN 4711):
        https://weir.example.net/a/0af1

        https://weir.example.net/#/incidents/k3f9
    "]]
    .assert_eq(&text(&sample));
    assert_eq!(phone(&sample), "web3 app.down https://weir.example.net/a/0af1 PIN 4711");
    let page = html(&sample);
    assert!(page.contains("<h1 class=\"page\">web3 app.down"), "{page}");
    assert!(page.contains("<a href=\"https://weir.example.net/a/0af1\">"), "{page}");
    sample.is_repeat = true;
    assert_eq!(subject(&sample), "[PAGE] web3 app.down (may be a repeat)");
    assert!(text(&sample).starts_with("(may be a repeat)\n"));
}

#[test]
fn narrower_template_is_preferred() {
    let form = TemplateForm::Subject;
    let templates = set(vec![
        source(form, TemplateScope::Receiver("r".to_owned()), "receiver"),
        source(form, TemplateScope::Kind(NoticeKind::Page), "kind"),
        source(form, TemplateScope::All, "all"),
    ]);
    let mut sample = with(message(NoticeKind::Page), &templates);
    assert_eq!(subject(&sample), "receiver");
    sample.notice.receiver = "other".to_owned();
    assert_eq!(subject(&sample), "kind");
    sample.notice.kind = NoticeKind::Ack;
    assert_eq!(subject(&sample), "all");
}

/// prometheus/alertmanager#3490, prometheus/alertmanager#2857, grafana/grafana#43733: a template
/// that is broken, or names what does not exist, loses no message and is named with its line.
#[test]
fn broken_template_sends_the_built_in_form_and_is_named_with_its_line() {
    let form = TemplateForm::Text;
    for (broken, line, word) in [
        ("a\n{{ summary", 11, "syntax error"),
        ("a\n\n{{ sumary }}", 12, "undefined"),
        ("{% if host %}\nx", 10, "syntax error"),
        ("{{ host.nothing.more }}", 10, "undefined"),
        ("{{ connect.k8s.url }}", 10, "undefined"),
        ("x\n{% set a = 1 %}", 11, "no statement `set`"),
        ("{{ host|safe }}", 10, "safe"),
        ("{% for link in on_call %}{{ link }}{% endfor %}", 10, "`link`"),
        ("{% include 'x' %}", 10, "no statement `include`"),
        ("  \n{% if false %}x{% endif %}", 10, "empty"),
    ] {
        let named = error(form, broken);
        assert!(named.contains(&format!("weir.toml:{line}:")), "{broken}: {named}");
        assert!(named.contains(word), "{broken}: {named}");
        let built_in = message(NoticeKind::Page);
        assert_eq!(text(&with(built_in.clone(), &one(form, broken))), text(&built_in), "{broken}");
    }
}

#[test]
fn value_that_only_some_kinds_have_is_tested_with_if() {
    let template = "{{ host }}{% if acked_by %} by {{ acked_by }}{% endif %}";
    assert_eq!(error(TemplateForm::Subject, template), "");
    let templates = one(TemplateForm::Subject, template);
    assert_eq!(subject(&with(message(NoticeKind::Ack), &templates)), "web3 by ada");
    assert_eq!(subject(&with(message(NoticeKind::Page), &templates)), "web3");
}

#[test]
fn endless_and_growing_templates_end() {
    let nested = "{% for a in symptoms %}".repeat(20) + "x" + &"{% endfor %}".repeat(20);
    let long = "x".repeat(TEMPLATE_BYTES_MAX + 1);
    let doubled = "{% with a = host ~ host %}".to_owned() + "{% endwith %}";
    let summed = "{{ summary }}".repeat(1_200);
    for (template, word) in [
        (nested.as_str(), "steps"),
        (long.as_str(), "16 KiB"),
        (doubled.as_str(), "no statement `with`"),
        ("{{ 'x' * 100000000 }}", "`*`"),
        ("{% for a in on_call recursive %}{{ loop(on_call) }}{% endfor %}", "recursive"),
        (summed.as_str(), "64 KiB"),
    ] {
        let named = error(TemplateForm::Text, template);
        assert!(named.contains(word), "{word}: {named}");
    }
}

#[test]
fn hostile_data_makes_no_link_mention_element_or_line() {
    let all = "{{ summary }} {{ title }} {{ fix }} {{ host }} {% for s in symptoms %}{{ s.summary }}{% endfor %}{% for f in figures %}{{ f.name }}={{ f.value }}{% endfor %}{{ host ~ '://' ~ host }}";
    let html_template = format!("<p title=\"{{{{ summary }}}}\">{all}</p>");
    let templates = set(vec![
        source(TemplateForm::Text, TemplateScope::All, all),
        source(TemplateForm::Subject, TemplateScope::All, all),
        source(TemplateForm::Phone, TemplateScope::All, all),
        source(TemplateForm::Html, TemplateScope::All, &html_template),
    ]);
    let evil = with(evil_message(), &templates);
    for form in [text(&evil), subject(&evil), phone(&evil)] {
        assert!(!form.contains("http://evil") && !form.contains("@everyone"), "{form}");
        assert!(!form.contains("<!channel>"), "{form}");
        assert!(!form.lines().any(|line| line.starts_with("INJECTED")), "{form}");
        assert!(form.chars().all(|letter| letter == '\n' || !letter.is_control()), "{form}");
    }
    assert!(subject(&evil).len() <= 78);
    let page = html(&evil);
    assert!(!page.contains("<script") && !page.contains("http://evil"), "{page}");
    assert_eq!(page.matches("<a ").count(), 1, "{page}");
    assert!(EVIL.contains("<script"), "the sample is hostile");
}

#[test]
fn two_values_make_no_link_together() {
    let mut sample =
        with(message(NoticeKind::Page), &one(TemplateForm::Text, "{{ host }}{{ rule }}"));
    sample.notice.incident.host = "http:".to_owned();
    sample.notice.incident.root_rule = "//evil.example".to_owned();
    assert!(text(&sample).starts_with("http[:]//evil.example\n"), "{}", text(&sample));
}

#[test]
fn links_of_the_page_are_links() {
    let template = "Open {{ link }}{% if act_link %} or {{ act_link }} (PIN {{ pin }}){% endif %}";
    let plain = text(&with(message(NoticeKind::Page), &one(TemplateForm::Text, template)));
    assert_eq!(plain, "Open https://weir.example.net/#/incidents/k3f9\n");
}

/// A hand-over or a report is about no incident.
#[test]
fn letters_keep_their_own_form() {
    let mut letter = message(NoticeKind::Mail);
    letter.notice.incident.id.clear();
    let built_in = text(&letter);
    assert_eq!(text(&with(letter, &one(TemplateForm::Text, "x"))), built_in);
}
