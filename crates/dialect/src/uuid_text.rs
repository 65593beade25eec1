//! Texts of UUIDs: any case, with braces, and with hyphens behind groups of four digits.

/// The usual form of a UUID: lower case, `8-4-4-4-12` digits; `None` for other texts.
pub fn uuid_text(text: &str) -> Option<String> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut digits = String::with_capacity(36);
    let mut count = 0;
    let mut may_part = false;
    for next in inner.chars() {
        if next == '-' && may_part {
            may_part = false;
            continue;
        }
        if !next.is_ascii_hexdigit() || count == 32 {
            return None;
        }
        if [8, 12, 16, 20].contains(&count) {
            digits.push('-');
        }
        digits.push(next.to_ascii_lowercase());
        count += 1;
        may_part = count % 4 == 0 && count < 32;
    }
    (count == 32).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_one_form() {
        let usual = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            usual,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(uuid_text(text).as_deref(), Some(usual), "{text}");
        }
        for wrong in
            ["", "x", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "a-0eebc999c0b4ef8bb6d6bb9bd380a11"]
        {
            assert_eq!(uuid_text(wrong), None, "{wrong}");
        }
        assert_eq!(uuid_text("a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11"), None);
    }
}
