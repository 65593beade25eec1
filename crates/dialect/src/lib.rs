//! PostgreSQL's SQL in the syntax of the engine, and PostgreSQL's texts: patterns of times, zones,
//! intervals, regular expressions, `format`. Pure; instants and wall times are microseconds since
//! 1970.
//!
//! Sources: PostgreSQL's manual, chapters 9.7 (pattern matching), 9.8 (formatting) and 9.9 (times),
//! and the answers of PostgreSQL 15.

mod array_syntax;
mod cast_syntax;
mod column_substitution;
mod decimal_places;
mod format;
mod fragments;
mod interval;
mod join_columns;
mod known_wrong;
mod lateral_columns;
mod md5_text;
mod number_text;
mod refusal;
mod regex;
mod required_words;
mod select_items;
mod set_operations;
mod statement_size;
mod subquery_syntax;
mod syntax;
mod table_syntax;
mod time_field;
mod time_literal;
mod time_pattern;
mod time_reading;
mod time_text;
mod time_zone;
mod value_text;

pub use decimal_places::{DecimalRounding, to_decimal_places};
pub use format::{format_text, quote_identifier, quote_literal};
pub use interval::{IntervalParts, age};
pub use known_wrong::{KNOWN_WRONG_SHAPES, KnownWrongShape};
pub use md5_text::md5_text;
pub use number_text::number_text;
pub use refusal::SyntaxRefusal;
pub use regex::{rust_regex, similar_regex};
pub use required_words::required_words;
pub use set_operations::DUPLICATE_NUMBER;
pub use statement_size::{STACK_BYTES, check_condition, check_query};
pub use syntax::{rewrite_condition, rewrite_statement};
pub use time_field::{time_field, wall_time_of};
pub use time_literal::{full_interval, full_timestamp};
pub use time_reading::{TimeReading, read_time};
pub use time_text::{ZoneText, interval_text, time_text};
pub use time_zone::ZoneRule;
pub use value_text::{array_element_text, double_text, real_text, timestamp_text};
