/*---
id = "log.requests_unseen"
title = "A web server is busy, and none of its requests is seen"
tier = "log"
class = "note"
for = "5m"
every = "60s"
clear = "5m"
key = ["web_server"]
needs = ["listener", "tcp_path", "request"]
when = "select 1 from tcp_path where side = 'server' and segments >= 20 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "{web_server} on {host}"
summary = "{web_server} on {host} (port {ports}) sent {segments} segments to {peers} networks in 10 minutes, and no request of it was seen: errors and slow pages there stay unseen"
why = "Nothing found on this host says nothing about its visitors while no request is seen: a server that answers each of them with 500 looks as healthy as one that works. What is still judged are its connections, its error log if there is one, and the host."
look_at = "`weir up` lists the logs that it follows. `{look_text}` shows where the server writes; a log that goes to a remote syslog, to a pipe or to a container's standard output is found only where its files are."
silent_when = "A request of any proxy or of this program on the host within 10 minutes, from a log, the edge, another shipper or packets. Fewer than 1,000 segments in 10 minutes to other hosts. Connections over the loopback, and those shorter than 2 s, are not counted."
fix = "{fix_text} Check: `weir query \"select count(*) from request where host = '{host}'\"` grows. Without a log, `[wire]` in weir's configuration reads requests from packets, where they are not encrypted."
source = "nginx ngx_http_log_module, ngx_syslog_module; Apache mod_log_config; Caddy, Traefik and Envoy documentation of access logs"
[text.look_text]
nginx = "nginx -T | grep -E 'access_log|error_log'"
apache = "apachectl -t -D DUMP_RUN_CFG; grep -rE 'CustomLog|TransferLog' /etc/apache2 /etc/httpd"
other = "ls -l /proc/$(pgrep -o {web_server})/fd"
[text.fix_text]
nginx = "In `http` of nginx.conf: `access_log /var/log/nginx/access.log;` (it is the default, so look for `access_log off`), then `nginx -t && nginx -s reload`."
apache = "`CustomLog /var/log/apache2/access.log combined`, then `apachectl configtest && apachectl graceful`."
other = "Turn its access log on and let it write to a file (Caddy: `log`, Traefik: `accessLog.filePath`, Envoy: `access_log` with `file_access_log`), or name the file in `[[logs]]`."
---*/
with busy as (
  select host, netns, server_port, sum(segments) as segments, count(distinct peer_address) as peers
  from tcp_path
  where side = 'server' and ts > $now - interval '10 minutes' and ts <= $now
  group by host, netns, server_port
),
programs as (
  select host, netns, server_port,
    max(case process_name when 'apache2' then 'apache' when 'httpd' then 'apache' else process_name end) as web_server
  from listener
  where ts > $now - interval '60 seconds' and ts <= $now
    and process_name in ('nginx', 'apache2', 'httpd', 'caddy', 'traefik', 'envoy', 'lighttpd')
  group by host, netns, server_port
),
seen as (
  select host as seen_host
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '10 minutes' and ts <= $now
  group by host
)
select p.host, p.web_server, sum(b.segments) as segments, max(b.peers) as peers,
  string_agg(distinct cast(p.server_port as varchar), ', ') as ports,
  case p.web_server when 'nginx' then 'nginx' when 'apache' then 'apache' else 'other' end as look_text,
  case p.web_server when 'nginx' then 'nginx' when 'apache' then 'apache' else 'other' end as fix_text
from programs p
join busy b on b.host = p.host and b.netns = p.netns and b.server_port = p.server_port
left join seen on seen_host = p.host
where seen_host is null
group by p.host, p.web_server
having sum(b.segments) >= 1000
