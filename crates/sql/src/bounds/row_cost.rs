//! Worst case of one row for each function that amplifies its arguments, or is not linear in them.
//!
//! Source: the functions of DataFusion 55.2. Unlisted functions return at most a few times
//! the bytes of one argument, in time proportional to it.

use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use regex_syntax::hir::{Hir, HirKind};

use super::argument_size::FunctionArgument;

/// Bytes of a list's item besides its value: an offset, or a view.
const ITEM_BYTES: u64 = 16;
/// Longest text of a number or an instant.
const NUMBER_TEXT_BYTES: u64 = 32;
/// Instructions of a regular expression that are as fast as one byte of a plain scan.
const PATTERN_STEPS: u64 = 16;

/// Upper bounds for one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowCost {
    /// Bytes of the result.
    pub(super) bytes: u64,
    /// Steps of about a nanosecond.
    pub(super) steps: u64,
}

/// How a function amplifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CostModel {
    /// All arguments once.
    Sum,
    /// All arguments, the first one between each two others.
    SumSeparated,
    /// The first argument as often as the second says.
    Repeat,
    /// As many characters as the second argument says.
    Pad,
    /// As many items as the second argument says, each like the third.
    Resize,
    /// From the first number to the second in steps of the third.
    Series,
    /// The third argument for each occurrence of the second in the first.
    Replace,
    /// The third argument for each match of the second in the first.
    RegexReplace,
    /// Groups of the pattern, each up to the first argument.
    RegexCaptures,
    /// A pattern over the first argument.
    RegexSearch,
    /// A piece of the first argument for each occurrence of the second.
    Split,
    /// The items of a list as texts, with separators.
    Join,
    /// A text for each letter of the format.
    Format,
    /// Up to four bytes for each byte of the first argument.
    Translate,
    /// Each letter of one text with each of the other.
    TextProduct,
    /// As [`Self::TextProduct`], 16 at once.
    TextSearch,
    /// Each item of one list with each of the other.
    ListProduct,
}

impl CostModel {
    /// Cost model of a function; `None` if it is cheap.
    pub(super) fn of(function: &str) -> Option<Self> {
        Some(match function {
            "array_append" | "array_concat" | "array_prepend" | "arrays_zip" | "concat"
            | "json_array_of" | "json_item" | "json_member" | "json_object_of" | "json_of"
            | "json_row_of" | "make_array" | "map" | "overlay" | "string_concat"
            | "wide_constant" => Self::Sum,
            "concat_ws" => Self::SumSeparated,
            "repeat" | "array_repeat" => Self::Repeat,
            "lpad" | "rpad" => Self::Pad,
            "array_resize" => Self::Resize,
            "generate_series" | "range" => Self::Series,
            "replace" => Self::Replace,
            "regexp_replace" => Self::RegexReplace,
            "regexp_match" => Self::RegexCaptures,
            "regexp_like" | "regexp_count" | "regexp_instr" => Self::RegexSearch,
            "string_to_array" => Self::Split,
            "array_to_string" => Self::Join,
            "to_char" => Self::Format,
            "translate" => Self::Translate,
            "levenshtein" => Self::TextProduct,
            "strpos" => Self::TextSearch,
            "array_has_all" | "array_has_any" => Self::ListProduct,
            _ => return None,
        })
    }

    /// Costs of each row; of one row if all arguments are scalars.
    pub(super) fn rows(self, values: &[ColumnarValue], rows: usize) -> Result<Vec<RowCost>> {
        let arguments = values.iter().map(FunctionArgument::new).collect::<Result<Vec<_>>>()?;
        let is_scalar = values.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        // What is a sum of scalars will be copied to each row.
        let rows = if is_scalar && self != Self::Sum { 1 } else { rows };
        let call = FunctionCall { pattern: pattern_steps(self, &arguments), arguments };
        Ok((0..rows).map(|row| self.row(&call, row)).collect())
    }

