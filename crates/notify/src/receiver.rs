//! The trait that every kind of receiver implements.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use weir_actions::Notice;

use crate::replies::ReplySource;
use crate::templates::TemplateSet;

/// A notice with what is known at the time of sending.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The notice.
    pub notice: Notice,
    /// Whether an earlier attempt may have arrived: weir ended between sending and noting.
    pub is_repeat: bool,
    /// What the receiver called the first notice of this incident: a message id, a thread.
    pub thread: Option<String>,
    /// Address of the page: `https://weir.example.net`; empty when not known.
    pub page_url: String,
    /// The time of sending, microseconds since 1970.
    pub now_us: i64,
    /// Where the person acts on the incident without a login; `None` without such a page.
    pub act_link: Option<ActLink>,
    /// Templates that replace forms of the message; `None` where every form is built in.
    pub templates: Option<Arc<TemplateSet>>,
}

/// A link to a page on which one person acts on one incident.
#[derive(Clone, PartialEq, Eq)]
pub struct ActLink {
    /// The address with its token.
    pub url: String,
    /// What the page demands of a device that was not used before.
    pub pin: String,
}

impl fmt::Debug for ActLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ActLink")
    }
}

/// The receiver took the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// What it answered, shortened: `202`, `250 2.0.0 Ok: queued as 4F2`.
    pub answer: String,
    /// What it calls this message, for later messages of the incident.
    pub external_id: Option<String>,
}

/// When to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Never: the receiver refuses for good, so the next contact is tried.
    Never,
    /// After the usual pause; the message did not arrive.
    Backoff,
    /// After the usual pause; the message may have arrived, since the connection ended before the
    /// answer. The next attempt is marked as a repeat.
    Unclear,
    /// Not before: the receiver said so.
    After(Duration),
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError {
    /// What, on what, why, without secrets.
    pub message: String,
    /// When to try again.
    pub retry: RetryAdvice,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SendError {}

/// Messages that a receiver may be sent: a token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Messages at once.
    pub burst: f64,
    /// Messages per second after that.
    pub per_second: f64,
}

/// A person's mailbox, a chat, a pager, another alerting system.
#[async_trait]
pub trait Receiver: fmt::Debug + Send + Sync {
    /// Sends one message. The caller ends it after 10 s.
    ///
    /// # Errors
    /// Why it was not taken, and when to try again.
    async fn send(&self, message: &Message) -> Result<Accepted, SendError>;

    /// Checks address and login without disturbing anybody; what was found, for people.
    ///
    /// # Errors
    /// Why a message could not be sent now.
    async fn probe(&self) -> Result<String, SendError>;

    /// Whether sending a message twice shows it once.
    fn is_idempotent(&self) -> bool;

    /// How fast it may be sent to.
    fn rate_limit(&self) -> RateLimit;

    /// How often the state of an incident is sent again, since the receiver drops what is not
    /// repeated; `None` where a message stays.
    fn refresh_pause(&self) -> Option<Duration> {
        None
    }

    /// Whether people read it, so that it gets what is about no incident: hand-overs and reports.
    fn is_read_by_people(&self) -> bool {
        true
    }

    /// Whether mails of several incidents may be one message.
    fn takes_digests(&self) -> bool {
        self.is_read_by_people()
    }

    /// Where the answers of people are read; `None` where the receiver has no way back.
    fn replies(&self) -> Option<&dyn ReplySource> {
        None
    }
}
