//! The examples of `docs/health.md` are those in the clients, and they run.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::thread;

use super::client_program::{
    ClientProgram, GO, JAVA_EXAMPLE, Language, NODE, PHP, PYTHON, RUBY, repository,
};
use super::digest_reader::{DigestRow, row_of, wait_for};

/// The port that the examples name.
const PORT: &str = "9201";
/// Ports below those that the kernel gives away.
const PORTS: std::ops::Range<u16> = 21_000..32_000;

/// Languages with the names of their blocks, and a line that keeps a program alive whose
/// application is left out.
const EXAMPLES: [(Language, &str, &str); 6] = [
    (PYTHON, "python", "import sys; sys.stdin.read()"),
    (GO, "go", ""),
    (NODE, "js", "process.stdin.resume();"),
    (RUBY, "ruby", "$stdin.read"),
    (JAVA_EXAMPLE, "java", ""),
    (PHP, "php", ""),
];

#[test]
fn examples_of_the_docs_are_those_of_the_clients_and_run() {
    let docs = std::fs::read_to_string(repository().join("docs/health.md")).expect("it is there");
    let mut ports = PORTS;
    let mut programs = Vec::new();
    for (language, block, last_line) in EXAMPLES {
        let example = block_of(&docs, format!("```{block}\n"));
        let client = std::fs::read_to_string(language.client_path()).expect("it is there");
        assert!(plain(&client).contains(&plain(example)), "{}: {example}", language.client);
        let port = free_port(&mut ports);
        let head = if block == "php" { "<?php\n" } else { "" };
        let source = format!("{head}{example}{last_line}\n").replace(PORT, &port.to_string());
        programs.push((language, source, port));
    }
    thread::scope(|scope| {
        for (language, source, port) in programs {
            scope.spawn(move || runs(language, &source, port));
        }
    });
}

/// The first block of code in a language.
fn block_of(docs: &str, start: String) -> &str {
    let rest = docs.split_once(&start).expect("the docs have an example").1;
    rest.split_once("```").expect("the block ends").0
}

/// Lines without indentation and the marks of comments.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_matches(['/', '*', '#', ' ', '\t']));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn free_port(ports: &mut std::ops::Range<u16>) -> u16 {
    let mut free = ports.skip_while(|port| match TcpListener::bind(("127.0.0.1", *port)) {
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::AddrInUse,
    });
    free.next().expect("one of thousands is free")
}

fn runs(language: Language, source: &str, port: u16) {
    let Some(program) = ClientProgram::new(language, source) else { return };
    let Some(_running) = program.start(&[]) else { return };
    let rows = wait_for(port, language.name, |rows| {
        rows.len() == 3 && rows.iter().all(|row| row.status == "ok")
    });
    let expected = DigestRow {
        check: "feed:rate".to_owned(),
        status: "ok".to_owned(),
        scope: "dependency".to_owned(),
        service: "shop".to_owned(),
        value: Some(62.0),
        unit: "/s".to_owned(),
        threshold: "50".to_owned(),
        output: String::new(),
    };
    assert_eq!(row_of(&rows, "feed:rate"), Some(&expected), "{}", language.name);
    assert_eq!(row_of(&rows, "workers").map(|row| row.scope.as_str()), Some("self"));
}
