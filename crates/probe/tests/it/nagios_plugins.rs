//! Debian's monitoring plugins and NRPE's configuration, run as an agent runs them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use weir_probe::check::{
    CheckHost, CheckOutcome, CheckSpec, CheckState, CheckWork, PluginCheck, PluginControl,
    PluginUser, run_check,
};
use weir_probe::plugin::NrpeConfig;
use weir_tables::Micros;

const PLUGINS: &str = "/usr/lib/nagios/plugins";
const NRPE_CONFIG: &str = "/etc/nagios/nrpe.cfg";
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a plugin by the words of its command.
fn run(command: &str, timeout: Duration) -> CheckOutcome {
    let argv = command.split(' ').map(str::to_owned).collect();
    run_words(argv, timeout)
}

fn run_words(mut argv: Vec<String>, timeout: Duration) -> CheckOutcome {
    if !argv[0].starts_with('/') {
        argv[0] = format!("{PLUGINS}/{}", argv[0]);
    }
    let spec = CheckSpec {
        name: "x".to_owned(),
        service: None,
        interval: PATIENCE,
        timeout,
        work: CheckWork::Plugin(PluginCheck { argv, user: PluginUser::Usual }),
    };
    run_check(&spec, &CheckHost { now: Micros(0), control: &PluginControl::default() })
}

fn has_plugins() -> bool {
    let is_there = Path::new(PLUGINS).join("check_load").exists();
    if !is_there {
        crate::skip("monitoring-plugins-basic");
    }
    is_there
}

/// A web server that answers everything with `welcome`; it ends with the test.
fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _gone = answer(stream);
        }
    });
    port
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nwelcome")
}

/// A port on which nothing listens.
fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

fn figure<'a>(outcome: &'a CheckOutcome, label: &str) -> &'a str {
    let found = outcome.figures.iter().find(|(name, _)| name == label);
    found.map_or("", |(_, text)| text.as_str())
}

#[test]
fn check_http_and_check_tcp_have_states_times_and_bounds() {
    if !has_plugins() {
        return;
    }
    let (open, closed) = (web_server(), closed_port());
    for (command, state, output) in [
        (format!("check_http -H 127.0.0.1 -p {open}"), CheckState::Ok, "HTTP OK: HTTP/1.1 200 OK"),
        (
            format!("check_http -H 127.0.0.1 -p {open} -e 404"),
            CheckState::Critical,
            "HTTP CRITICAL",
        ),
        (
            format!("check_http -H 127.0.0.1 -p {open} -s goodbye"),
            CheckState::Critical,
            "string 'goodbye' not found",
        ),
        (
            format!("check_http -H 127.0.0.1 -p {open} -w 0.000001 -c 50 -t 60"),
            CheckState::Warning,
            "HTTP WARNING",
        ),
        (
            format!("check_http -H 127.0.0.1 -p {closed}"),
            CheckState::Critical,
            "Connection refused",
        ),
        (format!("check_tcp -H 127.0.0.1 -p {open}"), CheckState::Ok, "TCP OK"),
        (format!("check_tcp -H 127.0.0.1 -p {closed}"), CheckState::Critical, "Connection refused"),
    ] {
        let outcome = run(&command, PATIENCE);
        assert_eq!(outcome.state, state, "{command}: {outcome:?}");
        assert!(outcome.output.contains(output), "{command}: {outcome:?}");
        let is_timed = !outcome.figures.is_empty();
        let unit = is_timed.then_some("s");
        assert_eq!(outcome.unit.as_deref(), unit, "{command}: {outcome:?}");
        assert_eq!(outcome.value.is_some_and(|seconds| seconds >= 0.0), is_timed, "{outcome:?}");
        let bound = (state == CheckState::Warning).then_some("0.000001");
        assert_eq!(outcome.threshold.as_deref(), bound, "{command}: {outcome:?}");
    }
    let outcome = run(&format!("check_http -H 127.0.0.1 -p {open}"), PATIENCE);
    assert!(figure(&outcome, "size").ends_with("B;;;0"), "{outcome:?}");
}

