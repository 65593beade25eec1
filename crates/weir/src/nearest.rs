//! The name that was probably meant; the rooms' own hints use the same.

pub(crate) use weir_tables::nearest;
