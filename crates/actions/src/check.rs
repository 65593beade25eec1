//! Mistakes of a policy: unknown names, times that cannot be read, gaps in rotas.

use std::collections::BTreeSet;

use weir_tables::{Micros, nearest};

use crate::civil_time::{DAY, nearest_zone};
use crate::policy::{Contact, Person, Policy, Rota, Route, Window};
use crate::roster::quiet_hours;
use crate::rota::{RotaBook, RotaFault, RotaPlan};
use crate::target::Target;
use crate::window::{WindowFault, WindowPlan};

/// Rotas are searched for gaps this far ahead.
const GAP_AHEAD_US: i64 = 7 * DAY;

/// A mistake in the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// `people`, `receivers`, `rotas`, `routes` or `windows`.
    pub section: &'static str,
    /// Name of the entry; a route's position, from 1.
    pub entry: String,
    /// The key.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// Whether it must be refused; else it is a warning.
    pub is_error: bool,
}

/// All mistakes of a policy; gaps of rotas are those of the seven days from `now`.
pub fn check(policy: &Policy, now: Micros) -> Vec<PolicyProblem> {
    let mut check = PolicyCheck { policy, now, problems: Vec::new() };
    check.check_names();
    for person in &policy.people {
        check.check_person(person);
    }
    for rota in &policy.rotas {
        check.check_rota(rota);
    }
    check.check_routes();
    for window in &policy.windows {
        check.check_window(window);
    }
    check.check_duties();
    check.check_gaps();
    check.problems
}

/// The entry and key that are checked.
#[derive(Clone, Copy)]
struct EntryKey<'a> {
    section: &'static str,
    entry: &'a str,
    key: &'static str,
}

struct PolicyCheck<'a> {
    policy: &'a Policy,
    now: Micros,
    problems: Vec<PolicyProblem>,
}

