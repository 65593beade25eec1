//! What is known of one key of the configuration, whatever its kind.

/// What docs, `weir config` and messages need to know of one key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The section, such as `api`.
    pub section: &'static str,
    /// The name in the section, such as `listen`.
    pub name: &'static str,
    /// Kind of the value, for a person.
    pub kind: &'static str,
    /// Unit of the value; empty when it has none.
    pub unit: &'static str,
    /// The effect, and the reason for the default.
    pub doc: &'static str,
}
