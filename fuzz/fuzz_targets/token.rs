//! Bytes with a valid checksum as a join token: what decodes, encodes to the same token again.

#![no_main]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use weir_link::JoinToken;

fuzz_target!(|body: &[u8]| {
    if let Ok(text) = std::str::from_utf8(body) {
        drop(JoinToken::decode(text));
    }
    let bytes = [body, &crc32fast::hash(body).to_le_bytes()].concat();
    let text = format!("weir-join-1.{}", URL_SAFE_NO_PAD.encode(bytes));
    let Ok(token) = JoinToken::decode(&text) else { return };
    // Expiry is kept in microseconds, so one beyond the year 294247 is rounded the first time.
    let text = token.encode();
    let again = JoinToken::decode(&text).expect("own text decodes");
    assert_eq!(again.encode(), text);
    assert_eq!(again, JoinToken { expires: again.expires, ..token });
});
