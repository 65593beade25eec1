//! Mail against a double of a server: dialogue, TLS, threads, injection, failures.

use std::time::Duration;

use weir_actions::NoticeKind;

use crate::receiver::{Receiver, RetryAdvice};
use crate::settings::SettingError;
use crate::testing::TestSettings;
use crate::testing::samples::{EVIL, evil_message, long_message, message};
use crate::testing::smtp::{SmtpDouble, SmtpReaction, SmtpScript, certificate};

fn settings(port: u16, tls: &str) -> TestSettings {
    TestSettings::new(&[
        ("url", &format!("smtp://127.0.0.1:{port}")),
        ("tls", tls),
        ("from", "weir <weir@example.net>"),
        ("to", "web-team@example.org"),
    ])
}

fn clear(double: &SmtpDouble) -> Box<dyn Receiver> {
    settings(double.port, "none").open("smtp").unwrap()
}

fn scripted(at: &'static str, reaction: SmtpReaction) -> SmtpDouble {
    SmtpDouble::start(SmtpScript { reactions: vec![(at, reaction)], ..SmtpScript::default() })
}

/// Header lines of a mail, unfolded.
fn headers(mail: &str) -> Vec<String> {
    let (head, _) = mail.split_once("\r\n\r\n").unwrap();
    head.replace("\r\n ", " ").split("\r\n").map(str::to_owned).collect()
}

fn header<'a>(headers: &'a [String], name: &str) -> Option<&'a str> {
    let start = format!("{name}: ");
    headers.iter().find_map(|line| line.strip_prefix(&start))
}

#[tokio::test]
async fn a_mail_has_stable_ids_and_both_forms() {
    let double = SmtpDouble::start(SmtpScript::default());
    let accepted = clear(&double).send(&message(NoticeKind::Page)).await.unwrap();
    assert_eq!(accepted.answer, "250 2.0.0 Ok: queued as 4F2");
    let id = "<0123456789abcdef0123456789abcdef@example.net>";
    assert_eq!(accepted.external_id.as_deref(), Some(id));
    let mails = double.mails();
    let head = headers(&mails[0]);
    assert_eq!(header(&head, "From"), Some("weir <weir@example.net>"));
    assert_eq!(header(&head, "To"), Some("web-team@example.org"));
    assert_eq!(
        header(&head, "Subject"),
        Some("PAGE web3 app.down 10.0.0.7:8080 refuses connections (+3 behind)")
    );
    assert_eq!(header(&head, "Message-ID"), Some(id));
    assert_eq!(header(&head, "Auto-Submitted"), Some("auto-generated"));
    assert_eq!(header(&head, "Date"), Some("Mon, 30 Nov 2026 00:53:21 +0000"));
    assert_eq!(header(&head, "In-Reply-To"), None);
    assert!(header(&head, "Content-Type").unwrap().starts_with("multipart/alternative"));
    assert!(mails[0].contains("Content-Type: text/plain; charset=utf-8"), "{}", mails[0]);
    assert!(mails[0].contains("Content-Type: text/html; charset=utf-8"));
    let commands = double.commands();
    assert!(commands.contains(&"MAIL FROM:<weir@example.net>".to_owned()), "{commands:?}");
    assert!(commands.contains(&"RCPT TO:<web-team@example.org>".to_owned()), "{commands:?}");
    let mut repeat = message(NoticeKind::Page);
    repeat.is_repeat = true;
    clear(&double).send(&repeat).await.unwrap();
    let head = headers(&double.mails()[1]);
    assert_eq!(header(&head, "Message-ID"), Some(id));
    assert!(header(&head, "Subject").unwrap().ends_with("(may be a repeat)"), "{head:?}");
}

#[tokio::test]
async fn later_mails_of_an_incident_follow_its_first() {
    let double = SmtpDouble::start(SmtpScript::default());
    let first = clear(&double).send(&message(NoticeKind::Page)).await.unwrap();
    let mut second = message(NoticeKind::Resolved);
    second.notice.id = "ff".repeat(16);
    second.thread = first.external_id.clone();
    second.notice.address = Some("Ada Ü <ada@example.org>".to_owned());
    clear(&double).send(&second).await.unwrap();
    let head = headers(&double.mails()[1]);
    assert_eq!(header(&head, "In-Reply-To"), first.external_id.as_deref());
    assert_eq!(header(&head, "References"), first.external_id.as_deref());
    assert!(header(&head, "Subject").unwrap().starts_with("OK web3"));
    assert!(double.commands().contains(&"RCPT TO:<ada@example.org>".to_owned()));
}

