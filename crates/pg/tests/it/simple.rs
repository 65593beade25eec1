//! Simple queries, session statements and transactions.

use crate::kit::{RawClient, ServerMessage, TestServer, kinds, message};

async fn client() -> (TestServer, RawClient) {
    let server = TestServer::start_open().await;
    let client = RawClient::connect(&server).await;
    (server, client)
}

/// The transaction state of the last message.
fn transaction(replies: &[ServerMessage]) -> char {
    replies.last().map_or('?', |ready| char::from(ready.body[0]))
}

fn error(replies: &[ServerMessage]) -> &ServerMessage {
    replies.iter().find(|reply| reply.kind == 'E').expect("an error")
}

#[tokio::test]
async fn a_query_gets_columns_rows_and_a_completion() {
    let (_server, mut client) = client().await;
    let replies = client.query("select n").await;
    assert_eq!(kinds(&replies), "TDDDCZ");
    assert_eq!(replies[0].columns(), [("c0".to_owned(), 20, 0)]);
    assert_eq!(replies[3].texts(), ["3"]);
    assert_eq!(replies[4].text(), "SELECT 3");
}

#[tokio::test]
async fn the_engine_gets_the_user_and_the_address() {
    let (_server, mut client) = client().await;
    let replies = client.query("caller").await;
    assert_eq!(replies[1].texts(), ["ann at 127.0.0.1"]);
}

#[tokio::test]
async fn several_statements_are_completed_one_by_one() {
    let (_server, mut client) = client().await;
    let replies = client.query("select 1; set jit = off; select ';'").await;
    assert_eq!(kinds(&replies), "TDDDCCTDDDCZ");
}

#[tokio::test]
async fn an_empty_query_gets_an_empty_response() {
    let (_server, mut client) = client().await;
    for sql in ["", " ; ", "-- nothing"] {
        assert_eq!(kinds(&client.query(sql).await), "IZ", "{sql}");
    }
}

#[tokio::test]
async fn an_error_has_state_message_and_hint_and_skips_later_statements() {
    let (_server, mut client) = client().await;
    let replies = client.query("select 1; fail; select 2").await;
    assert_eq!(kinds(&replies), "TDDDCEZ");
    let error = error(&replies);
    assert_eq!(error.field(b'S'), "ERROR");
    assert_eq!(error.state(), "42P01");
    assert_eq!(error.field(b'M'), "there is no table `x`");
    assert_eq!(error.field(b'H'), "did you mean `y`?");
    assert_eq!(kinds(&client.query("select 1").await), "TDDDCZ", "the session goes on");
}

#[tokio::test]
async fn a_large_result_arrives_complete() {
    let (_server, mut client) = client().await;
    let replies = client.query("many").await;
    let rows = replies.iter().filter(|reply| reply.kind == 'D').count();
    assert_eq!(rows, 50_000);
    assert_eq!(replies[rows + 1].text(), "SELECT 50000");
}

#[tokio::test]
async fn results_are_text_in_postgresqls_notation() {
    let (_server, mut client) = client().await;
    let replies = client.query("types").await;
    let oids: Vec<u32> = replies[0].columns().into_iter().map(|(_, oid, _)| oid).collect();
    assert_eq!(oids, [16, 17, 21, 23, 20, 700, 701, 25, 1082, 1184, 1700, 1186, 1016, 25]);
    assert_eq!(
        replies[1].texts(),
        [
            "t",
            "\\xdead",
            "-2",
            "40000",
            "5000000000",
            "0.5",
            "1e+300",
            "it's",
            "2000-01-02",
            "2000-01-01 12:00:00.5+00",
            "18446744073709551615",
            "1 year 2 mons 3 days 00:00:04",
            "{7,NULL}",
            "NULL",
        ]
    );
}

#[tokio::test]
async fn settings_are_changed_reported_and_shown() {
    let (_server, mut client) = client().await;
    let replies = client.query("set application_name = 'grafana'").await;
    assert_eq!(kinds(&replies), "SCZ");
    assert_eq!(replies[0].text(), "application_name\0grafana");
    let replies = client.query("show application_name").await;
    assert_eq!((kinds(&replies), replies[1].texts()), ("TDCZ".into(), vec!["grafana".to_owned()]));
    for (sql, state) in [
        ("show nothing", "42704"),
        ("set nothing = 1", "42704"),
        ("set client_encoding = 'LATIN1'", "0A000"),
        ("set statement_timeout = 'soon'", "22023"),
        ("set search_path = future, public", "0A000"),
        ("set time zone 'Mars/Olympus'", "22023"),
    ] {
        assert_eq!(error(&client.query(sql).await).state(), state, "{sql}");
    }
    client.query("reset all").await;
    assert_eq!(client.query("show application_name").await[1].texts(), [""]);
}

