//! Mistakes of a policy, with the nearest name that would have been right.

use weir_actions::{Policy, PolicyProblem, QuietHours, Rota, Route, ShiftOverride, Window, check};

use crate::bench_desk::{at, person, policy};

/// `section.entry.key: message; hint`, with `!` before errors.
fn texts(policy: &Policy) -> Vec<String> {
    let each = check(policy, at(0)).into_iter();
    each.map(|PolicyProblem { section, entry, key, message, hint, is_error }| {
        let mark = if is_error { "!" } else { "" };
        format!("{mark}{section}.{entry}.{key}: {message}; {hint}")
    })
    .collect()
}

fn rota() -> Rota {
    Rota {
        name: "web".to_owned(),
        people: vec!["ada".to_owned(), "bo".to_owned()],
        zone: "Europe/Berlin".to_owned(),
        start: "2026-11-02T09:00".to_owned(),
        shift_seconds: 7 * 86_400,
        ..Rota::default()
    }
}

#[test]
fn right_policy_has_no_problem() {
    let mut policy = policy();
    policy.rotas = vec![rota()];
    policy.routes[0].page = "rota:web".to_owned();
    policy.routes[0].escalate = vec!["rota:web+1".to_owned(), "everyone".to_owned()];
    policy.people[0].quiet =
        Some(QuietHours { hours: vec!["22:00-07:00".to_owned()], zone: "UTC".to_owned() });
    assert_eq!(texts(&policy), [] as [&str; 0]);
    assert_eq!(texts(&Policy::default()), [] as [&str; 0]);
}

#[test]
fn unknown_names_are_errors_with_the_nearest_one() {
    let mut policy = policy();
    policy.rotas = vec![Rota { people: vec!["adda".to_owned(), "bo".to_owned()], ..rota() }];
    policy.routes[0].page = "rota:wbe".to_owned();
    policy.routes[0].mail = "web".to_owned();
    policy.routes[0].escalate = vec!["pagre".to_owned()];
    policy.people[1].mail = vec!["mial:bo".parse().unwrap()];
    let expected = [
        "!people.bo.mail: unknown receiver `mial`; did you mean `mail`?",
        "!rotas.web.people: unknown person `adda`; did you mean `ada`?",
        "!routes.1.page: unknown rota `wbe`; did you mean `web`?",
        "!routes.1.mail: `web` is a rota; write `rota:web`",
        "!routes.1.escalate: unknown person or receiver `pagre`; did you mean `pager`?",
        "people.ada.name: ada is in no rota; add the person to a rota's `people`, or ignore this",
    ];
    assert_eq!(texts(&policy), expected);
}

#[test]
fn times_that_cannot_be_read_are_errors_with_an_example() {
    let mut policy = policy();
    policy.people[0].quiet =
        Some(QuietHours { hours: vec!["22-7".to_owned()], ..QuietHours::default() });
    policy.rotas = vec![
        Rota { zone: "Europe/Berlim".to_owned(), name: "a".to_owned(), ..rota() },
        Rota { start: "monday".to_owned(), name: "b".to_owned(), ..rota() },
        Rota { shift_seconds: 60, name: "c".to_owned(), ..rota() },
        Rota { hours: vec!["mon 8".to_owned()], name: "d".to_owned(), ..rota() },
        Rota { people: Vec::new(), name: "e".to_owned(), ..rota() },
        Rota {
            name: "f".to_owned(),
            overrides: vec![ShiftOverride {
                person: "bo".to_owned(),
                start: "2026-12-02T00:00".to_owned(),
                end: "2026-12-01T00:00".to_owned(),
            }],
            ..rota()
        },
    ];
    policy.windows = vec![
        Window { name: "w".to_owned(), ..Window::default() },
        Window {
            name: "x".to_owned(),
            once: Some(("2026-12-02T00:00Z".to_owned(), "tomorrow".to_owned())),
            ..Window::default()
        },
        Window { name: "y".to_owned(), weekly: vec!["sunday 2am".to_owned()], ..Window::default() },
    ];
    let all = texts(&policy);
    let starts = [
        "!people.ada.quiet: `22` is no time of day such as `08:00`",
        "!rotas.a.zone: unknown time zone `Europe/Berlim`; did you mean `Europe/Berlin`?",
        "!rotas.b.start: `monday` is no local date and time",
        "!rotas.c.shift: a shift of 60 s is too short",
        "!rotas.d.hours: `8` is no time span",
        "!rotas.e.people: the rota is empty",
        "!rotas.f.overrides: override 1 has no start before its end",
        "!windows.w.weekly: the window has no time",
        "!windows.x.once: start and end are not two times in order",
        "!windows.y.weekly: `2am` is no time span",
    ];
    assert_eq!(all.len(), starts.len(), "{all:#?}");
    for (text, start) in all.iter().zip(starts) {
        assert!(text.starts_with(start), "{text} does not start with {start}");
    }
}

#[test]
fn gaps_within_seven_days_are_warnings() {
    let mut policy = policy();
    policy.rotas = vec![Rota { hours: vec!["mon-fri 08:00-20:00".to_owned()], ..rota() }];
    policy.routes[0].page = "rota:web".to_owned();
    let expected = "rotas.web.otherwise: coverage gap from 2026-11-27T19:00:00.000000Z to \
                    2026-11-30T07:00:00.000000Z; set `otherwise` to a rota or person; pages go to \
                    everyone";
    assert_eq!(texts(&policy), [expected]);
    policy.rotas[0].otherwise = Some("bo".to_owned());
    assert_eq!(texts(&policy), [] as [&str; 0]);
}

#[test]
fn names_that_mean_something_else_or_nothing_are_reported() {
    let mut policy = policy();
    policy.people.push(person("ada"));
    policy.people.push(person("everyone"));
    policy.people.push(person("pager"));
    policy.people[0].page.clear();
    policy.people[0].mail.clear();
    policy.routes.push(Route { ack_minutes: Some(0), ..Route::default() });
    let expected = [
        "!people.ada.name: `ada` occurs twice; rename one of them",
        "!people.everyone.name: `everyone` cannot be a name; `everyone`, `:` and `+` have a meaning in targets",
        "people.pager.name: `pager` is also a receiver; targets mean the person; rename one of them",
        "!people.ada.page: ada has no contact; add `page = [\"RECEIVER:ADDRESS\"]`",
        "!routes.2.ack_minutes: 0 minutes are not between 1 and 1440; 5 is usual",
        "routes.2.rules: route 1 takes every incident before this one; move the route without patterns to the end",
    ];
    assert_eq!(texts(&policy), expected);
}
