//! Worst case of one row for each function that amplifies its arguments, or is not linear in them.
//!
//! Source: the functions of DataFusion 55.2. Unlisted functions return at most a few times
//! the bytes of one argument, in time proportional to it.

use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use regex_syntax::hir::{Hir, HirKind};

use super::argument_size::{FunctionArgument, RowNumbers};

/// Bytes of a list's item besides its value: an offset, or a view.
const ITEM_BYTES: u64 = 16;
/// Bytes of a list's item that a function takes out of its list.
const OWNED_ITEM_BYTES: u64 = 128;
/// Bytes of a value of a JSON text that was read, and of its copy as an item.
const JSON_NODE_BYTES: u64 = 256;
/// Steps of a comparison of two values of JSON.
const JSON_PAIR_STEPS: u64 = 64;
/// Widest field of `format`.
const FIELD_BYTES: u64 = 10_000;
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
    /// As [`Self::Repeat`], for the items of a list.
    RepeatItem,
    /// As many characters as the second argument says.
    Pad,
    /// As many items as the second argument says, each like the third.
    Resize,
    /// From the first number to the second in steps of the third.
    Series,
    /// The third argument for each occurrence of the second in the first.
    Replace,
    /// The third argument for each item of the first.
    ReplaceItems,
    /// The longest argument for each `%` of the first.
    Template,
    /// JSON of all arguments.
    Json,
    /// The values of a JSON text.
    JsonText,
    /// Each value of one JSON text, or list, with each of the other.
    JsonProduct,
    /// The items of lists, one by one.
    Items,
    /// The third argument for each match of the second in the first.
    RegexReplace,
    /// Groups of the pattern, each up to the first argument.
    RegexCaptures,
    /// A pattern over the first argument.
    RegexSearch,
    /// A piece of the first argument for each occurrence of the second.
    Split,
    /// A piece of the first argument for each match of the second.
    RegexSplit,
    /// Each group of the second argument for each of its matches in the first.
    RegexMatches,
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
            | "make_array" | "map" | "overlay" | "string_concat" | "wide_constant" => Self::Sum,
            "json_array_of" | "json_item" | "json_member" | "json_object_of" | "json_of"
            | "json_row_of" => Self::Json,
            "json_get" | "json_get_text" | "json_has" | "json_in" | "json_item_texts"
            | "json_items" | "json_keys" | "json_kind" | "json_length" | "json_path"
            | "json_path_text" | "json_value_texts" | "json_values" | "jsonb_in" | "jsonb_key" => {
                Self::JsonText
            }
            "contains_all" | "json_has_all" | "json_has_any" => Self::JsonProduct,
            "array_remove" | "equals_any" | "round_elements" | "shares_any" | "trim_array" => {
                Self::Items
            }
            "concat_ws" => Self::SumSeparated,
            "repeat" => Self::Repeat,
            "array_repeat" => Self::RepeatItem,
            "lpad" | "rpad" => Self::Pad,
            "array_resize" => Self::Resize,
            "generate_series" | "range" => Self::Series,
            "replace" => Self::Replace,
            "array_replace" | "array_replace_all" | "array_replace_n" => Self::ReplaceItems,
            "format" => Self::Template,
            "regexp_replace" => Self::RegexReplace,
            "regexp_match" => Self::RegexCaptures,
            "regexp_like" | "regexp_count" | "regexp_instr" => Self::RegexSearch,
            "string_to_array" => Self::Split,
            "regexp_split_to_array" => Self::RegexSplit,
            "regexp_all_matches" => Self::RegexMatches,
            "array_to_string" => Self::Join,
            "constant_to_char" | "time_to_char" | "to_char" | "value_to_char" => Self::Format,
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
        let is_copied = matches!(self, Self::Sum | Self::Json);
        let rows = if is_scalar && !is_copied { 1 } else { rows };
        let pattern = pattern_steps(self, &arguments);
        let weights = arguments.iter().map(|argument| self.weights(argument)).collect();
        let call = FunctionCall { arguments, pattern, weights };
        Ok((0..rows).map(|row| self.row(&call, row)).collect())
    }

    /// What is counted in each argument beside its bytes.
    fn weights(self, argument: &FunctionArgument) -> RowNumbers<u64> {
        match self {
            Self::Json => argument.json_bytes(),
            Self::JsonText | Self::JsonProduct => argument.marks(b",:[{"),
            Self::Template => argument.marks(b"%"),
            Self::RegexMatches => argument.marks(b"("),
            _ => RowNumbers::default(),
        }
    }

    fn row(self, call: &FunctionCall, row: usize) -> RowCost {
        self.row_of_values(call, row).unwrap_or_else(|| self.row_of_texts(call, row))
    }

    /// Cost of functions that take lists, JSON or values of any type.
    fn row_of_values(self, call: &FunctionCall, row: usize) -> Option<RowCost> {
        let bytes = |at| call.bytes(at, row);
        Some(match self {
            Self::RepeatItem => {
                of_bytes(bytes(0).max(ITEM_BYTES).saturating_mul(call.count(1, row)))
            }
            Self::ReplaceItems => {
                let each = bytes(2).saturating_add(OWNED_ITEM_BYTES);
                let items = call.items(0, row).saturating_mul(each);
                of_bytes(bytes(0).saturating_add(items))
            }
            Self::Template => {
                let longest = (1..call.arguments.len()).map(bytes).max().unwrap_or(0);
                let each = longest.saturating_mul(2).saturating_add(FIELD_BYTES);
                of_bytes(bytes(0).saturating_add(call.weight([0, row]).saturating_mul(each)))
            }
            Self::Json => {
                let all = (0..call.arguments.len()).map(|at| call.weight([at, row]));
                of_bytes(all.fold(0, u64::saturating_add))
            }
            Self::JsonText => of_bytes(call.json_text([0, row])),
            Self::JsonProduct => call.json_product(row),
            Self::Items => of_bytes(call.owned_items(row)),
            Self::RegexSplit | Self::RegexMatches => {
                let groups = call.weight([1, row]).saturating_add(1);
                RowCost {
                    bytes: bytes(0).saturating_mul(groups).saturating_mul(OWNED_ITEM_BYTES),
                    steps: bytes(0).saturating_mul(call.pattern),
                }
            }
            _ => return None,
        })
    }

    fn row_of_texts(self, call: &FunctionCall, row: usize) -> RowCost {
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
            _ => RowCost::default(),
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
    /// Of each argument; see [`CostModel::weights`].
    weights: Vec<RowNumbers<u64>>,
}

