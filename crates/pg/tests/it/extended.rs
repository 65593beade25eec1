//! Extended queries: parse, bind, describe, execute, close, sync.

use crate::kit::{
    BINARY, BindMessage, FLOAT8, INT4, INT8, RawClient, ServerMessage, TEXT, TestServer, bind,
    close, describe, execute, kinds, message, parse, query, sync,
};

async fn client() -> (TestServer, RawClient) {
    let server = TestServer::start_open().await;
    let client = RawClient::connect(&server).await;
    (server, client)
}

/// SQLSTATE of the only error.
fn state(replies: &[ServerMessage]) -> String {
    let mut errors = replies.iter().filter(|reply| reply.kind == 'E');
    let error = errors.next().expect("an error");
    assert!(errors.next().is_none(), "{replies:?}");
    error.state()
}

/// Parses `select $1` for a parameter of this type, and binds a value in this format.
fn echo(oid: u32, format: i16, value: Option<&[u8]>) -> Vec<Vec<u8>> {
    let bind = BindMessage { formats: &[format], values: &[value], ..BindMessage::default() };
    vec![parse(["", "select $1"], &[oid]), bind.encode(), execute("", 0), sync()]
}

#[tokio::test]
async fn a_portal_returns_its_rows_in_portions() {
    let (_server, mut client) = client().await;
    let named = BindMessage { portal: "p", statement: "s", ..BindMessage::default() };
    let messages = [
        parse(["s", "select n"], &[]),
        named.encode(),
        describe(b'P', "p"),
        execute("p", 2),
        execute("p", 2),
        execute("p", 2),
        sync(),
    ];
    let replies = client.ask(&messages).await;
    // Two rows and a suspension, one row and the end, then nothing more.
    assert_eq!(kinds(&replies), "12TDDsDCCZ");
    assert_eq!(replies[7].text(), "SELECT 3");
    assert_eq!(replies[8].text(), "SELECT 0");
}

#[tokio::test]
async fn a_limit_equal_to_the_row_count_completes_the_portal() {
    let (_server, mut client) = client().await;
    let replies = client.ask(&[parse(["", "select n"], &[]), bind(), execute("", 3), sync()]).await;
    assert_eq!(kinds(&replies), "12DDDCZ");
}

#[tokio::test]
async fn describing_a_statement_gives_parameter_types_and_columns() {
    let (_server, mut client) = client().await;
    let messages = [parse(["s", "select $1"], &[FLOAT8]), describe(b'S', "s"), sync()];
    let replies = client.ask(&messages).await;
    assert_eq!(kinds(&replies), "1tTZ");
    assert_eq!(replies[1].body, [&[0, 1][..], &FLOAT8.to_be_bytes()].concat());
    assert_eq!(replies[2].columns(), [("c0".to_owned(), FLOAT8, 0)]);
}

#[tokio::test]
async fn an_undeclared_parameter_gets_the_engines_type() {
    let (_server, mut client) = client().await;
    for types in [&[][..], &[0]] {
        let messages = [parse(["", "select $1"], types), describe(b'S', ""), sync()];
        let replies = client.ask(&messages).await;
        assert_eq!(replies[1].body, [&[0, 1][..], &INT8.to_be_bytes()].concat(), "{types:?}");
    }
}

#[tokio::test]
async fn a_parameter_is_described_as_declared() {
    // `varchar`, which is handled as text.
    const VARCHAR: u32 = 1043;
    let (_server, mut client) = client().await;
    let messages = [parse(["", "select $1"], &[VARCHAR]), describe(b'S', ""), sync()];
    let replies = client.ask(&messages).await;
    assert_eq!(replies[1].body, [&[0, 1][..], &VARCHAR.to_be_bytes()].concat());
    assert_eq!(replies[2].columns(), [("c0".to_owned(), TEXT, 0)]);
}

#[tokio::test]
async fn describing_a_portal_gives_the_requested_formats() {
    let (_server, mut client) = client().await;
    let bind = BindMessage { result_formats: &[BINARY], ..BindMessage::default() };
    let messages = [parse(["", "select n"], &[]), bind.encode(), describe(b'P', ""), sync()];
    let replies = client.ask(&messages).await;
    assert_eq!(replies[2].columns(), [("c0".to_owned(), INT8, BINARY)]);
}

