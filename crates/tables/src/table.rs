//! Table specs: columns with kinds, and the `table!` macro that generates row type and builder.
//!
//! A row struct borrows its text (`Request<'a>`) and the builder copies it into Arrow arrays, so a
//! parser can point into the line it reads and nothing is copied twice.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use crate::null_column;

/// Data type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// Microseconds since 1970 UTC.
    Time,
    /// UTF-8 text.
    Text,
    /// Signed 64-bit integer.
    Int,
    /// 64-bit float.
    Float,
    /// True or false.
    Flag,
    /// Text keys to text values: fields without a column.
    Attrs,
}

impl DataKind {
    /// The Arrow type.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Self::Text => DataType::Utf8,
            Self::Int => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Flag => DataType::Boolean,
            Self::Attrs => DataType::Map(Arc::new(entries_field()), false),
        }
    }

    /// The name in docs and API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Time => "timestamp",
            Self::Text => "text",
            Self::Int => "integer",
            Self::Float => "float",
            Self::Flag => "boolean",
            Self::Attrs => "map",
        }
    }
}

fn entries_field() -> Field {
    let key = Field::new("key", DataType::Utf8, false);
    let value = Field::new("value", DataType::Utf8, true);
    Field::new("entries", DataType::Struct(Fields::from(vec![key, value])), false)
}

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Parquet field id: never reused, never changed.
    pub id: i32,
    /// Snake case, unit last.
    pub name: &'static str,
    /// Data type.
    pub kind: DataKind,
    /// Whether NULL (not measured) can occur.
    pub is_nullable: bool,
    /// One or two sentences: meaning, origin, and when it is NULL.
    pub doc: &'static str,
}

/// A table: everything that docs, schema, store and UI need.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// Singular noun.
    pub name: &'static str,
    /// One sentence about the table.
    pub doc: &'static str,
    /// Meaning of one row.
    pub grain: &'static str,
    /// Origin of the rows.
    pub source: &'static str,
    /// Columns that the store sorts files by, most significant first.
    pub sort: &'static [&'static str],
    /// Columns of ids: files index which blocks of rows hold a whole value.
    pub ids: &'static [&'static str],
    /// Columns of text: files index which blocks of rows hold a word or part of a word.
    pub words: &'static [&'static str],
    /// All columns; `ts` and `host` come first.
    pub columns: &'static [Column],
}

impl TableSpec {
    /// The Arrow schema; field ids are in the metadata under `PARQUET:field_id`.
    pub fn schema(&self) -> SchemaRef {
        // Every batch and every query needs one, so they are built once.
        static SCHEMAS: LazyLock<HashMap<&str, SchemaRef>> = LazyLock::new(|| {
            crate::TABLES.iter().map(|spec| (spec.name, spec.new_schema())).collect()
        });
        SCHEMAS.get(self.name).map_or_else(|| self.new_schema(), Arc::clone)
    }

    fn new_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(Column::field).collect::<Vec<_>>()))
    }

    /// Converts rows to the table's own schema. Columns are matched by name: order does not matter,
    /// unknown columns are dropped, missing ones become NULL.
    ///
    /// # Errors
    /// When a column that is not nullable is missing, or a column has another type.
    pub fn fit(&self, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let schema = self.schema();
        let fields = schema.fields().iter();
        let columns = fields.map(|field| match rows.column_by_name(field.name()) {
            Some(column) => Arc::clone(column),
            None => null_column(field.data_type(), rows.num_rows()),
        });
        RecordBatch::try_new(Arc::clone(&schema), columns.collect())
    }

    /// The column called `name`, or `None`.
    pub fn column(&self, name: &str) -> Option<&'static Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// First field id of map keys and values, two for each column id.
const MAP_IDS: i32 = 100_000;

impl Column {
    /// The Parquet field ids of a map's keys and values, distinct from column ids; `None` for
    /// others.
    pub fn map_ids(&self) -> Option<(i32, i32)> {
        let first = MAP_IDS + 2 * self.id;
        (self.kind == DataKind::Attrs).then_some((first, first + 1))
    }

    fn field(&self) -> Field {
        let metadata = [("PARQUET:field_id".to_owned(), self.id.to_string())];
        Field::new(self.name, self.kind.data_type(), self.is_nullable)
            .with_metadata(metadata.into())
    }
}

/// A builder of rows of one table.
pub trait Rows: Default + Send {
    /// The table of the rows.
    const SPEC: &'static TableSpec;

    /// Rows pushed since the last [`Rows::finish`].
    fn len(&self) -> usize;

    /// Whether no row was pushed since the last [`Rows::finish`].
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows so far as one record batch with the table's schema; the builder is empty
    /// afterwards.
    fn finish(&mut self) -> RecordBatch;
}

