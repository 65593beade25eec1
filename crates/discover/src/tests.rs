//! Default configurations of distributions.

use expect_test::{Expect, expect};

use super::*;

/// Creates a root directory with `files` and checks what is found in it.
fn check(files: &[(&str, &str)], expected: Expect) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = below(dir.path(), Path::new(path));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    expected.assert_eq(&show(dir.path(), &discover(dir.path())));
}

fn show(root: &Path, found: &Discovery) -> String {
    let mut lines = Vec::new();
    for source in &found.sources {
        let path = source.path.strip_prefix(root).unwrap().display();
        let program = source.program.as_str();
        lines.push(format!("/{path} {program} {:?} ({})", source.format, source.found_in));
    }
    for found in &found.directives {
        let socket = match (&found.server_address, found.server_port) {
            (Some(address), Some(port)) => format!(" => {address} {port}"),
            (None, None) => String::new(),
            other => format!(" => {other:?}"),
        };
        lines.push(format!(
            "{}:{} {} | {} {}{socket}",
            found.file.display(),
            found.line,
            found.context,
            found.directive,
            found.arguments
        ));
    }
    for problem in &found.problems {
        lines.push(format!("! {}: {}; {}", problem.path, problem.message, problem.hint));
    }
    lines.join("\n")
}

#[test]
fn nginx_as_debian_sets_it_up() {
    let main = "user www-data;\nworker_processes auto;\nerror_log /var/log/nginx/error.log;\n\
        include /etc/nginx/modules-enabled/*.conf;\nevents {\n  worker_connections 768;\n}\nhttp {\n  sendfile on;\n\
        include mime.types;\n  access_log /var/log/nginx/access.log;\n  include /etc/nginx/sites-enabled/*;\n}\n";
    let site = "server {\n  listen 80 default_server;\n  listen [::]:80 default_server;\n  root /var/www/html;\n\
        location / { try_files $uri =404; }\n}\n";
    check(
        &[
            ("/etc/nginx/nginx.conf", main),
            ("/etc/nginx/mime.types", "types { text/html html; }"),
            ("/etc/nginx/sites-enabled/default", site),
        ],
        expect![[r#"
            /var/log/nginx/access.log nginx Combined (/etc/nginx/nginx.conf:11)
            /var/log/nginx/error.log nginx NginxError (/etc/nginx/nginx.conf:3)
            /etc/nginx/nginx.conf:1  | user www-data
            /etc/nginx/nginx.conf:2  | worker_processes auto
            /etc/nginx/nginx.conf:3  | error_log /var/log/nginx/error.log
            /etc/nginx/nginx.conf:6 events | worker_connections 768
            /etc/nginx/nginx.conf:9 http | sendfile on
            /etc/nginx/nginx.conf:11 http | access_log /var/log/nginx/access.log
            /etc/nginx/sites-enabled/default:2 http/server | listen 80 default_server => 0.0.0.0 80
            /etc/nginx/sites-enabled/default:3 http/server | listen [::]:80 default_server => :: 80
            /etc/nginx/sites-enabled/default:4 http/server | root /var/www/html"#]],
    );
}

#[test]
fn nginx_with_formats_levels_and_everything_that_cannot_be_followed() {
    let main = r#"http {
  log_format json escape=json '{"a":"$request",'
     '"b":$status}';
  log_format old '$remote_addr "$request"';
  upstream app { server 10.0.0.1:8080 max_fails=2; server unix:/run/a.sock; keepalive 16; }
  server {
    listen 127.0.0.1:8080 backlog=4096 reuseport;
    listen unix:/run/nginx.sock;
    listen *:443 ssl;
    server_name a.example b.example;
    access_log logs/a.log json buffer=32k flush=1s;
    location /api { proxy_pass http://user:secret@app/; proxy_read_timeout 5s; auth_basic "hush"; access_log off; }
    location /x { access_log /var/log/x-$host.log old; access_log syslog:server=10.0.0.9 old; }
    location /y { access_log /var/log/y.log.gz old gzip; access_log /var/log/z.log missing if=$loggable; }
  }
  server { listen 81; access_log /var/log/old.log old; }
}
error_log /var/log/e.log warn;
"#;
    check(
        &[("/etc/nginx/nginx.conf", main)],
        expect![[r#"
        /usr/share/nginx/logs/a.log nginx NginxTemplate { template: "{\"a\":\"$request\",\"b\":$status}", escape: Json } (/etc/nginx/nginx.conf:11)
        /var/log/z.log nginx Auto (/etc/nginx/nginx.conf:14)
        /var/log/old.log nginx NginxTemplate { template: "$remote_addr \"$request\"", escape: Default } (/etc/nginx/nginx.conf:16)
        /var/log/e.log nginx NginxError (/etc/nginx/nginx.conf:18)
        /etc/nginx/nginx.conf:2 http | log_format json escape=json {"a":"$request", "b":$status}
        /etc/nginx/nginx.conf:4 http | log_format old $remote_addr "$request"
        /etc/nginx/nginx.conf:5 http/upstream app | server 10.0.0.1:8080 max_fails=2
        /etc/nginx/nginx.conf:5 http/upstream app | server unix:/run/a.sock
        /etc/nginx/nginx.conf:5 http/upstream app | keepalive 16
        /etc/nginx/nginx.conf:7 http/server | listen 127.0.0.1:8080 backlog=4096 reuseport => 127.0.0.1 8080
        /etc/nginx/nginx.conf:8 http/server | listen unix:/run/nginx.sock
        /etc/nginx/nginx.conf:9 http/server | listen *:443 ssl => 0.0.0.0 443
        /etc/nginx/nginx.conf:10 http/server | server_name a.example b.example
        /etc/nginx/nginx.conf:11 http/server | access_log logs/a.log json buffer=32k flush=1s
        /etc/nginx/nginx.conf:12 http/server/location /api | proxy_pass http://[redacted]@app/
        /etc/nginx/nginx.conf:12 http/server/location /api | proxy_read_timeout 5s
        /etc/nginx/nginx.conf:12 http/server/location /api | auth_basic [redacted]
        /etc/nginx/nginx.conf:12 http/server/location /api | access_log off
        /etc/nginx/nginx.conf:13 http/server/location /x | access_log /var/log/x-$host.log old
        /etc/nginx/nginx.conf:13 http/server/location /x | access_log syslog:server=10.0.0.9 old
        /etc/nginx/nginx.conf:14 http/server/location /y | access_log /var/log/y.log.gz old gzip
        /etc/nginx/nginx.conf:14 http/server/location /y | access_log /var/log/z.log missing if=$loggable
        /etc/nginx/nginx.conf:16 http/server | listen 81 => 0.0.0.0 81
        /etc/nginx/nginx.conf:16 http/server | access_log /var/log/old.log old
        /etc/nginx/nginx.conf:18  | error_log /var/log/e.log warn
        ! /etc/nginx/nginx.conf:14: cannot follow `/var/log/y.log.gz`: it is written compressed; take `gzip` off, or write a second `access_log` beside it
        ! /etc/nginx/nginx.conf:13: cannot follow `/var/log/x-$host.log`: its path holds variables; name the files with `weir up --tail GLOB`
        ! /etc/nginx/nginx.conf:13: cannot follow `syslog:server=10.0.0.9`: it goes to a syslog server; write a second log to a file, which has offsets
        ! /etc/nginx/nginx.conf:14: cannot find the `log_format` `missing` that is named here; run `nginx -t`"#]],
    );
}

#[test]
fn nginx_without_any_access_log_writes_the_compiled_one() {
    check(
        &[("/etc/nginx/nginx.conf", "http { server { listen 80; } }")],
        expect![[r#"
        /var/log/nginx/access.log nginx Combined (/etc/nginx/nginx.conf)
        /var/log/nginx/error.log nginx NginxError (/etc/nginx/nginx.conf)
        /etc/nginx/nginx.conf:1 http/server | listen 80 => 0.0.0.0 80"#]],
    );
}

#[test]
fn broken_nginx_configuration_is_a_problem_and_the_rest_is_read() {
    check(
        &[
            (
                "/etc/nginx/nginx.conf",
                "http {\n include a.conf;\n include b.conf;\n include c.conf;\n}\n",
            ),
            ("/etc/nginx/a.conf", "server { listen 80;\n access_log '/var/log/a"),
            ("/etc/nginx/b.conf", "server { listen 81; access_log /var/log/b.log;"),
        ],
        expect![[r#"
            /var/log/b.log nginx Combined (/etc/nginx/b.conf:1)
            /var/log/nginx/error.log nginx NginxError (/etc/nginx/nginx.conf)
            /etc/nginx/b.conf:1 http/server | listen 81 => 0.0.0.0 81
            /etc/nginx/b.conf:1 http/server | access_log /var/log/b.log
            ! /etc/nginx/a.conf:2: cannot parse `/etc/nginx/a.conf:2`: a quote is never closed; run `nginx -t`
            ! /etc/nginx/b.conf:1: cannot parse `/etc/nginx/b.conf:1`: it ends before its last block or directive does; run `nginx -t`
            ! /etc/nginx/nginx.conf:4: cannot read `/etc/nginx/c.conf`: no such file; run `nginx -t`"#]],
    );
}

#[test]
fn file_that_includes_itself_ends() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("etc/nginx")).unwrap();
    std::fs::write(dir.path().join("etc/nginx/nginx.conf"), "include nginx.conf;").unwrap();
    let found = discover(dir.path());
    assert!(found.problems.iter().any(|problem| problem.message.contains("nested too deep")));
}

#[test]
fn haproxy_as_debian_sets_it_up() {
    let configuration = "global\n\tlog /dev/log\tlocal0\n\tlog /dev/log local1 notice\n\tmaxconn 2000\n\tdaemon\n\n\
        defaults\n\tlog\tglobal\n\tmode\thttp\n\toption\thttplog\n\toption dontlognull\n\ttimeout connect 5000\n\
        \ttimeout client 50s # half a minute more\n\nfrontend web\n\tbind *:80\n\tbind :8000-8001 ssl crt /x.pem\n\
        \tdefault_backend app\n\nbackend app\n\tserver a1 10.0.0.1:8080 check maxconn 50\n\nlisten stats\n\tbind 127.0.0.1:9000\n\
        \tstats auth admin:secret\n\tno option httpclose\n";
    check(
        &[("/etc/haproxy/haproxy.cfg", configuration), ("/var/log/haproxy.log", "")],
        expect![[r#"
            /var/log/haproxy.log haproxy HaproxyHttp (/etc/haproxy/haproxy.cfg:2)
            /etc/haproxy/haproxy.cfg:2 global | log /dev/log local0
            /etc/haproxy/haproxy.cfg:3 global | log /dev/log local1 notice
            /etc/haproxy/haproxy.cfg:4 global | maxconn 2000
            /etc/haproxy/haproxy.cfg:8 defaults | log global
            /etc/haproxy/haproxy.cfg:9 defaults | mode http
            /etc/haproxy/haproxy.cfg:10 defaults | option httplog 
            /etc/haproxy/haproxy.cfg:11 defaults | option dontlognull 
            /etc/haproxy/haproxy.cfg:12 defaults | timeout connect 5000
            /etc/haproxy/haproxy.cfg:13 defaults | timeout client 50s
            /etc/haproxy/haproxy.cfg:16 frontend web | bind *:80 => 0.0.0.0 80
            /etc/haproxy/haproxy.cfg:17 frontend web | bind :8000-8001 ssl crt /x.pem => 0.0.0.0 8000
            /etc/haproxy/haproxy.cfg:17 frontend web | bind :8000-8001 ssl crt /x.pem => 0.0.0.0 8001
            /etc/haproxy/haproxy.cfg:18 frontend web | default_backend app
            /etc/haproxy/haproxy.cfg:21 backend app | server a1 10.0.0.1:8080 check maxconn 50
            /etc/haproxy/haproxy.cfg:24 listen stats | bind 127.0.0.1:9000 => 127.0.0.1 9000
            /etc/haproxy/haproxy.cfg:25 listen stats | stats auth [redacted]
            /etc/haproxy/haproxy.cfg:26 listen stats | no option httpclose "#]],
    );
}

#[test]
fn haproxy_that_logs_elsewhere_is_a_problem() {
    check(
        &[(
            "/etc/haproxy/haproxy.cfg",
            "global\n  log 10.0.0.5:514 local0\nfrontend x\n  log-format \"%ci %ST\"\n",
        )],
        expect![[r#"
            /etc/haproxy/haproxy.cfg:2 global | log 10.0.0.5:514 local0
            /etc/haproxy/haproxy.cfg:4 frontend x | log-format %ci %ST
            ! /etc/haproxy/haproxy.cfg:2: cannot follow HAProxy's log: it goes to `10.0.0.5:514`; add `log /dev/log local0` beside it
            ! /etc/haproxy/haproxy.cfg:4: cannot read the times of `log-format` at `/etc/haproxy/haproxy.cfg:4`: weir reads `option httplog`; use `option httplog`, which has all timers"#]],
    );
}

#[test]
fn haproxy_without_a_readable_log_is_a_problem_that_names_the_line_to_add() {
    let path = "/etc/haproxy/haproxy.cfg";
    check(
        &[(path, "frontend x\n  bind :80\n")],
        expect![[r#"
        /etc/haproxy/haproxy.cfg:2 frontend x | bind :80 => 0.0.0.0 80
        ! /etc/haproxy/haproxy.cfg: HAProxy writes no log: its configuration has no `log` line; add `stats socket /run/haproxy/admin.sock level operator` to `global` for its counters, and `log /dev/log local0` with `option httplog` for each request"#]],
    );
    check(
        &[(path, "global\n  log /dev/log local0\n  stats socket /run/h.sock level user\n")],
        expect![[r#"
            /etc/haproxy/haproxy.cfg:2 global | log /dev/log local0
            /etc/haproxy/haproxy.cfg:3 global | stats socket /run/h.sock level user
            ! /etc/haproxy/haproxy.cfg:2: no log of HAProxy is readable: `/var/log/haproxy.log` does not exist; its `stats socket` is sampled instead; add a log for the times of each request"#]],
    );
    check(
        &[(path, "global\n  log stdout format raw local0\n")],
        expect![[r#"
        /etc/haproxy/haproxy.cfg:2 global | log stdout format raw local0
        ! /etc/haproxy/haproxy.cfg:2: no log of HAProxy is readable: it goes to its stdout, which is no file; `weir up --tail FILE` where its output is written to a file"#]],
    );
    let with_syslog = [(path, "global\n  log /dev/log local0\n"), ("/var/log/syslog", "")];
    check(
        &with_syslog,
        expect![[r#"
        /var/log/syslog syslog Syslog (/var/log/syslog)
        /etc/haproxy/haproxy.cfg:2 global | log /dev/log local0"#]],
    );
}

#[test]
fn apache_as_debian_sets_it_up() {
    let main = "Timeout 300\nKeepAlive On\nErrorLog ${APACHE_LOG_DIR}/error.log\nInclude ports.conf\n\
        LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" combined\n\
        LogFormat \"%v:%p %h %D\" own\nIncludeOptional sites-enabled/*.conf\n";
    let site = "<VirtualHost *:80>\n  CustomLog ${APACHE_LOG_DIR}/access.log combined\n\
        CustomLog \"|/usr/bin/rotatelogs /x/log.%Y 86400\" common\n  CustomLog \"|/usr/bin/logger -t a\" common\n  CustomLog ${APACHE_LOG_DIR}/own.log \\\n  own env=!x\n</VirtualHost>\n";
    check(
        &[
            ("/etc/apache2/apache2.conf", main),
            (
                "/etc/apache2/ports.conf",
                "Listen 80\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n",
            ),
            ("/etc/apache2/sites-enabled/000-default.conf", site),
            (
                "/etc/apache2/envvars",
                "unset HOME\nSUFFIX=\nexport APACHE_LOG_DIR=/var/log/apache2$SUFFIX\n",
            ),
        ],
        expect![[r#"
            /var/log/apache2/error.log apache ApacheError (/etc/apache2/apache2.conf:3)
            /var/log/apache2/access.log apache Combined (/etc/apache2/sites-enabled/000-default.conf:2)
            /x/log.* apache Combined (/etc/apache2/sites-enabled/000-default.conf:3)
            /var/log/apache2/own.log apache ApacheTemplate { template: "%v:%p %h %D" } (/etc/apache2/sites-enabled/000-default.conf:5)
            /etc/apache2/apache2.conf:1  | Timeout 300
            /etc/apache2/apache2.conf:2  | KeepAlive On
            /etc/apache2/apache2.conf:3  | ErrorLog /var/log/apache2/error.log
            /etc/apache2/ports.conf:1  | Listen 80 => 0.0.0.0 80
            /etc/apache2/ports.conf:3 IfModule ssl_module | Listen 443 => 0.0.0.0 443
            /etc/apache2/apache2.conf:5  | LogFormat %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" combined
            /etc/apache2/apache2.conf:6  | LogFormat %v:%p %h %D own
            /etc/apache2/sites-enabled/000-default.conf:2 VirtualHost *:80 | CustomLog /var/log/apache2/access.log combined
            /etc/apache2/sites-enabled/000-default.conf:3 VirtualHost *:80 | CustomLog |/usr/bin/rotatelogs /x/log.%Y 86400 common
            /etc/apache2/sites-enabled/000-default.conf:4 VirtualHost *:80 | CustomLog |/usr/bin/logger -t a common
            /etc/apache2/sites-enabled/000-default.conf:5 VirtualHost *:80 | CustomLog /var/log/apache2/own.log own env=!x
            ! /etc/apache2/sites-enabled/000-default.conf:4: cannot follow `|/usr/bin/logger -t a`: it goes to another program; name the files with `weir up --tail GLOB`"#]],
    );
}

#[test]
fn apache_as_red_hat_sets_it_up() {
    check(
        &[(
            "/etc/httpd/conf/httpd.conf",
            "ServerRoot \"/etc/httpd\"\nListen 10.0.0.1:8080\nInclude conf.d/missing.conf\nCustomLog \"logs/access_log\" common\n<Directory />\n",
        )],
        expect![[r#"
            /etc/httpd/logs/access_log apache Combined (/etc/httpd/conf/httpd.conf:4)
            /etc/httpd/conf/httpd.conf:2  | Listen 10.0.0.1:8080 => 10.0.0.1 8080
            /etc/httpd/conf/httpd.conf:4  | CustomLog logs/access_log common
            ! /etc/httpd/conf/httpd.conf:3: cannot read `/etc/httpd/conf.d/missing.conf`: no such file; run `apachectl configtest`
            ! /etc/httpd/conf/httpd.conf: cannot parse `/etc/httpd/conf/httpd.conf`: a `<Directory />` is never closed; run `apachectl configtest`"#]],
    );
}

#[test]
fn syslog_files_and_the_journal_are_found_where_they_exist() {
    check(
        &[
            ("/var/log/syslog", ""),
            ("/var/log/auth.log", ""),
            ("/var/log/haproxy.log", ""),
            ("/run/log/journal/x/system.journal", ""),
            ("/usr/bin/journalctl", ""),
        ],
        expect![[r#"
            /var/log/syslog syslog Syslog (/var/log/syslog)
            /var/log/auth.log syslog Syslog (/var/log/auth.log)
            /var/log/haproxy.log haproxy HaproxyHttp (/var/log/haproxy.log)
            /run/log/journal journal Journal (/run/log/journal)"#]],
    );
}

#[test]
fn any_configuration_does_not_panic() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["etc/nginx/nginx.conf", "etc/haproxy/haproxy.cfg", "etc/apache2/apache2.conf"];
    for path in paths {
        std::fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
    }
    let words = "access_log| |\n|;|{|}|\"|'|\\|#|listen|bind|é|[|]|:|80|-|,|<|>|</|${|$|include *|CustomLog|log_format|log|http|server|*|%|@|\0";
    let words: Vec<&str> = words.split('|').collect();
    arbtest::arbtest(|u| {
        for path in paths {
            let mut text = String::new();
            for _ in 0..u.int_in_range(0..=60)? {
                text.push_str(u.choose(&words)?);
            }
            std::fs::write(dir.path().join(path), &text).unwrap();
        }
        discover(dir.path());
        Ok(())
    })
    .budget_ms(1000);
}
