//! What a session keeps between statements: settings, savepoints, cursors; and copies.

use crate::kit::{
    BINARY, BindMessage, INT8, RawClient, ServerMessage, TestServer, bind, describe, execute,
    kinds, parse, startup, sync,
};

async fn client() -> (TestServer, RawClient) {
    let server = TestServer::start_open().await;
    let client = RawClient::connect(&server).await;
    (server, client)
}

fn error(replies: &[ServerMessage]) -> String {
    replies.iter().find(|reply| reply.kind == 'E').expect("an error").state()
}

/// Text of each message: the values of a row, the tag of a completion.
fn texts(replies: &[ServerMessage]) -> Vec<String> {
    let told = replies.iter().filter_map(|reply| match reply.kind {
        'D' => Some(reply.texts().join(",")),
        'C' => Some(reply.text()),
        'd' => Some(String::from_utf8_lossy(&reply.body).into_owned()),
        _ => None,
    });
    told.collect()
}

async fn shown(client: &mut RawClient, setting: &str) -> String {
    client.query(&format!("show {setting}")).await[1].texts().remove(0)
}

/// MagicStack/asyncpg#270 has the statements with which its pool resets a connection.
#[tokio::test]
async fn a_pool_resets_a_connection_that_it_gets_back() {
    let (_server, mut client) = client().await;
    client.query("set application_name = 'a'").await;
    let reset = "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;";
    let replies = client.query(reset).await;
    assert_eq!(kinds(&replies), "TDDDCCCSCZ");
    assert_eq!(shown(&mut client, "application_name").await, "");
}

/// ArcadeData/arcadedb#8242 has the three forms; rails/rails#57231 the savepoint.
#[tokio::test]
async fn settings_follow_their_transaction() {
    let (_server, mut client) = client().await;
    client
        .query("set statement_timeout = '5s'; begin; set statement_timeout = '6s'; rollback")
        .await;
    assert_eq!(shown(&mut client, "statement_timeout").await, "5s");
    client.query("begin; set local statement_timeout = '7s'").await;
    assert_eq!(shown(&mut client, "statement_timeout").await, "7s");
    client.query("savepoint a; set search_path = future; rollback to a").await;
    assert_eq!(shown(&mut client, "search_path").await, "\"$user\", public");
    client.query("set search_path = future; commit").await;
    assert_eq!(shown(&mut client, "statement_timeout").await, "5s");
    assert_eq!(shown(&mut client, "search_path").await, "future");
    client.query("set application_name = 'x'; reset search_path").await;
    assert_eq!(shown(&mut client, "search_path").await, "\"$user\", public");
    assert_eq!(shown(&mut client, "application_name").await, "x");
    client.query("set local statement_timeout = '9s'").await;
    assert_eq!(shown(&mut client, "statement_timeout").await, "5s");
}

#[tokio::test]
async fn the_engine_gets_the_settings_of_the_session() {
    let (server, mut client) = client().await;
    let told = texts(&client.query("set time zone 'Asia/Tokyo'; settings").await);
    assert_eq!(told[1], "\"$user\", public | 0 | Asia/Tokyo");
    client.query("set search_path to future").await;
    client.query("select set_config('statement_timeout', '2s', false)").await;
    assert_eq!(texts(&client.query("settings").await)[0], "future | 2s | Asia/Tokyo");
    let mut other = RawClient::open(&server).await;
    let options = "-c statement_timeout=3000 --search_path=future";
    let hello = ["user", "weir", "options", options, "TimeZone", "Europe/Berlin"];
    other.send(&startup(&hello)).await;
    other.until_ready().await;
    assert_eq!(texts(&other.query("settings").await)[0], "future | 3s | Europe/Berlin");
    other.query("set time zone 'UTC'; reset all").await;
    assert_eq!(shown(&mut other, "time zone").await, "Europe/Berlin");
}

