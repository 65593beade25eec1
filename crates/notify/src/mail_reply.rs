//! Answers by mail: what a person replied to a mail of weir, from the raw message.
//!
//! The mail that is answered is named by `In-Reply-To` and `References` (RFC 5322, 3.6.4); its
//! Message-ID has the notice's id. The first word that the person wrote is what to do. A vacation
//! program answers as well, so messages that are marked as automatic (RFC 3834, `Precedence`) and
//! those whose first word is no command do nothing.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::replies::ReplyAction;

/// Longest mail that is read.
pub const MAIL_BYTES_MAX: usize = 1 << 20;
/// Ids of mails that a reply may name.
const IDS_MAX: usize = 50;
/// Parts of a mail within parts.
const DEPTH_MAX: usize = 4;
/// Words that acknowledge, and words that resolve.
const ACK_WORDS: [&str; 5] = ["ack", "acknowledge", "acknowledged", "taking", "mine"];
const RESOLVE_WORDS: [&str; 4] = ["resolve", "resolved", "close", "closed"];

/// A reply to a mail of weir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailReply {
    /// Ids of notices that it may answer, the nearest first.
    pub notice_ids: Vec<String>,
    /// The sender's address, lower case.
    pub from: String,
    /// What to do.
    pub action: ReplyAction,
}

/// Why a mail is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailReplyError {
    /// A program wrote it: a vacation notice, a bounce.
    Automatic,
    /// It answers no mail of weir.
    NoReference,
    /// It has no sender, or more than one.
    NoSender,
    /// The first word of the text is no command.
    NoCommand,
    /// It is longer than the limit.
    TooLong,
}

impl fmt::Display for MailReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Automatic => "a program wrote it (`Auto-Submitted`, `Precedence`)",
            Self::NoReference => "it answers no mail of weir (`In-Reply-To`)",
            Self::NoSender => "it has no single sender (`From`)",
            Self::NoCommand => "its first word is neither `ack` nor `resolve`",
            Self::TooLong => "it is longer than 1 MiB",
        })
    }
}

impl std::error::Error for MailReplyError {}

/// Reads a reply as a mail server pipes it.
///
/// # Errors
/// Why it is no answer.
pub fn parse_mail_reply(mail: &[u8]) -> Result<MailReply, MailReplyError> {
    if mail.len() > MAIL_BYTES_MAX {
        return Err(MailReplyError::TooLong);
    }
    let text = String::from_utf8_lossy(mail).replace("\r\n", "\n");
    let part = MailPart::parse(&text);
    if part.is_automatic() {
        return Err(MailReplyError::Automatic);
    }
    let notice_ids = notice_ids(&part);
    if notice_ids.is_empty() {
        return Err(MailReplyError::NoReference);
    }
    let from = part.header("from").and_then(sender).ok_or(MailReplyError::NoSender)?;
    let body = part.plain_text(DEPTH_MAX).unwrap_or_default();
    let action = command(&body).ok_or(MailReplyError::NoCommand)?;
    Ok(MailReply { notice_ids, from, action })
}

/// Headers and body of a mail, or of a part of it.
struct MailPart<'a> {
    headers: Vec<(String, String)>,
    body: &'a str,
}

