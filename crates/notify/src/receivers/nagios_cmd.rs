//! Nagios and its relatives on the same host: passive check results through the command file.
//!
//! <https://assets.nagios.com/downloads/nagioscore/docs/nagioscore/4/en/passivechecks.html>. The file
//! is a FIFO: opened without blocking, a line of at most 4,096 bytes is written whole or not at all
//! (`pipe(7)`). Without a reader, Nagios does not run, and the line is tried later.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::forms::{NoticeText, check_state, cut_bytes, one_line, unlinked};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};
use crate::settings::{ReceiverSettings, ReceiverSpec, RequiredKey, SettingError, wrong};

pub(crate) const SPEC: ReceiverSpec = ReceiverSpec {
    name: "nagios_cmd",
    doc: "Nagios on this host: passive check results through its command file",
    keys: &["path", "host", "service"],
    read: |settings| Ok(Box::new(NagiosCommands::read(settings)?)),
};

/// What a pipe takes at once.
const LINE_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 255;
/// How long Nagios has to read what others wrote.
const WRITE_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct NagiosCommands {
    path: PathBuf,
    host: Option<String>,
    service: Option<String>,
}

impl NagiosCommands {
    fn read(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let example = "/var/lib/nagios4/rw/nagios.cmd";
        let path = settings.required(RequiredKey { key: "path", example })?;
        if !path.starts_with('/') {
            let message = format!("`{path}` is not an absolute path");
            return Err(wrong("path", message, format!("write it as `{example}`")));
        }
        Ok(Self {
            path: path.into(),
            host: settings.text("host").map(str::to_owned),
            service: settings.text("service").map(str::to_owned),
        })
    }

    fn open(&self) -> Result<pipe::Sender, SendError> {
        pipe::OpenOptions::new().open_sender(&self.path).map_err(|error| {
            // ENXIO: no process reads.
            let is_unread = error.raw_os_error() == Some(6);
            let why = if is_unread { "no process reads it".to_owned() } else { error.to_string() };
            let retry = match error.kind() {
                // It exists as long as Nagios runs.
                _ if is_unread => RetryAdvice::Backoff,
                ErrorKind::NotFound => RetryAdvice::Backoff,
                _ => RetryAdvice::Never,
            };
            self.failure(&why, retry)
        })
    }

    fn failure(&self, why: &str, retry: RetryAdvice) -> SendError {
        SendError { message: format!("cannot write to `{}`: {why}", self.path.display()), retry }
    }

    fn line(&self, message: &Message) -> String {
        let notice = NoticeText::new(message);
        let incident = &message.notice.incident;
        let host = object_name(self.host.as_deref().unwrap_or(&incident.host));
        let service = object_name(self.service.as_deref().unwrap_or(&incident.root_rule));
        let time = message.now_us.div_euclid(1_000_000);
        let state = check_state(message);
        let start = format!("[{time}] PROCESS_SERVICE_CHECK_RESULT;{host};{service};{state};");
        let output = unlinked(&format!("{}: {}", notice.head(), notice.summary)).replace('|', "/");
        format!("{}\n", cut_bytes(&format!("{start}{output}"), LINE_BYTES_MAX - 1))
    }
}

/// A name that ends no field.
fn object_name(text: &str) -> String {
    let name = cut_bytes(&one_line(text).replace(';', "_"), NAME_BYTES_MAX);
    if name.is_empty() { "weir".to_owned() } else { name }
}

/// Waits for space for the whole line.
async fn write_whole(sender: &pipe::Sender, line: &[u8]) -> std::io::Result<usize> {
    loop {
        sender.writable().await?;
        match sender.try_write(line) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            written => return written,
        }
    }
}

#[async_trait]
impl Receiver for NagiosCommands {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let line = self.line(message);
        let sender = self.open()?;
        match timeout(WRITE_WAIT, write_whole(&sender, line.as_bytes())).await {
            Ok(Ok(count)) if count == line.len() => {
                Ok(Accepted { answer: format!("{count} bytes written"), external_id: None })
            }
            Ok(Ok(_)) => Err(self.failure("the line was written in part", RetryAdvice::Backoff)),
            Ok(Err(error)) => Err(self.failure(&error.to_string(), RetryAdvice::Backoff)),
            Err(_) => Err(self.failure("it is full", RetryAdvice::Backoff)),
        }
    }

    async fn probe(&self) -> Result<String, SendError> {
        self.open()?;
        Ok(format!("`{}` has a reader", self.path.display()))
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn is_read_by_people(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 100.0, per_second: 50.0 }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::unix::pipe::Receiver as PipeReader;
    use weir_actions::NoticeKind;

    use super::*;
    use crate::testing::TestSettings;
    use crate::testing::samples::{evil_message, long_message, message};

    struct CommandFile {
        directory: tempfile::TempDir,
    }

    impl CommandFile {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let file = Self { directory };
            let status = std::process::Command::new("mkfifo").arg(file.path()).status().unwrap();
            assert!(status.success());
            file
        }

        fn path(&self) -> String {
            self.directory.path().join("nagios.cmd").to_str().unwrap().to_owned()
        }

        fn reader(&self) -> PipeReader {
            pipe::OpenOptions::new().open_receiver(self.path()).unwrap()
        }

        fn receiver(&self) -> Box<dyn Receiver> {
            TestSettings::new(&[("path", &self.path())]).open("nagios_cmd").unwrap()
        }
    }

    fn read_all(reader: &PipeReader) -> String {
        let mut bytes = vec![0; 1 << 16];
        let count = reader.try_read(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_result_is_one_line() {
        let file = CommandFile::new();
        let reader = file.reader();
        file.receiver().send(&message(NoticeKind::Page)).await.unwrap();
        reader.readable().await.unwrap();
        assert_eq!(
            read_all(&reader),
            "[1796000001] PROCESS_SERVICE_CHECK_RESULT;web3;app.down;2;PAGE web3 app.down \
             10.0.0.7:8080 refuses connections (+3 behind): 10.0.0.7:8080 refuses connections: \
             12 of 40 requests (30 %) failed in 15 s\n"
        );
        file.receiver().probe().await.unwrap();
    }

    #[tokio::test]
    async fn hostile_texts_stay_in_their_field_and_line() {
        let file = CommandFile::new();
        let reader = file.reader();
        for sample in [evil_message(), long_message()] {
            file.receiver().send(&sample).await.unwrap();
            reader.readable().await.unwrap();
            let text = read_all(&reader);
            assert!(text.len() <= LINE_BYTES_MAX && text.matches('\n').count() == 1, "{text}");
            let fields: Vec<&str> = text.splitn(5, ';').collect();
            assert_eq!(fields[3], "2", "{text}");
            assert!(!fields[4].contains('|'), "no performance data: {text}");
        }
    }

    #[tokio::test]
    async fn without_a_reader_or_a_file_it_is_tried_later_and_never_blocks() {
        let file = CommandFile::new();
        let error = file.receiver().send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Backoff);
        assert!(error.message.contains("no process reads it"), "{error}");
        let _unread = file.reader();
        let receiver = file.receiver();
        let full = loop {
            if let Err(error) = receiver.send(&long_message()).await {
                break error;
            }
        };
        assert!(full.message.contains("full") && full.retry == RetryAdvice::Backoff, "{full}");
        std::fs::remove_file(file.path()).unwrap();
        let error = receiver.send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Backoff);
        std::fs::write(file.path(), "").unwrap();
        let error = receiver.send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Never, "a plain file is no command file: {error}");
    }
}