impl PolicyCheck<'_> {
    fn add(&mut self, at: EntryKey<'_>, message: String, hint: impl Into<String>) {
        let EntryKey { section, entry, key } = at;
        let (entry, hint) = (entry.to_owned(), hint.into());
        self.problems.push(PolicyProblem { section, entry, key, message, hint, is_error: true });
    }

    fn warn(&mut self, at: EntryKey<'_>, message: String, hint: impl Into<String>) {
        self.add(at, message, hint);
        if let Some(problem) = self.problems.last_mut() {
            problem.is_error = false;
        }
    }

    /// Names that are empty, occur twice, or are reserved.
    fn check_names(&mut self) {
        let policy = self.policy;
        let sections: [(&'static str, Vec<&str>); 4] = [
            ("people", policy.people.iter().map(|each| each.name.as_str()).collect()),
            ("receivers", policy.receivers.iter().map(String::as_str).collect()),
            ("rotas", policy.rotas.iter().map(|each| each.name.as_str()).collect()),
            ("windows", policy.windows.iter().map(|each| each.name.as_str()).collect()),
        ];
        for (section, names) in sections {
            let mut seen = BTreeSet::new();
            for name in names {
                let at = EntryKey { section, entry: name, key: "name" };
                if name.is_empty() {
                    self.add(at, "the name is empty".to_owned(), "name it");
                } else if name == "everyone" || name.contains([':', '+']) {
                    let hint = "`everyone`, `:` and `+` have a meaning in targets";
                    self.add(at, format!("`{name}` cannot be a name"), hint);
                } else if !seen.insert(name) {
                    self.add(at, format!("`{name}` occurs twice"), "rename one of them");
                }
            }
        }
        for person in policy.people.iter().filter(|each| policy.receivers.contains(&each.name)) {
            let at = EntryKey { section: "people", entry: &person.name, key: "name" };
            let message = format!("`{}` is also a receiver; targets mean the person", person.name);
            self.warn(at, message, "rename one of them");
        }
    }

    fn check_person(&mut self, person: &Person) {
        let (section, entry) = ("people", person.name.as_str());
        if person.page.is_empty() && person.mail.is_empty() {
            let at = EntryKey { section, entry, key: "page" };
            let hint = "add `page = [\"RECEIVER:ADDRESS\"]`";
            self.add(at, format!("{entry} has no contact"), hint);
        }
        self.check_contacts(EntryKey { section, entry, key: "page" }, &person.page);
        self.check_contacts(EntryKey { section, entry, key: "mail" }, &person.mail);
        if let Some(Err(why)) = person.quiet.as_ref().map(quiet_hours) {
            let hint = "`{ hours = [\"22:00-07:00\"], zone = \"Europe/Berlin\" }`";
            self.add(EntryKey { section, entry, key: "quiet" }, why, hint);
        }
    }

    fn check_contacts(&mut self, at: EntryKey<'_>, contacts: &[Contact]) {
        for contact in contacts {
            let receivers: Vec<&str> = self.policy.receivers.iter().map(String::as_str).collect();
            self.check_known(at, &contact.receiver, "receiver", &receivers);
        }
    }

    fn check_known(&mut self, at: EntryKey<'_>, name: &str, kind: &str, known: &[&str]) {
        if known.contains(&name) {
            return;
        }
        let hint = match nearest(name, known.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("known: {}", known.join(", ")),
        };
        self.add(at, format!("unknown {kind} `{name}`"), hint);
    }

    fn check_person_name(&mut self, at: EntryKey<'_>, name: &str) {
        let people: Vec<&str> = self.policy.people.iter().map(|each| each.name.as_str()).collect();
        self.check_known(at, name, "person", &people);
    }

    fn check_rota(&mut self, rota: &Rota) {
        let (section, entry) = ("rotas", rota.name.as_str());
        for person in &rota.people {
            self.check_person_name(EntryKey { section, entry, key: "people" }, person);
        }
        for each in &rota.overrides {
            self.check_person_name(EntryKey { section, entry, key: "overrides" }, &each.person);
        }
        if let Some(otherwise) = &rota.otherwise {
            let name = otherwise.strip_prefix("rota:").unwrap_or(otherwise);
            let rotas = self.policy.rotas.iter().map(|each| each.name.as_str());
            let people = self.policy.people.iter().map(|each| each.name.as_str());
            let known: Vec<&str> = rotas.chain(people).collect();
            let at = EntryKey { section, entry, key: "otherwise" };
            self.check_known(at, name, "rota or person", &known);
        }
        let Err(fault) = RotaPlan::compile(rota) else { return };
        let (key, message, hint) = rota_fault(rota, &fault);
        self.add(EntryKey { section, entry, key }, message, hint);
    }

    fn check_routes(&mut self) {
        let routes = &self.policy.routes;
        for (index, route) in routes.iter().enumerate() {
            let entry = (index + 1).to_string();
            let targets = [("page", &route.page), ("mail", &route.mail)].into_iter();
            let escalate = route.escalate.iter().map(|target| ("escalate", target));
            for (key, target) in targets.chain(escalate) {
                self.check_target(EntryKey { section: "routes", entry: &entry, key }, target);
            }
            if let Some(minutes @ (0 | 1_441..)) = route.ack_minutes {
                let at = EntryKey { section: "routes", entry: &entry, key: "ack_minutes" };
                let message = format!("{minutes} minutes are not between 1 and 1440");
                self.add(at, message, "5 is usual");
            }
            if let Some(first) = routes[..index].iter().position(takes_all) {
                let at = EntryKey { section: "routes", entry: &entry, key: "rules" };
                let message = format!("route {} takes every incident before this one", first + 1);
                self.warn(at, message, "move the route without patterns to the end");
            }
        }
    }

    fn check_target(&mut self, at: EntryKey<'_>, target: &str) {
        let rotas: Vec<&str> = self.policy.rotas.iter().map(|each| each.name.as_str()).collect();
        match Target::parse(target) {
            Target::Everyone => {}
            Target::Rota { name, .. } => self.check_known(at, name, "rota", &rotas),
            Target::Named(name) if rotas.contains(&name) => {
                let message = format!("`{name}` is a rota");
                self.add(at, message, format!("write `rota:{name}`"));
            }
            Target::Named(name) => {
                let people = self.policy.people.iter().map(|each| each.name.as_str());
                let receivers = self.policy.receivers.iter().map(String::as_str);
                let known: Vec<&str> = people.chain(receivers).chain(["everyone"]).collect();
                self.check_known(at, name, "person or receiver", &known);
            }
        }
    }

    fn check_window(&mut self, window: &Window) {
        let (section, entry) = ("windows", window.name.as_str());
        if window.once.is_none() && window.weekly.is_empty() {
            let at = EntryKey { section, entry, key: "weekly" };
            self.add(at, "the window has no time".to_owned(), "`weekly = [\"sun 02:00-04:00\"]`");
        }
        let Err(fault) = WindowPlan::compile(window) else { return };
        let (key, message, hint) = match fault {
            WindowFault::Zone => ("zone", zone_message(&window.zone), zone_hint(&window.zone)),
            WindowFault::Once => (
                "once",
                "start and end are not two times in order".to_owned(),
                "`[\"2026-12-07T22:00:00Z\", \"2026-12-08T02:00:00Z\"]`".to_owned(),
            ),
            WindowFault::Weekly(why) => ("weekly", why, "`sun 02:00-04:00`".to_owned()),
        };
        self.add(EntryKey { section, entry, key }, message, hint);
    }

    /// People in no rota, where there are rotas.
    fn check_duties(&mut self) {
        let policy = self.policy;
        if policy.rotas.is_empty() {
            return;
        }
        for person in &policy.people {
            if !policy.rotas.iter().any(|rota| has_duty(rota, &person.name)) {
                let at = EntryKey { section: "people", entry: &person.name, key: "name" };
                let message = format!("{} is in no rota", person.name);
                self.warn(at, message, "add the person to a rota's `people`, or ignore this");
            }
        }
    }

    /// Rotas of routes with a gap within seven days.
    fn check_gaps(&mut self) {
        let policy = self.policy;
        let book = RotaBook::compile(&policy.rotas);
        let targets = policy
            .routes
            .iter()
            .flat_map(|route| [&route.page, &route.mail].into_iter().chain(&route.escalate));
        let rotas: BTreeSet<&str> = targets
            .filter_map(|target| match Target::parse(target) {
                Target::Rota { name, .. } => Some(name),
                _ => None,
            })
            .collect();
        for rota in policy.rotas.iter().filter(|rota| rotas.contains(rota.name.as_str())) {
            let Some((start, end)) = first_gap(&book, &rota.name, self.now) else { continue };
            let key = if rota.hours.is_empty() { "start" } else { "otherwise" };
            let at = EntryKey { section: "rotas", entry: &rota.name, key };
            let message = format!("coverage gap from {start} to {end}");
            self.warn(at, message, "set `otherwise` to a rota or person; pages go to everyone");
        }
    }
}

