//! All-NULL columns: most columns of most batches never get a value and must cost almost nothing.

use std::collections::HashMap;
use std::sync::LazyLock;

use arrow_array::builder::{ArrayBuilder, BooleanBuilder, GenericByteBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, ByteArrayType};
use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_schema::DataType;
use parking_lot::RwLock;

use crate::{ColumnBuilder, DataKind};

/// NULL columns up to this length are slices of one shared array.
const SHARED_ROWS: usize = 8192;

/// A column of `length` NULLs.
pub fn null_column(data_type: &DataType, length: usize) -> ArrayRef {
    static SHARED: LazyLock<RwLock<HashMap<DataType, ArrayRef>>> = LazyLock::new(RwLock::default);
    // A nested column is rare, and as a slice it would be no shorter.
    if length > SHARED_ROWS || data_type.is_nested() {
        return new_null_array(data_type, length);
    }
    let known = SHARED.read().get(data_type).cloned();
    let column = known.unwrap_or_else(|| {
        let column = new_null_array(data_type, SHARED_ROWS);
        let mut shared = SHARED.write();
        shared.insert(data_type.clone(), column.clone());
        column
    });
    column.slice(0, length)
}

/// Whether every value of the column is NULL.
pub fn is_null_column(column: &dyn Array) -> bool {
    column.null_count() == column.len()
}

/// A builder that only counts NULLs until the first value is appended.
#[derive(Debug)]
pub struct LazyBuilder<B> {
    kind: DataKind,
    builder: B,
    /// Rows before the first value.
    nulls: usize,
    is_filled: bool,
}

/// A builder that accepts NULL.
pub trait NullableBuilder: ArrayBuilder {
    /// Appends NULL.
    fn append_null(&mut self);
    /// Appends `count` NULLs.
    fn append_nulls(&mut self, count: usize);
}

impl<T: ArrowPrimitiveType> NullableBuilder for PrimitiveBuilder<T> {
    #[inline]
    fn append_null(&mut self) {
        Self::append_null(self);
    }

    fn append_nulls(&mut self, count: usize) {
        Self::append_nulls(self, count);
    }
}

impl<T: ByteArrayType> NullableBuilder for GenericByteBuilder<T> {
    #[inline]
    fn append_null(&mut self) {
        Self::append_null(self);
    }

    fn append_nulls(&mut self, count: usize) {
        Self::append_nulls(self, count);
    }
}

impl NullableBuilder for BooleanBuilder {
    #[inline]
    fn append_null(&mut self) {
        Self::append_null(self);
    }

    fn append_nulls(&mut self, count: usize) {
        Self::append_nulls(self, count);
    }
}

impl<B: ArrayBuilder> ColumnBuilder for B {
    fn finish(&mut self) -> ArrayRef {
        ArrayBuilder::finish(self)
    }
}

impl<B: NullableBuilder> LazyBuilder<B> {
    pub(crate) fn new(kind: DataKind, builder: B) -> Self {
        Self { kind, builder, nulls: 0, is_filled: false }
    }

    /// The inner builder, with all earlier rows appended.
    #[inline]
    pub(crate) fn filled(&mut self) -> &mut B {
        if !self.is_filled {
            self.fill();
        }
        &mut self.builder
    }

    #[cold]
    fn fill(&mut self) {
        self.builder.append_nulls(self.nulls);
        self.nulls = 0;
        self.is_filled = true;
    }

    #[inline]
    pub(crate) fn append_null(&mut self) {
        if self.is_filled {
            self.builder.append_null();
        } else {
            self.nulls += 1;
        }
    }
}

impl<B: NullableBuilder> ColumnBuilder for LazyBuilder<B> {
    fn finish(&mut self) -> ArrayRef {
        if std::mem::take(&mut self.is_filled) {
            return ArrayBuilder::finish(&mut self.builder);
        }
        null_column(&self.kind.data_type(), std::mem::take(&mut self.nulls))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::Int64Builder;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    use super::*;

    #[test]
    fn values_are_where_they_were_appended() {
        let mut builder = LazyBuilder::new(DataKind::Int, Int64Builder::new());
        builder.append_null();
        builder.append_null();
        builder.filled().append_value(7);
        builder.append_null();
        let column = builder.finish();
        let values: Vec<_> = column.as_primitive::<Int64Type>().iter().collect();
        assert_eq!(values, [None, None, Some(7), None]);
        builder.append_null();
        assert_eq!(&builder.finish(), &new_null_array(&DataType::Int64, 1));
        assert!(builder.finish().is_empty());
    }

    #[test]
    fn null_columns_have_any_length() {
        for length in [0, 1, SHARED_ROWS, SHARED_ROWS + 1] {
            for data_type in [DataType::Utf8, DataType::Float64, DataType::Boolean] {
                let column = null_column(&data_type, length);
                assert_eq!((column.len(), column.null_count()), (length, length));
                assert_eq!(column.data_type(), &data_type);
            }
        }
    }
}