#[tokio::test]
async fn no_text_makes_a_header_or_ends_the_mail() {
    let double = SmtpDouble::start(SmtpScript::default());
    for mut sample in [evil_message(), long_message()] {
        sample.thread = Some(format!("<a@b>\r\nBcc: evil@example.com\r\n{EVIL}"));
        sample.notice.id = "ab\r\nBcc: evil@example.com".to_owned();
        sample.page_url = format!("https://weir.example.net/{EVIL}");
        clear(&double).send(&sample).await.unwrap();
        let mail = double.mails().pop().unwrap();
        let names: Vec<String> =
            headers(&mail).iter().map(|line| line.split(": ").next().unwrap().to_owned()).collect();
        let known = [
            "From",
            "To",
            "Subject",
            "Date",
            "Message-ID",
            "Auto-Submitted",
            "MIME-Version",
            "Content-Type",
            "Content-Transfer-Encoding",
        ];
        assert!(names.iter().all(|name| known.contains(&name.as_str())), "{names:?}");
        assert_eq!(
            header(&headers(&mail), "Message-ID"),
            Some("<abBccevilexamplecom@example.net>")
        );
        assert!(header(&headers(&mail), "Subject").unwrap().len() <= 78);
        assert!(mail.lines().all(|line| line.len() <= 998), "lines are short");
        assert!(mail.lines().all(|line| !line.starts_with("INJECTED")), "{mail}");
    }
    assert_eq!(double.mails().len(), 2);
}

#[tokio::test]
async fn addresses_with_line_ends_are_refused() {
    let double = SmtpDouble::start(SmtpScript::default());
    for address in ["a@b.example>\r\nRCPT TO:<evil@example.com", "ada", "", "\"x\r\n\"@b.example"] {
        let mut sample = message(NoticeKind::Page);
        sample.notice.address = Some(address.to_owned());
        let error = clear(&double).send(&sample).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Never);
        assert!(!error.message.contains(['\r', '\n']), "{error}");
    }
    assert!(double.commands().is_empty());
    for key in ["from", "to"] {
        let mut given = settings(double.port, "none");
        for (name, text) in &mut given.pairs {
            if name == key {
                *text = "a@b.example\r\nBcc: evil@example.com".to_owned();
            }
        }
        assert!(matches!(given.open("smtp").unwrap_err(), SettingError::Wrong { .. }));
    }
}

#[tokio::test]
async fn replies_decide_whether_it_is_tried_again() {
    let cases = [
        ("CONNECT", "421 4.3.2 not now", RetryAdvice::Backoff),
        ("CONNECT", "554 5.7.1 not you", RetryAdvice::Never),
        ("RCPT", "451 4.7.1 greylisted", RetryAdvice::Backoff),
        ("RCPT", "550 5.1.1 unknown user", RetryAdvice::Never),
        ("DATA", "451 4.3.0 queue full", RetryAdvice::Backoff),
        (".", "452 4.3.1 disk full", RetryAdvice::Backoff),
        (".", "554 5.6.0 rejected content", RetryAdvice::Never),
    ];
    for (at, reply, retry) in cases {
        let double = scripted(at, SmtpReaction::Reply(reply));
        let error = clear(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, retry, "{at}: {reply}: {error}");
        let why = reply.split(' ').next_back().unwrap();
        assert!(error.message.contains(why), "{error}");
        assert!(double.mails().is_empty());
    }
    for (at, retry) in [
        ("CONNECT", RetryAdvice::Backoff),
        ("EHLO", RetryAdvice::Backoff),
        ("MAIL", RetryAdvice::Unclear),
        (".", RetryAdvice::Unclear),
    ] {
        let double = scripted(at, SmtpReaction::Drop);
        let error = clear(&double).send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, retry, "{at}: {error}");
    }
}