    fn row(self, call: &FunctionCall, row: usize) -> RowCost {
        let bytes = |at| call.bytes(at, row);
        match self {
            Self::Sum => of_bytes(call.sum(row)),
            Self::SumSeparated => {
                let gaps = call.arguments.len().saturating_sub(2) as u64;
                of_bytes(call.sum(row).saturating_add(bytes(0).saturating_mul(gaps)))
            }
            Self::Repeat => {
                let each = bytes(0).saturating_add(u64::from(bytes(0) < ITEM_BYTES));
                of_bytes(each.saturating_mul(call.count(1, row)))
            }
            Self::Pad => {
                let padded = call.count(1, row).saturating_mul(call.letter_bytes(row));
                of_bytes(padded.saturating_add(bytes(0)))
            }
            Self::Resize => {
                let items = call.count(1, row).saturating_mul(bytes(2).max(ITEM_BYTES));
                of_bytes(items.saturating_add(bytes(0)))
            }
            Self::Series => of_bytes(call.series(row).saturating_mul(ITEM_BYTES)),
            Self::Replace => {
                let matches = pieces(bytes(0), bytes(1));
                of_bytes(bytes(0).saturating_add(matches.saturating_mul(bytes(2))))
            }
            Self::RegexReplace => call.regex_replace(row),
            Self::RegexCaptures => RowCost {
                bytes: bytes(0).saturating_mul(1 + bytes(1) / 2),
                steps: bytes(0).saturating_mul(call.pattern),
            },
            Self::RegexSearch => RowCost { bytes: 8, steps: bytes(0).saturating_mul(call.pattern) },
            Self::Split => {
                let items = pieces(bytes(0), bytes(1)).saturating_mul(ITEM_BYTES);
                of_bytes(bytes(0).saturating_add(items))
            }
            Self::Join => {
                let each = NUMBER_TEXT_BYTES.saturating_add(bytes(1)).saturating_add(bytes(2));
                of_bytes(bytes(0).saturating_add(call.items(0, row).saturating_mul(each)))
            }
            Self::Format => of_bytes(bytes(1).saturating_mul(NUMBER_TEXT_BYTES)),
            Self::Translate => of_bytes(bytes(0).saturating_mul(4)),
            Self::TextProduct => RowCost { bytes: 8, steps: bytes(0).saturating_mul(bytes(1)) },
            Self::TextSearch => {
                RowCost { bytes: 8, steps: bytes(0).saturating_mul(bytes(1)) / PATTERN_STEPS }
            }
            Self::ListProduct => {
                let pairs = call.items(0, row).saturating_mul(call.items(1, row));
                RowCost { bytes: 1, steps: pairs.saturating_mul(4) }
            }
        }
    }
}

fn of_bytes(bytes: u64) -> RowCost {
    RowCost { bytes, steps: bytes }
}

/// Pieces of a text that a separator may split it into.
fn pieces(text: u64, separator: u64) -> u64 {
    text / separator.max(1) + 1
}

struct FunctionCall {
    arguments: Vec<FunctionArgument>,
    /// Steps for each byte that a pattern reads.
    pattern: u64,
}

impl FunctionCall {
    fn bytes(&self, at: usize, row: usize) -> u64 {
        self.arguments.get(at).map_or(0, |argument| argument.bytes(row))
    }

    fn items(&self, at: usize, row: usize) -> u64 {
        self.arguments.get(at).map_or(0, |argument| argument.items(row))
    }

    /// A number that is not negative.
    fn count(&self, at: usize, row: usize) -> u64 {
        let number = self.arguments.get(at).map_or(0, |argument| argument.number(row));
        u64::try_from(number.max(0)).unwrap_or(u64::MAX)
    }

    fn sum(&self, row: usize) -> u64 {
        let bytes = self.arguments.iter().map(|argument| argument.bytes(row));
        bytes.fold(0, u64::saturating_add)
    }

    /// Bytes of a letter of the filling.
    fn letter_bytes(&self, row: usize) -> u64 {
        self.bytes(2, row).clamp(1, 4)
    }

