//! PostgreSQL's types for those of the tables: numbers, sizes, arrays (`pg_type.dat` of its sources).

use arrow_schema::{DataType, TimeUnit};

/// A type that cells are sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Bool,
    Bytea,
    Int2,
    Int4,
    Int8,
    Oid,
    Text,
    Json,
    Float4,
    Float8,
    Date,
    Timestamp,
    Timestamptz,
    Interval,
    Numeric,
}

/// A scalar, or an array of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) scalar: Scalar,
    pub(crate) is_array: bool,
}

/// Scalar, its number, the number of arrays of it, its bytes (-1: they vary).
const NUMBERS: [(Scalar, u32, u32, i16); 15] = [
    (Scalar::Bool, 16, 1000, 1),
    (Scalar::Bytea, 17, 1001, -1),
    (Scalar::Int2, 21, 1005, 2),
    (Scalar::Int4, 23, 1007, 4),
    (Scalar::Int8, 20, 1016, 8),
    (Scalar::Oid, 26, 1028, 4),
    (Scalar::Text, 25, 1009, -1),
    (Scalar::Json, 114, 199, -1),
    (Scalar::Float4, 700, 1021, 4),
    (Scalar::Float8, 701, 1022, 8),
    (Scalar::Date, 1082, 1182, 4),
    (Scalar::Timestamp, 1114, 1115, 8),
    (Scalar::Timestamptz, 1184, 1185, 8),
    (Scalar::Interval, 1186, 1187, 16),
    (Scalar::Numeric, 1700, 1231, -1),
];

/// `varchar`, `bpchar`, `name`, `"char"`: all are text here.
const TEXTS: [u32; 4] = [1043, 1042, 19, 18];

impl Type {
    const fn of(scalar: Scalar) -> Self {
        Self { scalar, is_array: false }
    }

    /// How a column is sent. Lists are arrays, what is deeper is JSON, what PostgreSQL lacks is text.
    pub(crate) fn from_arrow(data_type: &DataType) -> Self {
        match data_type {
            DataType::List(item) | DataType::LargeList(item) => {
                match Self::from_arrow(item.data_type()) {
                    Self { scalar, is_array: false } => Self { scalar, is_array: true },
                    Self { is_array: true, .. } => Self::of(Scalar::Json),
                }
            }
            DataType::Dictionary(_, value) => Self::from_arrow(value),
            other => Self::of(scalar_of(other)),
        }
    }

    /// The type with this number; `None` for 0, for `unknown`, and for what is not known here.
    pub(crate) fn from_oid(oid: u32) -> Option<Self> {
        if TEXTS.contains(&oid) {
            return Some(Self::of(Scalar::Text));
        }
        NUMBERS.iter().find_map(|(scalar, own, array, _)| match oid {
            _ if oid == *own => Some(Self::of(*scalar)),
            _ if oid == *array => Some(Self { scalar: *scalar, is_array: true }),
            _ => None,
        })
    }

    /// Its number.
    pub(crate) fn oid(self) -> u32 {
        let (_, own, array, _) = self.scalar.numbers();
        if self.is_array { array } else { own }
    }

    /// Bytes of a value, -1 when they vary.
    pub(crate) fn size(self) -> i16 {
        if self.is_array { -1 } else { self.scalar.numbers().3 }
    }
}

impl Scalar {
    fn numbers(self) -> (Self, u32, u32, i16) {
        *NUMBERS.iter().find(|numbers| numbers.0 == self).expect("every scalar is in the list")
    }

    /// The number of the type itself.
    pub(crate) fn oid(self) -> u32 {
        self.numbers().1
    }

    /// What a parameter of this type becomes.
    pub(crate) fn to_arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Bytea => DataType::Binary,
            Self::Int2 => DataType::Int16,
            Self::Int4 => DataType::Int32,
            Self::Int8 | Self::Oid => DataType::Int64,
            Self::Text | Self::Json => DataType::Utf8,
            Self::Float4 => DataType::Float32,
            Self::Float8 | Self::Numeric => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Self::Interval => DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano),
        }
    }
}

fn scalar_of(data_type: &DataType) -> Scalar {
    match data_type {
        DataType::Boolean => Scalar::Bool,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => Scalar::Int2,
        DataType::Int32 | DataType::UInt16 => Scalar::Int4,
        DataType::Int64 => Scalar::Int8,
        // The catalog has its numbers in this type, and nothing else has.
        DataType::UInt32 => Scalar::Oid,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Scalar::Numeric,
        DataType::Float16 | DataType::Float32 => Scalar::Float4,
        DataType::Float64 => Scalar::Float8,
        DataType::Date32 | DataType::Date64 => Scalar::Date,
        DataType::Timestamp(_, None) => Scalar::Timestamp,
        DataType::Timestamp(_, Some(_)) => Scalar::Timestamptz,
        DataType::Interval(_) | DataType::Duration(_) => Scalar::Interval,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Scalar::Bytea,
        DataType::Map(..) | DataType::Struct(_) => Scalar::Json,
        _ => Scalar::Text,
    }
}