#[tokio::test]
async fn a_hanging_server_ends_by_the_callers_timeout_and_a_hanging_farewell_is_no_failure() {
    let double = scripted("MAIL", SmtpReaction::Hang);
    let receiver = clear(&double);
    let sample = message(NoticeKind::Page);
    let sending = receiver.send(&sample);
    let ended = tokio::time::timeout(Duration::from_millis(300), sending).await;
    assert!(ended.is_err());
    let double = scripted("QUIT", SmtpReaction::Hang);
    let sending = clear(&double).send(&sample).await;
    assert_eq!(sending.unwrap().answer, "250 2.0.0 Ok: queued as 4F2");
}

#[tokio::test]
async fn starttls_and_tls_from_the_start_need_a_trusted_certificate() {
    for (word, is_implicit) in [("starttls", false), ("implicit", true)] {
        let (tls, authority) = certificate();
        let double =
            SmtpDouble::start(SmtpScript { tls: Some(tls), is_implicit, ..SmtpScript::default() });
        let mut given = settings(double.port, word);
        let error = given.open("smtp").unwrap().send(&message(NoticeKind::Page)).await.unwrap_err();
        assert_eq!(error.retry, RetryAdvice::Backoff, "{error}");
        assert!(double.mails().is_empty());
        given.authority = Some(authority);
        given.pairs.push(("user".to_owned(), "weir".to_owned()));
        given.password = Some("hunter22");
        let receiver = given.open("smtp").unwrap();
        receiver.send(&message(NoticeKind::Page)).await.unwrap();
        assert_eq!(double.mails().len(), 1);
        let commands = double.commands();
        let places = ["STARTTLS", "AUTH PLAIN", "MAIL FROM"]
            .map(|start| commands.iter().position(|line| line.starts_with(start)));
        assert!(places[1] < places[2], "{commands:?}");
        if !is_implicit {
            assert!(places[0] < places[1], "{commands:?}");
        }
        let found = receiver.probe().await.unwrap();
        assert!(found.contains("web-team@example.org") && found.ends_with("over TLS"), "{found}");
        assert_eq!(double.mails().len(), 1, "the probe sends no mail");
    }
}

/// CVE-2021-22947 of curl, CVE-2021-29969 of Thunderbird, CVE-2020-14093 of Mutt: replies in the clear counted as
/// encrypted ones.
#[tokio::test]
async fn replies_behind_that_to_starttls_are_no_replies_of_the_encrypted_server() {
    let (tls, authority) = certificate();
    let injected = SmtpReaction::Reply("220 go ahead\r\n250-double.example\r\n250 AUTH PLAIN");
    let reactions = vec![("STARTTLS", injected)];
    let script = SmtpScript { tls: Some(tls), reactions, ..SmtpScript::default() };
    let double = SmtpDouble::start(script);
    let mut given = settings(double.port, "starttls");
    given.authority = Some(authority);
    given.pairs.push(("user".to_owned(), "weir".to_owned()));
    given.password = Some("hunter22");
    let error = given.open("smtp").unwrap().send(&message(NoticeKind::Page)).await.unwrap_err();
    assert_eq!(error.retry, RetryAdvice::Backoff, "{error}");
    assert_eq!(double.commands().last().map(String::as_str), Some("STARTTLS"));
    assert!(double.mails().is_empty());
}

#[tokio::test]
async fn a_server_without_starttls_gets_neither_password_nor_mail() {
    let double = SmtpDouble::start(SmtpScript::default());
    let mut given = settings(double.port, "starttls");
    given.pairs.push(("user".to_owned(), "weir".to_owned()));
    given.password = Some("hunter22");
    let error = given.open("smtp").unwrap().send(&message(NoticeKind::Page)).await.unwrap_err();
    assert_eq!(error.retry, RetryAdvice::Never, "{error}");
    assert!(double.commands().iter().all(|line| line.starts_with("EHLO")));
}

#[tokio::test]
async fn a_refused_login_shows_neither_password_nor_its_encoding() {
    // What a server repeats: base64 of "\0weir\0hunter22".
    let echo = "535 5.7.8 failed: AUTH PLAIN AHdlaXIAaHVudGVyMjI= hunter22";
    let double = scripted("AUTH", SmtpReaction::Reply(echo));
    let mut given = settings(double.port, "none");
    given.pairs.push(("user".to_owned(), "weir".to_owned()));
    given.password = Some("hunter22");
    let receiver = given.open("smtp").unwrap();
    let error = receiver.send(&message(NoticeKind::Page)).await.unwrap_err();
    assert_eq!(error.retry, RetryAdvice::Never);
    assert!(error.message.contains("535") && !error.message.contains("hunter22"), "{error}");
    assert!(!error.message.contains("AHdlaX") && !format!("{receiver:?}").contains("hunter22"));
}

