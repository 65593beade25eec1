//! PostgreSQL's SQL in the syntax of the engine, and PostgreSQL's texts: patterns of times, zones,
//! intervals, regular expressions, `format`. Pure; instants and wall times are microseconds since
//! 1970.
//!
//! Sources: PostgreSQL's manual, chapters 9.7 (pattern matching), 9.8 (formatting) and 9.9 (times),
//! and the answers of PostgreSQL 15.

mod array_query;
mod array_syntax;
mod bytes_syntax;
mod cast_syntax;
mod column_substitution;
mod constant_syntax;
mod copy_budget;
mod decimal_places;
mod format;
mod fragments;
mod function_depth;
mod interval;
mod interval_reading;
mod interval_syntax;
mod join_columns;
mod json_building;
mod json_syntax;
mod json_text;
mod known_wrong;
mod lateral_columns;
mod md5_text;
mod membership;
mod number_text;
mod operator_syntax;
mod postgres_syntax;
mod refusal;
mod regex;
mod required_words;
mod select_items;
mod set_operations;
mod statement_size;
mod subquery_syntax;
mod sum_quotients;
mod syntax;
mod table_syntax;
mod time_field;
mod time_literal;
mod time_pattern;
mod time_reading;
mod time_syntax;
mod time_text;
mod time_trunc;
mod time_zone;
mod type_names;
mod uuid_text;
mod value_text;
mod whole_rows;
mod window_names;
mod word_list;

pub use decimal_places::{DecimalRounding, to_decimal_places};
pub use format::{format_text, quote_identifier, quote_literal};
pub use interval::{IntervalParts, age};
pub use interval_reading::read_interval;
pub use json_text::{JsonValue, parse_json, quote_json};
pub use known_wrong::{KNOWN_WRONG_SHAPES, KnownWrongShape};
pub use md5_text::md5_text;
pub use number_text::{NumberKind, number_text};
pub use postgres_syntax::PostgresSyntax;
pub use refusal::SyntaxRefusal;
pub use regex::{rust_regex, similar_regex};
pub use required_words::required_words;
pub use set_operations::DUPLICATE_NUMBER;
pub use statement_size::{STACK_BYTES, check_condition, check_query};
pub use subquery_syntax::ONLY_VALUE;
pub use sum_quotients::{NAMED_EXTREMES, NAMED_SUM, NAMED_VALUE, NUMERIC_SUM};
pub use syntax::{like_escape, rewrite_condition, rewrite_statement};
pub use time_field::{time_field, wall_time_of};
pub use time_literal::{full_interval, full_timestamp};
pub use time_reading::{TimeReading, read_time};
pub use time_text::{ZoneText, interval_text, time_text};
pub use time_trunc::{trunc_instant, trunc_wall};
pub use time_zone::ZoneRule;
pub use uuid_text::uuid_text;
pub use value_text::{array_element_text, decimal_text, double_text, real_text, timestamp_text};
pub use whole_rows::CatalogColumns;
