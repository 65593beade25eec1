//! Answers of people in a receiver's own app: a button, a reaction, a confirmed alarm.
//!
//! weir reads them by a connection that it makes itself, so no port has to be open. A button carries
//! a tag made with the receiver's secret: any other text that is sent there changes nothing.

use async_trait::async_trait;
use ring::hmac;

use crate::receiver::SendError;

/// Hex digits of a tag: 64 bits, which can only be tried online.
const TAG_DIGITS: usize = 16;

/// A person's decision about an incident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyAction {
    /// The person works on it.
    #[default]
    Acknowledge,
    /// It is over.
    Resolve,
}

impl ReplyAction {
    /// The word in buttons.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledge => "ack",
            Self::Resolve => "resolve",
        }
    }

    /// The action of a button's word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Acknowledge, Self::Resolve].into_iter().find(|action| action.as_str() == word)
    }
}

/// A message that people may answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMessage {
    /// Its incident.
    pub incident: String,
    /// The address within the receiver; the receiver's own without one.
    pub address: Option<String>,
    /// The receiver's names for the newest messages about the incident.
    pub external_ids: Vec<String>,
}

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct ReplyRequest {
    /// Where the last batch ended; `None` the first time.
    pub cursor: Option<String>,
    /// Messages that are not answered yet.
    pub sent: Vec<SentMessage>,
    /// The time, microseconds since 1970.
    pub now_us: i64,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The incident's id.
    pub incident: String,
    /// What to do.
    pub action: ReplyAction,
    /// The person's name as the receiver has it; empty when it has none.
    pub name: String,
    /// The address within the receiver that it came from.
    pub address: Option<String>,
    /// The receiver's handle for [`ReplySource::answer`]; empty without one.
    pub handle: String,
}

/// Answers, and where the next batch begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyBatch {
    /// The answers, oldest first.
    pub replies: Vec<Reply>,
    /// For the next request; kept over restarts, so that no answer is read twice.
    pub cursor: Option<String>,
}

/// A receiver whose answers can be read.
#[async_trait]
pub trait ReplySource: Send + Sync {
    /// Waits for answers, 40 s at most, and returns them; none is usual.
    ///
    /// # Errors
    /// Why they cannot be read now.
    async fn read(&self, request: &ReplyRequest) -> Result<ReplyBatch, SendError>;

    /// Shows a person what became of the answer.
    ///
    /// # Errors
    /// Why it cannot be shown; nothing depends on it.
    async fn answer(&self, reply: &Reply, text: &str) -> Result<(), SendError> {
        let _ = (reply, text);
        Ok(())
    }
}

/// The tag of a button, which cannot be made without the secret.
pub(crate) fn tag(secret: &str, parts: &[&str]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signed = hmac::sign(&key, parts.join("\n").as_bytes());
    let digits = signed.as_ref().iter().take(TAG_DIGITS / 2);
    digits.map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a tag is the one of these parts; takes the same time for every wrong one.
pub(crate) fn is_tag(given: &str, secret: &str, parts: &[&str]) -> bool {
    let wanted = tag(secret, parts);
    let differences = given.bytes().zip(wanted.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == wanted.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_belongs_to_its_secret_and_parts() {
        let made = tag("s3cret", &["ack", "k3f9"]);
        assert_eq!(made.len(), TAG_DIGITS);
        assert!(is_tag(&made, "s3cret", &["ack", "k3f9"]));
        for (secret, parts) in [("other", ["ack", "k3f9"]), ("s3cret", ["resolve", "k3f9"])] {
            assert!(!is_tag(&made, secret, &parts));
        }
        assert!(!is_tag(&made[..8], "s3cret", &["ack", "k3f9"]) && !is_tag("", "s3cret", &[]));
    }
}
