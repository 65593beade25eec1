//! Texts that clients put into SQL: patterns, formats of times, and networks. A text, a NUL byte,
//! and a pattern for it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_dialect::{format_text, quote_literal, read_time, rust_regex, similar_regex};
use weir_tables::IpNetwork;

fuzz_target!(|bytes: &[u8]| {
    let Ok(input) = std::str::from_utf8(bytes) else { return };
    let (text, pattern) = input.split_once('\0').unwrap_or((input, "YYYY-MM-DD HH24:MI:SS"));
    let _ = rust_regex(text);
    for escape in [None, Some('\\'), pattern.chars().next()] {
        let _ = similar_regex(text, escape);
    }
    let _ = read_time(text, pattern);
    let _ = format_text(text, &[Some(pattern.to_owned()), None]);
    let quoted = quote_literal(text);
    assert!(quoted.ends_with('\''), "{quoted}");
    for network in IpNetwork::parse_each(text.split(',')).into_iter().flatten() {
        assert_eq!(IpNetwork::parse(&network.to_string()), Some(network));
    }
});
