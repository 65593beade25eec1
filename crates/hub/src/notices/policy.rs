//! `[[people]]`, `[[receivers]]`, `[[rotas]]`, `[[routes]]` and `[[windows]]` as the desk of incidents takes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_actions::{
    Contact, DeskSettings, Person, Policy, PolicyProblem, QuietHours, Rota, Route, Window,
};
use weir_config::Values;
use weir_config::entries::Entry;
use weir_config::place::{read_bytes, read_secret};
use weir_config::slos::SloSpec;
use weir_notify::{RECEIVERS, Receiver, ReceiverSettings, SettingError, SettingSource};
use weir_process::failure::Failure;
use weir_tables::{nearest, parse_duration};

/// Receivers by name.
pub(super) type Receivers = BTreeMap<String, Arc<dyn Receiver>>;

/// Reads all entries; what they say about each other is checked by [`weir_actions::check`].
///
/// # Errors
/// A value that cannot be read, with its line.
pub(super) fn policy(values: &Values) -> Result<Policy, Failure> {
    let entries = &values.notices;
    Ok(Policy {
        people: entries.people.iter().map(person).collect(),
        receivers: entries.receivers.iter().map(name).collect(),
        rotas: entries.rotas.iter().map(rota).collect::<Result<_, _>>()?,
        routes: owned_slos(values)
            .map(|slo| Ok(slo_route(slo)))
            .chain(entries.routes.iter().map(route))
            .collect::<Result<_, _>>()?,
        windows: entries.windows.iter().map(window).collect::<Result<_, _>>()?,
        settings: DeskSettings::default(),
    })
}

/// The failure that a problem is, with the line of its key.
pub(super) fn failure(values: &Values, problem: &PolicyProblem) -> Failure {
    let entries = &values.notices;
    let mut owners = owned_slos(values).enumerate();
    if problem.section == "routes"
        && let Some((_, slo)) = owners.find(|(number, _)| problem.entry == (number + 1).to_string())
    {
        let failure = slo.entry.key("owner").wrong(&problem.message);
        return if problem.hint.is_empty() { failure } else { failure.hint(problem.hint.clone()) };
    }
    let skipped = if problem.section == "routes" { owned_slos(values).count() } else { 0 };
    let list = match problem.section {
        "people" => &entries.people,
        "receivers" => &entries.receivers,
        "rotas" => &entries.rotas,
        "windows" => &entries.windows,
        _ => &entries.routes,
    };
    let named = |(number, entry): (usize, &Entry)| {
        let is_it = entry.text("name") == Some(problem.entry.as_str())
            || (number + skipped + 1).to_string() == problem.entry;
        is_it.then(|| entry.key(problem.key).wrong(&problem.message))
    };
    let failure = list.iter().enumerate().find_map(named);
    let failure = failure.unwrap_or_else(|| {
        Failure::new(format!("[[{}]] `{}`: {}", problem.section, problem.entry, problem.message))
    });
    if problem.hint.is_empty() { failure } else { failure.hint(problem.hint.clone()) }
}

/// Makes every receiver; reads its secrets, connects to nothing.
///
/// # Errors
/// A setting that cannot be used, with its line.
pub(super) fn receivers(values: &Values) -> Result<Receivers, Failure> {
    let entries = values.notices.receivers.iter();
    entries.map(|entry| Ok((name(entry), Arc::from(receiver(entry)?)))).collect()
}

/// Makes one receiver; reads its secrets, connects to nothing.
///
/// # Errors
/// A setting that cannot be used, with its line.
pub(super) fn receiver(entry: &Entry) -> Result<Box<dyn Receiver>, Failure> {
    let kind = entry.key("kind").required("webhook")?;
    let Some(spec) = RECEIVERS.iter().find(|spec| spec.name == kind) else {
        let names = RECEIVERS.iter().map(|spec| spec.name);
        let hint = nearest(kind, names.clone()).map_or_else(
            || format!("known are {}", names.collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        let what = format!("there is no kind of receiver `{kind}`");
        return Err(entry.key("kind").wrong(&what).hint(hint));
    };
    let is_known = |key: &&str| ["name", "kind"].contains(key) || spec.keys.contains(key);
    if let Some(key) = entry.names().find(|key| !is_known(key)) {
        let what = format!("a receiver of kind {kind} has no `{key}`");
        return Err(entry.key(key).wrong(&what).hint(format!("it has {}", spec.keys.join(", "))));
    }
    let mut numbers = BTreeMap::new();
    for key in entry.names().filter(|key| NUMBERS.contains(key)) {
        numbers.insert(key, entry.number(key, 0, 1..=1_000_000)?.to_string());
    }
    let secret = |key: &str| entry.path(key).map(|file| read_secret(&file)).transpose();
    let settings = ReceiverSettings {
        source: &EntrySettings { entry, numbers },
        token: secret("token_file")?,
        password: secret("password_file")?,
        secret: secret("secret_file")?,
        secret_url: secret("url_file")?,
        authority: entry.path("ca_file").map(|file| read_bytes(&file)).transpose()?,
    };
    (spec.read)(&settings).map_err(|error| match error {
        SettingError::Missing { key, example } => entry.key(key).missing(example),
        SettingError::Wrong { key, message, hint } => entry.key(key).wrong(&message).hint(hint),
    })
}

/// Keys of receivers that are numbers.
const NUMBERS: [&str; 2] = ["ttl_seconds", "ends_minutes"];

struct EntrySettings<'a> {
    entry: &'a Entry,
    numbers: BTreeMap<&'static str, String>,
}

impl SettingSource for EntrySettings<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.entry.text(key).or_else(|| self.numbers.get(key).map(String::as_str))
    }
}

