//! Ranges of plugins: `[@]start:end`, an alert outside of it, with `@` inside.
//!
//! ```text
//!   10       < 0 or > 10          ~:10     > 10
//!   10:      < 10                 10:20    < 10 or > 20
//!   @10:20   ≥ 10 and ≤ 20
//! ```

use std::fmt;

use crate::performance_value::parse_number;

/// A range of values that are no alert; with `is_inverted` they are alerts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThresholdRange {
    /// The least value of the range; negative infinity for `~`.
    pub start: f64,
    /// The greatest value of the range; infinity if it is left out.
    pub end: f64,
    /// Whether values inside of the range are alerts (`@`).
    pub is_inverted: bool,
}

impl ThresholdRange {
    /// Parses a range; `None` if it is empty or not a range.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_inverted, text) = match text.strip_prefix('@') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (start, end) = match text.split_once(':') {
            None => (0.0, parse_number(text)?),
            Some((start, end)) => {
                let start = match start {
                    "~" => f64::NEG_INFINITY,
                    "" => 0.0,
                    number => parse_number(number)?,
                };
                (start, if end.is_empty() { f64::INFINITY } else { parse_number(end)? })
            }
        };
        (start <= end).then_some(Self { start, end, is_inverted })
    }

    /// Whether the value is an alert.
    pub fn alerts(self, value: f64) -> bool {
        (self.start..=self.end).contains(&value) == self.is_inverted
    }
}

impl fmt::Display for ThresholdRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_inverted {
            f.write_str("@")?;
        }
        if self.start == f64::NEG_INFINITY {
            f.write_str("~:")?;
        } else if self.start != 0.0 || self.end == f64::INFINITY {
            write!(f, "{}:", self.start)?;
        }
        if self.end == f64::INFINITY { Ok(()) } else { write!(f, "{}", self.end) }
    }
}

#[cfg(test)]
mod tests {
    use super::ThresholdRange;

    /// The table of the Monitoring Plugins Development Guidelines, "Example ranges".
    #[test]
    fn ranges_of_the_guidelines_alert_where_they_say() {
        for (range, alerts, silent) in [
            ("10", [-0.1, 10.1], [0.0, 10.0]),
            ("10:", [9.9, -5.0], [10.0, 1e9]),
            ("~:10", [10.1, 1e9], [10.0, -1e9]),
            ("10:20", [9.9, 20.1], [10.0, 20.0]),
            ("@10:20", [10.0, 20.0], [9.9, 20.1]),
            (":5", [-1.0, 6.0], [0.0, 5.0]),
            ("-5:-1", [-6.0, 0.0], [-5.0, -1.0]),
        ] {
            let parsed = ThresholdRange::parse(range).expect(range);
            assert_eq!(ThresholdRange::parse(&parsed.to_string()), Some(parsed), "{range}");
            for value in alerts {
                assert!(parsed.alerts(value), "{value} of {range}");
            }
            for value in silent {
                assert!(!parsed.alerts(value), "{value} of {range}");
            }
        }
    }

    #[test]
    fn what_is_no_range_is_none() {
        for text in ["", "@", "20:10", "a:b", "10:20:30", "~", "10%", ":x", "nan", "inf"] {
            assert_eq!(ThresholdRange::parse(text), None, "{text}");
        }
    }
}
