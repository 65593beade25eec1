//! Outputs as Debian's monitoring-plugins-basic 2.3.3 wrote them, and of the documentation.

use expect_test::{Expect, expect};

use super::{CheckState, PluginResult};
use crate::{PerformanceValue, ThresholdRange};

fn range(range: Option<ThresholdRange>) -> String {
    let Some(range) = range else { return "-".to_owned() };
    let at = if range.is_inverted { "@" } else { "" };
    format!("{at}{}..{}", range.start, range.end)
}

fn number(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}

fn line(value: &PerformanceValue) -> String {
    let PerformanceValue { label, value, unit, warn, crit, min, max } = value;
    let (value, warn, crit) = (number(*value), range(*warn), range(*crit));
    format!("{label} = {value} {unit} warn {warn} crit {crit} {}..{}", number(*min), number(*max))
}

fn check(code: i32, output: &str, expected: Expect) {
    let result = PluginResult::parse(CheckState::of_code(code), output);
    let mut shown = format!("{}: {}\n", result.state.as_str(), result.summary);
    for text in result.long_text.lines() {
        shown += &format!("  {text}\n");
    }
    for value in &result.values {
        shown += &format!("| {}\n", line(value));
    }
    for text in &result.unread {
        shown += &format!("? {text}\n");
    }
    expected.assert_eq(&shown);
}