/// A kind of column: its value in a row, and its Arrow builder.
pub trait Kind {
    /// The value in a row struct.
    type Value<'a>: Copy + Default;
    /// The builder of the column.
    type Builder: ColumnBuilder;
    /// The data type.
    const DATA: DataKind;
    /// Whether the value is an `Option`.
    const IS_NULLABLE: bool;
    /// An empty builder.
    fn builder() -> Self::Builder;
    /// Appends one value.
    fn append(builder: &mut Self::Builder, value: Self::Value<'_>);
}

/// Builds one column.
pub trait ColumnBuilder {
    /// The values so far; the builder is empty afterwards.
    fn finish(&mut self) -> ArrayRef;
}

/// Kinds used in specs: `Time`, `Text`, `Int`, `Float`, `Flag`, `Attrs`, and `Opt…` if nullable.
pub mod kind {
    use arrow_array::builder::{
        BooleanBuilder, Float64Builder, Int64Builder, MapBuilder, MapFieldNames, StringBuilder,
        TimestampMicrosecondBuilder,
    };
    use arrow_schema::{DataType, Field};

    use super::{DataKind, Kind};
    use crate::Micros;
    use crate::lazy_builder::LazyBuilder;

    macro_rules! kinds {
        ($($(#[$doc:meta])* $plain:ident $opt:ident = $data:ident, $value:ty, $builder:ty, $make:expr, $get:expr;)+) => {$(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $plain;
            $(#[$doc])*
            /// NULL when not measured.
            #[derive(Debug)]
            pub struct $opt;
            impl Kind for $plain {
                type Value<'a> = $value;
                type Builder = $builder;
                const DATA: DataKind = DataKind::$data;
                const IS_NULLABLE: bool = false;
                fn builder() -> $builder { $make }
                #[inline]
                fn append(builder: &mut $builder, value: Self::Value<'_>) { builder.append_value($get(value)); }
            }
            impl Kind for $opt {
                type Value<'a> = Option<$value>;
                type Builder = LazyBuilder<$builder>;
                const DATA: DataKind = DataKind::$data;
                const IS_NULLABLE: bool = true;
                fn builder() -> LazyBuilder<$builder> { LazyBuilder::new(DataKind::$data, $make) }
                #[inline]
                fn append(builder: &mut LazyBuilder<$builder>, value: Self::Value<'_>) {
                    match value {
                        Some(value) => builder.filled().append_value($get(value)),
                        None => builder.append_null(),
                    }
                }
            }
        )+};
    }

    kinds! {
        /// An instant.
        Time OptTime = Time, Micros, TimestampMicrosecondBuilder,
            TimestampMicrosecondBuilder::new().with_data_type(DataKind::Time.data_type()), |at: Micros| at.0;
        /// UTF-8 text.
        Text OptText = Text, &'a str, StringBuilder, StringBuilder::new(), std::convert::identity;
        /// A signed integer.
        Int OptInt = Int, i64, Int64Builder, Int64Builder::new(), std::convert::identity;
        /// A float.
        Float OptFloat = Float, f64, Float64Builder, Float64Builder::new(), std::convert::identity;
        /// True or false.
        Flag OptFlag = Flag, bool, BooleanBuilder, BooleanBuilder::new(), std::convert::identity;
    }

    /// Fields without a column, as keys and values in their order; may be empty.
    #[derive(Debug)]
    pub struct Attrs;

    impl Kind for Attrs {
        type Value<'a> = &'a [(&'a str, &'a str)];
        type Builder = MapBuilder<StringBuilder, StringBuilder>;
        const DATA: DataKind = DataKind::Attrs;
        const IS_NULLABLE: bool = false;

        fn builder() -> Self::Builder {
            let names =
                MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
            MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new())
                .with_keys_field(Field::new("key", DataType::Utf8, false))
                .with_values_field(Field::new("value", DataType::Utf8, true))
        }

        fn append(builder: &mut Self::Builder, value: Self::Value<'_>) {
            for (key, text) in value {
                builder.keys().append_value(key);
                builder.values().append_value(text);
            }
            builder.append(true).expect("keys and values are appended in pairs");
        }
    }
}

/// Declares a table: row struct, builder and spec. `ids` and `words` are optional.
///
/// ```text
/// table! {
///     /// One sentence: what the table is.
///     Listener, ListenerRows = "listener";
///     grain: "one row per listening socket and sample";
///     source: "sock_diag, /proc/PID/fd";
///     sort: [host, netns, server_port, ts];
///     1 ts: Time = "When the sample was taken.";
///     2 host: Text = "The host that it was taken on.";
/// }
/// ```
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $Row:ident, $Rows:ident = $name:literal;
        grain: $grain:literal;
        source: $source:literal;
        sort: [$($sort:ident),+ $(,)?];
        $(ids: [$($find_id:ident),+ $(,)?];)?
        $(words: [$($find_word:ident),+ $(,)?];)?
        $($id:literal $column:ident: $kind:ident = $column_doc:literal;)+
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $Row<'a> {
            $(#[doc = $column_doc] pub $column: <$crate::kind::$kind as $crate::Kind>::Value<'a>,)+
        }

        impl $Row<'_> {
            /// The spec of the table.
            pub const SPEC: $crate::TableSpec = $crate::TableSpec {
                name: $name,
                doc: concat!($($doc),+),
                grain: $grain,
                source: $source,
                sort: &[$(stringify!($sort)),+],
                ids: &[$($(stringify!($find_id)),+)?],
                words: &[$($(stringify!($find_word)),+)?],
                columns: &[$($crate::Column {
                    id: $id,
                    name: stringify!($column),
                    kind: <$crate::kind::$kind as $crate::Kind>::DATA,
                    is_nullable: <$crate::kind::$kind as $crate::Kind>::IS_NULLABLE,
                    doc: $column_doc,
                }),+],
            };
        }