#[tokio::test]
async fn a_statement_without_rows_has_no_data() {
    let (_server, mut client) = client().await;
    let messages = [
        parse(["", "set jit = off"], &[]),
        describe(b'S', ""),
        bind(),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ];
    assert_eq!(kinds(&client.ask(&messages).await), "1tn2nCZ");
}

#[tokio::test]
async fn an_empty_statement_gets_an_empty_response() {
    let (_server, mut client) = client().await;
    let replies = client.ask(&[parse(["", ""], &[]), bind(), execute("", 0), sync()]).await;
    assert_eq!(kinds(&replies), "12IZ");
}

#[tokio::test]
async fn show_is_described_and_executed() {
    let (_server, mut client) = client().await;
    let messages = [
        parse(["", "show server_version_num"], &[]),
        bind(),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ];
    let replies = client.ask(&messages).await;
    assert_eq!(kinds(&replies), "12TDCZ");
    assert_eq!(replies[3].texts(), ["150000"]);
}

#[tokio::test]
async fn parameters_are_read_from_text_and_binary() {
    let (_server, mut client) = client().await;
    let cases: [(u32, i16, &[u8], &str); 7] = [
        (INT8, 0, b"41", "41"),
        (INT8, BINARY, &41_i64.to_be_bytes(), "41"),
        (INT4, BINARY, &(-7_i32).to_be_bytes(), "-7"),
        (FLOAT8, 0, b"2.5", "2.5"),
        (FLOAT8, BINARY, &2.5_f64.to_be_bytes(), "2.5"),
        (TEXT, 0, b"it's", "it's"),
        (TEXT, BINARY, b"it's", "it's"),
    ];
    for (oid, format, bytes, expected) in cases {
        let replies = client.ask(&echo(oid, format, Some(bytes))).await;
        assert_eq!(kinds(&replies), "12DCZ", "{oid}: {replies:?}");
        assert_eq!(replies[2].texts(), [expected], "{oid}");
    }
}

#[tokio::test]
async fn a_null_parameter_is_null() {
    let (_server, mut client) = client().await;
    let replies = client.ask(&echo(INT8, 0, None)).await;
    assert_eq!(replies[2].values(), [None]);
}

#[tokio::test]
async fn invalid_parameters_are_refused_by_kind() {
    let (_server, mut client) = client().await;
    /// OIDs of `int8[]` and of `numeric`.
    const INT8_ARRAY: u32 = 1016;
    const NUMERIC: u32 = 1700;
    for (oid, format, bytes, expected) in [
        (INT8, 0, &b"many"[..], "22P02"),
        (INT8, BINARY, b"123", "22P03"),
        (TEXT, 0, b"\xff", "22021"),
        (INT8_ARRAY, 0, b"{1", "22P02"),
        (INT8_ARRAY, 0, b"{{1},{2}}", "22P02"),
        (NUMERIC, BINARY, b"1", "22P03"),
    ] {
        let replies = client.ask(&echo(oid, format, Some(bytes))).await;
        assert_eq!((kinds(&replies).as_str(), state(&replies).as_str()), ("1EZ", expected));
    }
}

#[tokio::test]
async fn results_are_binary_where_requested() {
    let (_server, mut client) = client().await;
    let bind = BindMessage { result_formats: &[BINARY], ..BindMessage::default() };
    let replies =
        client.ask(&[parse(["", "types"], &[]), bind.encode(), execute("", 0), sync()]).await;
    let values = replies[2].values();
    let expected: [Option<Vec<u8>>; 14] = [
        Some(vec![1]),
        Some(vec![0xde, 0xad]),
        Some((-2_i16).to_be_bytes().to_vec()),
        Some(40_000_i32.to_be_bytes().to_vec()),
        Some(5_000_000_000_i64.to_be_bytes().to_vec()),
        Some(0.5_f32.to_be_bytes().to_vec()),
        Some(1e300_f64.to_be_bytes().to_vec()),
        Some(b"it's".to_vec()),
        Some(1_i32.to_be_bytes().to_vec()),
        Some((12 * 3_600_000_000_i64 + 500_000).to_be_bytes().to_vec()),
        Some([5, 4, 0, 0, 1844, 6744, 737, 955, 1615_i16].map(i16::to_be_bytes).concat()),
        Some([&4_000_000_i64.to_be_bytes()[..], &[0, 0, 0, 3, 0, 0, 0, 14]].concat()),
        Some(
            [
                &[0, 0, 0, 1, 0, 0, 0, 1][..],
                &INT8.to_be_bytes(),
                &[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 8],
                &7_i64.to_be_bytes(),
                &(-1_i32).to_be_bytes(),
            ]
            .concat(),
        ),
        None,
    ];
    for (at, (value, expected)) in values.iter().zip(&expected).enumerate() {
        assert_eq!(value, expected, "column {at}");
    }
    assert_eq!(values.len(), expected.len());
}