#[tokio::test]
async fn a_failed_transaction_ignores_statements_until_its_end() {
    let (_server, mut client) = client().await;
    assert_eq!(transaction(&client.query("begin").await), 'T');
    assert_eq!(transaction(&client.query("select 1").await), 'T');
    assert_eq!(transaction(&client.query("fail").await), 'E');
    let replies = client.query("select 1").await;
    assert_eq!((error(&replies).state(), transaction(&replies)), ("25P02".into(), 'E'));
    let replies = client.query("commit").await;
    assert_eq!((replies[0].text(), transaction(&replies)), ("ROLLBACK".into(), 'I'));
    assert_eq!(kinds(&client.query("select 1").await), "TDDDCZ");
}

#[tokio::test]
async fn statements_about_the_session_have_their_tags() {
    let (_server, mut client) = client().await;
    for (sql, tag) in [
        ("start transaction read only", "BEGIN"),
        ("savepoint a", "SAVEPOINT"),
        ("rollback to savepoint a", "ROLLBACK"),
        ("release a", "RELEASE"),
        ("commit", "COMMIT"),
        ("rollback", "ROLLBACK"),
        ("discard all", "DISCARD ALL"),
        ("unlisten *", "UNLISTEN"),
        ("close all", "CLOSE CURSOR ALL"),
        ("reset all", "RESET"),
        ("discard plans", "DISCARD PLANS"),
        ("set session authorization default", "SET"),
        ("reset role", "RESET"),
    ] {
        let replies = client.query(sql).await;
        assert_eq!((kinds(&replies).as_str(), replies[0].text().as_str()), ("CZ", tag), "{sql}");
    }
}

#[tokio::test]
async fn copy_is_refused_and_its_data_is_ignored() {
    let (_server, mut client) = client().await;
    let replies = client.query("copy log from stdin").await;
    assert_eq!((kinds(&replies), replies[0].state()), ("EZ".into(), "25006".into()));
    client.send(&[message(b'd', b"1\n"), message(b'c', b"")].concat()).await;
    client.send(&message(b'f', b"no\0")).await;
    assert_eq!(kinds(&client.query("select 1").await), "TDDDCZ");
}

#[tokio::test]
async fn a_function_call_is_refused() {
    let (_server, mut client) = client().await;
    let replies = client.ask(&[message(b'F', &[0; 10])]).await;
    assert_eq!((kinds(&replies), replies[0].state()), ("EZ".into(), "0A000".into()));
}

#[tokio::test]
async fn text_that_is_not_utf8_or_not_terminated_is_an_error() {
    let (_server, mut client) = client().await;
    for (body, state) in [(&b"select '\xff'\0"[..], "22021"), (&b"select 1"[..], "08P01")] {
        let replies = client.ask(&[message(b'Q', body)]).await;
        assert_eq!((kinds(&replies), replies[0].state()), ("EZ".into(), state.into()));
    }
}

#[tokio::test]
async fn statements_are_prepared_executed_and_deallocated_by_name() {
    let (_server, mut client) = client().await;
    assert_eq!(client.query("prepare p as select $1").await[0].text(), "PREPARE");
    let again = client.query("prepare p as select 1").await;
    assert_eq!(error(&again).state(), "42P05");
    let replies = client.query("execute p(41)").await;
    assert_eq!((kinds(&replies), replies[1].texts()), ("TDCZ".into(), vec!["41".to_owned()]));
    assert_eq!(error(&client.query("execute p").await).state(), "08P01");
    assert_eq!(client.query("deallocate p").await[0].text(), "DEALLOCATE");
    assert_eq!(error(&client.query("execute p(41)").await).state(), "26000");
    assert_eq!(error(&client.query("deallocate p").await).state(), "26000");
}

#[tokio::test]
async fn a_statement_timeout_cancels_the_query() {
    let (server, mut client) = client().await;
    client.query("set statement_timeout = '50ms'").await;
    let replies = client.query("for ever").await;
    assert_eq!((kinds(&replies), replies[0].state()), ("EZ".into(), "57014".into()));
    server.query_is_dropped().await;
}
