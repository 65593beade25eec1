/*---
id = "edge.certificate_failing"
title = "Edge cannot obtain or renew a certificate"
tier = "edge"
class = "note"
for = "0s"
every = "10s"
clear = "2m"
key = ["names"]
needs = ["edge_certificate"]
when = "select 1 from edge_certificate where failures > 0 and ts > $now - interval '150 seconds' and ts <= $now limit 1"
subject = "certificate of {names} at {host}"
summary = "{host} cannot obtain a certificate for {names} from {authority}: {failure}; {attempts} failed, {ends_text}"
why = "The CA must see that each name points to this edge. Until then the existing certificate stays in use; once it expires, or if there is none, browsers refuse the site."
look_at = "The CA's message above. `dig +short NAME`: does each name point to this edge, or to a balancer that forwards port 80 (http-01) and port 443 (tls-alpn-01) to it? From outside: `curl -v http://NAME/.well-known/acme-challenge/x` must be answered by this edge (its row in request). `weir edge show` on {host} shows the last error and the next attempt."
silent_when = "The last attempt succeeded, or there was none yet. It is a note while more than 14 days are left (a short-lived certificate: a third of its lifetime), a mail after that and when there is none after two attempts, a page in the last two days (a tenth). The edge reports every minute and after each attempt."
fix = "Point the names here, or remove the others from `edge.acme_names`; then SIGHUP, which retries at once. If the CA rate-limits (rateLimited), test with `edge.acme_directory = \"letsencrypt-staging\"`. Check: state of the table edge_certificate is valid."
source = "RFC 8555 §6.7, §7.1.6; letsencrypt.org/docs/rate-limits"
---*/
with newest as (
  select *, row_number() over (partition by host, names order by ts desc) as place
  from edge_certificate
  where ts > $now - interval '150 seconds' and ts <= $now
),
timed as (
  select *,
    (date_part('epoch', not_after) - date_part('epoch', $now)) / 86400 as left_days,
    (date_part('epoch', not_after) - date_part('epoch', not_before)) / 86400 as life_days
  from newest where place = 1 and failures > 0
)
select host, names, authority, failure, failures, not_after, next_attempt_ts, path,
  case when failures = 1 then 'one attempt' else concat(cast(failures as varchar), ' attempts') end as attempts,
  case
    when left_days is null then 'no certificate exists'
    when left_days <= 0 then concat('the current one expired ', cast(round(-left_days * 10) / 10 as varchar), ' days ago')
    when left_days < 2 then concat('the current one expires in ', cast(round(left_days * 24) as bigint), ' hours')
    else concat('the current one expires in ', cast(floor(left_days) as bigint), ' days')
  end as ends_text,
  case
    when left_days < least(2, life_days / 10) then 'page'
    when left_days is null and failures > 1 then 'mail'
    when left_days < least(14, life_days / 3) then 'mail'
    else 'note'
  end as class
from timed
