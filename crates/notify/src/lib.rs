//! Sends notices to people and systems: mail, webhooks, chats, pagers; each once.
//!
//! A kind of receiver is one file and one line in a list ([`RECEIVERS`]). A receiver sends one
//! message and reports whether to try again; what is sent when is decided before.

pub mod forms;
mod http_client;
pub mod links;
pub mod mail_reply;
pub mod outbox;
mod receiver;
mod receivers;
mod replies;
mod settings;
pub mod templates;

#[cfg(test)]
mod kind_tests;
#[cfg(test)]
mod testing;

pub use http_client::shortened;
pub use receiver::{Accepted, ActLink, Message, RateLimit, Receiver, RetryAdvice, SendError};
pub use receivers::RECEIVERS;
pub use replies::{Reply, ReplyAction, ReplyBatch, ReplyRequest, ReplySource, SentMessage};
pub use settings::{ReceiverSettings, ReceiverSpec, SettingError, SettingSource};
