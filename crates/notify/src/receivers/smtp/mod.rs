//! Mail by SMTP: STARTTLS, TLS from the start on port 465, or in the clear where that is allowed.
//!
//! Each mail has its own connection, so a server's idle timeout never hits a page. The reply
//! to the end of the data decides (RFC 5321): 2yz taken, 4yz later, 5yz never. `QUIT` comes after
//! that and its reply is not waited for, since a timeout there would repeat a mail that arrived.

mod mail;
mod no_read_ahead;

use std::time::Duration;

use async_trait::async_trait;
use lettre::message::Mailbox;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, TlsParameters, TlsParametersBuilder,
};
use lettre::transport::smtp::commands::{Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::ClientId;
use reqwest::Url;

use self::no_read_ahead::NoReadAhead;
use crate::http_client::shortened;
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::settings::{Login, ReceiverSettings, ReceiverSpec, RequiredKey, SettingError, wrong};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "smtp",
    doc: "Mail by an SMTP server",
    keys: &["url", "tls", "from", "to", "user", "password_file", "ca_file"],
    read: |settings| Ok(Box::new(SmtpReceiver::read(settings)?)),
};

const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// Time for the farewell, which runs beside the next mail.
const QUIT_WAIT: Duration = Duration::from_secs(2);
const SUBMISSION_PORT: u16 = 587;
const IMPLICIT_TLS_PORT: u16 = 465;
const MAILBOX_HINT: &str = "write it as ada@example.net or Ada <ada@example.net>";
const URL_EXAMPLE: &str = "smtp://mail.example.net:587";

/// How a connection is encrypted.
#[derive(Clone)]
enum SmtpTls {
    /// In the clear.
    Clear,
    /// By STARTTLS; a server that does not offer it gets no mail.
    StartTls(TlsParameters),
    /// From the first byte.
    Implicit(TlsParameters),
}

struct SmtpReceiver {
    server: String,
    port: u16,
    tls: SmtpTls,
    from: Mailbox,
    to: Mailbox,
    login: Option<Login>,
}

impl std::fmt::Debug for SmtpReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("SmtpReceiver");
        fields.field("server", &self.server).field("port", &self.port).finish_non_exhaustive()
    }
}

/// Host and port of a server.
struct SmtpAddress {
    server: String,
    port: u16,
    is_implicit: bool,
}

impl SmtpAddress {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let text = settings.required(RequiredKey { key: "url", example: URL_EXAMPLE })?;
        let with_scheme =
            if text.contains("://") { text.clone() } else { format!("smtp://{text}") };
        let url = Url::parse(&with_scheme).ok();
        let url = url.filter(|url| ["smtp", "smtps"].contains(&url.scheme()));
        let Some((url, server)) = url.as_ref().and_then(|url| Some((url, url.host_str()?))) else {
            let message = format!("`{text}` is not an address of a mail server");
            return Err(wrong("url", message, format!("write it as {URL_EXAMPLE}")));
        };
        if !url.username().is_empty() || url.password().is_some() {
            let message = "the address holds a login, which would be shown with it".to_owned();
            return Err(wrong("url", message, "set `user` and `password_file`"));
        }
        let is_implicit = url.scheme() == "smtps" || url.port() == Some(IMPLICIT_TLS_PORT);
        let default = if is_implicit { IMPLICIT_TLS_PORT } else { SUBMISSION_PORT };
        Ok(Self {
            server: server.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(default),
            is_implicit,
        })
    }

    fn is_this_host(&self) -> bool {
        ["localhost", "127.0.0.1", "::1"].contains(&self.server.as_str())
    }
}

