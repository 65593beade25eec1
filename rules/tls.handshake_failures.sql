/*---
id = "tls.handshake_failures"
title = "TLS handshakes with clients fail"
tier = "proxy"
class = "mail"
for = "5s"
every = "10s"
clear = "30s"
key = ["program", "reason"]
prefers = ["tls.cert_expiring", "tls.cert_untrusted", "tls.cert_not_reloaded"]
needs = ["log", "proxy_stat"]
when = """
select 1 from proxy_stat where kind = 'frontend' and handshake_failures_increase > 0 and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program in ('nginx', 'haproxy') and (body like 'SSL_do_handshake() failed%' or body like '%: SSL handshake failure%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body like '%http: TLS handshake error from %' and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = ["app.throughput_drop", "traffic.unusual"]
subject = "{program} on {host}: {reason}"
summary = "{program} on {host}: {failures} TLS handshakes failed in 60 s ({reason}), {past_text}"
why = "{why_text}"
look_at = "`openssl s_client -connect {host}:443 -servername NAME </dev/null` and the same with `-tls1_2`: does it work, and with which certificate? Which clients fail (the log has their addresses): all of them, one partner's, or scanners. What changed: certificate, `ssl_protocols`, `ssl_ciphers`, client certificates."
silent_when = "Fewer than 10 failures in 60 s, or fewer than five times the usual number of the last 15 minutes. Scanners and old clients fail all day: their reasons (no shared cipher, unsupported protocol, plain HTTP on the TLS port) are a note, and so are failures counted by HAProxy while more sessions succeed. nginx writes most of these lines at level `info`, so with the default `error_log` level they are not seen."
fix = "{fix_text} Check: such lines end."
source = "RFC 8446 6.2 (alerts); nginx ngx_event_openssl.c, ngx_ssl_connection_error; Go net/http server.go (Traefik, Caddy and applications); HAProxy management guide, ssl_failed_handshake"
[text.why_text]
certificate = "The clients reject the certificate: it expired, has another name, or its chain is incomplete or of an unknown authority. They leave before they send a request, so the access log shows nothing but fewer requests."
protocol = "Client and server have no protocol version or cipher in common. These visitors leave before they send a request."
client = "The server wants a certificate of the client, and none or an invalid one came."
other = "The clients leave before they send a request, so the access log shows nothing but fewer requests."
[text.fix_text]
certificate = "Serve a valid certificate with its whole chain for the requested name (tls.cert_untrusted and tls.cert_expiring name the file), then reload."
protocol = "If real visitors are among them: `ssl_protocols TLSv1.2 TLSv1.3;` and Mozilla's intermediate `ssl_ciphers`, then reload. Scanners need nothing."
client = "Renew the client's certificate, or the authority in `ssl_client_certificate` (nginx) or `ca-file` (HAProxy), then reload."
other = "Compare the time of the first failure with the last change of the server or of the network in front."
---*/
with lines as (
  select host, coalesce(nullif(program, 'other'), 'a Go server') as program, ts,
    case
      when body like '%remote error: tls: %certificate%' or body like '%alert unknown ca%' or body like '%alert certificate%' or body like '%alert bad certificate%' or body like '%tlsv1 alert unknown ca%' then 'certificate rejected by clients'
      when body like '%no shared cipher%' or body like '%unsupported protocol%' or body like '%version too low%' or body like '%wrong version number%'
        or body like '%http request%' or body like '%unknown protocol%' or body like '%bad key share%' or body like '%no suitable%' or body like '%protocol version%'
        or body like '%does not look like a TLS handshake%' or body like '%unsupported versions%' or body like '%no cipher suite supported%' or body like '%an HTTP request to an HTTPS server%' then 'no common protocol'
      when body like '%certificate verify failed%' or body like '%peer did not return a certificate%' or body like '%t provide a certificate' or body like '%failed to verify certificate%' then 'client certificate missing or invalid'
      else 'other reason' end as reason
  from log
  where ts > $now - interval '15 minutes' and ts <= $now
    and (program = 'nginx' and message_template like 'SSL_do_handshake() failed%'
      or program = 'haproxy' and regexp_like(body, '^([^ ]+ \[[^\]]+\] )?[^ ]+: SSL handshake failure')
      or coalesce(program, '') not in ('nginx', 'haproxy', 'apache', 'apache2', 'httpd', 'php-fpm', 'sshd')
        and regexp_like(body, '^([0-9/]+ [0-9:.]+ )?http: TLS handshake error from [^ ]+:[0-9]+: '))
    and body not like '%to upstream%'
),
counted as (
  select host, program, reason, count(*) filter (where ts > $now - interval '60 seconds') as failures,
    count(*) filter (where ts <= $now - interval '60 seconds') / 14.0 as past_each, 0 as sessions
  from lines
  group by host, program, reason
  union all
  select host, 'haproxy' as program, 'counted by HAProxy' as reason,
    coalesce(sum(handshake_failures_increase) filter (where ts > $now - interval '60 seconds'), 0) as failures,
    coalesce(sum(handshake_failures_increase) filter (where ts <= $now - interval '60 seconds'), 0) / 14.0 as past_each,
    coalesce(sum(sessions_increase) filter (where ts > $now - interval '60 seconds'), 0) as sessions
  from proxy_stat
  where kind = 'frontend' and ts > $now - interval '15 minutes' and ts <= $now
    and not exists (select 1 from lines l where l.host = proxy_stat.host and l.program = 'haproxy')
  group by host
)
select host, program, reason, failures, past_each,
  case when past_each > 0 then concat('usually ', cast(round(past_each, 1) as varchar), ' a minute') else 'none in the quarter of an hour before' end as past_text,
  case reason when 'certificate rejected by clients' then 'certificate' when 'no common protocol' then 'protocol'
    when 'client certificate missing or invalid' then 'client' else 'other' end as why_text,
  case reason when 'certificate rejected by clients' then 'certificate' when 'no common protocol' then 'protocol'
    when 'client certificate missing or invalid' then 'client' else 'other' end as fix_text,
  case when reason in ('certificate rejected by clients', 'client certificate missing or invalid') then 'mail'
       when reason = 'counted by HAProxy' and failures >= sessions then 'mail'
       else 'note' end as class
from counted
where failures >= 10 and failures >= 5 * past_each