/// The first gap of a rota within seven days.
fn first_gap(book: &RotaBook, rota: &str, now: Micros) -> Option<(Micros, Micros)> {
    let mut at = now;
    while at.0 < now.0 + GAP_AHEAD_US {
        let duty = book.on_call(rota, at);
        if duty.person.is_none() {
            return Some((at, duty.until));
        }
        at = duty.until;
    }
    None
}

/// Whether a person can be on call by a rota.
fn has_duty(rota: &Rota, person: &str) -> bool {
    rota.people.iter().any(|name| name == person) || rota.otherwise.as_deref() == Some(person)
}

fn takes_all(route: &Route) -> bool {
    [&route.rules, &route.hosts, &route.tiers, &route.subjects].into_iter().all(Vec::is_empty)
}

fn zone_message(zone: &str) -> String {
    format!("unknown time zone `{zone}`")
}

fn zone_hint(zone: &str) -> String {
    match nearest_zone(zone) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "a name of the IANA database: `Europe/Berlin`, `UTC`".to_owned(),
    }
}

/// Key, message and hint of a rota's fault.
fn rota_fault(rota: &Rota, fault: &RotaFault) -> (&'static str, String, String) {
    match fault {
        RotaFault::Zone => ("zone", zone_message(&rota.zone), zone_hint(&rota.zone)),
        RotaFault::Start => (
            "start",
            format!("`{}` is no local date and time", rota.start),
            "`2026-12-07T09:00`, without a zone".to_owned(),
        ),
        RotaFault::Shift => (
            "shift",
            format!("a shift of {} s is too short", rota.shift_seconds),
            "`7d`, `1d` or `12h`; one hour at least".to_owned(),
        ),
        RotaFault::People => {
            ("people", "the rota is empty".to_owned(), "list the people in turn".to_owned())
        }
        RotaFault::Hours(why) => ("hours", why.clone(), "`mon-fri 08:00-20:00`".to_owned()),
        RotaFault::Override(index) => (
            "overrides",
            format!("override {} has no start before its end", index + 1),
            "`2026-12-24T09:00` in the rota's zone, or RFC 3339".to_owned(),
        ),
    }
}
