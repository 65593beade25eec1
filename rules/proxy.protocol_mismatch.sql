/*---
id = "proxy.protocol_mismatch"
title = "Proxy and upstream do not speak the same protocol"
tier = "proxy"
class = "mail"
for = "2s"
every = "3s"
clear = "30s"
key = ["upstream"]
needs = ["log", "request"]
when = """
select 1 from log where program = 'nginx' and (message_template like 'SSL_do_handshake() failed (%) while SSL handshaking to upstream' or message_template like 'peer closed connection in SSL handshake%while SSL handshaking to upstream' or message_template like 'upstream SSL certificate %while SSL handshaking to upstream' or message_template like 'upstream sent no valid %' or message_template like 'upstream sent invalid %' or message_template like 'upstream sent unsupported FastCGI protocol version%' or message_template like 'upstream sent unexpected FastCGI record%' or message_template like 'upstream sent duplicate header line%' or message_template like 'upstream sent "Content-Length" and "Transfer-Encoding" headers%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and (body like 'AH01084%' or body like 'AH01102%' or body like 'AH01068%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (attrs['logger'] like 'http.log.error%' or body like '''50_ %'' caused by: %' or body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout')) and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where program = 'envoy' and (attrs['response_flags'] like '%UF%' or attrs['response_flags'] like '%UPE%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where tier in ('proxy', 'edge') and (termination_state like 'PH%' and http_response_status_code = 502 or failure in ('connect_tls', 'invalid_answer')) and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors", "app.errors_quiet", "app.requests_stopped", "app.throughput_drop",
  "client.aborts_499", "proxy.bad_gateway", "proxy.masked_errors", "proxy.no_live_upstreams",
  "proxy.retry_amplification", "proxy.upstream_errors", "traffic.unusual", "slo.burning",
]
subject = "{upstream}"
summary = "{program} on {host} cannot talk to {upstream}: {problem_text}, {lines} times in a minute; {share_text}"
why = "{why_text}"
look_at = "Ask it both ways from {host}: `curl -v http://ADDRESS/` and `curl -vk https://ADDRESS/` (`openssl s_client -connect ADDRESS -servername NAME` for the certificate). What changed last: the proxy's line, the application's TLS setting, a certificate?"
silent_when = "Fewer than 3 such lines in a minute, all of them within 3 s (a restart), or less than 0.2 % of the requests. It is a page if they make up at least 20 % of all requests of this proxy in the last minute and those failed for the visitor as well, or, where no access log is read, from 30 lines a minute (defaults)."
fix = "{fix_text} Check: the lines end."
source = "nginx ngx_http_upstream.c, ngx_http_proxy_module.c; OpenSSL SSL_R_WRONG_VERSION_NUMBER; Apache AH00898, AH01106; HAProxy documentation 8.5 (PH); Go crypto/tls, crypto/x509; Envoy response flags UF with TLS_error, UPE"
[text.share_text]
known = "{failed} of {requests} requests of {program} failed ({failed_ratio:%})"
unknown = "the share is unknown: no access log of {program} is read"
[text.problem_text]
plain = "it does not speak TLS there"
verify = "its certificate is not accepted"
handshake = "the TLS handshake fails"
header = "its response is no valid HTTP"
[text.why_text]
plain = "The proxy starts TLS (`https://`), and what comes back is no TLS, or the other side closes at once: the port speaks plain HTTP. The connection works, so checks of the port stay green."
verify = "The proxy verifies the upstream's certificate: it has expired, names another host, or was issued by an authority that the proxy does not trust."
handshake = "Both speak TLS but agree on no version, cipher, name (SNI) or client certificate."
header = "The upstream answers, but not with an HTTP response that the proxy accepts: another protocol on that port (FastCGI, TLS, a database), text before the header, invalid or repeated header fields."
[text.fix_text]
plain = "Write `http://` for {upstream} in the proxy (HAProxy: no `ssl` in its `server` line), or enable TLS in the application."
verify = "Renew or replace the upstream's certificate, or name the authority (nginx `proxy_ssl_trusted_certificate`, `proxy_ssl_name`; HAProxy `ca-file`, `verifyhost`). Do not switch verification off."
handshake = "If the port speaks plain HTTP, write `http://`. Else send the name (`proxy_ssl_server_name on;`, HAProxy `sni`), and allow a version that both know (`proxy_ssl_protocols TLSv1.2 TLSv1.3;`)."
header = "Correct the port or the protocol (`proxy_pass` against `fastcgi_pass` or `uwsgi_pass`; `https://` if the port speaks TLS); or repair the application's header: one status line, names without spaces, no repeated Content-Length or Transfer-Encoding."
---*/
with go_errors as (
  -- Caddy and Traefik log Go's error of the attempt.
  select host, case when attrs['logger'] is not null then 'caddy' else 'traefik' end as program, ts,
    case when attrs['logger'] is not null then body when body like '''50%' then regexp_match(body, '^''[^'']+'' caused by: (.*)$')[1] else attrs['error'] end as reason
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and coalesce(program, '') in ('', 'other', 'caddy', 'traefik') and (attrs['logger'] like 'http.log.error%' and attrs['status'] in ('502', '503', '504')
      or regexp_like(body, '^''50[024] [A-Z][A-Za-z ]+'' caused by: ') or body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout') and attrs['error'] is not null)
),
lines as (
  select host, program, ts, case
      when attrs['upstream'] like '%://unix:%' then coalesce(regexp_match(attrs['upstream'], '(unix:[^:"]+?[.]sock(et)?)([:/]|$)')[1], regexp_match(attrs['upstream'], '(unix:[^:"]+)')[1])
      when attrs['upstream'] is not null then coalesce(regexp_match(attrs['upstream'], '://([^/"]+)')[1], attrs['upstream'])
      when body like '% Unix domain socket %' then concat('unix:', regexp_match(body, 'Unix domain socket ([^ ]+) ')[1])
      else coalesce(regexp_match(body, '(attempt to connect to|remote server|body failed to) ([^ ]+)')[2], 'an upstream')
    end as upstream,
    case when body like '%certificate verify error%' or body like '%certificate does not match%' or body like '%certificate verify failed%' then 'verify'
      when body like '%wrong version number%' or body like 'peer closed connection in SSL handshake%' or body like '%packet length too long%' then 'plain'
      when body like '%SSL%' or body like 'AH01084%' then 'handshake' else 'header' end as variant
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (program = 'nginx' and (message_template like 'SSL_do_handshake() failed (%) while SSL handshaking to upstream' or message_template like 'peer closed connection in SSL handshake%while SSL handshaking to upstream' or message_template like 'upstream SSL certificate %while SSL handshaking to upstream' or message_template like 'upstream sent no valid %' or message_template like 'upstream sent invalid %' or message_template like 'upstream sent unsupported FastCGI protocol version%' or message_template like 'upstream sent unexpected FastCGI record%' or message_template like 'upstream sent duplicate header line%' or message_template like 'upstream sent "Content-Length" and "Transfer-Encoding" headers%')
      or program = 'apache' and coalesce(attrs['module'], 'proxy') like 'proxy%' and (body like 'AH01084%' and attrs['system_error'] like '(20014)%' or body like 'AH01102%' and attrs['system_error'] like '(22)%' or body like 'AH01068%'))
  union all
  select host, program, ts, 'an upstream' as upstream,
    case when regexp_like(reason, 'x509: |failed to verify certificate') then 'verify' when regexp_like(reason, 'first record does not look like|gave HTTP response to HTTPS client') then 'plain'
      when regexp_like(reason, 'tls: ') then 'handshake' else 'header' end as variant
  from go_errors
  where regexp_like(reason, '^(x509: |tls: |remote error: tls: |http: server gave HTTP response to HTTPS client$|net/http: HTTP/1[.]x transport connection broken: malformed |malformed HTTP |http2: )') and reason not like '%client disconnected%'
  union all
  select host, program, ts, coalesce(regexp_replace(upstream_address, '^[a-z]+://', ''), proxy_backend, attrs['upstream_cluster'], 'an upstream') as upstream,
    case when attrs['response_flags'] like '%UPE%' then 'header' when regexp_like(concat_ws(' ', attrs['response_code_details'], attrs['upstream_transport_failure_reason']), 'CERTIFICATE_VERIFY_FAILED') then 'verify'
      when regexp_like(concat_ws(' ', attrs['response_code_details'], attrs['upstream_transport_failure_reason']), 'WRONG_VERSION_NUMBER') then 'plain' else 'handshake' end as variant
  from request
  where ts > $now - interval '60 seconds' and ts <= $now and tier = 'proxy' and program = 'envoy'
    and (regexp_like(attrs['response_flags'], '(^|,)UPE(,|$)') or attrs['response_flags'] like '%UF%' and regexp_like(concat_ws(' ', attrs['response_code_details'], attrs['upstream_transport_failure_reason']), 'TLS[_ ]error'))
  union all
  select host, coalesce(program, 'the proxy') as program, ts, coalesce(case when proxy_server is not null then concat(proxy_backend, '/', proxy_server) end, upstream_address, 'an upstream') as upstream, case when failure = 'connect_tls' then 'handshake' else 'header' end as variant
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now and (termination_state like 'PH%' and http_response_status_code = 502 or failure in ('connect_tls', 'invalid_answer'))
),
failing as (
  -- A certificate that is rejected was served by TLS, whatever the restart before it looked like.
  select host, program, upstream, coalesce(max(case when variant = 'verify' then variant end), min(variant)) as variant, count(*) as lines
  from lines
  group by host, program, upstream
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
),
answers as (
  select host, program, count(*) as requests,
    count(*) filter (where http_response_status_code in (500, 502, 503, 504) or http_response_status_code < 100
      or termination_state like 'S%' or termination_state like 's%' or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host, program
)
select f.host, f.program, f.upstream, f.variant, f.lines, a.requests, a.failed, cast(a.failed as double) / a.requests as failed_ratio,
  case when a.requests is null then 'unknown' else 'known' end as share_text,
  case f.variant when 'plain' then 'plain' when 'verify' then 'verify' when 'handshake' then 'handshake' else 'header' end as problem_text,
  case f.variant when 'plain' then 'plain' when 'verify' then 'verify' when 'handshake' then 'handshake' else 'header' end as why_text,
  case f.variant when 'plain' then 'plain' when 'verify' then 'verify' when 'handshake' then 'handshake' else 'header' end as fix_text,
  case when a.requests is null and f.lines >= 30 then 'page'
       when a.requests >= 10 and least(f.lines, a.failed) >= 0.2 * a.requests then 'page' else 'mail' end as class
from failing f
left join answers a on a.host = f.host and a.program = f.program
where a.requests is null or f.lines >= 0.002 * a.requests
