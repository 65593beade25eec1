//! Casts to types with a length, and texts of times and intervals that the engine does not read.

use sqlparser::ast::{CharacterLength, DataType, Expr, Value};

use crate::fragments::{call, literal, number, text};
use crate::refusal::{Result, refuse};
use crate::time_literal::{full_interval, full_timestamp};

/// Rewrites a cast, a typed constant or an interval.
pub(crate) fn rewrite(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Cast { expr: value, data_type, .. } => {
            rewrite_text(value, data_type);
            if let Some(length) = length(data_type)? {
                *data_type = DataType::Varchar(None);
                let length = number(i64::try_from(length).unwrap_or(i64::MAX));
                *expr = call("left", vec![expr.clone(), length]);
            }
        }
        Expr::TypedString(constant) => {
            if let Value::SingleQuotedString(value) = &mut constant.value.value {
                let new = match constant.data_type {
                    DataType::Timestamp(..) | DataType::Datetime(_) => full_timestamp(value),
                    DataType::Interval { .. } => full_interval(value),
                    _ => None,
                };
                new.into_iter().for_each(|new| *value = new);
            }
        }
        Expr::Interval(interval) if interval.leading_field.is_none() => {
            let new = literal(&interval.value).and_then(full_interval);
            new.into_iter().for_each(|new| *interval.value = text(&new));
        }
        _ => {}
    }
    Ok(())
}

fn rewrite_text(value: &mut Expr, kind: &DataType) {
    let new = match kind {
        DataType::Timestamp(..) | DataType::Datetime(_) => literal(value).and_then(full_timestamp),
        DataType::Interval { .. } => literal(value).and_then(full_interval),
        _ => None,
    };
    new.into_iter().for_each(|new| *value = text(&new));
}

/// Length to which a cast cuts its text.
fn length(kind: &DataType) -> Result<Option<u64>> {
    match kind {
        DataType::Varchar(Some(length))
        | DataType::CharacterVarying(Some(length))
        | DataType::CharVarying(Some(length)) => Ok(match length {
            CharacterLength::IntegerLength { length, .. } => Some(*length),
            CharacterLength::Max => None,
        }),
        DataType::Char(Some(_)) | DataType::Character(Some(_)) => {
            refuse!("`{kind}` is not supported: its values are padded; use `varchar` or `text`")
        }
        _ => Ok(None),
    }
}