impl FunctionCall {
    fn bytes(&self, at: usize, row: usize) -> u64 {
        self.arguments.get(at).map_or(0, |argument| argument.bytes(row))
    }

    fn items(&self, at: usize, row: usize) -> u64 {
        self.arguments.get(at).map_or(0, |argument| argument.items(row))
    }

    fn weight(&self, [at, row]: [usize; 2]) -> u64 {
        self.weights.get(at).map_or(0, |weights| weights.of(row))
    }

    /// Bytes of a JSON text that was read.
    fn json_text(&self, [at, row]: [usize; 2]) -> u64 {
        let values = (self.weight([at, row]) + 1).saturating_mul(JSON_NODE_BYTES);
        self.bytes(at, row).saturating_mul(2).saturating_add(values)
    }

    fn json_product(&self, row: usize) -> RowCost {
        let count = |at| self.items(at, row).saturating_add(self.weight([at, row])) + 1;
        // Lists are looked up by their hashes.
        let pairs = if self.items(0, row) > 0 { 0 } else { count(0).saturating_mul(count(1)) };
        let texts = self.json_text([0, row]).saturating_add(self.json_text([1, row]));
        let bytes = texts.saturating_add(self.owned_items(row));
        RowCost { bytes, steps: bytes.max(pairs.saturating_mul(JSON_PAIR_STEPS)) }
    }

    /// Bytes of all arguments, with the items of lists one by one.
    fn owned_items(&self, row: usize) -> u64 {
        let items = (0..self.arguments.len()).map(|at| self.items(at, row));
        let items = items.fold(0, u64::saturating_add);
        self.sum(row).saturating_add(items.saturating_mul(OWNED_ITEM_BYTES))
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
        CostModel::RegexReplace
            | CostModel::RegexCaptures
            | CostModel::RegexSearch
            | CostModel::RegexSplit
            | CostModel::RegexMatches
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
        assert!(cost("format", &[text("%1$s%1$s"), text(&"a".repeat(5000))]).bytes >= 20_000);
        assert!(cost("json_of", &[text("\u{1}\u{1}\"")]).bytes >= 16);
        assert!(cost("json_in", &[text("[1,1,1,1]")]).bytes >= 5 * 80);
        let (one, other) = ("[1,".repeat(50_000), "2,".repeat(50_000));
        assert!(cost("contains_all", &[text(&one), text(&other)]).steps > 2_000_000_000);
        assert_eq!(cost("string_to_array", &[text("a,b,c"), text(",")]).bytes, 5 + 6 * 16);
    }

    #[test]
    fn counted_repetitions_of_patterns_are_unrolled() {
        assert_eq!(instructions("abc"), 3);
        assert!(instructions("(?:a{1000}){1000}") > 1_000_000);
        assert!(instructions("(") == 1);
    }
}