#[tokio::test]
async fn a_change_that_a_rollback_undoes_is_reported_twice() {
    let (_server, mut client) = client().await;
    client.query("begin").await;
    let replies = client.query("set time zone 'Asia/Tokyo'").await;
    assert_eq!((kinds(&replies), replies[0].text()), ("SCZ".into(), "TimeZone\0Asia/Tokyo".into()));
    let replies = client.query("rollback").await;
    assert_eq!((kinds(&replies), replies[0].text()), ("SCZ".into(), "TimeZone\0UTC".into()));
}

/// ArcadeData/arcadedb#7846: a savepoint that does nothing misleads its client.
#[tokio::test]
async fn a_failed_transaction_goes_on_after_a_rollback_to_its_savepoint() {
    let (_server, mut client) = client().await;
    client.query("begin; savepoint a; fail").await;
    assert_eq!(error(&client.query("select 1").await), "25P02");
    assert_eq!(error(&client.query("savepoint b").await), "25P02");
    assert_eq!(error(&client.query("rollback to b").await), "3B001");
    let replies = client.query("rollback to savepoint a; select 1; release a; commit").await;
    assert_eq!(kinds(&replies), "CTDDDCCCZ");
    assert_eq!(error(&client.query("savepoint a").await), "25P01");
    assert_eq!(error(&client.query("begin; discard all").await), "25001");
}

/// yugabyte/yugabyte-db#6749 and cockroachdb/cockroach#77101 have the forms of FETCH and HOLD.
#[tokio::test]
async fn a_cursor_is_read_in_parts_until_its_transaction_ends() {
    let (_server, mut client) = client().await;
    assert_eq!(error(&client.query("declare c cursor for select n").await), "25P01");
    let replies =
        client.query("begin; declare c cursor for select n; fetch forward 2 from c").await;
    assert_eq!(texts(&replies), ["BEGIN", "DECLARE CURSOR", "1", "2", "FETCH 2"]);
    assert_eq!(texts(&client.query("fetch c; fetch next c").await), ["3", "FETCH 1", "FETCH 0"]);
    assert_eq!(
        texts(&client.query("move absolute 1 in c; fetch 9 c").await),
        ["MOVE 1", "2", "3", "FETCH 2",]
    );
    assert_eq!(texts(&client.query("fetch backward all c").await), ["3", "2", "1", "FETCH 3"]);
    assert_eq!(texts(&client.query("commit").await), ["COMMIT"]);
    assert_eq!(error(&client.query("fetch c").await), "34000");
    client.query("begin; declare h binary cursor with hold for select n; commit").await;
    let replies = client.query("fetch h").await;
    assert_eq!(replies[0].columns(), [("c0".to_owned(), INT8, BINARY)]);
    assert_eq!(replies[1].values(), [Some(1_i64.to_be_bytes().to_vec())]);
    assert_eq!(error(&client.query("declare h cursor with hold for select n").await), "42P03");
    assert_eq!(texts(&client.query("close h").await), ["CLOSE CURSOR"]);
    assert_eq!(error(&client.query("close h").await), "34000");
}

#[tokio::test]
async fn cursors_of_a_rolled_back_savepoint_are_closed() {
    let (_server, mut client) = client().await;
    client
        .query("begin; declare a cursor for select n; savepoint s; declare b cursor for select n")
        .await;
    client.query("rollback to s").await;
    assert_eq!(texts(&client.query("fetch a").await), ["1", "FETCH 1"]);
    assert_eq!(error(&client.query("fetch b").await), "34000");
}

#[tokio::test]
async fn a_cursor_with_parameters_is_described_and_fetched_in_binary() {
    let (_server, mut client) = client().await;
    client.query("begin").await;
    let value = 41_i64.to_be_bytes();
    let bound =
        BindMessage { formats: &[BINARY], values: &[Some(&value)], ..BindMessage::default() };
    let declare = [
        parse(["", "declare c cursor for select $1"], &[INT8]),
        bound.encode(),
        describe(b'P', ""),
        execute("", 0),
        describe(b'P', "c"),
        sync(),
    ];
    assert_eq!(kinds(&client.ask(&declare).await), "12nCTZ");
    let fetched = BindMessage { result_formats: &[BINARY], ..BindMessage::default() };
    let fetch = [
        parse(["", "fetch all from c"], &[]),
        fetched.encode(),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ];
    let replies = client.ask(&fetch).await;
    assert_eq!(kinds(&replies), "12TDCZ");
    assert_eq!(replies[3].values(), [Some(value.to_vec())]);
}

