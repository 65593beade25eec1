//! The rules that are compiled in: one line each. A new rule is `rules/<id>.sql`, `rules/<id>.test` and its id here.

macro_rules! built_in {
    ($($id:literal,)+) => {
        /// Id, text of the rule file, text of its test file.
        pub(crate) const BUILT_IN: &[(&str, &str, &str)] = &[$((
            $id,
            include_str!(concat!("../../../rules/", $id, ".sql")),
            include_str!(concat!("../../../rules/", $id, ".test")),
        )),+];
    };
}

built_in! {
    "tcp.listen_overflow",
}
