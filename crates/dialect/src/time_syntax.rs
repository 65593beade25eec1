//! Calls of `date_trunc` for units and zones that the engine lacks.

use sqlparser::ast::Expr;

use crate::fragments::{call, literal, text};
use crate::interval_syntax::is_interval;

/// Units under the names that the engine has.
const UNITS: [(&str, &str); 14] = [
    ("microseconds", "microsecond"),
    ("usec", "microsecond"),
    ("us", "microsecond"),
    ("milliseconds", "millisecond"),
    ("msec", "millisecond"),
    ("ms", "millisecond"),
    ("seconds", "second"),
    ("minutes", "minute"),
    ("hours", "hour"),
    ("days", "day"),
    ("weeks", "week"),
    ("months", "month"),
    ("quarters", "quarter"),
    ("years", "year"),
];

/// Units that only PostgreSQL has.
const OWN_UNITS: [&str; 6] =
    ["decade", "decades", "century", "centuries", "millennium", "millennia"];

/// A call of `date_trunc`; `None` if the engine has it.
pub(crate) fn date_trunc(args: &[Expr]) -> Option<Expr> {
    let [unit, time, zone @ ..] = args else { return None };
    if let [zone] = zone {
        return Some(call("trunc_in_zone", vec![unit.clone(), time.clone(), zone.clone()]));
    }
    if is_interval(time) {
        return Some(call("interval_trunc", vec![unit.clone(), time.clone()]));
    }
    let name = literal(unit)?.to_lowercase();
    if OWN_UNITS.contains(&name.as_str()) {
        return Some(call("trunc_by_calendar", vec![text(&name), time.clone()]));
    }
    let (_, known) = UNITS.iter().find(|(other, _)| *other == name)?;
    Some(call("date_trunc", vec![text(known), time.clone()]))
}