#[tokio::test]
async fn cursors_have_a_limit() {
    let (_server, mut client) = client().await;
    for number in 0..32 {
        let sql = format!("declare c{number} cursor with hold for select n");
        assert_eq!(texts(&client.query(&sql).await), ["DECLARE CURSOR"]);
    }
    assert_eq!(error(&client.query("declare d cursor with hold for select n").await), "54000");
    client.query("close all").await;
    let replies = client.query("declare d cursor with hold for select n").await;
    assert_eq!(texts(&replies), ["DECLARE CURSOR"]);
}

#[tokio::test]
async fn rows_are_copied_as_text_csv_and_binary() {
    let (_server, mut client) = client().await;
    let replies = client.query("copy (cells) to stdout").await;
    assert_eq!(kinds(&replies), "HddcCZ");
    assert_eq!(texts(&replies), ["1\ta\\tb\\\\c\\nd\n", "\\N\tx,\"y\"\n", "COPY 2"]);
    let replies = client.query("copy (cells) to stdout with (format csv, header)").await;
    assert_eq!(texts(&replies), ["c0,c1\n", "1,\"a\tb\\c\nd\"\n", ",\"x,\"\"y\"\"\"\n", "COPY 2",]);
    let replies = client.query("copy (select n) to stdout (format binary)").await;
    let sent: Vec<&[u8]> =
        replies.iter().filter(|reply| reply.kind == 'd').map(|reply| &reply.body[..]).collect();
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let row = |number: i64| [&[0, 1, 0, 0, 0, 8][..], &number.to_be_bytes()].concat();
    assert_eq!(sent, [[&header[..], &row(1)].concat(), row(2), row(3), vec![0xff, 0xff],]);
    assert_eq!(replies[0].body, [1, 0, 1, 0, 1]);
}

#[tokio::test]
async fn a_copy_runs_in_the_extended_protocol_and_reports_errors() {
    let (_server, mut client) = client().await;
    let copy = [
        parse(["", "copy (select n) to stdout"], &[]),
        bind(),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ];
    assert_eq!(kinds(&client.ask(&copy).await), "12nHdddcCZ");
    assert_eq!(error(&client.query("copy (fail) to stdout").await), "42P01");
    assert_eq!(error(&client.query("copy t to '/x'").await), "0A000");
    let forced = "copy (select n) to stdout (format csv, force_quote (nothing))";
    assert_eq!(error(&client.query(forced).await), "42703");
}

#[tokio::test]
async fn a_portal_that_is_open_cannot_be_bound_again() {
    let (_server, mut client) = client().await;
    let named = BindMessage { portal: "p", ..BindMessage::default() }.encode();
    let messages = [parse(["", "select n"], &[]), named.clone(), named, sync()];
    assert_eq!(error(&client.ask(&messages).await), "42P03");
}

#[tokio::test]
async fn all_settings_are_shown() {
    let (_server, mut client) = client().await;
    let replies = client.query("set myapp.user_id = '7'; show all").await;
    assert!(texts(&replies).contains(&"myapp.user_id,7,".to_owned()));
    assert_eq!(shown(&mut client, "myapp.user_id").await, "7");
}

#[tokio::test]
async fn a_session_that_is_idle_in_a_transaction_ends() {
    let (_server, mut client) = client().await;
    client.query("set idle_in_transaction_session_timeout = '50ms'").await;
    client.query("begin").await;
    let replies = client.until_end().await;
    assert_eq!((kinds(&replies), replies[0].state()), ("E".into(), "25P03".into()));
}