#[tokio::test]
async fn formats_may_differ_by_column_and_must_match_their_count() {
    let (_server, mut client) = client().await;
    let mut formats = [0; 14];
    formats[2] = BINARY;
    let bind = BindMessage { result_formats: &formats, ..BindMessage::default() };
    let messages = [parse(["", "types"], &[]), bind.encode(), execute("", 0), sync()];
    let values = client.ask(&messages).await.swap_remove(2).values();
    assert_eq!(
        (values[1].as_deref(), values[2].as_deref()),
        (Some(&b"\\xdead"[..]), Some(&[0xff, 0xfe][..]))
    );
    for wrong in [&[0, 0][..], &[2]] {
        let bind = BindMessage { result_formats: wrong, ..BindMessage::default() };
        let messages = [parse(["", "types"], &[]), bind.encode(), sync()];
        assert_eq!(state(&client.ask(&messages).await), "08P01", "{wrong:?}");
    }
}

#[tokio::test]
async fn unknown_names_and_duplicates_are_refused() {
    let (_server, mut client) = client().await;
    let unknown = BindMessage { statement: "nothing", ..BindMessage::default() }.encode();
    for (messages, expected) in [
        (vec![unknown], "26000"),
        (vec![describe(b'S', "nothing")], "26000"),
        (vec![describe(b'P', "nothing")], "34000"),
        (vec![execute("nothing", 0)], "34000"),
        (vec![parse(["s", "select 1"], &[]), parse(["s", "select 2"], &[])], "42P05"),
    ] {
        let replies = client.ask(&[messages.concat(), sync()]).await;
        assert_eq!(state(&replies), expected, "{replies:?}");
    }
    // The unnamed statement may be replaced.
    let messages = [parse(["", "select 1"], &[]), parse(["", "select 2"], &[]), sync()];
    assert_eq!(kinds(&client.ask(&messages).await), "11Z");
}

#[tokio::test]
async fn a_prepared_statement_is_a_single_statement() {
    let (_server, mut client) = client().await;
    let replies = client.ask(&[parse(["", "select 1; select 2"], &[]), sync()]).await;
    assert_eq!(state(&replies), "42601");
}

#[tokio::test]
async fn the_number_of_parameters_must_match() {
    let (_server, mut client) = client().await;
    let replies = client.ask(&[parse(["", "select $1"], &[]), bind(), sync()]).await;
    assert_eq!((kinds(&replies), state(&replies)), ("1EZ".into(), "08P01".into()));
}

#[tokio::test]
async fn an_error_skips_messages_up_to_sync_and_a_pipeline_goes_on() {
    let (_server, mut client) = client().await;
    let works = [parse(["", "select n"], &[]), bind(), execute("", 0), sync()].concat();
    let fails = [parse(["", "fail"], &[]), bind(), execute("", 0), execute("", 0), sync()].concat();
    client.send(&[fails, works.clone(), works].concat()).await;
    let failed = client.until_ready().await;
    assert_eq!((kinds(&failed), state(&failed)), ("12EZ".into(), "42P01".into()));
    for _ in 0..2 {
        assert_eq!(kinds(&client.until_ready().await), "12DDDCZ");
    }
}

#[tokio::test]
async fn a_simple_query_ends_the_skipping_of_messages() {
    let (_server, mut client) = client().await;
    let replies = client.ask(&[execute("nothing", 0), bind(), query("select 1")]).await;
    assert_eq!(kinds(&replies), "ETDDDCZ");
}