#[test]
fn real_outputs_have_state_text_and_figures() {
    check(
        0,
        "LOAD OK - total load average: 3.35, 2.97, 2.47|load1=3.350;5.000;10.000;0; load5=2.970;4.000;6.000;0; load15=2.470;3.000;4.000;0; \n",
        expect![[r#"
            ok: LOAD OK - total load average: 3.35, 2.97, 2.47
            | load1 = 3.35  warn 0..5 crit 0..10 0..-
            | load5 = 2.97  warn 0..4 crit 0..6 0..-
            | load15 = 2.47  warn 0..3 crit 0..4 0..-
        "#]],
    );
    check(
        0,
        "DISK OK - free space: / 74692MiB (80% inode=97%);| /=19472056320B;216442024755;243497277849;0;270552530944\n",
        expect![[r#"
            ok: DISK OK - free space: / 74692MiB (80% inode=97%);
            | / = 19472056320 B warn 0..216442024755 crit 0..243497277849 0..270552530944
        "#]],
    );
    check(
        0,
        "PROCS OK: 97 processes | procs=97;1:250;1:400;0;\n",
        expect![[r#"
            ok: PROCS OK: 97 processes
            | procs = 97  warn 1..250 crit 1..400 0..-
        "#]],
    );
    check(
        2,
        "SWAP CRITICAL - 0% free (0MB out of 0MB) - Swap is either disabled, not present, or of zero size. |swap=0B;0;0;0;0\n",
        expect![[r#"
            critical: SWAP CRITICAL - 0% free (0MB out of 0MB) - Swap is either disabled, not present, or of zero size.
            | swap = 0 B warn 0..0 crit 0..0 0..0
        "#]],
    );
    check(
        2,
        "connect to address 127.0.0.1 and port 1: Connection refused\nHTTP CRITICAL - Unable to open TCP socket\n",
        expect![[r#"
            critical: connect to address 127.0.0.1 and port 1: Connection refused
              HTTP CRITICAL - Unable to open TCP socket
        "#]],
    );
    check(
        3,
        "DISK UNKNOWN: Must set a threshold value before using -p\n",
        expect!["unknown: DISK UNKNOWN: Must set a threshold value before using -p\n"],
    );
}

/// Nagios Core's documentation, "Nagios Plugin API", third example.
#[test]
fn figures_of_several_lines_are_one_list() {
    check(
        0,
        "DISK OK - free space: / 3326 MB (56%); | /=2643MB;5948;5958;0;5968\n/ 15272 MB (77%);\n/boot 68 MB (69%);\n/home 69357 MB (27%);\n/var/log 819 MB (84%); | /boot=68MB;88;93;0;98\n/home=69357MB;253404;253409;0;253414\n/var/log=818MB;970;975;0;980\n",
        expect![[r#"
            ok: DISK OK - free space: / 3326 MB (56%);
              / 15272 MB (77%);
              /boot 68 MB (69%);
              /home 69357 MB (27%);
              /var/log 819 MB (84%);
            | / = 2643 MB warn 0..5948 crit 0..5958 0..5968
            | /boot = 68 MB warn 0..88 crit 0..93 0..98
            | /home = 69357 MB warn 0..253404 crit 0..253409 0..253414
            | /var/log = 818 MB warn 0..970 crit 0..975 0..980
        "#]],
    );
}

#[test]
fn labels_units_and_ranges_of_all_forms_are_read() {
    check(
        1,
        "W|'C:\\ %used'=12%;@10:20;~:90;0;100 'it''s'=1,5s;;;; rta=4e-05s;10: up=123c 'a=b'=-3 lost=U;1 x=5 bad=x 'open=1 y= =2 5",
        expect![[r#"
            warn: W
            | C:\ %used = 12 % warn @10..20 crit -inf..90 0..100
            | it's = 1.5 s warn - crit - -..-
            | rta = 0.00004 s warn 10..inf crit - -..-
            | up = 123 c warn - crit - -..-
            | a=b = -3  warn - crit - -..-
            | lost = -  warn 0..1 crit - -..-
            | x = 5  warn - crit - -..-
            ? bad=x
            ? 'open=1
            ? y=
            ? =2
            ? 5
        "#]],
    );
}

/// Figures that plugins write outside of the guidelines: madrisan/nagios-plugins-linux#2 (commas
/// between them), shinken-solutions/shinken#858 (a long unit), Griesbacher/nagflux#19 (a decimal
/// comma), slauger/check_netscaler#47 (`UP` is a word, and not the unknown value `U`).
#[test]
fn figures_outside_of_the_guidelines_are_read_where_they_are_clear() {
    check(
        0,
        "ok | vmem_pgpgin/s=0, vmem_pgfault/s=13, 'Physical Memory Used'=12085620736Bytes; \
         time=6,049175s;;;0,000000;10,000000 ns.hacurstate=UP;; hapktrxrate=5a;;;0;",
        expect![[r#"
            ok: ok
            | vmem_pgpgin/s = 0  warn - crit - -..-
            | vmem_pgfault/s = 13  warn - crit - -..-
            | Physical Memory Used = 12085620736 Bytes warn - crit - -..-
            | time = 6.049175 s warn - crit - 0..10
            | hapktrxrate = 5 a warn - crit - 0..-
            ? ns.hacurstate=UP;;
        "#]],
    );
}

/// Bounds as plugins write them: naparuba/check-linux-by-ssh#42 (a unit behind each),
/// ziccardi/jnrpe#17 (ranges beside decimal commas), centreon-archive/centreon-archived#916 (some left
/// out), Icinga/icinga2#1856 (a range), olorin/nagiosplugin#3 (exponents).
#[test]
fn bounds_of_all_forms_are_read() {
    check(
        1,
        "W | /var=83%;75%;90%;0%;100% mem=3GB;@1GB:2GB;~:6GB;0GB;8GB uidLoad=0,000000;80:;90: \
         metric=5;;;1;2 only=5;;7 procs=1;1:2;1:3;0; big=1.5e10B;2e9;3E+10 twice=5s;10ms",
        expect![[r#"
            warn: W
            | /var = 83 % warn 0..75 crit 0..90 0..100
            | mem = 3 GB warn @1..2 crit -inf..6 0..8
            | uidLoad = 0  warn 80..inf crit 90..inf -..-
            | metric = 5  warn - crit - 1..2
            | only = 5  warn - crit 0..7 -..-
            | procs = 1  warn 1..2 crit 1..3 0..-
            | big = 15000000000 B warn 0..2000000000 crit 0..30000000000 -..-
            | twice = 5 s warn - crit - -..-
        "#]],
    );
}

#[test]
fn no_output_makes_it_panic() {
    arbtest::arbtest(|u| {
        let _result = PluginResult::parse(CheckState::Ok, u.arbitrary::<&str>()?);
        let text = format!("|{}", u.arbitrary::<&str>()?);
        let _result = PluginResult::parse(CheckState::Ok, &text);
        Ok(())
    });
}
