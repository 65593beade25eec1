//! Maps Arrow types to PostgreSQL's: OIDs, sizes, arrays (`pg_type.dat` in its sources).

use arrow_schema::{DataType, Field, TimeUnit};

/// Key of a column's metadata with the name of a type that is text here (`weir_semantics::CLIENT_TYPE`).
const CLIENT_TYPE: &str = "pg_type";

/// A PostgreSQL type other than an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarType {
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
    /// Text here; an own type for clients, which send it with this OID.
    Uuid,
    /// As `Json`, with a version byte before it in binary.
    Jsonb,
    Time,
}

/// A scalar type, or an array of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PgType {
    pub(crate) scalar: ScalarType,
    pub(crate) is_array: bool,
}

/// Scalar type, its OID, the OID of its array type, size in bytes (-1: variable).
const OIDS: [(ScalarType, u32, u32, i16); 18] = [
    (ScalarType::Bool, 16, 1000, 1),
    (ScalarType::Bytea, 17, 1001, -1),
    (ScalarType::Int2, 21, 1005, 2),
    (ScalarType::Int4, 23, 1007, 4),
    (ScalarType::Int8, 20, 1016, 8),
    (ScalarType::Oid, 26, 1028, 4),
    (ScalarType::Text, 25, 1009, -1),
    (ScalarType::Json, 114, 199, -1),
    (ScalarType::Float4, 700, 1021, 4),
    (ScalarType::Float8, 701, 1022, 8),
    (ScalarType::Date, 1082, 1182, 4),
    (ScalarType::Timestamp, 1114, 1115, 8),
    (ScalarType::Timestamptz, 1184, 1185, 8),
    (ScalarType::Interval, 1186, 1187, 16),
    (ScalarType::Numeric, 1700, 1231, -1),
    (ScalarType::Uuid, 2950, 2951, 16),
    (ScalarType::Jsonb, 3802, 3807, -1),
    (ScalarType::Time, 1083, 1183, 8),
];

/// OIDs of `varchar`, `bpchar`, `name`, `"char"` and of their array types, which are treated as
/// text.
const TEXTS: [(u32, u32); 4] = [(1043, 1015), (1042, 1014), (19, 1003), (18, 1002)];

impl PgType {
    const fn of(scalar: ScalarType) -> Self {
        Self { scalar, is_array: false }
    }

    /// PostgreSQL type of a result column, from its metadata or else from its Arrow type.
    pub(crate) fn of_field(field: &Field) -> Self {
        match field.metadata().get(CLIENT_TYPE).map(String::as_str) {
            Some("json") => Self::of(ScalarType::Json),
            Some("jsonb") => Self::of(ScalarType::Jsonb),
            Some("uuid") => Self::of(ScalarType::Uuid),
            _ => Self::from_arrow(field.data_type()),
        }
    }

    /// PostgreSQL type of a column. Lists become arrays, nested types JSON, unknown types text.
    pub(crate) fn from_arrow(data_type: &DataType) -> Self {
        match data_type {
            DataType::List(item) | DataType::LargeList(item) => {
                match Self::from_arrow(item.data_type()) {
                    Self { scalar, is_array: false } => Self { scalar, is_array: true },
                    Self { is_array: true, .. } => Self::of(ScalarType::Json),
                }
            }
            DataType::Dictionary(_, value) => Self::from_arrow(value),
            other => Self::of(scalar_of(other)),
        }
    }

    /// Type with this OID; `None` for 0, `unknown`, and unsupported types.
    pub(crate) fn from_oid(oid: u32) -> Option<Self> {
        if TEXTS.iter().any(|(own, array)| [*own, *array].contains(&oid)) {
            let is_array = TEXTS.iter().any(|(_, array)| *array == oid);
            return Some(Self { scalar: ScalarType::Text, is_array });
        }
        OIDS.iter().find_map(|(scalar, own, array, _)| match oid {
            _ if oid == *own => Some(Self::of(*scalar)),
            _ if oid == *array => Some(Self { scalar: *scalar, is_array: true }),
            _ => None,
        })
    }

    /// The type's OID.
    pub(crate) fn oid(self) -> u32 {
        let (_, own, array, _) = self.scalar.entry();
        if self.is_array { array } else { own }
    }

    /// Size of a value in bytes; -1 if variable.
    pub(crate) fn size(self) -> i16 {
        if self.is_array { -1 } else { self.scalar.entry().3 }
    }
}

impl ScalarType {
    fn entry(self) -> (Self, u32, u32, i16) {
        *OIDS.iter().find(|entry| entry.0 == self).expect("every scalar is in the list")
    }

    /// The scalar type's OID.
    pub(crate) fn oid(self) -> u32 {
        self.entry().1
    }

    /// Arrow type of a parameter of this type.
    pub(crate) fn to_arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Bytea => DataType::Binary,
            Self::Int2 => DataType::Int16,
            Self::Int4 => DataType::Int32,
            Self::Int8 | Self::Oid => DataType::Int64,
            Self::Text | Self::Json | Self::Uuid | Self::Jsonb => DataType::Utf8,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Float4 => DataType::Float32,
            Self::Float8 | Self::Numeric => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Self::Interval => DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano),
        }
    }
}

fn scalar_of(data_type: &DataType) -> ScalarType {
    match data_type {
        DataType::Boolean => ScalarType::Bool,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => ScalarType::Int2,
        DataType::Int32 | DataType::UInt16 => ScalarType::Int4,
        DataType::Int64 => ScalarType::Int8,
        // Only OIDs of the catalog have this type.
        DataType::UInt32 => ScalarType::Oid,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => ScalarType::Numeric,
        DataType::Float16 | DataType::Float32 => ScalarType::Float4,
        DataType::Float64 => ScalarType::Float8,
        DataType::Date32 | DataType::Date64 => ScalarType::Date,
        DataType::Timestamp(_, None) => ScalarType::Timestamp,
        DataType::Timestamp(_, Some(_)) => ScalarType::Timestamptz,
        DataType::Time32(_) | DataType::Time64(_) => ScalarType::Time,
        DataType::Interval(_) | DataType::Duration(_) => ScalarType::Interval,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => ScalarType::Bytea,
        DataType::Map(..) | DataType::Struct(_) => ScalarType::Json,
        _ => ScalarType::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_a_column_gives_its_type() {
        let field = Field::new("id", DataType::Utf8, true);
        assert_eq!(PgType::of_field(&field).oid(), 25);
        for (name, oid) in [("uuid", 2950), ("jsonb", 3802), ("json", 114)] {
            let metadata = [(CLIENT_TYPE.to_owned(), name.to_owned())];
            assert_eq!(PgType::of_field(&field.clone().with_metadata(metadata.into())).oid(), oid);
        }
    }
}
