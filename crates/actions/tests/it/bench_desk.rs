//! A desk for tests that compares each decision with that of a desk restored from the documents.

use std::collections::BTreeMap;

use weir_actions::{
    Contact, Decisions, Desk, DeskError, Finding, Incident, IncidentState, Notice, NoticeKind,
    Person, Policy, Route, Urgency,
};
use weir_tables::Micros;

/// 2026-11-27 10:00 UTC, a Friday.
pub(crate) const START: i64 = 1_795_773_600;

/// A time in seconds after [`START`].
pub(crate) fn at(seconds: i64) -> Micros {
    Micros((START + seconds) * 1_000_000)
}

/// A finding of class page.
pub(crate) fn page(rule: &str, host: &str) -> Finding {
    Finding {
        finding_id: format!("{rule}/{host}"),
        rule: rule.to_owned(),
        host: host.to_owned(),
        key: "{}".to_owned(),
        tier: "app".to_owned(),
        class: Urgency::Page,
        subject: format!("{rule} on {host}"),
        summary: "refuses connections: 3 of 4".to_owned(),
        why: "why".to_owned(),
        fix: "fix".to_owned(),
        evidence: "[]".to_owned(),
        cause_finding_id: None,
    }
}

/// A finding of class mail.
pub(crate) fn mail(rule: &str, host: &str) -> Finding {
    Finding { class: Urgency::Mail, ..page(rule, host) }
}

/// A finding as a symptom of another one: a note.
pub(crate) fn symptom(of: &Finding, finding: Finding) -> Finding {
    let cause_finding_id = Some(of.finding_id.clone());
    Finding { cause_finding_id, class: Urgency::Note, ..finding }
}

/// A person with a pager and a mailbox.
pub(crate) fn person(name: &str) -> Person {
    Person {
        name: name.to_owned(),
        page: vec![contact("pager", name)],
        mail: vec![contact("mail", name)],
        quiet: None,
    }
}

fn contact(receiver: &str, address: &str) -> Contact {
    Contact { receiver: receiver.to_owned(), address: Some(address.to_owned()) }
}

/// Ada and Bo; pages go to Ada, then Bo, then everyone; mails to Bo.
pub(crate) fn policy() -> Policy {
    let route = Route {
        page: "ada".to_owned(),
        mail: "bo".to_owned(),
        escalate: vec!["ada".to_owned(), "bo".to_owned(), "everyone".to_owned()],
        ..Route::default()
    };
    Policy {
        people: vec![person("ada"), person("bo")],
        receivers: vec!["pager".to_owned(), "mail".to_owned()],
        routes: vec![route],
        ..Policy::default()
    }
}

/// A desk, its documents, and everything that was sent.
pub(crate) struct BenchDesk {
    pub(crate) desk: Desk,
    pub(crate) now: i64,
    pub(crate) firing: Vec<Finding>,
    pub(crate) sent: Vec<Notice>,
    pub(crate) last: Decisions,
    policy: Policy,
    documents: BTreeMap<(String, String), String>,
}

impl BenchDesk {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            desk: Desk::new(policy.clone()),
            now: 0,
            firing: Vec::new(),
            sent: Vec::new(),
            last: Decisions::default(),
            policy,
            documents: BTreeMap::new(),
        }
    }

    /// Documents as a program that starts reads them.
    pub(crate) fn documents(&self) -> Vec<(String, String, String)> {
        let each = self.documents.iter();
        each.map(|((kind, key), body)| (kind.clone(), key.clone(), body.clone())).collect()
    }

    /// One tick; a desk that starts just now must decide the same.
    pub(crate) fn tick(&mut self) -> Vec<Notice> {
        let mut restored = Desk::restore(self.policy.clone(), &self.documents());
        let expected = restored.tick(at(self.now), &self.firing);
        let decisions = self.desk.tick(at(self.now), &self.firing);
        assert_eq!(decisions, expected, "a restart at {} s decides otherwise", self.now);
        self.keep(decisions)
    }

    /// One tick each second; what was sent in that time.
    pub(crate) fn run(&mut self, seconds: i64) -> Vec<Notice> {
        let mut sent = Vec::new();
        for _ in 0..seconds {
            self.now += 1;
            sent.extend(self.tick());
        }
        sent
    }

    /// An act of a person.
    pub(crate) fn act(
        &mut self,
        act: impl Fn(&mut Desk, Micros) -> Result<Decisions, DeskError>,
    ) -> Result<Vec<Notice>, DeskError> {
        let mut restored = Desk::restore(self.policy.clone(), &self.documents());
        let expected = act(&mut restored, at(self.now));
        let decisions = act(&mut self.desk, at(self.now));
        assert_eq!(decisions, expected, "a restart before an act decides otherwise");
        Ok(self.keep(decisions?))
    }

    fn keep(&mut self, decisions: Decisions) -> Vec<Notice> {
        for document in &decisions.documents {
            let key = (document.kind.to_owned(), document.key.clone());
            match &document.body {
                Some(body) => {
                    assert!(body.len() <= 64 * 1024, "a document of {} bytes", body.len());
                    self.documents.insert(key, body.clone());
                }
                None => {
                    self.documents.remove(&key);
                }
            }
        }
        self.sent.extend(decisions.notices.iter().cloned());
        self.last = decisions.clone();
        decisions.notices
    }

    pub(crate) fn fire(&mut self, finding: Finding) -> Finding {
        self.end(&finding);
        self.firing.push(finding.clone());
        finding
    }

    /// Ends a finding; with its symptoms, if these are to stay, see [`Self::free`].
    pub(crate) fn end(&mut self, finding: &Finding) {
        self.firing.retain(|each| (&each.rule, &each.host) != (&finding.rule, &finding.host));
    }

    /// Ends a root whose symptoms still fire, with a class each.
    pub(crate) fn free(&mut self, root: &Finding, class: Urgency) {
        self.end(root);
        for each in &mut self.firing {
            if each.cause_finding_id.as_deref() == Some(root.finding_id.as_str()) {
                each.cause_finding_id = None;
                each.class = class;
            }
        }
    }

    /// The open incidents.
    pub(crate) fn open(&self) -> Vec<&Incident> {
        self.desk.incidents().filter(|each| each.state() == IncidentState::Open).collect()
    }

    /// Id of the only open incident.
    #[track_caller]
    pub(crate) fn only_id(&self) -> String {
        let open = self.open();
        assert_eq!(open.len(), 1, "{open:#?}");
        open[0].id().to_owned()
    }
}

/// Kind, address and change of notices.
pub(crate) fn brief(notices: &[Notice]) -> Vec<String> {
    let each = notices.iter().map(|notice| {
        let address = notice.address.as_deref().unwrap_or("-");
        format!("{} {}:{address} {}", notice.kind.as_str(), notice.receiver, notice.change)
    });
    each.collect()
}

/// How many notices are pages.
pub(crate) fn pages(notices: &[Notice]) -> usize {
    notices.iter().filter(|notice| notice.kind == NoticeKind::Page).count()
}