impl SmtpReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let address = SmtpAddress::read(settings)?;
        let from = settings.required(RequiredKey { key: "from", example: "weir@example.net" })?;
        let to = settings.required(RequiredKey { key: "to", example: "web-team@example.net" })?;
        let from = mailbox(&from).map_err(|message| wrong("from", message, MAILBOX_HINT))?;
        let to = mailbox(&to).map_err(|message| wrong("to", message, MAILBOX_HINT))?;
        let tls = tls(settings, &address)?;
        let login = settings.login()?;
        if login.is_some() && matches!(tls, SmtpTls::Clear) && !address.is_this_host() {
            let message = "the password would be sent in the clear".to_owned();
            return Err(wrong("tls", message, "leave `tls` out, or `user` and `password_file`"));
        }
        Ok(Self { server: address.server, port: address.port, tls, from, to, login })
    }

    /// The name in `EHLO`: the sender's domain. Relays refuse `localhost` and the address that
    /// stands for it.
    fn hello(&self) -> ClientId {
        let domain = self.from.email.domain();
        if domain.is_ascii() && domain.contains('.') {
            return ClientId::Domain(domain.to_owned());
        }
        ClientId::default()
    }

    /// A connection that is encrypted and logged in as the settings have it.
    async fn connect(&self) -> Result<AsyncSmtpConnection, SendError> {
        let (hello, server) = (self.hello(), (self.server.as_str(), self.port));
        let mut connection = if let SmtpTls::StartTls(parameters) = &self.tls {
            let connected = NoReadAhead::connect(server, CONNECT_WAIT).await;
            let stream =
                connected.map_err(|error| self.failed(&error.to_string(), RetryAdvice::Backoff))?;
            let greeted = AsyncSmtpConnection::connect_with_transport(Box::new(stream), &hello);
            let mut connection = greeted.await.map_err(|error| self.failure(&error))?;
            let encrypted = connection.starttls(parameters.clone(), &hello).await;
            encrypted.map_err(|error| self.failure(&error))?;
            connection
        } else {
            let implicit = match &self.tls {
                SmtpTls::Implicit(parameters) => Some(parameters.clone()),
                _ => None,
            };
            let wait = Some(CONNECT_WAIT);
            AsyncSmtpConnection::connect_tokio1(server, wait, &hello, implicit, None)
                .await
                .map_err(|error| self.failure(&error))?
        };
        if let Some(login) = &self.login {
            let credentials = Credentials::new(login.user.clone(), login.password.0.clone());
            let mechanisms = [Mechanism::Plain, Mechanism::Login];
            let logged_in = connection.auth(&mechanisms, &credentials).await;
            logged_in.map_err(|error| self.login_failure(&error))?;
        }
        Ok(connection)
    }

    fn failure(&self, error: &SmtpError) -> SendError {
        // A client's error is one of configuration: STARTTLS or a mechanism is not offered.
        let is_final = error.is_permanent() || error.is_client();
        let retry = if is_final { RetryAdvice::Never } else { RetryAdvice::Backoff };
        self.failed(&error.to_string(), retry)
    }

    /// The failure of a transaction: without a reply the server may have taken the mail.
    fn unsent(&self, error: &SmtpError) -> SendError {
        let failure = self.failure(error);
        let is_answered = error.is_permanent() || error.is_transient() || error.is_client();
        if is_answered { failure } else { SendError { retry: RetryAdvice::Unclear, ..failure } }
    }

    /// Servers repeat the line of a login in their reply, so only its code is shown.
    fn login_failure(&self, error: &SmtpError) -> SendError {
        let retry = self.failure(error).retry;
        let code = error.status().map(|code| format!(" ({code})")).unwrap_or_default();
        let why = if error.is_client() {
            "the server offers no login by PLAIN or LOGIN".to_owned()
        } else {
            format!("the login failed{code}; check `user` and `password_file`")
        };
        self.failed(&why, retry)
    }

    fn failed(&self, why: &str, retry: RetryAdvice) -> SendError {
        let why = shortened(why);
        SendError {
            message: format!("cannot send to `{}:{}`: {why}", self.server, self.port),
            retry,
        }
    }

    fn recipient(&self, message: &Message) -> Result<Mailbox, SendError> {
        let Some(address) = &message.notice.address else { return Ok(self.to.clone()) };
        mailbox(address).map_err(|message| self.failed(&message, RetryAdvice::Never))
    }
}

/// A mailbox: `ada@example.net`, `Ada <ada@example.net>`.
fn mailbox(text: &str) -> Result<Mailbox, String> {
    let mailbox = text.parse().ok().filter(|_| !text.chars().any(char::is_control));
    mailbox.ok_or_else(|| format!("`{}` is not a mail address", shortened(text)))
}

fn tls(settings: &ReceiverSettings<'_>, address: &SmtpAddress) -> Result<SmtpTls, SettingError> {
    let default = if address.is_implicit { "implicit" } else { "starttls" };
    let word = settings.text("tls").unwrap_or(default);
    if word == "none" {
        return Ok(SmtpTls::Clear);
    }
    let mut builder = TlsParametersBuilder::new(address.server.clone());
    if let Some(pem) = settings.authority()? {
        let certificate = Certificate::from_pem(pem)
            .map_err(|error| wrong("ca_file", error.to_string(), "write PEM"))?;
        builder = builder.add_root_certificate(certificate);
    }
    let parameters = builder.build_rustls().map_err(|error| {
        wrong("ca_file", format!("cannot set up TLS: {error}"), "check the certificates")
    })?;
    match word {
        "starttls" => Ok(SmtpTls::StartTls(parameters)),
        "implicit" => Ok(SmtpTls::Implicit(parameters)),
        _ => {
            let message = format!("there is no `{word}`");
            Err(wrong("tls", message, "write starttls, implicit or none"))
        }
    }
}

/// Says goodbye beside the caller; the mail is taken already.
fn say_goodbye(mut connection: AsyncSmtpConnection) {
    tokio::spawn(async move {
        let _reply = tokio::time::timeout(QUIT_WAIT, connection.quit()).await;
    });
}

#[async_trait]
impl Receiver for SmtpReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let to = self.recipient(message)?;
        let mail = mail::mail(message, &self.from, to)
            .map_err(|error| self.failed(&error.to_string(), RetryAdvice::Never))?;
        let mut connection = self.connect().await?;
        let sent = connection.send(mail.envelope(), &mail.formatted()).await;
        let reply = sent.map_err(|error| self.unsent(&error))?;
        let text: Vec<&str> = reply.message().collect();
        say_goodbye(connection);
        Ok(Accepted {
            answer: shortened(&format!("{} {}", reply.code(), text.join(" "))),
            external_id: Some(mail::message_id(message, &self.from)),
        })
    }

    /// Names sender and recipient, then takes both back.
    async fn probe(&self) -> Result<String, SendError> {
        let mut connection = self.connect().await?;
        let from = Mail::new(Some(self.from.email.clone()), vec![]);
        let to = Rcpt::new(self.to.email.clone(), vec![]);
        connection.command(from).await.map_err(|error| self.failure(&error))?;
        connection.command(to).await.map_err(|error| self.failure(&error))?;
        connection.command(Rset).await.map_err(|error| self.failure(&error))?;
        let tls = if connection.is_encrypted() { "over TLS" } else { "in the clear" };
        say_goodbye(connection);
        Ok(format!("`{}:{}` takes mail for `{}` {tls}", self.server, self.port, self.to.email))
    }

    /// Mail readers fold two mails of one Message-ID, but not all do.
    fn is_idempotent(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 20.0, per_second: 5.0 }
    }
}

#[cfg(test)]
mod tests;
