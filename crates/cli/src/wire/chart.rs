//! Charts of one line for a terminal.

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a chart.
const COLUMNS: usize = 64;

/// How several values become one column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fold {
    /// Rates and levels.
    Mean,
    /// Times: the worst counts.
    Max,
}

/// The values as bars between 0 and the largest; where nothing was measured is a blank.
pub(super) fn line(values: &[Option<f64>], fold: Fold) -> String {
    let folded = folded(values, COLUMNS, fold);
    let scale = ChartScale { highest: folded.iter().flatten().copied().fold(0.0, f64::max) };
    folded.iter().map(|value| value.map_or(' ', |value| scale.bar(value))).collect()
}

/// The values in at most `columns` columns.
pub(super) fn folded(values: &[Option<f64>], columns: usize, fold: Fold) -> Vec<Option<f64>> {
    let columns = values.len().min(columns);
    (0..columns)
        .map(|column| {
            let (from, to) =
                (column * values.len() / columns, (column + 1) * values.len() / columns);
            let known: Vec<f64> = values[from..to].iter().flatten().copied().collect();
            #[expect(clippy::cast_precision_loss, reason = "there are few")]
            match fold {
                _ if known.is_empty() => None,
                Fold::Mean => Some(known.iter().sum::<f64>() / known.len() as f64),
                Fold::Max => known.into_iter().reduce(f64::max),
            }
        })
        .collect()
}

/// A chart from 0 to its highest value.
#[derive(Clone, Copy)]
pub(super) struct ChartScale {
    pub(super) highest: f64,
}

impl ChartScale {
    fn bar(self, value: f64) -> char {
        let reached = LEVELS.iter().enumerate().rev().find(|(at, _)| {
            let level = u32::try_from(*at).map_or(0.0, f64::from);
            self.highest > 0.0 && value >= self.highest * level / 8.0
        });
        reached.map_or(LEVELS[0], |(_, level)| *level)
    }

    /// How high a value is in a chart of `height` pixels.
    #[expect(clippy::cast_possible_truncation, reason = "it is no more than the chart's height")]
    pub(super) fn pixels(self, value: f64, height: i32) -> i32 {
        if self.highest <= 0.0 {
            return 0;
        }
        (value / self.highest * f64::from(height)).round() as i32
    }
}

#[cfg(test)]
mod tests {
    use super::{Fold, line};

    #[test]
    fn bars_reach_from_nothing_to_the_largest() {
        assert_eq!(line(&values(&[0.0, 1.0, 4.0, 8.0]), Fold::Mean), "▁▂▅█");
        assert_eq!(line(&[Some(2.0), None, Some(1.0)], Fold::Max), "█ ▅");
        assert_eq!(line(&values(&[0.0; 3]), Fold::Max), "▁▁▁");
        assert_eq!(line(&[], Fold::Max), "");
        let many: Vec<Option<f64>> = (0..640).map(|n| Some(f64::from(n % 10))).collect();
        assert_eq!(line(&many, Fold::Max), "█".repeat(64));
    }

    fn values(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect::<Vec<_>>()
    }
}
