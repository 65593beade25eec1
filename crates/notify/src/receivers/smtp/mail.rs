//! The mail of a notice: headers, text, and HTML as its alternative.
//!
//! The Message-ID comes from the notice's id, so it is the same at every attempt.
//! `Auto-Submitted` (RFC 3834) keeps vacation programs from answering.

use std::time::{Duration, SystemTime};

use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};

use crate::forms::{CHART_ID, chart, html, subject, text};
use crate::receiver::Message;

/// The header `Auto-Submitted: auto-generated`.
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

/// `<id@domain>`; the domain is the sender's.
pub(super) fn message_id(message: &Message, from: &Mailbox) -> String {
    let id = message.notice.id.chars().filter(char::is_ascii_alphanumeric);
    let domain = from.email.domain();
    let domain = if domain.is_ascii() { domain } else { "weir.invalid" };
    format!("<{}@{domain}>", id.collect::<String>())
}

/// Whether a text is a message id and nothing more, fit for a header.
fn is_message_id(text: &str) -> bool {
    let inner = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
    inner.is_some_and(|inner| {
        inner.contains('@')
            && inner.len() <= 250
            && inner.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'<' && byte != b'>')
    })
}

fn date(now_us: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(now_us).unwrap_or(0))
}

pub(super) fn mail(
    message: &Message,
    from: &Mailbox,
    to: Mailbox,
) -> Result<lettre::Message, lettre::error::Error> {
    let id = message_id(message, from);
    let mut builder = lettre::Message::builder()
        .from(from.clone())
        .to(to)
        .subject(subject(message))
        .date(date(message.now_us))
        .message_id(Some(id.clone()))
        .header(AutoSubmitted);
    if let Some(first) =
        message.thread.as_deref().filter(|first| is_message_id(first) && *first != id)
    {
        builder = builder.in_reply_to(first.to_owned()).references(first.to_owned());
    }
    let parts = MultiPart::alternative()
        .boundary(format!("weir-{}", id.trim_matches(['<', '>']).split('@').next().unwrap_or("0")))
        .singlepart(part(ContentType::TEXT_PLAIN, text(message)))
        .singlepart(part(ContentType::TEXT_HTML, html(message)));
    match chart(message) {
        None => builder.multipart(parts),
        Some(picture) => builder.multipart(with_picture(parts, picture)),
    }
}

/// The mail with a picture that its HTML shows.
fn with_picture(parts: MultiPart, picture: Vec<u8>) -> MultiPart {
    let kind = ContentType::parse("image/png").expect("a media type");
    let inline = Attachment::new_inline(CHART_ID.to_owned()).body(picture, kind);
    MultiPart::related().multipart(parts).singlepart(inline)
}

fn part(kind: ContentType, body: String) -> SinglePart {
    SinglePart::builder().header(kind).body(body)
}
