//! Messages of tests: an ordinary one, and one whose every text is hostile.

use weir_actions::{IncidentSummary, Notice, NoticeKind, SymptomLine, Urgency};

use crate::receiver::Message;

/// Text as a visitor could send it.
pub(crate) const EVIL: &str = "x\r\nINJECTED: yes\n.\r\n<script>alert(1)</script> @everyone @here \
    <!channel> <@U123> [x](http://evil) <http://evil|click> <a href='http://evil'>y</a> _*~`b`~*_ \
    ``` \"quoted\" \u{202e}gpj.exe\u{2066} \u{0}\u{7}\u{1b}[31m ;|#%&=+ \u{200b}日本 😀 http://evil";

/// A message about `app.down` on web3.
pub(crate) fn message(kind: NoticeKind) -> Message {
    Message {
        notice: Notice {
            id: "0123456789abcdef0123456789abcdef".to_owned(),
            kind,
            receiver: "r".to_owned(),
            address: None,
            person: Some("ada".to_owned()),
            fallbacks: Vec::new(),
            due_us: 1_796_000_000_000_000,
            expires_us: 1_796_086_400_000_000,
            order: 1,
            reason: "ada is on call for rota web".to_owned(),
            change: "opened".to_owned(),
            on_call: vec!["ada".to_owned(), "bo".to_owned()],
            incident: incident(kind),
        },
        is_repeat: false,
        thread: None,
        page_url: "https://weir.example.net".to_owned(),
        now_us: 1_796_000_001_000_000,
        act_link: None,
        templates: None,
    }
}

fn symptom(host: &str, share: u8) -> SymptomLine {
    SymptomLine {
        rule: "proxy.errors".to_owned(),
        host: host.to_owned(),
        summary: format!("{share} % of requests fail"),
    }
}

fn incident(kind: NoticeKind) -> IncidentSummary {
    let is_over = kind == NoticeKind::Resolved;
    IncidentSummary {
        id: "k3f9".to_owned(),
        class: if kind == NoticeKind::Mail { Urgency::Mail } else { Urgency::Page },
        root_rule: "app.down".to_owned(),
        host: "web3".to_owned(),
        tier: "app".to_owned(),
        subject: "10.0.0.7:8080".to_owned(),
        title: "web3 app.down 10.0.0.7:8080 refuses connections (+3 behind)".to_owned(),
        summary: "10.0.0.7:8080 refuses connections: 12 of 40 requests (30 %) failed in 15 s"
            .to_owned(),
        why: "Visitors get 502".to_owned(),
        fix: "Restart shop.service, then read its log".to_owned(),
        evidence: r#"[{"backend":"10.0.0.7:8080","failed":12,"requests":40,"note":null}]"#
            .to_owned(),
        symptoms: vec![symptom("web1", 30), symptom("web2", 29)],
        finding_count: 4,
        host_count: 3,
        opened_us: 1_795_999_990_000_000,
        resolved_us: is_over.then_some(1_796_000_000_500_000),
        acked_by: (kind == NoticeKind::Ack).then(|| "ada".to_owned()),
    }
}

/// A page of which every text that comes from outside is [`EVIL`].
pub(crate) fn evil_message() -> Message {
    let mut sample = message(NoticeKind::Page);
    let notice = &mut sample.notice;
    (notice.reason, notice.change) = (EVIL.to_owned(), EVIL.to_owned());
    notice.on_call = vec![EVIL.to_owned()];
    let incident = &mut notice.incident;
    (incident.root_rule, incident.host, incident.tier) =
        (EVIL.to_owned(), EVIL.to_owned(), EVIL.to_owned());
    (incident.subject, incident.title, incident.summary) =
        (EVIL.to_owned(), EVIL.to_owned(), EVIL.to_owned());
    (incident.why, incident.fix) = (EVIL.to_owned(), EVIL.to_owned());
    incident.evidence = serde_json::json!([{ EVIL: EVIL, "n": 1 }]).to_string();
    let symptom =
        SymptomLine { rule: EVIL.to_owned(), host: EVIL.to_owned(), summary: EVIL.to_owned() };
    incident.symptoms = vec![symptom];
    incident.acked_by = Some(EVIL.to_owned());
    sample
}

/// A message whose every text is far longer than any limit.
pub(crate) fn long_message() -> Message {
    let mut sample = evil_message();
    let incident = &mut sample.notice.incident;
    let long = "déjà 😀 <b>&\" ".repeat(5000);
    (incident.title, incident.summary) = (long.clone(), long.clone());
    (incident.why, incident.fix) = (long.clone(), long.clone());
    (incident.root_rule, incident.host) = (long.clone(), long.clone());
    let symptom = incident.symptoms[0].clone();
    incident.symptoms = vec![SymptomLine { summary: long, ..symptom }; 20];
    incident.finding_count = 500;
    sample
}