        #[doc = concat!("A builder of rows of `", $name, "`.")]
        #[derive(Debug)]
        pub struct $Rows {
            pushed_count: usize,
            $($column: <$crate::kind::$kind as $crate::Kind>::Builder,)+
        }

        impl Default for $Rows {
            fn default() -> Self {
                Self { pushed_count: 0, $($column: <$crate::kind::$kind as $crate::Kind>::builder(),)+ }
            }
        }

        impl $Rows {
            /// Appends one row.
            #[inline]
            pub fn push(&mut self, row: &$Row<'_>) {
                self.pushed_count += 1;
                $(<$crate::kind::$kind as $crate::Kind>::append(&mut self.$column, row.$column);)+
            }
        }

        impl $crate::Rows for $Rows {
            const SPEC: &'static $crate::TableSpec = &$Row::SPEC;

            fn len(&self) -> usize {
                self.pushed_count
            }

            fn finish(&mut self) -> arrow_array::RecordBatch {
                self.pushed_count = 0;
                let columns: Vec<arrow_array::ArrayRef> =
                    vec![$($crate::ColumnBuilder::finish(&mut self.$column)),+];
                arrow_array::RecordBatch::try_new(Self::SPEC.schema(), columns)
                    .expect("the builders and the schema come from one spec")
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use arrow_array::cast::AsArray;

    use crate::spec::FILES;
    use crate::{DataKind, Log, LogRows, Micros, Rows, TABLES};

    #[test]
    fn rows_become_a_batch_with_the_schema_of_the_spec() {
        let mut rows = LogRows::default();
        rows.push(&Log {
            ts: Micros(1),
            host: "web1",
            body: "hello",
            attrs: &[("a", "1")],
            ..Default::default()
        });
        rows.push(&Log {
            ts: Micros(2),
            host: "web1",
            body: "world",
            process_id: Some(7),
            ..Default::default()
        });
        assert_eq!(rows.len(), 2);
        let batch = rows.finish();
        assert!(rows.is_empty());
        assert_eq!(batch.schema(), Log::SPEC.schema());
        let body = batch.column_by_name("body").expect("in the spec").as_string::<i32>();
        assert_eq!(body.iter().flatten().collect::<Vec<_>>(), ["hello", "world"]);
    }

    #[test]
    fn every_spec_keeps_the_rules_of_style() {
        for spec in TABLES {
            let names: Vec<&str> = spec.columns.iter().map(|column| column.name).collect();
            assert_eq!(&names[..2], ["ts", "host"], "{}", spec.name);
            let mut ids: Vec<i32> = spec.columns.iter().map(|column| column.id).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), names.len(), "field ids of {} repeat", spec.name);
            for sort in spec.sort {
                assert!(names.contains(sort), "{} has no column `{sort}` to sort by", spec.name);
            }
            for name in spec.ids.iter().chain(spec.words) {
                let kind = spec.column(name).map(|column| column.kind);
                assert_eq!(kind, Some(DataKind::Text), "{}.{name} cannot be searched", spec.name);
            }
            for column in spec.columns {
                assert!(
                    column.doc.ends_with('.') || column.doc.ends_with('…'),
                    "{}.{}: the doc is not a sentence",
                    spec.name,
                    column.name
                );
            }
        }
    }

    #[test]
    fn every_table_is_named_after_its_file_and_once() {
        let names: Vec<&str> = TABLES.iter().map(|spec| spec.name).collect();
        assert_eq!(names, FILES);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }
}
