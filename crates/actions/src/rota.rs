//! The person on call: override, else the rota's shift, else `otherwise`.
//!
//! Shifts are counted on the local clock: the boundary of shift n is the local time
//! `start + n × shift`, so that a hand-over at 09:00 stays at 09:00 across daylight saving. A
//! boundary that is skipped moves forward; one that occurs twice is the first.
//!
//! ```text
//!  start        +7d          +14d
//!    | ada       | bo         | cy        hours = mon-fri 08:00-20:00
//!    ├─█─█─█─█─█─┼─█─█─█─█─█──┼─ …        █ the rota, ─ otherwise
//! ```

use std::collections::BTreeMap;

use jiff::Span;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use weir_tables::Micros;

use crate::civil_time::{DAY, local, moment, parse_moment, zone};
use crate::hours::WeeklyHours;
use crate::policy::Rota;
use crate::turn_count::TurnCount;

/// The shortest shift; daylight saving moves the clock by at most this much.
pub(crate) const SHIFT_SECONDS_MIN: u64 = 3_600;
/// Rotas that `otherwise` may lead through.
const OTHERWISE_DEPTH: usize = 8;
/// Further than any change of duty: callers ask again then.
const HORIZON: i64 = 366 * DAY;

/// The person on call, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnCall {
    /// The person; `None` in a gap.
    pub person: Option<String>,
    /// The people whose turns follow, for `rota:web+1`.
    pub following: Vec<String>,
    /// Next moment at which this may change.
    pub until: Micros,
    /// Why this person.
    pub reason: DutyReason,
}

/// Why a person is on call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DutyReason {
    /// An override.
    Override,
    /// The person's shift.
    Shift,
    /// Outside of the rota's hours: the rota or person of `otherwise`.
    Otherwise(String),
    /// No person is on call.
    Gap,
}

impl OnCall {
    fn gap(until: Micros) -> Self {
        Self { person: None, following: Vec::new(), until, reason: DutyReason::Gap }
    }
}

/// A rota whose times are read.
#[derive(Clone, Debug)]
pub(crate) struct RotaPlan {
    people: Vec<String>,
    zone: TimeZone,
    start: DateTime,
    shift_seconds: i64,
    hours: WeeklyHours,
    turn_count: TurnCount,
    otherwise: Option<String>,
    overrides: Vec<OverridePlan>,
}

#[derive(Clone, Debug)]
struct OverridePlan {
    person: String,
    start: Micros,
    end: Micros,
}

/// One shift of a rota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShiftSpan {
    pub(crate) number: i64,
    pub(crate) start: Micros,
    pub(crate) end: Micros,
}

/// A time without a person on call, up to its next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RotaGap {
    pub(crate) start: Micros,
    pub(crate) end: Micros,
}

/// What is wrong with a rota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RotaFault {
    Zone,
    Start,
    Shift,
    People,
    Hours(String),
    Override(usize),
}

impl RotaPlan {
    /// Reads a rota's times; what is wrong with them.
    pub(crate) fn compile(rota: &Rota) -> Result<Self, RotaFault> {
        let zone = zone(&rota.zone).ok_or(RotaFault::Zone)?;
        let start = rota.start.trim().parse().map_err(|_| RotaFault::Start)?;
        let is_long = rota.shift_seconds >= SHIFT_SECONDS_MIN;
        let shift_seconds = i64::try_from(rota.shift_seconds).ok().filter(|_| is_long);
        let shift_seconds = shift_seconds.ok_or(RotaFault::Shift)?;
        if rota.people.is_empty() {
            return Err(RotaFault::People);
        }
        let mut overrides = Vec::new();
        for (index, each) in rota.overrides.iter().enumerate() {
            let start = parse_moment(&zone, &each.start).ok_or(RotaFault::Override(index))?;
            let end = parse_moment(&zone, &each.end).ok_or(RotaFault::Override(index))?;
            (start < end).then_some(()).ok_or(RotaFault::Override(index))?;
            overrides.push(OverridePlan { person: each.person.clone(), start, end });
        }
        let hours = WeeklyHours::parse(&rota.hours, zone.clone()).map_err(RotaFault::Hours)?;
        Ok(Self {
            people: rota.people.clone(),
            turn_count: TurnCount::new(start, shift_seconds, &hours),
            hours,
            zone,
            start,
            shift_seconds,
            otherwise: rota.otherwise.clone(),
            overrides,
        })
    }

    /// The moment at which a shift starts.
    fn boundary(&self, number: i64) -> Option<Micros> {
        let seconds = number.checked_mul(self.shift_seconds)?;
        let span = Span::new().try_seconds(seconds).ok()?;
        moment(&self.zone, self.start.checked_add(span).ok()?)
    }

    /// The shift at a moment; `None` before the first.
    pub(crate) fn shift(&self, at: Micros) -> Option<ShiftSpan> {
        let passed = local(&self.zone, at).duration_since(self.start).as_secs();
        // A repeated hour may hold boundaries that are over, a skipped one some that are to come.
        let mut number = passed.div_euclid(self.shift_seconds) + 2;
        while self.boundary(number)? > at {
            number -= 1;
        }
        let (start, end) = (self.boundary(number)?, self.boundary(number + 1)?);
        (number >= 0).then_some(ShiftSpan { number, start, end })
    }