impl<'a> MailPart<'a> {
    fn parse(text: &'a str) -> Self {
        // mbox files begin with a line that is no header.
        let text = match text.strip_prefix("From ") {
            Some(rest) => rest.split_once('\n').map_or("", |(_, rest)| rest),
            None => text,
        };
        let (head, body) = match text.strip_prefix('\n') {
            Some(body) => ("", body),
            None => text.split_once("\n\n").unwrap_or((text, "")),
        };
        let mut headers: Vec<(String, String)> = Vec::new();
        for line in head.lines() {
            match (headers.last_mut(), line.split_once(':')) {
                (Some((_, value)), _) if line.starts_with([' ', '\t']) => {
                    value.push(' ');
                    value.push_str(line.trim());
                }
                (_, Some((name, value))) => {
                    headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
                }
                _ => {}
            }
        }
        Self { headers, body }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn has_word(&self, name: &str, words: &[&str]) -> bool {
        let value = self.header(name).unwrap_or_default().trim().to_ascii_lowercase();
        words.iter().any(|word| value == *word)
    }

    /// Whether a program wrote it.
    fn is_automatic(&self) -> bool {
        let submitted = self.header("auto-submitted").map(str::to_ascii_lowercase);
        let is_bounce = self.header("return-path").is_some_and(|path| path.trim() == "<>");
        submitted.is_some_and(|word| !word.trim().starts_with("no"))
            || self.has_word("precedence", &["bulk", "junk", "list", "auto_reply"])
            || self.header("x-autoreply").is_some_and(|word| !word.eq_ignore_ascii_case("no"))
            || self.header("x-autorespond").is_some()
            || self.header("content-type").is_some_and(|kind| kind.starts_with("multipart/report"))
            || is_bounce
    }

    /// The first part of plain text, decoded.
    fn plain_text(&self, depth: usize) -> Option<String> {
        let kind = self.header("content-type").unwrap_or("text/plain");
        let lower = kind.to_ascii_lowercase();
        if lower.starts_with("multipart/") {
            let mark = format!("--{}", parameter([kind, "boundary"])?);
            let parts = self.body.split(mark.as_str()).skip(1);
            return parts.take_while(|part| depth > 0 && !part.starts_with("--")).find_map(
                |part| {
                    let part = part.strip_prefix('\n').unwrap_or(part);
                    MailPart::parse(part).plain_text(depth - 1)
                },
            );
        }
        lower.starts_with("text/plain").then(|| self.decoded())
    }

    fn decoded(&self) -> String {
        if self.has_word("content-transfer-encoding", &["base64"]) {
            let letters: String = self.body.split_whitespace().collect();
            let bytes = BASE64_STANDARD.decode(letters).unwrap_or_default();
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        if self.has_word("content-transfer-encoding", &["quoted-printable"]) {
            // Words of commands are ASCII; what is encoded is none.
            return self.body.replace("=\n", "").replace("=20", " ");
        }
        self.body.to_owned()
    }
}

/// A parameter of a header: `boundary="x"`.
fn parameter([header, name]: [&str; 2]) -> Option<String> {
    header.split(';').skip(1).find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let value = value.trim().trim_matches('"');
        (key.trim().eq_ignore_ascii_case(name) && !value.is_empty()).then(|| value.to_owned())
    })
}

/// Ids of notices in `In-Reply-To`, then in `References` from its end.
fn notice_ids(part: &MailPart<'_>) -> Vec<String> {
    let direct = part.header("in-reply-to").unwrap_or_default();
    let thread = part.header("references").unwrap_or_default();
    let mut ids: Vec<String> = Vec::new();
    for word in direct.split_whitespace().chain(thread.split_whitespace().rev()) {
        let id = word.trim_matches(['<', '>', ',']).split('@').next().unwrap_or_default();
        let is_ours = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_ours && ids.len() < IDS_MAX && !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    ids
}

/// The one address of `From`.
fn sender(from: &str) -> Option<String> {
    let address = match from.rsplit_once('<') {
        Some((_, rest)) => rest.split_once('>')?.0,
        None => from,
    };
    let address = address.trim().to_lowercase();
    let is_one = address
        .split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && host.contains('.') && !host.contains('@'));
    let is_plain = !address.contains(|letter: char| letter.is_whitespace() || letter == ',');
    (is_one && is_plain).then_some(address)
}