/// repoze/repoze.sendmail#50, pivotal-cf/email-resource#27, cyrusimap/cyrus-imapd#4960: relays refuse
/// `EHLO localhost` and `EHLO [127.0.0.1]`.
#[tokio::test]
async fn greeting_names_the_senders_domain() {
    let double = SmtpDouble::start(SmtpScript::default());
    clear(&double).send(&message(NoticeKind::Page)).await.unwrap();
    assert_eq!(double.commands()[0], "EHLO example.net");
}

/// PatchMon/PatchMon#845, prometheus/alertmanager#2068, thp/urlwatch#702: a line of over 998 bytes; and
/// lines that begin with a dot.
#[tokio::test]
async fn long_lines_and_lines_with_a_dot_arrive_whole() {
    let double = SmtpDouble::start(SmtpScript::default());
    let mut sample = message(NoticeKind::Page);
    let incident = &mut sample.notice.incident;
    (incident.why, incident.fix) = ("w".repeat(1_900), ".".to_owned());
    incident.summary = format!(".hidden {}", "x".repeat(1_500));
    clear(&double).send(&sample).await.unwrap();
    let mail = double.mails().pop().unwrap();
    assert!(mail.lines().all(|line| line.len() <= 998), "{mail}");
    let unfolded = mail.replace("=\r\n", "");
    assert!(unfolded.contains(&"w".repeat(1_900)), "{mail}");
    assert!(unfolded.contains("\r\n.hidden xxx") && unfolded.contains("\r\n  .\r\n"), "{mail}");
}

#[test]
fn settings_are_checked() {
    let cases = [
        ("url", "http://mail.example.net"),
        ("url", "smtp://weir:hunter22@mail.example.net"),
        ("tls", "maybe"),
        ("from", "weir"),
    ];
    for (key, text) in cases {
        let mut given = settings(25, "none");
        for (name, value) in &mut given.pairs {
            if name == key {
                *value = text.to_owned();
            }
        }
        let error = given.open("smtp").unwrap_err();
        assert!(
            matches!(&error, SettingError::Wrong { key: wrong, .. } if *wrong == key),
            "{error}"
        );
        assert!(!error.to_string().contains("hunter22"), "{error}");
    }
    let mut open = TestSettings::new(&[
        ("url", "smtp://mail.example.net"),
        ("tls", "none"),
        ("from", "a@example.net"),
        ("to", "b@example.net"),
        ("user", "weir"),
    ]);
    open.password = Some("hunter22");
    let error = open.open("smtp").unwrap_err().to_string();
    assert!(error.contains("in the clear"), "{error}");
}

/// prometheus/alertmanager#3496, grafana/grafana#16651, influxdata/kapacitor#1463: of several
/// addresses in one mail one is refused, and the others get none.
#[tokio::test]
async fn each_person_has_a_mail_with_one_address() {
    let double = SmtpDouble::start(SmtpScript::default());
    let receiver = clear(&double);
    for address in ["ada@example.org", "bo@example.org"] {
        let mut sample = message(NoticeKind::Page);
        sample.notice.address = Some(address.to_owned());
        receiver.send(&sample).await.unwrap();
    }
    let commands = double.commands();
    let named = commands.iter().filter(|command| command.starts_with("RCPT"));
    let named: Vec<&String> = named.collect();
    assert_eq!(named.len(), 2, "{commands:?}");
    assert!(named[0].contains("ada@") && named[1].contains("bo@"), "{named:?}");
    let mut several = settings(double.port, "none");
    several.pairs.retain(|(key, _)| key != "to");
    several.pairs.push(("to".to_owned(), "ada@example.org, bo@example.org".to_owned()));
    let error = several.open("smtp").unwrap_err();
    assert!(matches!(&error, SettingError::Wrong { key: "to", .. }), "{error}");
}
