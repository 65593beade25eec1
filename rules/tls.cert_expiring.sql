/*---
id = "tls.cert_expiring"
title = "TLS certificate expires soon"
tier = "proxy"
class = "note"
for = "0s"
every = "5s"
clear = "1m"
key = ["server_address", "server_port", "server_name", "path"]
needs = ["certificate"]
when = "select 1 from certificate where (served_not_after < $now + interval '21 days' or chain_not_after < $now + interval '21 days') and ts > $now - interval '3 minutes' and ts <= $now limit 1"
subject = "{shown_name} on port {server_port}"
summary = "the {what} for {shown_name} on port {server_port} of {host} ({program}) {ends_text} (served: {served_subject}, issuer {served_issuer}; file {path})"
why = "From then on every browser shows a warning instead of the site, and programs refuse the connection. Nothing fails before, so nothing else announces it."
look_at = "`openssl s_client -connect {server_address}:{server_port} -servername NAME </dev/null | openssl x509 -noout -dates -issuer`: does it match the file? If the file is newer, it was not reloaded (tls.cert_not_reloaded). Otherwise the renewal: `systemctl list-timers | grep -i -e certbot -e acme`, its last log."
silent_when = "It expires in more than 21 days (note), 7 days (mail), 2 days (page); these bounds are defaults. A short-lived certificate (6 to 7.5 days) is reported only in its last third (mail) and its last tenth (page). Only addresses named by nginx' `ssl_certificate` and HAProxy's `crt` FILE are probed; a certificate served by a balancer in front is invisible here."
fix = "Renew it: `certbot renew --cert-name NAME` (or your ACME client; `--force-renewal` if it considers it not due), so that {path} ({config_file}:{config_line}) is new, then `{reload}`. It is safe: existing connections continue. To keep it so, let the renewal reload the server (certbot: a script in /etc/letsencrypt/renewal-hooks/deploy). Check: served_not_after of the table certificate is later."
source = "fault lab F19; RFC 5280 §4.1.2.5; RFC 6066 §3"
---*/
with newest as (
  select *, row_number() over (partition by host, server_address, server_port, server_name, path order by ts desc) as place
  from certificate
  where ts > $now - interval '3 minutes' and ts <= $now and served_not_after is not null
),
timed as (
  select *,
    least(date_part('epoch', served_not_after), coalesce(date_part('epoch', chain_not_after), 1e18)) - date_part('epoch', $now) as left_seconds,
    case when chain_not_after < served_not_after then 'intermediate certificate' else 'certificate' end as what,
    date_part('epoch', served_not_after) - date_part('epoch', served_not_before) as life_seconds
  from newest where place = 1
),
judged as (
  select *, life_seconds between 518400 and 648000 and not coalesce(served_issuer = served_subject, false) as is_short_lived, left_seconds / 86400 as left_days
  from timed
)
select host, server_address, server_port, server_name, program, served_not_after, served_subject, served_issuer, path,
  config_file, config_line, left_seconds, left_days, what,
  case when server_name = '' then server_address else server_name end as shown_name,
  case
    when left_seconds <= 0 then concat('expired ', cast(round(-left_days * 10) / 10 as varchar), ' days ago')
    when left_seconds < 172800 then concat('expires in ', cast(round(left_seconds / 3600) as bigint), ' hours')
    else concat('expires in ', cast(floor(left_days) as bigint), ' days')
  end as ends_text,
  case
    when left_days < 2 and not is_short_lived then 'page'
    when is_short_lived and left_seconds < life_seconds / 10 then 'page'
    when left_days < 7 then 'mail'
    else 'note'
  end as class,
  case program when 'haproxy' then 'systemctl reload haproxy' else 'nginx -t && nginx -s reload' end as reload
from judged
where left_days < 21 and (not is_short_lived or left_seconds < life_seconds / 3)
