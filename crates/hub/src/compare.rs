//! Comparing the times of two sets of requests, where they were measured at the same place and
//! nowhere else.
//!
//! A time of `request` is defined by its vantage point: which tier's clock it was, and whom that
//! tier answered. When a balancer comes in front, the server's own times fall and no page is
//! quicker.

use serde::Serialize;
use serde_json::Value;

/// The tier whose clock is the visitor's own: nothing can come in front of it.
const VISITOR: &str = "client";
/// Number of busiest peers that are compared; `metric.vantage_changed` counts the same way.
const TOP_PEERS: u32 = 4;
/// A share of the busiest peers that moved by more is another vantage.
const MOVED_SHARE: f64 = 0.5;
/// With fewer requests than this on a side, its peers say nothing about who they are.
const TELLING_REQUESTS: u64 = 20;
/// A side with fewer values than this gets a warning.
pub const FEW_VALUES: u64 = 30;

/// A time of `request` that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The measure's column.
    pub column: &'static str,
    /// From where to where.
    pub words: &'static str,
    /// Whether it depends on who the peer is.
    is_of_peer: bool,
}

/// What can be compared; the first is the default.
pub const MEASURES: [Measure; 5] = [
    Measure {
        column: "duration_seconds",
        words: "first byte of the request to last byte of the answer",
        is_of_peer: true,
    },
    Measure { column: "queue_seconds", words: "waiting for a free upstream", is_of_peer: false },
    Measure {
        column: "upstream_connect_seconds",
        words: "connecting to the upstream",
        is_of_peer: false,
    },
    Measure {
        column: "upstream_header_seconds",
        words: "connecting until the upstream's first byte",
        is_of_peer: false,
    },
    Measure {
        column: "upstream_response_seconds",
        words: "connecting until the upstream's last byte",
        is_of_peer: false,
    },
];

/// The measure of a column.
pub fn measure(column: &str) -> Option<Measure> {
    MEASURES.into_iter().find(|measure| measure.column == column)
}

/// The query that tells what one side has: a row for each tier, read by [`seen`].
pub fn question(condition: &str) -> String {
    let quantiles: Vec<String> = MEASURES
        .iter()
        .map(|Measure { column, .. }| {
            let quantile = |share: &str| format!("approx_percentile_cont({column}, {share})");
            format!(
                "count({column}) as {column}_values, {} as {column}_p50, {} as {column}_p95, {} as {column}_p99",
                quantile("0.5"),
                quantile("0.95"),
                quantile("0.99")
            )
        })
        .collect();
    format!(
        "with side as (select * from request where ({condition}\n)),
peers as (select tier, client_address, count(*) as n from side where client_address is not null group by 1, 2),
ranked as (select *, row_number() over (partition by tier order by n desc, client_address) as place from peers),
shares as (
  select tier, cast(sum(n) filter (where place <= {TOP_PEERS}) as double) / sum(n) as top_share, count(*) as peers,
    max(client_address) filter (where place = 1) as busiest
  from ranked group by tier
),
sums as (select tier, count(*) as requests, {} from side group by tier)
select sums.*, shares.top_share, shares.peers, shares.busiest
from sums left join shares on shares.tier = sums.tier order by sums.tier",
        quantiles.join(", ")
    )
}

/// One tier's requests on one side.
#[derive(Clone, Debug, PartialEq)]
pub struct TierTimes {
    tier: String,
    requests: u64,
    /// Share of the [`TOP_PEERS`] busiest peers in the requests; `None` without addresses.
    top_share: Option<f64>,
    peers: u64,
    busiest: String,
    /// In the order of [`MEASURES`].
    times: Vec<TimeSummary>,
}

/// One measure of one tier on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimeSummary {
    /// Requests that have it.
    pub values: u64,
    /// Quantiles in seconds; `None` without values.
    pub p50_seconds: Option<f64>,
    /// As above.
    pub p95_seconds: Option<f64>,
    /// As above.
    pub p99_seconds: Option<f64>,
}

/// Rows of [`question`].
pub fn seen(rows: &[Value]) -> Vec<TierTimes> {
    let tiers = rows.iter().map(|row| TierTimes {
        tier: text(&row["tier"]),
        requests: count(&row["requests"]),
        top_share: row["top_share"].as_f64(),
        peers: count(&row["peers"]),
        busiest: text(&row["busiest"]),
        times: MEASURES.iter().map(|measure| times(row, measure.column)).collect(),
    });
    tiers.collect()
}