#[test]
fn check_procs_load_and_disk_have_ranges_and_several_figures() {
    if !has_plugins() {
        return;
    }
    let outcome = run("check_procs -w 1: -c 1:", PATIENCE);
    assert_eq!((outcome.state, outcome.threshold.as_deref()), (CheckState::Ok, Some("1:")));
    let outcome = run("check_procs -w 1: -c 10000000:", PATIENCE);
    let bound = Some("10000000:");
    assert_eq!((outcome.state, outcome.threshold.as_deref()), (CheckState::Critical, bound));
    let outcome = run("check_procs -w @0:10000000 -c 20000000", PATIENCE);
    let bound = Some("@10000000");
    assert_eq!((outcome.state, outcome.threshold.as_deref()), (CheckState::Warning, bound));
    assert!(figure(&outcome, "procs").ends_with(";@10000000;20000000;0"), "{outcome:?}");

    // nagios-plugins/nagios-plugins#642: each figure of check_load ends in a `;` too many.
    let outcome = run("check_load -w 10000,10000,10000 -c 20000,20000,20000", PATIENCE);
    assert_eq!(outcome.state, CheckState::Ok, "{outcome:?}");
    for label in ["load1", "load5", "load15"] {
        assert!(figure(&outcome, label).ends_with(";10000;20000;0"), "{label}: {outcome:?}");
    }
    let outcome = run("check_load -r -w 10000,10000,10000 -c 20000,20000,20000", PATIENCE);
    assert_eq!(outcome.figures.len(), 6, "{outcome:?}");

    let outcome = run("check_disk -w 0% -c 0% -p /", PATIENCE);
    assert_eq!((outcome.state, outcome.unit.as_deref()), (CheckState::Ok, Some("B")));
    let outcome = run("check_disk -w 100% -c 100% -p /", PATIENCE);
    assert_eq!((outcome.state, outcome.threshold.as_deref()), (CheckState::Critical, Some("0")));
    let outcome = run("check_disk -w 20% -c 10% -p /no/such/place", PATIENCE);
    assert_eq!(outcome.state, CheckState::Critical, "{outcome:?}");
    assert!(outcome.output.contains("/no/such/place is not accessible"), "{outcome:?}");
}

/// The plugin decides, not its figures: nagios-plugins/nagios-plugins#688 and
/// monitoring-plugins/monitoring-plugins#1525 have a warning whose figure is below its bound, and
/// in monitoring-plugins/monitoring-plugins#1251 `-w` without a value takes `-c` for one and is ok.
#[test]
fn state_is_the_exit_code_whatever_the_figures_are() {
    if !has_plugins() {
        return;
    }
    let disk = "WARNING [ /mnt/data 39686 MB (10%)]; | /mnt/data=341105MB;345596;364796;0;383996";
    for (code, state) in [
        ("0", CheckState::Ok),
        ("1", CheckState::Warning),
        ("2", CheckState::Critical),
        ("3", CheckState::Unknown),
        ("4", CheckState::Unknown),
    ] {
        let argv = ["check_dummy", code, disk].map(str::to_owned).to_vec();
        let outcome = run_words(argv, PATIENCE);
        assert_eq!(outcome.state, state, "{outcome:?}");
        if code != "4" {
            assert_eq!((outcome.value, outcome.unit.as_deref()), (Some(341_105.0), Some("MB")));
        }
    }
    let outcome = run("negate -o CRITICAL /usr/lib/nagios/plugins/check_dummy 0 fine", PATIENCE);
    assert_eq!((outcome.state, outcome.output.as_str()), (CheckState::Critical, "OK: fine"));
    let outcome = run("check_disk -w -c -p /", PATIENCE);
    assert_eq!(outcome.state, CheckState::Ok, "{outcome:?}");
}

/// monitoring-plugins/monitoring-plugins#2265 and nagios-plugins/nagios-plugins#685: at its own
/// timeout a plugin is critical, for a server that does not answer is down; a plugin that has to be
/// killed is unknown.
#[test]
fn timeout_of_the_plugin_is_critical_and_that_of_the_check_is_unknown() {
    if !has_plugins() {
        return;
    }
    // The kernel completes connections that nothing accepts.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = silent.local_addr().expect("it is bound").port();
    let outcome = run(&format!("check_tcp -H 127.0.0.1 -p {port} -s x -e y -t 1"), PATIENCE);
    assert_eq!(outcome.state, CheckState::Critical, "{outcome:?}");
    assert_eq!(outcome.output, "CRITICAL - Socket timeout after 1 seconds");
    let command = format!("check_http -H 127.0.0.1 -p {port} -t 600");
    let outcome = run(&command, Duration::from_secs(1));
    assert_eq!(outcome.state, CheckState::Unknown, "{outcome:?}");
    assert_eq!(outcome.output, "no result within 1 s");
}

#[test]
fn commands_of_debians_nrpe_are_imported_and_run() {
    if !has_plugins() {
        return;
    }
    let Ok(text) = std::fs::read_to_string(NRPE_CONFIG) else {
        crate::skip("nagios-nrpe-server");
        return;
    };
    let config = NrpeConfig::load(Path::new(NRPE_CONFIG)).expect("all files are there");
    let written: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| Some(line.strip_prefix("command[")?.split_once(']')?.0))
        .collect();
    let imported = config.commands.iter().map(|command| command.name.as_str());
    let known: BTreeSet<&str> =
        imported.chain(config.refused.iter().map(|refused| refused.name.as_str())).collect();
    assert!(written.is_subset(&known), "{written:?} {known:?}");
    assert!(known.contains("check_load"), "{config:?}");
    assert_eq!((config.user.as_deref(), config.timeout_seconds), (Some("nagios"), Some(60)));
    let here = config.commands.iter().filter(|command| command.argv[0].starts_with(PLUGINS));
    for command in here {
        let outcome = run_words(command.argv.clone(), PATIENCE);
        assert_ne!(outcome.state, CheckState::Unknown, "{command:?}: {outcome:?}");
        assert!(!outcome.output.is_empty(), "{command:?}");
    }
}