fn name(entry: &Entry) -> String {
    text_or(entry, "name", "")
}

fn text_or(entry: &Entry, key: &str, default: &str) -> String {
    entry.text(key).unwrap_or(default).to_owned()
}

fn person(entry: &Entry) -> Person {
    let page = contacts(entry, "page");
    let mail = contacts(entry, "mail");
    Person {
        name: name(entry),
        mail: if mail.is_empty() { page.clone() } else { mail },
        page,
        quiet: entry.text("quiet").map(|hours| QuietHours {
            hours: vec![hours.to_owned()],
            zone: text_or(entry, "zone", "UTC"),
        }),
    }
}

fn contacts(entry: &Entry, key: &str) -> Vec<Contact> {
    entry.texts(key).iter().filter_map(|text| text.parse().ok()).collect()
}

fn rota(entry: &Entry) -> Result<Rota, Failure> {
    if entry.texts("people").is_empty() {
        return Err(entry.key("people").wrong("a rota has at least one person"));
    }
    let shift = parse_duration(entry.text("shift").unwrap_or("7d"));
    let shift = shift
        .map_err(|why| entry.key("shift").wrong("`shift` is no duration").hint(why.to_string()))?;
    Ok(Rota {
        name: name(entry),
        people: entry.texts("people").to_vec(),
        zone: text_or(entry, "zone", "UTC"),
        start: entry.key("start").required("2026-12-07T09:00")?.to_owned(),
        shift_seconds: shift.as_secs(),
        hours: entry.texts("hours").to_vec(),
        otherwise: entry.text("otherwise").map(str::to_owned),
        overrides: Vec::new(),
    })
}

/// SLOs that name the people of their notices.
fn owned_slos(values: &Values) -> impl Iterator<Item = &SloSpec> {
    values.slos.iter().filter(|slo| slo.owner.is_some())
}

/// The route of an SLO's own findings, before those of `[[routes]]`.
fn slo_route(slo: &SloSpec) -> Route {
    let owner = slo.owner.clone().unwrap_or_default();
    Route {
        rules: vec!["slo.burning".to_owned()],
        subjects: vec![format!("SLO {}", slo.name)],
        mail: owner.clone(),
        page: owner,
        ..Route::default()
    }
}

fn route(entry: &Entry) -> Result<Route, Failure> {
    let page = text_or(entry, "page", "everyone");
    Ok(Route {
        rules: entry.texts("rules").to_vec(),
        hosts: entry.texts("hosts").to_vec(),
        tiers: entry.texts("tiers").to_vec(),
        subjects: entry.texts("subjects").to_vec(),
        mail: text_or(entry, "mail", &page),
        page,
        escalate: entry.texts("escalate").to_vec(),
        ack_minutes: Some(u32::try_from(entry.number("ack_minutes", 5, 1..=1440)?).unwrap_or(5)),
    })
}

fn window(entry: &Entry) -> Result<Window, Failure> {
    let once = match (entry.text("from"), entry.text("to")) {
        (Some(from), Some(to)) => Some((from.to_owned(), to.to_owned())),
        (None, None) => None,
        _ => return Err(entry.key("from").wrong("`from` and `to` go together")),
    };
    if once.is_none() && entry.text("weekly").is_none() {
        return Err(entry.key("weekly").missing("sun 02:00-04:00"));
    }
    Ok(Window {
        name: name(entry),
        once,
        weekly: entry.text("weekly").map(str::to_owned).into_iter().collect(),
        zone: text_or(entry, "zone", "UTC"),
        rules: entry.texts("rules").to_vec(),
        hosts: entry.texts("hosts").to_vec(),
    })
}
