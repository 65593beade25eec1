//! Reproducible ids of subjects, incidents, notices and silences.

use siphasher::sip128::SipHasher24;

/// Letters of ids that people type: without i, l, o and u.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Letters of an id; 50 bits.
const ID_LETTERS: usize = 10;

/// A hash of parts; no two different lists of parts are joined to the same bytes.
fn hash(parts: &[&str]) -> u128 {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(part.len().to_string().as_bytes());
        bytes.push(b':');
        bytes.extend_from_slice(part.as_bytes());
    }
    SipHasher24::new().hash(&bytes).as_u128()
}

/// 32 hex digits.
pub(crate) fn long_id(parts: &[&str]) -> String {
    format!("{:032x}", hash(parts))
}

/// 16 hex digits: the identity of a subject within the desk.
pub(crate) fn subject_id(finding: &crate::Finding) -> String {
    let whole = long_id(&["subject", &finding.rule, &finding.host, &finding.key]);
    whole[..16].to_owned()
}

/// An id that people type.
pub(crate) fn short_id(parts: &[&str]) -> String {
    let mut bits = hash(parts);
    let mut id = String::with_capacity(ID_LETTERS);
    for _ in 0..ID_LETTERS {
        let index = usize::try_from(bits & 31).expect("five bits fit");
        id.push(char::from(LETTERS[index]));
        bits >>= 5;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_by_each_part_and_stay_between_releases() {
        assert_ne!(short_id(&["a", "bc"]), short_id(&["ab", "c"]));
        assert_eq!(short_id(&["a"]).len(), ID_LETTERS);
        expect_test::expect!["4r4pw8e5hw"].assert_eq(&short_id(&["incident", "a", "1"]));
    }
}
