//! Links to a page on which one person acts on one incident without a login.
//!
//! ```text
//!  message:  https://weir.example.net/a/TOKEN   PIN 4711
//!  ledger:   hash of the token ─► incident, person, end, hash of the PIN, wrong PINs
//! ```
//!
//! Mail scanners fetch every address, and some press buttons (FusionAuth/fusionauth-site#2922), so a
//! device that was not used before has to enter the PIN of the message; then it has a cookie. The
//! ledger has hashes only.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use weir_actions::Notice;
use weir_ledger::{Change, LedgerBackend, LedgerError};

use crate::receiver::ActLink;
use crate::replies::{is_tag, tag};

/// Kind of the links' documents in the ledger; due when they are to be deleted.
pub(crate) const LINK_KIND: &str = "act_link";
/// Kind of the devices' documents.
pub(crate) const DEVICE_KIND: &str = "act_device";

/// How long a link works.
const LINK_US: i64 = 86_400_000_000;
/// How long a device is remembered.
const DEVICE_US: i64 = 90 * 86_400_000_000;
/// A link with as many wrong PINs is dead.
const WRONG_PINS_MAX: u32 = 5;
/// Bytes of a token and of a cookie.
const TOKEN_BYTES: usize = 16;
/// Writes that another hub may be faster with.
const CONFLICTS_MAX: usize = 8;

/// What a link allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkGrant {
    /// The incident.
    pub incident: String,
    /// The person that the message was for; `None` for a receiver of several.
    pub person: Option<String>,
    /// The receiver that got the message.
    pub receiver: String,
    /// When it ends, microseconds since 1970.
    pub expires_us: i64,
    pin_hash: String,
    wrong_pins: u32,
}

/// A device that a person used before.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DeviceGrant {
    holder: String,
    expires_us: i64,
}

impl LinkGrant {
    /// The person that acts by this link, or the receiver that has it.
    pub fn holder(&self) -> &str {
        self.person.as_deref().unwrap_or(&self.receiver)
    }
}

/// How a PIN was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinCheck {
    /// It is right; the secret of the cookie that remembers the device.
    Right(String),
    /// It is wrong; the number of tries that are left.
    Wrong(u32),
    /// Too many were wrong, or there is no such link.
    Dead,
}

/// A new link for a notice, and the document that grants it; `None` without a page, or for notices
/// that nothing is to be done about.
pub(crate) fn grant(notice: &Notice, page_url: &str, now_us: i64) -> Option<(ActLink, Change)> {
    if page_url.is_empty() || !notice.is_actionable() {
        return None;
    }
    let (token, pin) = (token()?, pin()?);
    let granted = LinkGrant {
        incident: notice.incident.id.clone(),
        person: notice.person.clone(),
        receiver: notice.receiver.clone(),
        expires_us: now_us.saturating_add(LINK_US),
        pin_hash: hash(&[&token, &pin]),
        wrong_pins: 0,
    };
    let change = Change {
        kind: LINK_KIND.to_owned(),
        key: hash(&[&token]),
        expected: 0,
        body: Some((json(&granted), Some(granted.expires_us))),
    };
    Some((ActLink { url: format!("{page_url}/a/{token}"), pin }, change))
}

/// What a token allows; `None` when there is no such link or it is over.
///
/// # Errors
/// `Unusable`.
pub fn find(
    ledger: &mut dyn LedgerBackend,
    token: &str,
    now_us: i64,
) -> Result<Option<LinkGrant>, LedgerError> {
    Ok(read(ledger, token, now_us)?.map(|(granted, _)| granted))
}

fn read(
    ledger: &mut dyn LedgerBackend,
    token: &str,
    now_us: i64,
) -> Result<Option<(LinkGrant, i64)>, LedgerError> {
    if !is_token(token) {
        return Ok(None);
    }
    let Some(document) = ledger.get(LINK_KIND, &hash(&[token]))? else { return Ok(None) };
    let granted: Option<LinkGrant> = serde_json::from_str(&document.body).ok();
    let granted = granted
        .filter(|granted| now_us < granted.expires_us && granted.wrong_pins < WRONG_PINS_MAX);
    Ok(granted.map(|granted| (granted, document.version)))
}