/// The command in the first line that the person wrote.
fn command(body: &str) -> Option<ReplyAction> {
    let line = body.lines().map(str::trim).find(|line| !line.is_empty())?;
    if line.starts_with('>') {
        return None;
    }
    let word = line.split(|letter: char| !letter.is_ascii_alphanumeric()).next()?;
    let word = word.to_ascii_lowercase();
    if ACK_WORDS.contains(&word.as_str()) {
        return Some(ReplyAction::Acknowledge);
    }
    RESOLVE_WORDS.contains(&word.as_str()).then_some(ReplyAction::Resolve)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    fn reply(headers: &str, body: &str) -> Result<MailReply, MailReplyError> {
        let mail = format!(
            "From: Ada <Ada@Example.net>\r\nIn-Reply-To: <{ID}@example.net>\r\n{headers}\r\n{body}"
        );
        parse_mail_reply(mail.as_bytes())
    }

    fn text_reply(mail: &str) -> Result<MailReply, MailReplyError> {
        parse_mail_reply(mail.as_bytes())
    }

    #[test]
    fn first_word_above_the_quotation_is_the_command() {
        let quoted = "\r\n> PAGE web3 app.down\r\n> resolve it\r\n";
        for (word, action) in [
            ("ack", ReplyAction::Acknowledge),
            ("ACK, on it", ReplyAction::Acknowledge),
            ("\r\n  Resolved.", ReplyAction::Resolve),
        ] {
            let found = reply("", &format!("{word}{quoted}")).unwrap();
            assert_eq!((found.action, found.from.as_str()), (action, "ada@example.net"));
            assert_eq!(found.notice_ids, [ID]);
        }
        for body in
            ["", "thanks", "> ack", "On Monday weir wrote:\r\n> ack", "acknowledging nothing"]
        {
            assert_eq!(reply("", body), Err(MailReplyError::NoCommand), "{body}");
        }
    }

    /// Programs that answer by themselves: zulip/zulip#13193, mysociety/alaveteli#2045,
    /// beyondcode/laravel-mailbox#89.
    #[test]
    fn automatic_answers_do_nothing() {
        for header in [
            "Auto-Submitted: auto-replied",
            "Auto-Submitted: auto-generated (vacation)",
            "Precedence: auto_reply",
            "Precedence: bulk",
            "X-Autoreply: yes",
            "X-Autorespond: Out of office",
            "Return-Path: <>",
            "Content-Type: multipart/report; report-type=delivery-status; boundary=x",
        ] {
            let found = reply(&format!("{header}\r\n"), "ack");
            assert_eq!(found, Err(MailReplyError::Automatic), "{header}");
        }
        assert!(reply("Auto-Submitted: no\r\n", "ack").is_ok());
        // One without any mark: its first words are no command.
        let away = "I am out of office until Monday, and acknowledge no pages.";
        assert_eq!(reply("", away), Err(MailReplyError::NoCommand));
    }

    #[test]
    fn text_part_of_a_mail_with_html_is_read_and_decoded() {
        let multipart = "Content-Type: multipart/alternative;\r\n boundary=\"b1\"\r\n";
        let html = "--b1\r\nContent-Type: text/html\r\n\r\n<p>resolve</p>\r\n--b1--\r\n";
        for part in [
            "Content-Type: text/plain; charset=utf-8\r\n\r\nack\r\n",
            "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nYWNrDQo+IGhp\r\n",
            "Content-Type: TEXT/PLAIN\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\na=\r\nck=20\r\n",
        ] {
            let body = format!("preamble\r\n--b1\r\n{part}{html}");
            let found = reply(multipart, &body).unwrap();
            assert_eq!(found.action, ReplyAction::Acknowledge, "{part}");
        }
        assert_eq!(reply(multipart, html), Err(MailReplyError::NoCommand));
    }

    #[test]
    fn mail_without_our_reference_or_a_single_sender_is_refused() {
        assert_eq!(text_reply("From: a@example.net\n\nack"), Err(MailReplyError::NoReference));
        let reference = format!("References: <x@y.example> <{ID}@example.net>\n");
        let found = text_reply(&format!("From: a@example.net\n{reference}\nack")).unwrap();
        assert_eq!(found.notice_ids, [ID]);
        for from in ["", "From: a@example.net, b@example.net\n", "From: root\n", "From: <>\n"] {
            let found = text_reply(&format!("{from}{reference}\nack"));
            assert_eq!(found, Err(MailReplyError::NoSender), "{from}");
        }
        let long = vec![b'x'; MAIL_BYTES_MAX + 1];
        assert_eq!(parse_mail_reply(&long), Err(MailReplyError::TooLong));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        println!("seed 11");
        let mut random = fastrand::Rng::with_seed(11);
        let alphabet = b"From: a@b.c\n\n--b1Content-Type: multipart/x; boundary=b1\n =\"\xff";
        for _ in 0..3000 {
            let length = random.usize(..200);
            let mail: Vec<u8> = (0..length).map(|_| *random.choice(alphabet).unwrap()).collect();
            let _ = parse_mail_reply(&mail);
        }
    }
}
