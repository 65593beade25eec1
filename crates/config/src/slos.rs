//! `[[slos]]`: what share of requests or checks has to be good, and over how long (docs/slo.md).

use weir_process::failure::Failure;
use weir_tables::{nearest, parse_duration};

use super::entries::{Entry, EntryKind, EntryList, KeyDefault, key};

const NONE: KeyDefault = KeyDefault::Shown("*none*");
const ALL: KeyDefault = KeyDefault::Shown("*all*");
const DAY_SECONDS: u64 = 86_400;
/// Shortest and longest window, in days: the slow burn rate needs three days, and the files are kept for so long.
const WINDOW_DAYS: std::ops::RangeInclusive<u64> = 7..=90;

/// Keys of SLOs.
pub const SLOS: EntryList = EntryList {
    section: "slos",
    doc: "Service level objectives: the share of requests or checks that has to be good. The hub counts them each minute \
        and reports a budget that is spent too fast (docs/slo.md).",
    keys: &[
        key(
            "name",
            EntryKind::Text,
            KeyDefault::Required,
            "unique name: letters, digits, `-`, `_` and `.`",
        ),
        key(
            "kind",
            EntryKind::Text,
            KeyDefault::Shown("`\"availability\"`"),
            "what is good: `availability`: requests without an error of the server (5xx); `latency`: requests answered within `below`; `checks`: checks that are `ok` or `warn`",
        ),
        key(
            "objective",
            EntryKind::Decimal,
            KeyDefault::Required,
            "per cent that has to be good: `99.9`",
        ),
        key(
            "window",
            EntryKind::Text,
            KeyDefault::Shown("`\"30d\"`"),
            "the time over which it has to hold, rolling: whole days, 7 to 90",
        ),
        key(
            "site",
            EntryKind::Text,
            ALL,
            "requests for this host name, `*` for any text: `*.example.org`",
        ),
        key("pool", EntryKind::Text, ALL, "requests for this pool, `*` for any text"),
        key("path", EntryKind::Text, ALL, "requests with this path, `*` for any text: `/api/*`"),
        key(
            "tier",
            EntryKind::Text,
            KeyDefault::Shown("`\"proxy\"`"),
            "the tier whose records are counted: `proxy`, `edge` or `app`; each sees the same request once",
        ),
        key("below", EntryKind::Text, NONE, "`latency`: the longest good duration: `\"300ms\"`"),
        key(
            "checks",
            EntryKind::Texts,
            ALL,
            "`checks`: names of checks and probes, `*` for any text",
        ),
        key("target", EntryKind::Text, ALL, "`checks`: the checked URL, address or name"),
        key(
            "owner",
            EntryKind::Text,
            NONE,
            "where pages and mails about this SLO go, before any route: `rota:NAME`, a person, a receiver or `everyone`",
        ),
    ],
};

/// What is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SloKind {
    /// Requests without an error of the server.
    Availability,
    /// Requests that are answered in time.
    Latency,
    /// Checks that succeed.
    Checks,
}

/// Names and kinds.
const KINDS: [(&str, SloKind); 3] = [
    ("availability", SloKind::Availability),
    ("latency", SloKind::Latency),
    ("checks", SloKind::Checks),
];
const TIERS: [&str; 3] = ["proxy", "edge", "app"];
/// Keys that only some kinds have.
const KEYS_OF_KINDS: [(&str, &[SloKind]); 7] = [
    ("site", REQUESTS),
    ("pool", REQUESTS),
    ("path", REQUESTS),
    ("tier", REQUESTS),
    ("below", &[SloKind::Latency]),
    ("checks", &[SloKind::Checks]),
    ("target", &[SloKind::Checks]),
];
const REQUESTS: &[SloKind] = &[SloKind::Availability, SloKind::Latency];

