//! Values of `current_setting` and `pg_settings`; sessions store what a client sets.

/// Name and value.
pub(super) const SETTINGS: [(&str, &str); 10] = [
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("integer_datetimes", "on"),
    ("max_identifier_length", "63"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
    ("standard_conforming_strings", "on"),
    ("TimeZone", "UTC"),
];
