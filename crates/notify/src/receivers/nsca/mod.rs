//! NSCA: passive check results to a remote Nagios, encrypted or not.
//!
//! ```text
//!  server ──► IV (128 bytes), time (4)
//!  client ──► one packet of 4,304 bytes, encrypted with that IV
//! ```
//!
//! The server answers nothing, so what was written counts as taken. It refuses packets that are
//! older than 30 s, which is why the packet carries the server's own time.

mod packet;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::forms::{NoticeText, check_state, one_line, unlinked};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::receivers::nsca::packet::{
    CheckResult, GREETING_BYTES, PacketEncryption, ServerGreeting,
};
use crate::settings::{
    ReceiverSettings, ReceiverSpec, RequiredKey, SecretText, SettingError, wrong,
};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "nsca",
    doc: "Nagios on another host: passive check results by NSCA",
    keys: &["url", "encryption", "password_file", "host", "service"],
    read: |settings| Ok(Box::new(NscaReceiver::read(settings)?)),
};

const PORT: u16 = 5667;
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// How long the server has to close the connection after it has read the packet.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct NscaReceiver {
    server: String,
    port: u16,
    encryption: PacketEncryption,
    password: SecretText,
    host: Option<String>,
    service: Option<String>,
}

impl NscaReceiver {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let example = "nsca://nagios.example.net:5667";
        let text = settings.required(RequiredKey { key: "url", example })?;
        let with_scheme =
            if text.contains("://") { text.clone() } else { format!("nsca://{text}") };
        let url = Url::parse(&with_scheme).ok().filter(|url| url.scheme() == "nsca");
        let Some(server) = url.as_ref().and_then(Url::host_str).filter(|host| !host.is_empty())
        else {
            let message = format!("`{text}` is not an address of NSCA");
            return Err(wrong("url", message, format!("write it as {example}")));
        };
        let word = settings.text("encryption").unwrap_or("aes256");
        let encryption = PacketEncryption::parse(word).ok_or_else(|| {
            let message = format!("there is no encryption `{word}`");
            wrong("encryption", message, "write none, xor or aes256 as in nsca.cfg: 0, 1, 14")
        })?;
        let password = settings.password.as_deref().unwrap_or_default().trim().to_owned();
        if password.is_empty() && encryption == PacketEncryption::Aes256 {
            let example = "/etc/weir/nsca-password";
            return Err(SettingError::Missing { key: "password_file", example });
        }
        Ok(Self {
            server: server.trim_matches(['[', ']']).to_owned(),
            port: url.as_ref().and_then(Url::port).unwrap_or(PORT),
            encryption,
            password: SecretText(password),
            host: settings.text("host").map(str::to_owned),
            service: settings.text("service").map(str::to_owned),
        })
    }

    fn failure(&self, why: &str) -> SendError {
        let message = format!("cannot send to `{}:{}`: {why}", self.server, self.port);
        SendError { message, retry: RetryAdvice::Backoff }
    }

    /// Connects and reads IV and time.
    async fn connect(&self) -> Result<(TcpStream, ServerGreeting), SendError> {
        let connecting = TcpStream::connect((self.server.as_str(), self.port));
        let connected = timeout(CONNECT_WAIT, connecting).await;
        let connected = connected.map_err(|_| self.failure("no connection within 5 s"))?;
        let mut stream = connected.map_err(|error| self.failure(&error.to_string()))?;
        let mut bytes = [0; GREETING_BYTES];
        let read = stream.read_exact(&mut bytes).await;
        read.map_err(|error| self.failure(&format!("no greeting: {error}")))?;
        Ok((stream, ServerGreeting::read(&bytes)))
    }

    fn result(&self, message: &Message) -> CheckResult {
        let notice = NoticeText::new(message);
        let incident = &message.notice.incident;
        CheckResult {
            state: check_state(message),
            host: object_name(self.host.as_deref().unwrap_or(&incident.host)),
            service: object_name(self.service.as_deref().unwrap_or(&incident.root_rule)),
            output: unlinked(&format!("{}: {}", notice.head(), notice.summary)).replace('|', "/"),
        }
    }
}

/// A name; the server writes it to Nagios' command file, where `;` ends a field.
fn object_name(text: &str) -> String {
    let name = one_line(text).replace(';', "_");
    if name.is_empty() { "weir".to_owned() } else { name }
}