fn times(row: &Value, column: &str) -> TimeSummary {
    TimeSummary {
        values: count(&row[format!("{column}_values")]),
        p50_seconds: row[format!("{column}_p50")].as_f64(),
        p95_seconds: row[format!("{column}_p95")].as_f64(),
        p99_seconds: row[format!("{column}_p99")].as_f64(),
    }
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl TierTimes {
    fn times(&self, measure: Measure) -> TimeSummary {
        let at = MEASURES.iter().position(|known| *known == measure);
        at.and_then(|at| self.times.get(at)).copied().unwrap_or_default()
    }

    fn has(&self, measure: Measure) -> bool {
        self.times(measure).values > 0
    }

    /// Where it was measured: whose clock, and who was answered.
    fn vantage(&self) -> String {
        if self.tier == VISITOR {
            return format!("the visitor's own clock (tier `{VISITOR}`)");
        }
        let peers = match (self.top_share, self.peers) {
            (None, _) => "peers without addresses".to_owned(),
            (Some(_), 1) => format!("one peer, {}", self.busiest),
            (Some(_), peers) if peers <= u64::from(TOP_PEERS) => {
                format!("{peers} peers such as {}", self.busiest)
            }
            (Some(share), peers) => {
                let percent = share * 100.0;
                format!("{peers} peers, of which {TOP_PEERS} sent {percent:.0} %")
            }
        };
        format!("the clock of tier `{}`, answering {peers}", self.tier)
    }
}

/// Two sides of one tier and measure, measured at the same place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasureComparison {
    tier: String,
    measure: &'static str,
    words: &'static str,
    a: TimeSummary,
    b: TimeSummary,
}

/// What must not be compared, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasureRefusal {
    tier_a: String,
    tier_b: String,
    measure: &'static str,
    why: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    measure: &'static str,
    compared: Vec<MeasureComparison>,
    refused: Vec<MeasureRefusal>,
    /// Other times that can be compared; only where something was refused.
    offered: Vec<MeasureComparison>,
}

/// Compares what was measured at the same place, and refuses the rest.
pub fn compare(a: &[TierTimes], b: &[TierTimes], measure: Measure) -> Comparison {
    let pairs = |measure: Measure| {
        a.iter().filter(move |left| left.has(measure)).filter_map(move |left| {
            b.iter()
                .find(|right| right.tier == left.tier && right.has(measure))
                .map(|right| (left, right))
        })
    };
    let together = |measure: Measure| {
        pairs(measure).filter(move |(left, right)| moved(left, right, measure).is_none()).map(
            move |(left, right)| MeasureComparison {
                tier: left.tier.clone(),
                measure: measure.column,
                words: measure.words,
                a: left.times(measure),
                b: right.times(measure),
            },
        )
    };
    let compared: Vec<MeasureComparison> = together(measure).collect();
    let mut refused: Vec<MeasureRefusal> = pairs(measure)
        .filter_map(|(left, right)| {
            let why = moved(left, right, measure)?;
            Some(MeasureRefusal {
                tier_a: left.tier.clone(),
                tier_b: right.tier.clone(),
                measure: measure.column,
                why,
            })
        })
        .collect();
    if compared.is_empty() && refused.is_empty() {
        refused.extend(apart(a, b, measure));
    }
    let others = MEASURES.into_iter().filter(|other| *other != measure);
    let offered = if refused.is_empty() { Vec::new() } else { others.flat_map(together).collect() };
    Comparison { measure: measure.column, compared, refused, offered }
}

/// Why the same tier's times are of different places, if they are.
fn moved(a: &TierTimes, b: &TierTimes, measure: Measure) -> Option<String> {
    let are_telling = a.requests.min(b.requests) >= TELLING_REQUESTS;
    if !measure.is_of_peer || a.tier == VISITOR || !are_telling {
        return None;
    }
    let shift = b.top_share? - a.top_share?;
    (shift.abs() > MOVED_SHARE).then(|| {
        format!(
            "A is by {}; B is by {}: something was put in front or taken away, and the time is of another way",
            a.vantage(),
            b.vantage()
        )
    })
}

/// The refusal where no tier has the measure on both sides.
fn apart(a: &[TierTimes], b: &[TierTimes], measure: Measure) -> Option<MeasureRefusal> {
    let (left, right) = (sides_with(measure, a), sides_with(measure, b));
    Some(MeasureRefusal {
        tier_a: tier_names(&left),
        tier_b: tier_names(&right),
        measure: measure.column,
        why: format!(
            "A is {}; B is {}: no tier has it on both sides",
            vantages(&left),
            vantages(&right)
        ),
    })
}