    fn series(&self, row: usize) -> u64 {
        let number = |at: usize| self.arguments.get(at).map_or(0, |argument| argument.number(row));
        let (start, stop) =
            if self.arguments.len() < 2 { (0, number(0)) } else { (number(0), number(1)) };
        let step = if self.arguments.len() < 3 { 1 } else { number(2).abs().max(1) };
        let count = (stop - start).abs() / step + 1;
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    fn regex_replace(&self, row: usize) -> RowCost {
        let (text, replacement) = (self.bytes(0, row), self.bytes(2, row));
        // Each `\1` inserts at most the match.
        let inserted = text.saturating_mul(replacement / 2);
        let matches = if self.arguments.len() > 3 { text.saturating_add(1) } else { 1 };
        let bytes = text.saturating_add(inserted);
        let bytes = bytes.saturating_add(matches.saturating_mul(replacement));
        RowCost { bytes, steps: bytes.max(text.saturating_mul(self.pattern)) }
    }
}

/// Steps for each byte that the pattern of a call reads.
fn pattern_steps(model: CostModel, arguments: &[FunctionArgument]) -> u64 {
    let has_pattern = matches!(
        model,
        CostModel::RegexReplace | CostModel::RegexCaptures | CostModel::RegexSearch
    );
    let Some(argument) = arguments.get(1).filter(|_| has_pattern) else { return 1 };
    let text = argument.constant_text();
    1 + text.map_or_else(|| argument.bytes(0), instructions) / PATTERN_STEPS
}

/// Instructions of a regular expression, counted repetitions unrolled. One that cannot be parsed is
/// reported by its function.
pub(super) fn instructions(pattern: &str) -> u64 {
    regex_syntax::parse(pattern).map_or(1, |hir| unrolled(&hir))
}

/// Recursion is bounded by the parser's limit on nesting.
fn unrolled(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(_) => 4,
        HirKind::Repetition(repetition) => {
            let count = repetition.max.unwrap_or(repetition.min).max(1);
            unrolled(&repetition.sub).saturating_mul(u64::from(count)).saturating_add(1)
        }
        HirKind::Capture(capture) => unrolled(&capture.sub).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(unrolled).fold(1, u64::saturating_add)
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::scalar::ScalarValue;

    use super::*;

    fn cost(function: &str, arguments: &[ScalarValue]) -> RowCost {
        let values: Vec<_> = arguments.iter().cloned().map(ColumnarValue::Scalar).collect();
        CostModel::of(function).unwrap().rows(&values, 1).unwrap()[0]
    }

    fn text(text: &str) -> ScalarValue {
        ScalarValue::from(text)
    }

    #[test]
    fn worst_cases_cover_what_functions_make() {
        let whole = |number: i64| ScalarValue::from(number);
        assert_eq!(cost("repeat", &[text("abcdefghijklmnop"), whole(1000)]).bytes, 16_000);
        assert_eq!(cost("repeat", &[text("x"), whole(-5)]).bytes, 0);
        assert_eq!(cost("lpad", &[text("x"), whole(1000), text("é")]).bytes, 2001);
        assert!(cost("replace", &[text("aaaa"), text("a"), text("12345678")]).bytes >= 32);
        assert!(cost("replace", &[text("aaaa"), text(""), text("12345678")]).bytes >= 40);
        let global = [text("aaaa"), text("a"), text("12345678"), text("g")];
        assert!(cost("regexp_replace", &global).bytes >= 32);
        assert!(cost("regexp_replace", &[text("aaaa"), text("(a+)"), text(r"\1\1\1")]).bytes >= 12);
        assert!(cost("range", &[whole(5), whole(1005), whole(10)]).bytes >= 800);
        assert!(cost("range", &[whole(i64::MIN), whole(i64::MAX)]).bytes > 1 << 60);
        assert_eq!(cost("levenshtein", &[text(&"a".repeat(300)), text("abc")]).steps, 900);
        assert_eq!(cost("string_to_array", &[text("a,b,c"), text(",")]).bytes, 5 + 6 * 16);
    }

    #[test]
    fn counted_repetitions_of_patterns_are_unrolled() {
        assert_eq!(instructions("abc"), 3);
        assert!(instructions("(?:a{1000}){1000}") > 1_000_000);
        assert!(instructions("(") == 1);
    }
}
