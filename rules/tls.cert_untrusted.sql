/*---
id = "tls.cert_untrusted"
title = "Served certificate is not accepted by clients"
tier = "proxy"
class = "mail"
for = "0s"
every = "5s"
clear = "10s"
key = ["server_address", "server_port", "server_name", "path"]
prefers = ["tls.cert_expiring", "tls.cert_not_reloaded"]
needs = ["certificate"]
when = "select 1 from certificate where served_trust <> 'trusted' and ts > $now - interval '3 minutes' and ts <= $now limit 1"
explains = ["tls.handshake_failures"]
subject = "{shown_name} on port {server_port}"
summary = "{program} on {host} serves for {shown_name} on port {server_port} {problem_text} ({chain_length} certificates sent; {config_file}:{config_line})"
why = "{why_text}"
look_at = "`openssl s_client -connect {server_address}:{server_port} -servername {shown_name:sh} -showcerts </dev/null`: which certificates are sent, and \"Verify return code\". A browser on a desk proves nothing: it fetches or remembers intermediates. `curl -v https://{shown_name}` from another host shows what programs see."
silent_when = "A client with the authorities of this host accepts the chain and the name. A private authority or a self-signed certificate is no alarm, because its clients may trust it; it is a note, and a page if the same address and name was trusted within the last day. A wrong name counts only for a certificate of a trusted authority. An expired one: tls.cert_expiring."
fix = "{fix_text} Then `{reload}`. Check: served_trust of the table certificate is `trusted`."
source = "RFC 5246 7.4.2 (the chain must be complete); RFC 6125; github.com/certbot/certbot #2806; letsencrypt.org, DST Root CA X3 expiration (September 2021)"
[text.problem_text]
intermediate_missing = "a chain without its intermediate certificate (issuer {served_issuer})"
intermediate_expired = "an expired intermediate certificate"
wrong_name = "a certificate for other names: {served_names}"
self_signed = "a self-signed certificate ({served_subject})"
unknown_issuer = "a certificate of an authority that this host does not trust ({served_issuer})"
not_yet_valid = "a certificate that is not valid yet"
invalid = "a certificate that clients reject as invalid"
[text.why_text]
chain = "Programs, phones and other servers reject the connection; desktop browsers may hide it. So some visitors fail and others do not."
name = "Every client shows a warning or refuses, because the certificate does not contain the requested name."
other = "Every client that does not trust this authority refuses the connection."
[text.fix_text]
chain = "Serve the full chain: `ssl_certificate` (nginx) or `crt` (HAProxy) must name the file with the certificate first and then its intermediates (certbot: fullchain.pem, not cert.pem). {path} is what is configured."
name = "Issue a certificate with the name {shown_name} (`certbot certonly -d {shown_name:sh} …`), or correct `server_name`, or the file in {config_file}:{config_line}."
other = "If the public is meant to use it, serve a certificate of a public authority from {path}; it may have been replaced by a placeholder (`snakeoil`, a default certificate). If not, nothing is wrong."
---*/
with newest as (
  select *, row_number() over (partition by host, server_address, server_port, server_name, path order by ts desc) as place
  from certificate
  where ts > $now - interval '3 minutes' and ts <= $now and served_trust is not null
),
bad as (
  select * from newest where place = 1 and served_trust not in ('trusted', 'expired')
),
past as (
  select host, server_address, server_port, server_name, count(*) as trusted_looks
  from certificate
  where ts > $now - interval '1 day' and ts <= $now and served_trust = 'trusted'
  group by host, server_address, server_port, server_name
)
select b.host, b.server_address, b.server_port, b.server_name, b.program, b.path, b.config_file, b.config_line,
  b.served_issuer, b.served_subject, b.served_names, b.chain_length, b.served_trust,
  case when b.server_name = '' then b.server_address else b.server_name end as shown_name,
  case b.served_trust
    when 'intermediate_missing' then 'intermediate_missing' when 'intermediate_expired' then 'intermediate_expired'
    when 'wrong_name' then 'wrong_name' when 'self_signed' then 'self_signed' when 'unknown_issuer' then 'unknown_issuer'
    when 'not_yet_valid' then 'not_yet_valid' else 'invalid' end as problem_text,
  case when b.served_trust like 'intermediate%' then 'chain' when b.served_trust = 'wrong_name' then 'name' else 'other' end as why_text,
  case when b.served_trust like 'intermediate%' then 'chain' when b.served_trust = 'wrong_name' then 'name' else 'other' end as fix_text,
  case b.program when 'haproxy' then 'systemctl reload haproxy' else 'nginx -t && nginx -s reload' end as reload,
  case when p.trusted_looks > 0 then 'page'
       when b.served_trust in ('intermediate_missing', 'intermediate_expired', 'wrong_name', 'not_yet_valid') then 'mail'
       else 'note' end as class
from bad b
left join past p on p.host = b.host and p.server_address = b.server_address and p.server_port = b.server_port and p.server_name = b.server_name
