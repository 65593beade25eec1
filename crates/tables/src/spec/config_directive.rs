//! `config_directive`: lines of the servers' own configuration, so that a fix can name file and
//! line.

table! {
    /// Directives of nginx, HAProxy and Apache configurations, with file and line.
    ConfigDirective, ConfigDirectiveRows = "config_directive";
    grain: "one row per directive that weir reads, at start, at each change and every hour";
    source: "the servers' configuration files, includes followed";
    sort: [host, program, file, line, ts];
    1 ts: Time = "When it was read.";
    2 host: Text = "The host that it was read on.";
    3 program: Text = "nginx, haproxy or apache.";
    4 process_id: OptInt = "Master process that runs with this configuration; NULL when none was found running.";
    5 file: Text = "The file.";
    6 line: Int = "The line, from 1.";
    7 context: Text = "The blocks around it, outermost first, such as `http/server`; HAProxy: section type and name.";
    8 directive: Text = "Its name, such as listen.";
    9 arguments: Text = "What follows the name, separated by one space, without the semicolon.";
    10 server_address: OptText = "For `listen` and `bind`: the address, `0.0.0.0` when any; NULL otherwise.";
    11 server_port: OptInt = "For `listen` and `bind`: the port; NULL otherwise.";
}
