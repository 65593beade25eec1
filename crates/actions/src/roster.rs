//! From an incident to the people and receivers that are notified: route, target, contacts.
//!
//! A wrong name in the policy never loses a notice: what cannot be resolved is everybody.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use crate::Urgency;
use crate::civil_time::zone;
use crate::hours::WeeklyHours;
use crate::pattern::matches_any;
use crate::policy::{Contact, DeskSettings, Person, Policy, QuietHours, Route};
use crate::rota::{OnCall, RotaBook};
use crate::target::Target;
use crate::window::WindowPlan;

/// A receiver and address that is notified, and for which person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recipient {
    pub(crate) receiver: String,
    pub(crate) address: Option<String>,
    pub(crate) person: Option<String>,
    pub(crate) fallbacks: Vec<(String, Option<String>)>,
    pub(crate) reason: String,
    /// The highest class that went out to it.
    pub(crate) class: Urgency,
}

impl Recipient {
    /// Whether two recipients are the same mailbox.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.receiver == other.receiver && self.address == other.address
    }
}

/// The root of an incident, as routes match it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteKey<'a> {
    pub(crate) rule: &'a str,
    pub(crate) host: &'a str,
    pub(crate) tier: &'a str,
    pub(crate) subject: &'a str,
}

impl RouteKey<'_> {
    fn fits(self, route: &Route) -> bool {
        matches_any(&route.rules, self.rule)
            && matches_any(&route.hosts, self.host)
            && matches_any(&route.tiers, self.tier)
            && matches_any(&route.subjects, self.subject)
    }
}

/// The policy, with its times read.
#[derive(Clone, Debug)]
pub(crate) struct Roster {
    people: Vec<Person>,
    quiet: BTreeMap<String, WeeklyHours>,
    receivers: Vec<String>,
    routes: Vec<Route>,
    /// For each route the first one with the same targets.
    route_groups: Vec<usize>,
    pub(crate) rotas: RotaBook,
    pub(crate) windows: Vec<WindowPlan>,
    pub(crate) settings: DeskSettings,
}

/// The route without any: everybody.
static EVERYBODY: Route = Route {
    rules: Vec::new(),
    hosts: Vec::new(),
    tiers: Vec::new(),
    subjects: Vec::new(),
    page: String::new(),
    mail: String::new(),
    escalate: Vec::new(),
    ack_minutes: None,
};

impl Roster {
    pub(crate) fn compile(mut policy: Policy) -> Self {
        for person in &mut policy.people {
            person.page.retain(|contact| policy.receivers.contains(&contact.receiver));
            person.mail.retain(|contact| policy.receivers.contains(&contact.receiver));
        }
        let quiet = policy.people.iter().filter_map(|person| {
            let hours = quiet_hours(person.quiet.as_ref()?).ok()?;
            Some((person.name.clone(), hours))
        });
        Self {
            quiet: quiet.collect(),
            rotas: RotaBook::compile(&policy.rotas),
            windows: policy.windows.iter().filter_map(|w| WindowPlan::compile(w).ok()).collect(),
            people: policy.people,
            receivers: policy.receivers,
            route_groups: route_groups(&policy.routes),
            routes: policy.routes,
            settings: policy.settings,
        }
    }

    /// The first route that fits, else everybody.
    pub(crate) fn route(&self, key: RouteKey<'_>) -> &Route {
        self.routes.iter().find(|route| key.fits(route)).unwrap_or(&EVERYBODY)
    }

    /// What two roots must have in common to be one incident without a common cause: the targets of
    /// their routes. `None` is everybody.
    pub(crate) fn route_group(&self, key: RouteKey<'_>) -> Option<usize> {
        let at = self.routes.iter().position(|route| key.fits(route))?;
        self.route_groups.get(at).copied()
    }

    /// A route by its position in the configuration.
    pub(crate) fn route_at(&self, index: usize) -> Option<&Route> {
        self.routes.get(index)
    }

    /// Minutes before a route's pages escalate.
    pub(crate) fn ack_minutes(&self, route: &Route) -> u32 {
        route.ack_minutes.unwrap_or(self.settings.ack_minutes).max(1)
    }

    /// The recipients of a target; never none while there is a receiver.
    pub(crate) fn recipients(&self, target: &str, class: Urgency, now: Micros) -> Vec<Recipient> {
        let found = match Target::parse(target) {
            Target::Everyone => Vec::new(),
            Target::Named(name) => self.named(name, class),
            Target::Rota { name, ahead } => self.of_rota(name, ahead, class, now),
        };
        if !found.is_empty() {
            return found;
        }
        let reason = match Target::parse(target) {
            Target::Everyone => "everyone is notified".to_owned(),
            Target::Named(name) => format!("`{name}` has no contact, so everyone is notified"),
            Target::Rota { name, .. } => {
                format!("rota {name} reaches no one: everyone is notified")
            }
        };
        self.everyone(class, &reason)
    }

