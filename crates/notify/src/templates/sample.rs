//! A message as an incident would make it, to try templates on.

use weir_actions::{IncidentSummary, Notice, NoticeKind, SymptomLine, Urgency};

use crate::receiver::{ActLink, Message};

const SECOND: i64 = 1_000_000;
/// 2026-11-30 in microseconds since 1970.
const OPENED_US: i64 = 1_795_996_800 * SECOND;

/// A message of this kind about an application that refuses connections.
pub fn sample_message(kind: NoticeKind) -> Message {
    let link =
        ActLink { url: "https://weir.example.net/a/0af1".to_owned(), pin: "4711".to_owned() };
    Message {
        notice: Notice {
            id: "0123456789abcdef0123456789abcdef".to_owned(),
            kind,
            receiver: "sample".to_owned(),
            address: None,
            person: Some("ada".to_owned()),
            fallbacks: Vec::new(),
            due_us: OPENED_US,
            expires_us: OPENED_US + 86_400 * SECOND,
            order: 1,
            reason: "ada is on call for rota web".to_owned(),
            change: "opened".to_owned(),
            on_call: vec!["ada".to_owned(), "bo".to_owned()],
            incident: incident(kind),
        },
        is_repeat: false,
        thread: None,
        page_url: "https://weir.example.net".to_owned(),
        now_us: OPENED_US + SECOND,
        act_link: Some(link),
        templates: None,
    }
}

fn incident(kind: NoticeKind) -> IncidentSummary {
    let symptoms = [("web1", 30), ("web2", 29)].map(|(host, share)| SymptomLine {
        rule: "proxy.bad_gateway".to_owned(),
        host: host.to_owned(),
        summary: format!("{share} % of requests fail"),
    });
    let is_over = kind == NoticeKind::Resolved;
    IncidentSummary {
        id: "4K7QX2".to_owned(),
        class: if kind == NoticeKind::Mail { Urgency::Mail } else { Urgency::Page },
        root_rule: "app.down".to_owned(),
        host: "web3".to_owned(),
        tier: "app".to_owned(),
        subject: "10.0.0.7:8080".to_owned(),
        title: "web3 app.down 10.0.0.7:8080 refuses connections (+2 behind)".to_owned(),
        summary: "10.0.0.7:8080 refuses connections: 12 of 40 requests (30 %) failed in 15 s"
            .to_owned(),
        why: "Clients get 502.".to_owned(),
        fix: "Restart shop.service, then read its log.".to_owned(),
        evidence: r#"[{"upstream":"10.0.0.7:8080","failed":12,"requests":40}]"#.to_owned(),
        symptoms: symptoms.to_vec(),
        finding_count: 3,
        host_count: 3,
        opened_us: OPENED_US,
        resolved_us: is_over.then_some(OPENED_US + 90 * SECOND),
        acked_by: (kind == NoticeKind::Ack).then(|| "ada".to_owned()),
    }
}