#[tokio::test]
async fn closed_statements_and_portals_are_gone_and_closing_unknown_ones_succeeds() {
    let (_server, mut client) = client().await;
    let named = BindMessage { portal: "p", statement: "s", ..BindMessage::default() };
    let messages = [
        parse(["s", "select n"], &[]),
        named.encode(),
        close(b'P', "p"),
        close(b'S', "s"),
        close(b'S', "s"),
        named.encode(),
        sync(),
    ];
    let replies = client.ask(&messages).await;
    assert_eq!((kinds(&replies), state(&replies)), ("12333EZ".into(), "26000".into()));
}

#[tokio::test]
async fn sync_ends_portals_outside_of_a_transaction_only() {
    let (_server, mut client) = client().await;
    let named = BindMessage { portal: "p", ..BindMessage::default() };
    let open = [parse(["", "select n"], &[]), named.encode(), execute("p", 1), sync()].concat();
    client.ask(std::slice::from_ref(&open)).await;
    assert_eq!(state(&client.ask(&[execute("p", 1), sync()]).await), "34000");
    client.query("begin").await;
    client.ask(&[open]).await;
    assert_eq!(kinds(&client.ask(&[execute("p", 1), sync()]).await), "DsZ");
    client.query("commit").await;
    assert_eq!(state(&client.ask(&[execute("p", 1), sync()]).await), "34000");
}

#[tokio::test]
async fn flush_sends_replies_without_sync() {
    let (_server, mut client) = client().await;
    client.send(&[parse(["", "select n"], &[]), message(b'H', b"")].concat()).await;
    assert_eq!(client.next().await.expect("a reply").kind, '1');
    assert_eq!(kinds(&client.ask(&[bind(), sync()]).await), "2Z");
}

#[tokio::test]
async fn a_result_that_differs_from_its_description_is_an_error() {
    let (_server, mut client) = client().await;
    let messages = [parse(["", "two columns"], &[]), bind(), execute("", 0), sync()];
    let replies = client.ask(&messages).await;
    assert_eq!((kinds(&replies), state(&replies)), ("12EZ".into(), "0A000".into()));
}

#[tokio::test]
async fn truncated_messages_are_errors_and_the_session_goes_on() {
    let (_server, mut client) = client().await;
    for (kind, body) in [
        (b'P', &b"s"[..]),
        (b'P', b"s\0select 1\0\0"),
        (b'B', b"\0"),
        (b'B', b"\0\0\0\x01"),
        (b'D', b""),
        (b'E', b"p"),
        (b'C', b"S"),
    ] {
        let replies = client.ask(&[message(kind, body), sync()]).await;
        assert_eq!(kinds(&replies), "EZ", "{kind}: {replies:?}");
    }
    assert_eq!(kinds(&client.query("select 1").await), "TDDDCZ");
}

#[tokio::test]
async fn prepared_statements_have_a_limit() {
    let (_server, mut client) = client().await;
    for number in 0..1000 {
        client.send(&parse([&format!("s{number}"), "select 1"], &[])).await;
    }
    let replies = client.ask(&[parse(["last", "select 1"], &[]), sync()]).await;
    assert_eq!(state(&replies), "54000");
    client.query("deallocate all").await;
    assert_eq!(kinds(&client.ask(&[parse(["last", "select 1"], &[]), sync()]).await), "1Z");
}

#[tokio::test]
async fn bytes_of_prepared_statements_have_a_limit() {
    let (_server, mut client) = client().await;
    let long = format!("select 1 -- {}", "x".repeat(3 << 20));
    for number in 0..5 {
        let replies = client.ask(&[parse([&format!("s{number}"), &long], &[]), sync()]).await;
        assert_eq!(kinds(&replies), "1Z");
    }
    let replies = client.ask(&[parse(["last", &long], &[]), sync()]).await;
    assert_eq!(state(&replies), "53200");
    client.query("deallocate all").await;
    assert_eq!(kinds(&client.ask(&[parse(["last", &long], &[]), sync()]).await), "1Z");
    // The unnamed statement replaces the one before it.
    for _ in 0..8 {
        assert_eq!(kinds(&client.ask(&[parse(["", &long], &[]), sync()]).await), "1Z");
    }
}
