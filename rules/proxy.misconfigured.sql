/*---
id = "proxy.misconfigured"
title = "Proxy's configuration fails requests or a reload"
tier = "proxy"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["program", "misconfiguration"]
needs = ["log", "request"]
when = """
select 1 from log where program = 'nginx' and severity in ('emergency', 'alert', 'error') and message_template not like '% upstream' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and (body like 'AH00124%' or body like 'AH01961%' or body like 'AH01144%' or body like '%.htaccess: %') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like 'AH00526: %' or body like '[ALERT] %config : %' or body like 'Reload failed for %' or body like '%: Control process exited, code=exited, %' or body like 'error="the service % does not exist"') and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = ["app.errors", "app.errors_quiet", "proxy.bad_gateway", "proxy.clients_rejected", "slo.burning"]
subject = "{program} on {host}"
summary = "{program} on {host}: {what_text}, {lines} times in a minute{share_text}; it logs \"{line}\""
why = "{why_text}"
look_at = "What changed last in the configuration of {program}, and the line itself. nginx: `nginx -t`; Apache: `apachectl configtest`; HAProxy: `haproxy -c -f /etc/haproxy/haproxy.cfg`."
silent_when = "Fewer than 5 lines of failed requests in a minute, or all within 3 s. They are a note while less than 2 % of the host's requests fail (a bot at a broken path) and a page from 20 %. A refused configuration is a note, since the old one serves on, and `nginx -t` by hand writes the same line, and a mail if systemd reports that a reload failed. Only the proxy's own words count, not a path or a script's text in its log."
fix = "{fix_text} Check: the lines end."
source = "nginx ngx_conf_file.c, ngx_http_core_module.c, ngx_http_auth_request_module.c, ngx_slab.c; Apache core.c (AH00124), mod_ssl (AH01961), mod_proxy (AH01144); HAProxy cfgparse.c; Traefik pkg/server/router"
[text.what_text]
reload = "a new configuration is rejected"
cycle = "internal redirect loop"
auth = "its authorization service fails"
zone = "a shared memory zone is full"
script = "a script of its configuration fails"
target = "its configuration has no usable target"
[text.why_text]
reload = "The old configuration serves on, so the fault stays hidden until the next restart, which fails: then every site of this proxy is down."
cycle = "A rewrite, `try_files` or error page leads back to itself, most often because the file at its end is missing (an empty release, a wrong `root`). Each such request is a 500."
auth = "Each request waits for the answer of `auth_request`; whatever is neither 2xx nor 401 or 403 becomes a 500."
zone = "No entry can be added: limits reject requests that they should let pass, or responses are not cached."
script = "Each request that runs it ends with a 500."
target = "The module for this scheme is not loaded, TLS to the upstream is not switched on, or a service that a route names does not exist: requests fail before they reach an upstream."
[text.fix_text]
reload = "Correct what the line names, test, then reload. Do not restart before the test succeeds."
cycle = "Does the file at the end exist and may the worker's user read it (`namei -l`)? Otherwise end the list with a status: `try_files $uri /index.html =404;`."
auth = "Repair the service that `auth_request` names; its own findings come first. `error_page 500 = @sign_in` only hides it."
zone = "Raise the size of the zone that the line names (`limit_req_zone … zone=one:20m`, `keys_zone=c:50m`), then reload."
script = "Repair the line of the script, or roll it back, then reload."
target = "Apache: `a2enmod proxy_http` (proxy_fcgi, proxy_wstunnel), or `SSLProxyEngine on`. `.htaccess`: remove the directive, or load its module. Traefik: correct the service's name."
[text.share_text]
known = "; {failed} of {requests} requests failed"
unknown = ""
---*/
with lines as (
  select host, ts,
    case when program in ('nginx', 'apache', 'haproxy') then program when body like 'AH00526: %' then 'apache' when body like 'error="the service %' then 'traefik'
      else regexp_replace(regexp_match(body, '^(?:Reload failed for )?([a-z0-9]+)[.]service')[1], '^(apache2|httpd)$', 'apache') end as program,
    program = 'systemd' as is_reload,
    case
      when program = 'nginx' then
        case when severity = 'emergency' and not regexp_like(message_template, '^(bind|listen|malloc|posix_memalign|mmap|fork|socketpair|pthread_create|epoll_create|io_setup)[(_]|^(still could not bind|host not found in upstream)') then 'reload'
          when regexp_like(message_template, '^rewrite or internal redirection cycle ') then 'cycle'
          when regexp_like(message_template, '^auth request unexpected status: [0-9]{3} while ') then 'auth'
          when regexp_like(message_template, '^could not allocate node in |^limiting connections by zone "…" failed') then 'zone'
          when regexp_like(message_template, '^lua entry thread aborted: |^failed to run (rewrite|access|content|header_filter|balancer|ssl_certificate)_by_lua|^js exception: ') then 'script'
          when regexp_like(message_template, '^invalid (URL prefix|port|host) in (upstream )?"…"|^no port in upstream ') then 'target' end
      when program = 'apache' then
        case when attrs['module'] in ('core', 'rewrite') and regexp_like(body, '^AH00124: ') then 'cycle' when attrs['module'] in ('ssl', 'proxy', 'proxy_http', 'proxy_balancer') and regexp_like(body, '^AH(01961|01144): ') or attrs['module'] = 'core' and severity in ('alert', 'error') and regexp_like(body, '^/[^ ]+/[.]htaccess: (Invalid command|Options not allowed here|[A-Za-z]+ (not allowed here|takes ))') then 'target' end
      when program = 'haproxy' and regexp_like(body, '^\[ALERT\] +[(][0-9]+[)] : config : ') then 'reload'
      when coalesce(program, '') in ('', 'other') and regexp_like(body, '^AH00526: Syntax error on line [0-9]+ of ') then 'reload'
      when coalesce(program, '') in ('', 'other', 'traefik') and severity = 'error' and regexp_like(body, '^error="the service .{1,100} does not exist"') then 'target'
      when program = 'systemd' and regexp_like(body, '^Reload failed for (nginx|apache2|httpd|haproxy|caddy|varnish|lighttpd|envoy|traefik)[.]service|^(nginx|apache2|httpd|haproxy|caddy|varnish|lighttpd|envoy|traefik)[.]service: Control process exited, code=exited, status=[1-9]') then 'reload'
    end as what,
    coalesce(message_template, regexp_replace(body, '"[^"]*"', '"…"', 'g')) as line
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (program = 'nginx' and severity in ('emergency', 'alert', 'error') and message_template not like '% upstream'
      or program = 'apache' and (body like 'AH00124%' or body like 'AH01961%' or body like 'AH01144%' or body like '%.htaccess: %')
      or body like 'AH00526: %' or body like '[ALERT] %config : %' or body like 'Reload failed for %' or body like '%: Control process exited, code=exited, %' or body like 'error="the service % does not exist"')
),
counted as (
  select host, program, what, count(*) as lines, max(substr(line, 1, 120)) as line, bool_or(is_reload) as is_reload
  from lines where what is not null
  group by host, program, what
  having what = 'reload' or count(*) >= 5 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
),
answers as (
  select host, count(*) as requests, count(*) filter (where http_response_status_code >= 500 or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host
)
select c.host, c.program, c.what as misconfiguration, c.lines, c.line, a.requests, a.failed,
  case c.what when 'reload' then 'reload' when 'cycle' then 'cycle' when 'auth' then 'auth' when 'zone' then 'zone' when 'script' then 'script' else 'target' end as what_text,
  case c.what when 'reload' then 'reload' when 'cycle' then 'cycle' when 'auth' then 'auth' when 'zone' then 'zone' when 'script' then 'script' else 'target' end as why_text,
  case c.what when 'reload' then 'reload' when 'cycle' then 'cycle' when 'auth' then 'auth' when 'zone' then 'zone' when 'script' then 'script' else 'target' end as fix_text,
  case when a.failed > 0 and c.what <> 'reload' then 'known' else 'unknown' end as share_text,
  case when c.what = 'reload' then '' end as explains,
  case when c.what = 'auth' then null else '' end as explained_by,
  case when c.what = 'reload' then case when c.is_reload then 'mail' else 'note' end
    when a.requests is null then 'mail'
    when c.what <> 'zone' and c.lines >= 0.2 * a.requests and a.failed >= 0.2 * a.requests then 'page'
    when a.failed >= 0.02 * a.requests then 'mail' else 'note' end as class
from counted c
left join answers a on a.host = c.host
