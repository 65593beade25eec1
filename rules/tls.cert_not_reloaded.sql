/*---
id = "tls.cert_not_reloaded"
title = "Renewed certificate not loaded"
tier = "proxy"
class = "note"
for = "0s"
every = "5s"
clear = "5s"
key = ["server_address", "server_port", "server_name", "path"]
needs = ["certificate"]
when = "select 1 from certificate where served_digest <> file_digest and ts > $now - interval '3 minutes' and ts <= $now limit 1"
explains = ["tls.cert_expiring"]
subject = "{shown_name} on port {server_port}"
summary = "{program} on {host} serves an old certificate for {shown_name} on port {server_port}: it expires in {served_days} days, {path} (written {age_text} ago) in {file_days} days"
why = "A server reads its certificates when it starts or reloads. The renewal wrote the file without a reload, so clients get the old certificate until it expires, and then a warning."
look_at = "Does the renewal have a hook: `ls /etc/letsencrypt/renewal-hooks/deploy/`, `grep -r reload /etc/letsencrypt/renewal/`? When was the server last reloaded: start times of its workers (`ps -o lstart,cmd -C {program:sh}`). Is it the same file: {config_file}:{config_line}."
silent_when = "The served certificate and the file match, or the server or the file could not be read. It is a note while the file is younger than an hour, since a reload may be in progress, and a mail after that, or when the served one has less than 7 days left. A file older than the served certificate (an old one was restored) is reported as well: the next reload would serve it."
fix = "`{reload}`: safe, existing connections continue with their old workers. For the next renewal: a script in /etc/letsencrypt/renewal-hooks/deploy with that line (acme.sh: `--reloadcmd`). Check: served_digest and file_digest of the table certificate are equal."
source = "fault lab F19 (served 5 days, on disk 90 days); nginx.org/en/docs/control.html"
---*/
with newest as (
  select *, row_number() over (partition by host, server_address, server_port, server_name, path order by ts desc) as place
  from certificate
  where ts > $now - interval '3 minutes' and ts <= $now
),
differing as (
  select *,
    date_part('epoch', $now) - date_part('epoch', file_modified_ts) as file_age_seconds,
    (date_part('epoch', served_not_after) - date_part('epoch', $now)) / 86400 as served_left_days,
    (date_part('epoch', file_not_after) - date_part('epoch', $now)) / 86400 as file_left_days
  from newest
  where place = 1 and served_digest <> file_digest
)
select host, server_address, server_port, server_name, program, path, config_file, config_line, file_age_seconds,
  served_not_after, file_not_after,
  case when server_name = '' then server_address else server_name end as shown_name,
  cast(floor(served_left_days) as bigint) as served_days,
  cast(floor(file_left_days) as bigint) as file_days,
  case
    when file_age_seconds is null then 'some time'
    when file_age_seconds < 120 then concat(cast(round(file_age_seconds) as bigint), ' s')
    when file_age_seconds < 7200 then concat(cast(round(file_age_seconds / 60) as bigint), ' min')
    when file_age_seconds < 172800 then concat(cast(round(file_age_seconds / 3600) as bigint), ' h')
    else concat(cast(round(file_age_seconds / 86400) as bigint), ' days')
  end as age_text,
  case
    when served_left_days < 2 then 'page'
    when file_age_seconds > 3600 or served_left_days < 7 then 'mail'
    else 'note'
  end as class,
  case program when 'haproxy' then 'systemctl reload haproxy' else 'nginx -t && nginx -s reload' end as reload
from differing