/// The figures of an output, as a table has them, and what is none.
fn figures(output: &str) -> Vec<String> {
    let result = weir_plugin::PluginResult::parse(CheckState::Ok, output);
    let read = result.values.iter().map(|value| format!("{} = {value}", value.label));
    read.chain(result.unread.iter().map(|text| format!("? {text}"))).collect()
}

/// Outputs of real plugins that are outside of the guidelines.
#[test]
fn figures_of_public_reports_are_read_where_they_are_clear() {
    let cases: [(&str, &[&str]); 7] = [
        // shawn-sterling/graphios#54: spaces in labels without quotes.
        (
            "ok|d:\\ Used Space=75.48Gb;90.00;95.00;0.00;100.00 h:\\ Used Space=21.14Gb;45.00;47.50;0.00;50.00",
            &["d:\\ Used Space = 75.48Gb;90;95;0;100", "h:\\ Used Space = 21.14Gb;45;47.5;0;50"],
        ),
        (
            "ok|'SMTP CONNECTIONS'=1766;7000;10000;; 5 min avg Load=59%;80;90;0;100",
            &["SMTP CONNECTIONS = 1766;7000;10000", "5 min avg Load = 59%;80;90;0;100"],
        ),
        // lausser/check_logfiles#17.
        (
            "OK - no errors or warnings|some space_lines=0 some space_warnings=0",
            &["some space_lines = 0", "some space_warnings = 0"],
        ),
        // IBM/nagios-for-i#20: spaces around the equals sign.
        (
            "CPU Utilization = 11.11% | 'CPU Utilization' = 11.11%;10.0;20.0",
            &["CPU Utilization = 11.11%;10;20"],
        ),
        // madrisan/nagios-plugins-linux#140: a comma behind the unit.
        (
            "memory WARNING|mem_available=1896848kB;3275275;1637637;0;16376376 mem_inactive=14287416kB, \
             vmem_pageouts/s=8926, vmem_pgmajfault/s=6",
            &[
                "mem_available = 1896848kB;3275275;1637637;0;16376376",
                "mem_inactive = 14287416kB",
                "vmem_pageouts/s = 8926",
                "vmem_pgmajfault/s = 6",
            ],
        ),
        // Icinga/icinga2#3606: a table in the figures.
        (
            "NETWORK OK 57518B/s | network=57518B/s;;;0; netI=\"vmxnet3 Ethernet Adapter \\_2\";in=9143B/s;out=48375B/s",
            &[
                "network = 57518B/s;;;0",
                "? netI=\"vmxnet3",
                "? Ethernet",
                "? Adapter",
                "? \\_2\";in=9143B/s;out=48375B/s",
            ],
        ),
        // shawn-sterling/graphios#71: long labels in quotes; lingej/pnp4nagios#118: an unknown value.
        (
            "ok|'Intel(R) PRO/1000 MT Network Connection_in_prct'=0%;8000;9000;0;100 mytestvalue=U",
            &[
                "Intel(R) PRO/1000 MT Network Connection_in_prct = 0%;8000;9000;0;100",
                "mytestvalue = U",
            ],
        ),
    ];
    for (output, expected) in cases {
        assert_eq!(figures(output), expected, "{output}");
    }
    // A label does not reach over the end of a line.
    let lines = "ok\nmore|a=1\nlast words\nb=2";
    assert_eq!(figures(lines), ["a = 1", "b = 2", "? last", "? words"]);
}

/// NagiosEnterprises/nrpe#202: a directory that includes itself; #144: later files replace commands;
/// comments in Latin-1 are common in files of twenty years.
#[test]
fn nrpe_files_of_public_reports_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let include = format!("include_dir={}\n", directory.path().display());
    let mut main =
        b"# gr\xfc\xdfe\ncommand[check_load]=/usr/lib/nagios/plugins/check_load -w 1 -c 2\n"
            .to_vec();
    main.extend_from_slice(include.as_bytes());
    std::fs::write(path("nrpe.cfg"), main).expect("written");
    let own = "include_dir=/nowhere\r\ncommand[check_load]=/usr/lib/nagios/plugins/check_load -w 15,10,5 -c 30,25,20\r\n";
    std::fs::write(path("own.cfg"), format!("{include}{own}")).expect("written");
    let config = NrpeConfig::load(&path("nrpe.cfg")).expect("it can be read");
    let [command] = &config.commands[..] else { panic!("{config:?}") };
    assert_eq!(command.argv[1..], ["-w", "15,10,5", "-c", "30,25,20"]);
    assert!(config.refused.is_empty(), "{config:?}");
}
