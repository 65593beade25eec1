//! A small SMTP server of tests: RFC 5321's dialogue, STARTTLS and a script of replies.
//!
//! It runs in threads, so that rustls serves without an adapter for tokio.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What happens at a command instead of the usual reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SmtpReaction {
    Reply(&'static str),
    Drop,
    Hang,
}

/// How the server behaves.
#[derive(Clone, Default)]
pub(crate) struct SmtpScript {
    /// The certificate for STARTTLS; not offered without one.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// TLS from the first byte.
    pub(crate) is_implicit: bool,
    /// Reactions by the first word of a command; `.` is the end of the data, `CONNECT` the start.
    pub(crate) reactions: Vec<(&'static str, SmtpReaction)>,
}

/// What arrived.
#[derive(Default)]
pub(crate) struct SmtpRecord {
    pub(crate) commands: Vec<String>,
    /// Contents after removal of the doubled dots.
    pub(crate) mails: Vec<String>,
}

pub(crate) struct SmtpDouble {
    pub(crate) port: u16,
    record: Arc<Mutex<SmtpRecord>>,
}

/// A certificate for 127.0.0.1: the server's configuration, and the PEM that trusts it.
pub(crate) fn certificate() -> (Arc<ServerConfig>, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
        .expect("an address is a name");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("rcgen writes DER");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("key and certificate fit");
    (Arc::new(config), made.cert.pem().into_bytes())
}

/// A stream in the clear or over TLS.
trait DuplexStream: Read + Write {}
impl<T: Read + Write> DuplexStream for T {}

impl SmtpDouble {
    pub(crate) fn start(script: SmtpScript) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound socket").port();
        let record = Arc::new(Mutex::new(SmtpRecord::default()));
        let shared = Arc::clone(&record);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let dialogue = SmtpDialogue { script: script.clone(), record: Arc::clone(&shared) };
                thread::spawn(move || dialogue.serve(stream));
            }
        });
        Self { port, record }
    }

    pub(crate) fn commands(&self) -> Vec<String> {
        self.record.lock().commands.clone()
    }

    pub(crate) fn mails(&self) -> Vec<String> {
        self.record.lock().mails.clone()
    }
}

/// The first word of a command and what the server replies without a script.
struct UsualReply<'a>(&'a str, &'a str);

struct SmtpDialogue {
    script: SmtpScript,
    record: Arc<Mutex<SmtpRecord>>,
}

impl SmtpDialogue {
    fn serve(&self, stream: TcpStream) -> Option<()> {
        if self.script.is_implicit {
            let mut stream = self.encrypted(stream)?;
            self.greet(&mut stream)?;
            return self.talk(&mut stream, true).map(drop);
        }
        let mut clear = stream.try_clone().ok()?;
        self.greet(&mut clear)?;
        if self.talk(&mut clear, false)? {
            self.talk(&mut self.encrypted(stream)?, true)?;
        }
        None
    }

    fn encrypted(&self, stream: TcpStream) -> Option<StreamOwned<ServerConnection, TcpStream>> {
        let config = Arc::clone(self.script.tls.as_ref()?);
        Some(StreamOwned::new(ServerConnection::new(config).ok()?, stream))
    }

    fn greet(&self, stream: &mut dyn DuplexStream) -> Option<bool> {
        self.reply(stream, UsualReply("CONNECT", "220 double.example ESMTP"))
    }

    /// The script's reaction or the usual reply; `None` ends the connection.
    fn reply(&self, stream: &mut dyn DuplexStream, usual: UsualReply<'_>) -> Option<bool> {
        let UsualReply(word, usual) = usual;
        let scripted = self.script.reactions.iter().find(|(at, _)| *at == word);
        let text = match scripted.map(|(_, reaction)| *reaction) {
            None => usual,
            Some(SmtpReaction::Reply(text)) => text,
            Some(SmtpReaction::Drop) => return None,
            Some(SmtpReaction::Hang) => loop {
                // The client's end of the connection ends the wait.
                if stream.read(&mut [0]).ok()? == 0 {
                    return None;
                }
            },
        };
        stream.write_all(format!("{text}\r\n").as_bytes()).ok()?;
        stream.flush().ok()?;
        Some(text.starts_with(['2', '3']))
    }

    /// Whether the client starts TLS now; `None` at the end of the connection.
    fn talk(&self, stream: &mut dyn DuplexStream, is_encrypted: bool) -> Option<bool> {
        loop {
            let line = read_line(stream)?;
            self.record.lock().commands.push(line.clone());
            let word = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            match word.as_str() {
                "EHLO" => {
                    let offer = if self.script.tls.is_some() && !is_encrypted {
                        "250-double.example\r\n250-STARTTLS\r\n250 8BITMIME"
                    } else {
                        "250-double.example\r\n250-AUTH PLAIN\r\n250 8BITMIME"
                    };
                    self.reply(stream, UsualReply(&word, offer))?;
                }
                "STARTTLS" => return self.reply(stream, UsualReply(&word, "220 go ahead")),
                "DATA" => {
                    if self.reply(stream, UsualReply(&word, "354 end with a dot"))? {
                        let mail = read_mail(stream)?;
                        // Recorded before the reply, after which a test reads it.
                        if !self.script.reactions.iter().any(|(at, _)| *at == ".") {
                            self.record.lock().mails.push(mail);
                        }
                        self.reply(stream, UsualReply(".", "250 2.0.0 Ok: queued as 4F2"))?;
                    }
                }
                "AUTH" => {
                    self.reply(stream, UsualReply(&word, "235 2.7.0 welcome"))?;
                }
                "MAIL" | "RCPT" | "RSET" => {
                    self.reply(stream, UsualReply(&word, "250 2.1.0 Ok"))?;
                }
                "QUIT" => {
                    self.reply(stream, UsualReply(&word, "221 bye"))?;
                    return None;
                }
                _ => {
                    self.reply(stream, UsualReply(&word, "500 unknown command"))?;
                }
            }
        }
    }
}

/// A line without its end, byte by byte, so that nothing of a TLS handshake is taken along.
fn read_line(stream: &mut dyn DuplexStream) -> Option<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        line.push(byte[0]);
    }
    line.truncate(line.len() - 2);
    String::from_utf8(line).ok()
}

fn read_mail(stream: &mut dyn DuplexStream) -> Option<String> {
    let mut mail = String::new();
    loop {
        let line = read_line(stream)?;
        if line == "." {
            return Some(mail);
        }
        mail.push_str(line.strip_prefix('.').unwrap_or(&line));
        mail.push_str("\r\n");
    }
}