/// Checks the PIN of a link, and remembers the device when it is right. A wrong one is counted before
/// it is answered.
///
/// # Errors
/// `Unusable`, or `Conflict` when other processes keep writing.
pub fn check_pin(
    ledger: &mut dyn LedgerBackend,
    token: &str,
    pin: &str,
    now_us: i64,
) -> Result<PinCheck, LedgerError> {
    let mut tries = 0;
    loop {
        let Some((mut granted, version)) = read(ledger, token, now_us)? else {
            return Ok(PinCheck::Dead);
        };
        let pin: String = pin.chars().filter(char::is_ascii_digit).collect();
        if hash(&[token, &pin]) == granted.pin_hash {
            return remember(ledger, granted.holder(), now_us);
        }
        granted.wrong_pins += 1;
        let body = Some((json(&granted), Some(granted.expires_us)));
        let (kind, key) = (LINK_KIND.to_owned(), hash(&[token]));
        match ledger.apply(&[Change { kind, key, expected: version, body }]) {
            Ok(()) if granted.wrong_pins < WRONG_PINS_MAX => {
                return Ok(PinCheck::Wrong(WRONG_PINS_MAX - granted.wrong_pins));
            }
            Ok(()) => return Ok(PinCheck::Dead),
            Err(LedgerError::Conflict { .. }) if tries < CONFLICTS_MAX => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

fn remember(
    ledger: &mut dyn LedgerBackend,
    holder: &str,
    now_us: i64,
) -> Result<PinCheck, LedgerError> {
    let Some(cookie) = token() else {
        return Err(LedgerError::Unusable("cannot make a cookie: no random numbers".to_owned()));
    };
    let device =
        DeviceGrant { holder: holder.to_owned(), expires_us: now_us.saturating_add(DEVICE_US) };
    ledger.apply(&[Change {
        kind: DEVICE_KIND.to_owned(),
        key: hash(&[&cookie]),
        expected: 0,
        body: Some((json(&device), Some(device.expires_us))),
    }])?;
    Ok(PinCheck::Right(cookie))
}

/// Whether a cookie is that of a device which the holder of a link used before.
///
/// # Errors
/// `Unusable`.
pub fn is_paired(
    ledger: &mut dyn LedgerBackend,
    granted: &LinkGrant,
    cookie: &str,
    now_us: i64,
) -> Result<bool, LedgerError> {
    if !is_token(cookie) {
        return Ok(false);
    }
    let document = ledger.get(DEVICE_KIND, &hash(&[cookie]))?;
    let device = document.and_then(|found| serde_json::from_str::<DeviceGrant>(&found.body).ok());
    Ok(device.is_some_and(|device| device.holder == granted.holder() && now_us < device.expires_us))
}

/// The key of a calendar's address, from a secret of this weir.
pub fn calendar_key(secret: &str, rota: &str) -> String {
    tag(secret, &["calendar", rota])
}

/// Whether a key is that of a calendar's address.
pub fn is_calendar_key(given: &str, secret: &str, rota: &str) -> bool {
    is_tag(given, secret, &["calendar", rota])
}

/// 128 random bits in hex; `None` when the system has no random numbers.
pub fn token() -> Option<String> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

fn is_token(text: &str) -> bool {
    text.len() == 2 * TOKEN_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Four digits. The remainder favours no PIN by more than one in 400,000.
fn pin() -> Option<String> {
    let mut bytes = [0_u8; 4];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(format!("{:04}", u32::from_be_bytes(bytes) % 10_000))
}

fn hash(parts: &[&str]) -> String {
    hex(digest(&SHA256, parts.join("/").as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("grants have texts and numbers only")
}

#[cfg(test)]
mod tests {
    use weir_actions::NoticeKind;

    use super::*;
    use crate::outbox::MemoryLedger;
    use crate::testing::samples::message;

    const NOW_US: i64 = 1_796_000_000_000_000;
    const PAGE: &str = "https://weir.example.net";

    fn linked(ledger: &mut MemoryLedger) -> (String, String) {
        let notice = message(NoticeKind::Page).notice;
        let (link, change) = grant(&notice, PAGE, NOW_US).unwrap();
        ledger.apply(&[change]).unwrap();
        let token = link.url.strip_prefix("https://weir.example.net/a/").unwrap().to_owned();
        (token, link.pin)
    }

    #[test]
    fn link_is_for_one_incident_and_person_and_ends_after_a_day() {
        let mut ledger = MemoryLedger::default();
        let (token, pin) = linked(&mut ledger);
        let found = find(&mut ledger, &token, NOW_US).unwrap().unwrap();
        assert_eq!((found.incident.as_str(), found.holder()), ("k3f9", "ada"));
        assert_eq!(find(&mut ledger, &token, NOW_US + LINK_US), Ok(None));
        for wrong in ["", "..", &token[1..], &"0".repeat(32)] {
            assert_eq!(find(&mut ledger, wrong, NOW_US), Ok(None), "{wrong}");
        }
        let kept = format!("{:?}", ledger.all(LINK_KIND).unwrap());
        assert!(!kept.contains(&token) && !kept.contains(&format!("\"{pin}\"")), "{kept}");
        assert_eq!(ledger.due(LINK_KIND, NOW_US + LINK_US, 9).unwrap().len(), 1);
    }

    #[test]
    fn right_pin_remembers_the_device_for_this_person_only() {
        let mut ledger = MemoryLedger::default();
        let (token, pin) = linked(&mut ledger);
        let spaced = format!(" {} {} ", &pin[..2], &pin[2..]);
        let PinCheck::Right(cookie) = check_pin(&mut ledger, &token, &spaced, NOW_US).unwrap()
        else {
            panic!("the PIN is right")
        };
        let found = find(&mut ledger, &token, NOW_US).unwrap().unwrap();
        assert_eq!(is_paired(&mut ledger, &found, &cookie, NOW_US), Ok(true));
        assert_eq!(is_paired(&mut ledger, &found, &token, NOW_US), Ok(false));
        let other = LinkGrant { person: Some("bo".to_owned()), ..found.clone() };
        assert_eq!(is_paired(&mut ledger, &other, &cookie, NOW_US), Ok(false));
        assert_eq!(is_paired(&mut ledger, &found, &cookie, NOW_US + DEVICE_US), Ok(false));
    }

    #[test]
    fn five_wrong_pins_end_a_link() {
        let mut ledger = MemoryLedger::default();
        let (token, pin) = linked(&mut ledger);
        let wrong = if pin == "0000" { "0001" } else { "0000" };
        for left in (1..WRONG_PINS_MAX).rev() {
            let checked = check_pin(&mut ledger, &token, wrong, NOW_US);
            assert_eq!(checked, Ok(PinCheck::Wrong(left)));
        }
        assert_eq!(check_pin(&mut ledger, &token, wrong, NOW_US), Ok(PinCheck::Dead));
        assert_eq!(check_pin(&mut ledger, &token, &pin, NOW_US), Ok(PinCheck::Dead));
        assert_eq!(find(&mut ledger, &token, NOW_US), Ok(None));
    }

    #[test]
    fn notice_without_a_page_or_without_anything_to_do_has_no_link() {
        let page = message(NoticeKind::Page).notice;
        assert!(grant(&page, "", NOW_US).is_none());
        for kind in [NoticeKind::Ack, NoticeKind::Resolved, NoticeKind::Test] {
            assert!(grant(&message(kind).notice, PAGE, NOW_US).is_none(), "{kind:?}");
        }
        let mut letter = message(NoticeKind::Mail).notice;
        letter.incident.id.clear();
        assert!(grant(&letter, PAGE, NOW_US).is_none());
    }
}