#[async_trait]
impl Receiver for NscaReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let (mut stream, greeting) = self.connect().await?;
        let mut packet = self.result(message).packet(greeting.time);
        self.encryption.apply(&mut packet, &greeting.iv, &self.password);
        let written = stream.write_all(&packet).await;
        written.map_err(|error| self.failure(&error.to_string()))?;
        let ended = stream.shutdown().await;
        ended.map_err(|error| self.failure(&error.to_string()))?;
        // A reset here means that the server did not read the packet.
        if let Ok(Err(error)) = timeout(CLOSE_WAIT, stream.read(&mut [0])).await {
            return Err(self.failure(&error.to_string()));
        }
        let answer = "written; NSCA does not answer".to_owned();
        Ok(Accepted { answer, external_id: None })
    }

    async fn probe(&self) -> Result<String, SendError> {
        self.connect().await?;
        Ok(format!("`{}:{}` greets; the password cannot be checked", self.server, self.port))
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn is_read_by_people(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 20.0, per_second: 10.0 }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use weir_actions::NoticeKind;

    use super::*;
    use crate::receivers::nsca::packet::PACKET_BYTES;
    use crate::testing::TestSettings;
    use crate::testing::samples::{evil_message, long_message, message};

    const TIME: u32 = 1_700_000_000;

    /// Reads one packet as the daemon does and returns it decrypted.
    async fn serve(listener: TcpListener, encryption: PacketEncryption) -> Vec<u8> {
        let (mut stream, _) = listener.accept().await.unwrap();
        let iv: Vec<u8> = (0..128).collect();
        stream.write_all(&iv).await.unwrap();
        stream.write_all(&TIME.to_be_bytes()).await.unwrap();
        let mut packet = vec![0; PACKET_BYTES];
        stream.read_exact(&mut packet).await.unwrap();
        encryption.undo(&mut packet, &iv, &SecretText("hunter22".to_owned()));
        packet
    }

    async fn sent(sample: &Message, word: &'static str) -> Vec<u8> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nsca://{}", listener.local_addr().unwrap());
        let mut settings = TestSettings::new(&[("url", &url), ("encryption", word)]);
        settings.password = Some("hunter22");
        let receiver = settings.open("nsca").unwrap();
        let serving = tokio::spawn(serve(listener, PacketEncryption::parse(word).unwrap()));
        receiver.send(sample).await.unwrap();
        serving.await.unwrap()
    }

    fn field(packet: &[u8], range: std::ops::Range<usize>) -> String {
        let bytes = &packet[range];
        let end = bytes.iter().position(|byte| *byte == 0).expect("fields end with a zero");
        String::from_utf8(bytes[..end].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn every_encryption_carries_the_same_packet() {
        for word in ["none", "xor", "aes256"] {
            let packet = sent(&message(NoticeKind::Page), word).await;
            assert_eq!(packet[..2], 3_u16.to_be_bytes(), "{word}");
            assert_eq!(packet[8..12], TIME.to_be_bytes());
            assert_eq!(packet[12..14], 2_u16.to_be_bytes());
            assert_eq!(field(&packet, 14..78), "web3");
            assert_eq!(field(&packet, 78..206), "app.down");
            assert!(field(&packet, 206..4302).starts_with("PAGE web3 app.down 10.0.0.7:8080"));
            let mut unsigned = packet.clone();
            unsigned[4..8].fill(0);
            assert_eq!(packet[4..8], crc32fast::hash(&unsigned).to_be_bytes());
        }
    }

    #[tokio::test]
    async fn hostile_texts_stay_in_their_fields() {
        for sample in [evil_message(), long_message()] {
            let packet = sent(&sample, "none").await;
            for range in [14..78, 78..206, 206..4302] {
                let text = field(&packet, range);
                assert!(!text.is_empty() && !text.contains(['\n', '\r']), "{text}");
            }
            assert!(!field(&packet, 206..4302).contains('|'), "no performance data");
            assert!(!field(&packet, 78..206).contains(';'));
        }
    }

    #[tokio::test]
    async fn a_server_that_drops_or_refuses_is_tried_later() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nsca://{}", listener.local_addr().unwrap());
        let settings = TestSettings::new(&[("url", &url), ("encryption", "0")]);
        let receiver = settings.open("nsca").unwrap();
        let dropping = tokio::spawn(async move { drop(listener.accept().await) });
        let error = receiver.send(&message(NoticeKind::Page)).await.unwrap_err();
        assert!(error.message.contains("no greeting"), "{error}");
        assert_eq!(error.retry, RetryAdvice::Backoff);
        dropping.await.unwrap();
        let error = receiver.send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Backoff, "{error}");
    }

    fn opened(pairs: &[(&str, &str)]) -> Result<(), SettingError> {
        TestSettings::new(pairs).open("nsca").map(drop)
    }

    #[test]
    fn settings_are_checked() {
        let url = ("url", "nsca://127.0.0.1");
        assert!(opened(&[url, ("encryption", "none")]).is_ok());
        assert!(matches!(opened(&[url]), Err(SettingError::Missing { key: "password_file", .. })));
        assert!(opened(&[url, ("encryption", "3des")]).is_err());
        assert!(opened(&[("url", "http://127.0.0.1"), ("encryption", "none")]).is_err());
    }
}