    /// People on call for a target.
    pub(crate) fn on_call_people(&self, target: &str, now: Micros) -> Vec<String> {
        match Target::parse(target) {
            Target::Rota { name, ahead } => {
                turn(&self.rotas.on_call(name, now), ahead).map(str::to_owned).into_iter().collect()
            }
            Target::Named(name) if self.person(name).is_some() => vec![name.to_owned()],
            Target::Named(_) | Target::Everyone => Vec::new(),
        }
    }

    /// When a person's quiet hours end; `None` outside of them.
    pub(crate) fn quiet_until(&self, person: Option<&str>, now: Micros) -> Option<Micros> {
        self.quiet.get(person?)?.end(now)
    }

    pub(crate) fn person(&self, name: &str) -> Option<&Person> {
        self.people.iter().find(|person| person.name == name)
    }

    /// Names of the receivers.
    pub(crate) fn receivers(&self) -> impl Iterator<Item = &str> {
        self.receivers.iter().map(String::as_str)
    }

    pub(crate) fn has_receiver(&self, name: &str) -> bool {
        self.receivers.iter().any(|receiver| receiver == name)
    }

    fn everyone(&self, class: Urgency, reason: &str) -> Vec<Recipient> {
        let mut found = Vec::new();
        for person in &self.people {
            if let Some(recipient) = recipient_of(person, class, reason) {
                add(&mut found, recipient);
            }
        }
        if found.is_empty() {
            let receivers = self.receivers.iter();
            found.extend(receivers.map(|name| recipient_at(name, class, reason)));
        }
        found
    }

    fn named(&self, name: &str, class: Urgency) -> Vec<Recipient> {
        if let Some(person) = self.person(name) {
            let reason = format!("the route names {name}");
            return recipient_of(person, class, &reason).into_iter().collect();
        }
        if self.has_receiver(name) {
            return vec![recipient_at(name, class, &format!("the route names receiver {name}"))];
        }
        Vec::new()
    }

    fn of_rota(&self, rota: &str, ahead: usize, class: Urgency, now: Micros) -> Vec<Recipient> {
        let duty = self.rotas.on_call(rota, now);
        let Some(name) = turn(&duty, ahead) else { return Vec::new() };
        let reason = match ahead {
            0 => format!("{name} is on call for rota {rota}"),
            _ => format!("{name} is on call after {ahead} for rota {rota}"),
        };
        let person = self.person(name);
        person.and_then(|person| recipient_of(person, class, &reason)).into_iter().collect()
    }
}

/// For each route the position of the first one with the same targets.
fn route_groups(routes: &[Route]) -> Vec<usize> {
    let first = routes.iter().map(|route| {
        let is_same = |other: &Route| {
            (&other.page, &other.mail, &other.escalate, other.ack_minutes)
                == (&route.page, &route.mail, &route.escalate, route.ack_minutes)
        };
        routes.iter().position(is_same).unwrap_or_default()
    });
    first.collect()
}

/// Adds a recipient, unless its mailbox is in the list.
pub(crate) fn add(list: &mut Vec<Recipient>, recipient: Recipient) {
    match list.iter_mut().find(|known| known.is_same(&recipient)) {
        Some(known) => known.class = known.class.max(recipient.class),
        None => list.push(recipient),
    }
}

/// The hours of a person's quiet time.
pub(crate) fn quiet_hours(quiet: &QuietHours) -> Result<WeeklyHours, String> {
    let zone = zone(&quiet.zone).ok_or_else(|| format!("unknown time zone `{}`", quiet.zone))?;
    WeeklyHours::parse(&quiet.hours, zone)
}

/// The person whose turn is `ahead` after the one on call.
fn turn(duty: &OnCall, ahead: usize) -> Option<&str> {
    let person = duty.person.as_deref()?;
    let turns: Vec<&str> =
        std::iter::once(person).chain(duty.following.iter().map(String::as_str)).collect();
    Some(turns[ahead % turns.len()])
}

/// A person's first contact for a class, with the others as fallbacks.
fn recipient_of(person: &Person, class: Urgency, reason: &str) -> Option<Recipient> {
    let (first, second) = match class {
        Urgency::Page => (&person.page, &person.mail),
        Urgency::Mail | Urgency::Note => (&person.mail, &person.page),
    };
    // A mail does not fall back to a pager; only a person without mail gets it there.
    let is_enough = class < Urgency::Page && !first.is_empty();
    let second: &[Contact] = if is_enough { &[] } else { second };
    let mut contacts: Vec<&Contact> = Vec::new();
    for contact in first.iter().chain(second) {
        if !contacts.contains(&contact) {
            contacts.push(contact);
        }
    }
    let (chosen, others) = contacts.split_first()?;
    let others = others.iter();
    Some(Recipient {
        receiver: chosen.receiver.clone(),
        address: chosen.address.clone(),
        person: Some(person.name.clone()),
        fallbacks: others.map(|other| (other.receiver.clone(), other.address.clone())).collect(),
        reason: reason.to_owned(),
        class,
    })
}

fn recipient_at(receiver: &str, class: Urgency, reason: &str) -> Recipient {
    Recipient {
        receiver: receiver.to_owned(),
        address: None,
        person: None,
        fallbacks: Vec::new(),
        reason: reason.to_owned(),
        class,
    }
}