fn sides_with(measure: Measure, side: &[TierTimes]) -> Vec<TierTimes> {
    side.iter().filter(|seen| seen.has(measure)).cloned().collect()
}

fn tier_names(side: &[TierTimes]) -> String {
    let names: Vec<&str> = side.iter().map(|seen| seen.tier.as_str()).collect();
    names.join(", ")
}

fn vantages(side: &[TierTimes]) -> String {
    match side {
        [] => "not measured".to_owned(),
        _ => {
            format!("by {}", side.iter().map(TierTimes::vantage).collect::<Vec<_>>().join(" and "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Measure = MEASURES[0];

    fn side(tier: &str, top_share: f64, seconds: &[(&str, f64)]) -> TierTimes {
        let times = MEASURES.iter().map(|measure| {
            seconds.iter().find(|(column, _)| *column == measure.column).map_or_else(
                TimeSummary::default,
                |(_, seconds)| TimeSummary {
                    values: 500,
                    p50_seconds: Some(*seconds),
                    p95_seconds: Some(seconds * 2.0),
                    p99_seconds: Some(seconds * 3.0),
                },
            )
        });
        TierTimes {
            tier: tier.to_owned(),
            requests: 500,
            top_share: Some(top_share),
            peers: 300,
            busiest: "10.0.0.7".to_owned(),
            times: times.collect(),
        }
    }

    fn tiers(compared: &[MeasureComparison]) -> Vec<(&str, &str)> {
        compared.iter().map(|one| (one.tier.as_str(), one.measure)).collect()
    }

    #[test]
    fn a_balancer_in_front_is_no_gain_and_what_the_visitor_measured_is() {
        let proxy = |share, seconds, upstream| {
            side(
                "proxy",
                share,
                &[("duration_seconds", seconds), ("upstream_header_seconds", upstream)],
            )
        };
        let client = |seconds| side("client", 0.02, &[("duration_seconds", seconds)]);
        let before = [client(0.27), proxy(0.02, 0.2, 0.02)];
        let after = [client(0.212), proxy(1.0, 0.03, 0.02)];
        let both = compare(&before, &after, DURATION);
        assert_eq!(tiers(&both.compared), [("client", "duration_seconds")]);
        assert_eq!(both.refused.len(), 1, "{both:?}");
        assert!(both.refused[0].why.contains("something was put in front"), "{both:?}");
        assert_eq!(tiers(&both.offered), [("proxy", "upstream_header_seconds")]);
        // Without a beacon there is nothing to say of the whole time.
        let alone = compare(&before[1..], &after[1..], DURATION);
        assert!(alone.compared.is_empty(), "{alone:?}");
        assert_eq!(tiers(&alone.offered), [("proxy", "upstream_header_seconds")]);
        // The path to the upstream does not depend on the client.
        let upstream = compare(&before[1..], &after[1..], MEASURES[3]);
        assert_eq!(tiers(&upstream.compared), [("proxy", "upstream_header_seconds")]);
        assert!(upstream.refused.is_empty() && upstream.offered.is_empty(), "{upstream:?}");
    }

    #[test]
    fn two_tiers_are_never_compared_with_each_other() {
        let edge =
            side("edge", 0.1, &[("duration_seconds", 0.2), ("upstream_header_seconds", 0.1)]);
        let app = side("app", 1.0, &[("duration_seconds", 0.1)]);
        let both = compare(std::slice::from_ref(&edge), std::slice::from_ref(&app), DURATION);
        assert!(both.compared.is_empty() && both.offered.is_empty(), "{both:?}");
        assert_eq!(
            (both.refused[0].tier_a.as_str(), both.refused[0].tier_b.as_str()),
            ("edge", "app")
        );
        let nothing = compare(&[edge], &[], DURATION);
        assert!(nothing.refused[0].why.contains("B is not measured"), "{nothing:?}");
    }

    #[test]
    fn a_handful_of_requests_does_not_say_who_the_peers_are() {
        let many = side("proxy", 0.02, &[("duration_seconds", 0.2)]);
        let few = TierTimes { requests: 4, top_share: Some(1.0), ..many.clone() };
        assert_eq!(compare(&[many], &[few], DURATION).compared.len(), 1);
    }
}