    /// The person of a shift, then the next ones. Shifts without hours are no turns.
    pub(crate) fn turns(&self, number: i64) -> Vec<String> {
        let count = i64::try_from(self.people.len()).expect("a list's length fits");
        let turn = self.turn_count.turn(number).rem_euclid(count);
        let first = usize::try_from(turn).expect("below the list's length");
        let (earlier, later) = self.people.split_at(first);
        later.iter().chain(earlier).cloned().collect()
    }

    fn active_override(&self, at: Micros) -> Option<&OverridePlan> {
        self.overrides.iter().rev().find(|each| each.start <= at && at < each.end)
    }

    fn next_override_change(&self, at: Micros) -> Micros {
        let changes = self.overrides.iter().flat_map(|each| [each.start, each.end]);
        changes.filter(|change| *change > at).min().unwrap_or(Micros(at.0 + HORIZON))
    }
}

/// All rotas whose times can be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct RotaBook {
    plans: BTreeMap<String, RotaPlan>,
}

impl RotaBook {
    /// Reads all rotas; those with faults are left out and so have a gap.
    pub(crate) fn compile(rotas: &[Rota]) -> Self {
        let plans = rotas
            .iter()
            .filter_map(|rota| RotaPlan::compile(rota).ok().map(|plan| (rota.name.clone(), plan)));
        Self { plans: plans.collect() }
    }

    /// The person on call in a rota.
    pub(crate) fn on_call(&self, rota: &str, at: Micros) -> OnCall {
        self.duty(rota, at, OTHERWISE_DEPTH)
    }

    /// Names of the rotas.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.plans.keys().map(String::as_str)
    }

    /// A moment as the clock of a rota shows it: `2026-12-14 09:00 (Europe/Berlin)`.
    pub(crate) fn local_text(&self, rota: &str, at: Micros) -> String {
        let Some(plan) = self.plans.get(rota) else { return at.to_string() };
        let zone = plan.zone.iana_name().unwrap_or("UTC");
        format!("{} ({zone})", local(&plan.zone, at).strftime("%Y-%m-%d %H:%M"))
    }

    /// The first gap from `from` on that begins within `span_us`, with its end.
    pub(crate) fn gap_within(&self, rota: &str, from: Micros, span_us: i64) -> Option<RotaGap> {
        let end = from.0.saturating_add(span_us);
        let mut at = from;
        while at.0 < end {
            let duty = self.on_call(rota, at);
            if duty.person.is_none() {
                return Some(RotaGap { start: at, end: duty.until });
            }
            if duty.until <= at {
                return None;
            }
            at = duty.until;
        }
        None
    }

    /// The start of the shift or override at a moment, or the moment itself in a gap.
    pub(crate) fn start_of_duty(&self, rota: &str, at: Micros) -> Micros {
        let Some(plan) = self.plans.get(rota) else { return at };
        let Some(shift) = plan.shift(at) else { return at };
        // Changes within the shift, up to the one before the moment.
        let mut start = shift.start;
        loop {
            let next = self.on_call(rota, start).until;
            if next > at || next <= start {
                return start;
            }
            start = next;
        }
    }

    fn duty(&self, rota: &str, at: Micros, depth: usize) -> OnCall {
        let horizon = Micros(at.0.saturating_add(HORIZON));
        let Some(plan) = self.plans.get(rota).filter(|_| depth > 0) else {
            return OnCall::gap(horizon);
        };
        let until = plan.next_override_change(at);
        let shift = plan.shift(at);
        let mut turns = shift.as_ref().map_or_else(Vec::new, |shift| plan.turns(shift.number));
        if let Some(substitute) = plan.active_override(at) {
            turns.retain(|person| *person != substitute.person);
            let person = Some(substitute.person.clone());
            return OnCall { person, following: turns, until, reason: DutyReason::Override };
        }
        let until = until.min(plan.hours.next_change(at).unwrap_or(horizon));
        if !plan.hours.is_empty() && !plan.hours.contains(at) {
            return self.outside(plan, at, until, depth);
        }
        match shift {
            Some(shift) => {
                let person = Some(turns.remove(0));
                let until = until.min(shift.end);
                OnCall { person, following: turns, until, reason: DutyReason::Shift }
            }
            // Before the first shift.
            None => {
                let start = plan.boundary(0).unwrap_or(horizon);
                self.outside(plan, at, until.min(start), depth)
            }
        }
    }

    /// The person on call outside of a rota's hours.
    fn outside(&self, plan: &RotaPlan, at: Micros, until: Micros, depth: usize) -> OnCall {
        let Some(otherwise) = &plan.otherwise else { return OnCall::gap(until) };
        let name = otherwise.strip_prefix("rota:").unwrap_or(otherwise);
        if !self.plans.contains_key(name) {
            // Not a rota, so a person.
            let reason = DutyReason::Otherwise(otherwise.clone());
            let (person, following) = (Some(name.to_owned()), Vec::new());
            return OnCall { person, following, until, reason };
        }
        let mut duty = self.duty(name, at, depth - 1);
        duty.until = duty.until.min(until);
        if duty.person.is_some() {
            duty.reason = DutyReason::Otherwise(otherwise.clone());
        }
        duty
    }
}