impl SloKind {
    /// The value of `kind`.
    pub fn as_str(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// One objective.
#[derive(Clone, Debug)]
pub struct SloSpec {
    /// Its name.
    pub name: String,
    /// What is good.
    pub kind: SloKind,
    /// Share that may fail: 0.001.
    pub allowed_ratio: f64,
    /// Days of the rolling window.
    pub window_days: u64,
    /// Pattern of the requested host name.
    pub site: Option<String>,
    /// Pattern of the pool.
    pub pool: Option<String>,
    /// Pattern of the path.
    pub path: Option<String>,
    /// The tier whose records are counted.
    pub tier: String,
    /// The longest good duration in seconds; only of `latency`.
    pub below_seconds: Option<f64>,
    /// Patterns of checks.
    pub checks: Vec<String>,
    /// The checked target.
    pub target: Option<String>,
    /// Where notices go.
    pub owner: Option<String>,
    /// The keys of the entry.
    pub entry: Entry,
}

impl SloSpec {
    /// Share that has to be good: 0.999.
    pub fn objective_ratio(&self) -> f64 {
        rounded(1.0 - self.allowed_ratio)
    }

    /// What is counted, in words; another text is another history.
    pub fn definition(&self) -> String {
        let mut words = match (self.kind, self.below_seconds) {
            (SloKind::Latency, Some(below)) => vec![format!("latency below {below} s")],
            (kind, _) => vec![kind.as_str().to_owned()],
        };
        let parts = [
            ("site", self.site.as_ref()),
            ("pool", self.pool.as_ref()),
            ("path", self.path.as_ref()),
            ("target", self.target.as_ref()),
        ];
        if self.kind == SloKind::Checks {
            words.extend((!self.checks.is_empty()).then(|| self.checks.join(" ")));
        } else {
            words.push(format!("tier {}", self.tier));
        }
        let named = parts.into_iter().filter_map(|(name, text)| Some(format!("{name} {}", text?)));
        words.extend(named);
        words.join(", ")
    }
}

/// Without the noise of decimals that have no exact binary form: 0.001 and not 0.000999….
fn rounded(ratio: f64) -> f64 {
    (ratio * 1e9).round() / 1e9
}

/// Adds an entry.
///
/// # Errors
/// What is wrong with it, with its line.
pub(super) fn add(slos: &mut Vec<SloSpec>, entry: Entry) -> Result<(), Failure> {
    let new = of(entry)?;
    if slos.iter().any(|other| other.name == new.name) {
        let what = format!("there are two SLOs `{}`", new.name);
        return Err(new.entry.key("name").wrong(&what).hint("counts are kept under the name"));
    }
    slos.push(new);
    Ok(())
}

fn of(entry: Entry) -> Result<SloSpec, Failure> {
    let name = entry.key("name").required("shop-availability")?.to_owned();
    if name.len() > 64 || !name.bytes().all(is_plain) {
        let what = "`name` may have letters, digits, `-`, `_` and `.`, at most 64";
        return Err(entry.key("name").wrong(what));
    }
    let kind = kind(&entry)?;
    let is_foreign = |known: &str| {
        let kinds = KEYS_OF_KINDS.iter().find(|(name, _)| *name == known);
        kinds.is_some_and(|(_, kinds)| !kinds.contains(&kind))
    };
    if let Some(foreign) = entry.names().find(|known| is_foreign(known)) {
        let what = format!("an SLO of kind `{}` has no `{foreign}`", kind.as_str());
        return Err(entry.key(foreign).wrong(&what).hint("docs/slo.md has the keys of each kind"));
    }
    let below_seconds = if kind == SloKind::Latency { Some(below(&entry)?) } else { None };
    let text = |name: &str| entry.text(name).filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(SloSpec {
        allowed_ratio: allowed_ratio(&entry)?,
        window_days: window_days(&entry)?,
        site: text("site").map(|site| site.to_lowercase()),
        pool: text("pool"),
        path: text("path"),
        tier: tier(&entry)?.to_owned(),
        below_seconds,
        checks: entry.texts("checks").to_vec(),
        target: text("target"),
        owner: text("owner"),
        name,
        kind,
        entry,
    })
}

fn kind(entry: &Entry) -> Result<SloKind, Failure> {
    let text = entry.text("kind").unwrap_or("availability");
    let names = KINDS.map(|(name, _)| name);
    let known = KINDS.iter().find(|(name, _)| *name == text);
    known.map(|(_, kind)| *kind).ok_or_else(|| unknown(entry, "kind", &names))
}

fn tier(entry: &Entry) -> Result<&'static str, Failure> {
    let text = entry.text("tier").unwrap_or("proxy");
    let known = TIERS.into_iter().find(|tier| *tier == text);
    known.ok_or_else(|| unknown(entry, "tier", &TIERS))
}

fn unknown(entry: &Entry, name: &'static str, known: &[&str]) -> Failure {
    let text = entry.text(name).unwrap_or_default();
    let hint = nearest(text, known.iter().copied()).map_or_else(
        || format!("known are {}", known.join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    entry.key(name).wrong(&format!("an SLO has no {name} `{text}`")).hint(hint)
}

/// The share that may fail. 100 % leaves nothing to fail, so that every burn rate would be infinite.
fn allowed_ratio(entry: &Entry) -> Result<f64, Failure> {
    let Some(objective) = entry.decimal("objective") else {
        return Err(entry.key("objective").missing("99.9").hint("objective = 99.9"));
    };
    if (50.0..100.0).contains(&objective) {
        // At 99.9999999 the rounding would leave nothing.
        return Ok(rounded(1.0 - objective / 100.0).max(1e-9));
    }
    let (what, hint) = if objective == 100.0 {
        (
            "an objective of 100 % leaves no request that may fail",
            "write how much has to be good, such as 99.9",
        )
    } else if objective > 0.0 && objective <= 1.0 {
        ("`objective` is per cent and not a share", "write 99.9 for 99.9 %")
    } else {
        ("`objective` must be from 50 to below 100 per cent", "write 99.9 for 99.9 %")
    };
    Err(entry.key("objective").wrong(what).hint(hint))
}

fn window_days(entry: &Entry) -> Result<u64, Failure> {
    let text = entry.text("window").unwrap_or("30d");
    let seconds = parse_duration(text).map(|window| window.as_secs());
    let seconds = seconds.map_err(|why| {
        entry.key("window").wrong(&format!("`{text}` is no duration")).hint(why.to_string())
    })?;
    let days = seconds / DAY_SECONDS;
    if seconds % DAY_SECONDS == 0 && WINDOW_DAYS.contains(&days) {
        return Ok(days);
    }
    let what = format!("`window` must be whole days from 7 to 90, and is `{text}`");
    Err(entry.key("window").wrong(&what).hint("window = \"30d\""))
}

fn below(entry: &Entry) -> Result<f64, Failure> {
    let text = entry.key("below").required("300ms")?;
    let below = parse_duration(text).ok().filter(|below| !below.is_zero());
    let below = below.ok_or_else(|| {
        let what = format!("`{text}` is no duration");
        entry.key("below").wrong(&what).hint("write it as 300ms, 1.5s or 2s")
    })?;
    Ok(below.as_secs_f64())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use crate::Config;

    fn check(block: &str, expected: &Expect) {
        let answer = match Config::read(Path::new("weir.toml"), &format!("[[slos]]\n{block}")) {
            Ok(config) => {
                let slo = &config.values.slos[0];
                let (name, definition) = (&slo.name, slo.definition());
                let (allowed, days) = (slo.allowed_ratio, slo.window_days);
                format!("{name}: {definition}; {allowed} may fail in {days} d; {:?}", slo.owner)
            }
            Err(failure) => failure.to_string(),
        };
        expected.assert_eq(&answer);
    }

    #[test]
    fn objective_of_a_site_needs_a_name_and_per_cent() {
        check(
            "name = \"shop\"\nobjective = 99.9\nsite = \"Shop.example.org\"\nowner = \"rota:web\"\n",
            &expect![[
                r#"shop: availability, tier proxy, site shop.example.org; 0.001 may fail in 30 d; Some("rota:web")"#
            ]],
        );
        check(
            "name = \"api\"\nkind = \"latency\"\nbelow = \"300ms\"\nobjective = 99\nwindow = \"28d\"\npath = \"/api/*\"\ntier = \"edge\"\n",
            &expect![[
                r#"api: latency below 0.3 s, tier edge, path /api/*; 0.01 may fail in 28 d; None"#
            ]],
        );
        check(
            "name = \"login\"\nkind = \"checks\"\nchecks = [\"login*\"]\nobjective = 99.95\ntarget = \"https://x/\"\n",
            &expect![[
                r#"login: checks, login*, target https://x/; 0.0005 may fail in 30 d; None"#
            ]],
        );
    }

    /// OpenSLO/OpenSLO#155 (a share is taken for per cent), elastic/kibana#144823 (100 % divides by
    /// zero).
    #[test]
    fn objectives_that_leave_no_budget_or_are_shares_are_refused() {
        check(
            "name = \"shop\"\nobjective = 0.999\n",
            &expect![[r#"
                cannot use weir.toml:3: `objective` is per cent and not a share
                hint: write 99.9 for 99.9 %"#]],
        );
        check(
            "name = \"shop\"\nobjective = 100\n",
            &expect![[r#"
                cannot use weir.toml:3: an objective of 100 % leaves no request that may fail
                hint: write how much has to be good, such as 99.9"#]],
        );
        check(
            "name = \"shop\"\nobjective = 120.5\n",
            &expect![[r#"
                cannot use weir.toml:3: `objective` must be from 50 to below 100 per cent
                hint: write 99.9 for 99.9 %"#]],
        );
        check(
            "name = \"shop\"\nobjective = \"99.9\"\n",
            &expect![[r#"
                cannot use weir.toml:3: `slos.objective` must be a number such as 99.9
                hint: per cent that has to be good: `99.9`"#]],
        );
        check(
            "name = \"shop\"\n",
            &expect![[r#"
                cannot use weir.toml:1: `[[slos]]` has no `objective`
                hint: objective = 99.9"#]],
        );
    }

    #[test]
    fn mistakes_are_refused_with_line_and_what_would_be_right() {
        check(
            "name = \"shop\"\nobjective = 99\nwindow = \"1d\"\n",
            &expect![[r#"
                cannot use weir.toml:4: `window` must be whole days from 7 to 90, and is `1d`
                hint: window = "30d""#]],
        );
        check(
            "name = \"shop\"\nobjective = 99\nwindow = \"1 month\"\n",
            &expect![[r#"
                cannot use weir.toml:4: `1 month` is no duration
                hint: months and years vary in length: write days, such as 30d"#]],
        );
        check(
            "name = \"shop\"\nobjective = 99\nkind = \"latenzy\"\n",
            &expect![[r#"
                cannot use weir.toml:4: an SLO has no kind `latenzy`
                hint: did you mean `latency`?"#]],
        );
        check(
            "name = \"shop\"\nobjective = 99\nkind = \"latency\"\n",
            &expect![[r#"
                cannot use weir.toml:1: `[[slos]]` has no `below`
                hint: below = "300ms""#]],
        );
        check(
            "name = \"shop\"\nobjective = 99\nbelow = \"300ms\"\n",
            &expect![[r#"
                cannot use weir.toml:4: an SLO of kind `availability` has no `below`
                hint: docs/slo.md has the keys of each kind"#]],
        );
        check(
            "name = \"shop\"\nobjective = 99\nsit = \"x\"\n",
            &expect![[r#"
                cannot use weir.toml:4: unknown key `slos.sit`
                hint: did you mean `site`?"#]],
        );
        check(
            "name = \"a\"\nobjective = 99\n[[slos]]\nname = \"a\"\nobjective = 99\n",
            &expect![[r#"
                cannot use weir.toml:5: there are two SLOs `a`
                hint: counts are kept under the name"#]],
        );
    }
}
