//! Start of a message head whose rest is still to come.

/// Start of an incomplete head. Boxed, since few connections have one.
#[derive(Debug)]
pub(crate) struct PartialHead(pub(crate) Vec<u8>);
