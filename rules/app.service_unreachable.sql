/*---
id = "app.service_unreachable"
title = "Application cannot connect to a service it needs"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "30s"
key = ["log_program", "target"]
equal = ["database_program"]
prefers = ["db.not_answering", "wire.host_unreachable", "dns.name_failing", "firewall.drops_service", "tcp.ephemeral_exhausted"]
needs = ["log", "request", "db_server"]
when = """
select 1 from log where (body like '%ECONNREFUSED%' or body like '%ETIMEDOUT %' or body like '%EHOSTUNREACH%' or body like '%ENETUNREACH%' or body like '%ENOTFOUND%' or body like '%EAI_AGAIN%' or body like '%EADDRNOTAVAIL%' or body like '%getaddrinfo%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%dial tcp %' or body like '%dial unix %' or body like '%OperationalError%' or body like '%onnectionError%' or body like '%ConnectionPool(%' or body like '%Can''t connect to %' or body like '%Can''t reach database%' or body like '%could not connect to server%' or body like '%gaierror%' or body like '%dial tcp: %' or body like '%reset by peer%' or body like '%ECONNRESET%' or body like '%imed out%' or body like '%imeout%' or body like '%deadline exceeded%' or body like '%fetch failed%' or body like '%FetchError: %' or body like '%wrong version number%' or body like '%WRONG_VERSION%' or body like '%unrecognized SSL message%' or body like '%HTTP response to HTTPS%' or body like '[resolver] failed to query%' or body like '% err="Get %' or body like '%socket hang up%' or body like '%onnection reset%' or body like '%failed to respond%' or body like '%Disconnected from %' or body like '%ServerDisconnected%' or body like '%Server disconnected%' or body like '%) disconnected%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%java.net.%Exception%' or body like '%PSQLException%' or body like '%Communications link failure%' or body like '%Connection%Exception: %' or body like '%ConnectionBad%' or body like '%ConnectionNotEstablished%' or body like '%CannotConnectError%' or body like '%ConnectionFailed%' or body like '%Errno::E%' or body like '%SocketError%' or body like '%ResolutionError%' or body like '%OpenTimeout%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%SQLSTATE[%' or body like '%(HY000/200%' or body like '%mysqli_sql_exception%' or body like '%RedisException%' or body like '%cURL error %') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%onnect%rror: %' or body like '%URLError%' or body like '%ConnectException%' or body like '%ConnectTimeout%' or body like '%onnectionRefusedError%' or body like '%TimeoutError: %' or body like '%OSError: %' or body like '%SocketException%' or body like '%HttpRequestException%' or body like '%Failed to connect to%' or body like '%failed to connect%' or body like '%(os error 11%' or body like '%ServerSelectionError: %' or body like '%erver selection %' or body like '%nable to connect to %' or body like '%annot connect to %' or body like '%onnection refused%' or body like '%ReadError%' or body like '%RemoteProtocolError%' or body like '%brokers%' or body like '%NoBrokersAvailable%' or body like '%could not be established%' or body like '%not present in metadata%' or body like '%onnection % closed' or body like '%ERR_TLS_CERT%' or body like '%AutoReconnect%' or body like '%ConnectionClosed%' or body like '%channel/connection is not open%' or body like '%StreamLost%' or body like '%AMQP%' or body like '%Amqp%' or body like '%BrokerUnreachable%' or body like '%NoNodeAvailable%' or body like '%AllNodesFailed%' or body like '%CircuitBreaker %' or body like '%circuit is now open%' or body like '%UNAVAILABLE: %' or body like '%code = Unavailable %' or body like '%econnrefused%' or body like '%NoLivingConnections%' or body like '%remote certificate%' or body like '%alternative DNS name%' or body like '%Network Adapter%' or body like '%network-related%' or body like '%Failed to read session data%' or body like '%MemcacheUnexpectedClose%' or body like '%nxdomain%' or body like '%Exception while %' or body like '%failed to dial%' or body like '%BaseConnectionError%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%ertificate%' or body like '%CERTIFICATE_VERIFY_FAILED%' or body like '%x509: %' or body like '%PKIX path%') and ts > $now - interval '30 seconds' and ts <= $now and severity in ('error', 'critical', 'alert', 'emergency', 'fatal', 'warn')
union all select 1 from log where (body like '%rror: %ertificate%' or body like '%CERTIFICATE_VERIFY_FAILED%' or body like '%CertificateExpiredException%' or body like '%SSLHandshakeException%' or body like 'x509: %' or body like '%PKIX path%' or body like 'Get "http%' or body like 'Post "http%' or body like '% "http%": %') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['error.stack_trace'], attrs['exception'], attrs['Exception'], attrs['exception.message'], attrs['exc_info'], attrs['stack_trace']) is not null and ts > $now - interval '30 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors", "app.errors_quiet", "app.pool_exhausted", "app.requests_stopped",
  "app.service_rejects", "app.slow", "app.slow_quiet", "app.slow_requests_logged", "app.socket_backlog_full", "app.worker_timeout",
  "app.workers_die", "app.lock_pileup", "app.workers_exhausted", "client.aborts_499", "proxy.bad_gateway",
  "proxy.haproxy_errors", "proxy.haproxy_slow", "proxy.upstream_errors", "proxy.upstream_timeout",
  "proxy.upstream_hangs",
]
subject = "{shown} on {host}: {target}"
summary = "{shown} on {host} cannot connect to {target} ({reason_text}), {lines} times in 30 s{share_text}"
why = "{why_text} Each request that needs it fails or waits for the connect timeout."
look_at = "From {host}: `nc -vz HOST PORT` to {target}; on its side `ss -ltn` and its own log. The line: {line}"
silent_when = "Fewer than 3 such lines for a target in 30 s; a page if at least 20 % of the host's requests failed meanwhile; a note if the line does not name the target and no request failed (addresses that customers gave, such as webhooks, fail all day). Only lines, and fields such as `error` of structured logs, that start with the error of a language or driver count (Node.js, Go, Python, JDBC, Ruby, PHP, .NET, Elixir, Rust), and of a web server's log only the errors of PHP itself: the rest contains what visitors wrote. An error behind the program's own words (`load cart: dial tcp …`, in a field such as `error` only), and one that a visitor who left causes as well (`read ECONNRESET`), counts only while at least 5 requests and 5 % fail, and if there is a line for each fifth of them. A worker that tries a service that is switched off on purpose looks the same."
fix = "{fix_text} Check: the lines end."
source = "Node.js net.js and dns.js errors; Go net.OpError and url.Error; libpq fe-connect.c; PyMySQL connections.py (2003); redis-py connection.py; urllib3; PHP PDO and mysqli; cURL error codes; connect(2)"
[text.reason_text]
refused = "connection refused"
timeout = "no answer in time"
unreachable = "no route"
name = "its name does not resolve"
ports = "no free local port"
certificate = "its certificate is rejected"
broken = "the connection breaks"
protocol = "it does not speak TLS there"
resolver = "names cannot be resolved there"
failed = "the connection failed"
[text.why_text]
refused = "The host answers at once that nothing listens there: the service is stopped, starting, or listens on another address or port."
timeout = "Nothing answers: the host is down, a firewall drops the packets, or the service's accept queue is full."
unreachable = "The network has no path to that host: its network, a route or an interface is down."
name = "The name service has no address for it, or does not answer."
ports = "All local ports towards that address are in use or in TIME_WAIT: each request opens a new connection."
certificate = "The service presents a certificate that expired, has another name, or whose issuer this host does not know; the client then ends the connection. From one moment on it fails for all requests."
protocol = "The client begins with TLS and the port answers in clear, or with another protocol: `https` for a plain port, or the proxy in front of the service was changed."
resolver = "Docker's own name server passes what is no container to this one, which does not answer. Every name outside of the network fails in all containers."
broken = "The service accepts connections and ends them before it answers: it crashes, restarts, is overloaded, or something between both drops connections that it forgot (a proxy, a firewall after an idle time)."
failed = "The driver gives up before it has a session."
[text.fix_text]
refused = "Start {target}, or correct its address in the application's configuration. In containers `localhost` is the container itself."
timeout = "Bring the host or the path back; set a connect timeout of 1 to 2 s in the application, so that its workers stay free."
unreachable = "Check route, interface and security group between both (`ip route get`)."
name = "`getent hosts` on {host}, inside its container as well; check search domains and the service's registration."
ports = "Reuse connections (keep-alive, a pool); see tcp.ephemeral_exhausted."
certificate = "`openssl s_client -connect HOST:PORT -servername NAME </dev/null` on {host} shows dates and chain. Expired: renew it there. Incomplete chain: serve the intermediate certificate. Unknown issuer: update `ca-certificates`, in the container as well. Do not switch the verification off."
protocol = "Correct the scheme or the port in the configuration; `openssl s_client -connect HOST:PORT` shows whether TLS answers."
resolver = "`dig @{target} example.com` on {host}. Bring that server back, or name another one in `/etc/resolv.conf` or `dns` of daemon.json, then restart the containers."
broken = "Its own log at that moment, app.workers_die and mem.oom_kill on its host. If only idle connections break, let the client renew them sooner than the shortest idle timeout between both."
failed = "Try the same address with the service's own client from {host}; its message says more."
[text.share_text]
known = "; {failed} of {requests} requests failed"
unknown = ""
---*/
with lines as (
  -- Structured logs have the error beside the message; PHP's errors stand in the log of the web server in front.
  select host, ts, coalesce(nullif(program, ''), 'other') as program, body, coalesce(attrs['error'], attrs['err'], attrs['err.message']) is not null as is_field,
    regexp_replace(
      case
        when program = 'nginx' and message_template like 'FastCGI sent in stderr: %' then regexp_match(body, '^FastCGI sent in stderr: "PHP message: (PHP (?:Fatal error|Recoverable fatal error|Warning): +.*)')[1]
        when program = 'apache' and attrs['module'] = 'proxy_fcgi' then regexp_match(body, '^AH01071: Got error ''PHP message: (PHP (?:Fatal error|Recoverable fatal error|Warning): +.*)')[1]
        when program = 'apache' and attrs['module'] like 'php%' and severity <> 'notice' then regexp_match(body, '^(PHP (?:Fatal error|Recoverable fatal error|Warning): +.*)')[1]
        when program like 'php%fpm%' then regexp_match(body, '^(?:\[[^\]]+\] WARNING: )?(?:\[pool [^\]]+\] )?child [0-9]+ said into stderr: "NOTICE: PHP message: (PHP (?:Fatal error|Recoverable fatal error|Warning): +.*)')[1]
        when program in ('nginx', 'apache', 'apache2', 'httpd') then null
        -- The error of Docker's name server, and the one of kubelet's call of the API server.
        when program = 'dockerd' then concat('docker resolver ', attrs['dns-server'], ': ', attrs['error'])
        when program = 'kubelet' then regexp_replace(regexp_match(body, '^"[^"]*" err="(Get .*)"( [a-zA-Z]+=|$)')[1], '\\"', '"', 'g')
        else regexp_replace(regexp_replace(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.stack_trace'], nullif(concat_ws(': ', attrs['error.type'], attrs['error.message']), ''),
            nullif(concat_ws(': ', attrs['exception.class'], attrs['exception.message']), ''), attrs['exception'], attrs['Exception'], attrs['exc_info'], attrs['stack_trace'], body), '\x1b\[[0-9;]*m', '', 'g'),
            '(?s)^(?:Traceback .*\n)?([^\n]+).*$', '\1')
      end,
      concat('^ *(redis: |\[(mysql|sarama)\] )?(\[Nest\] [0-9]+ +- [0-9/]+, [0-9:]+ [AP]M +|[0-9-]+ [0-9:.]+:(WARN|ERROR):[A-Za-z0-9_.]+:[A-Za-z0-9_-]+: |\[?[0-9TZ :.,/+-]+\]?:? +(UTC |std(out|err) [FP] |([a-z_]+=[^ ]+ )+\[(error|critical)\] )?|\[[0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:.]+( [A-Z][A-Za-z_/]+)?\] |[A-Z], \[[0-9T:.-]+ #[0-9]+\] +)?',
        '([A-Za-z0-9_./-]+[.]go:[0-9]+:? |pid=[0-9]+ tid=[a-z0-9]+ ([a-z]+=[A-Za-z0-9:_-]+ )*|Rack app [(]"[A-Z]+ [^" ]*" - [(][0-9a-fA-F.:]+[)][)]: )?',
        '((\[[A-Za-z0-9_.:#/-]+\] )?(ERROR|WARN|FATAL|SEVERE) +(\[[A-Za-z0-9_.:#/-]+\] )?[a-z][A-Za-z0-9_]*([.][A-Za-z0-9_$]+)+ *(- |: )|',
        '(ERROR|WARN|FATAL) +[0-9]+ --- (\[[^\]]+\] ){1,2}[A-Za-z0-9_.$/\[\]]+ *: |(FATAL|ERROR|WARN) -- : (\[[A-Za-z0-9-]+\] )*|',
        '[a-z]+[.](WARNING|ERROR|CRITICAL|ALERT|EMERGENCY): |([A-Za-z0-9_.]+ )?- (ERROR|CRITICAL|WARNING) - |(ERROR|CRITICAL):[A-Za-z0-9_.]+:|(ERROR|CRITICAL|WARNING)/[A-Za-z0-9-]+\] (consumer: )?|\| (ERROR|CRITICAL|WARNING) +\| [A-Za-z0-9_.<>]+:[A-Za-z0-9_.<>]+:[0-9]+ - |',
        '(ERR|FTL|WRN)\] |(ERROR|WARN|FATAL) \[[A-Za-z0-9_:]+\] |(ERROR|WARN) +\[[A-Za-z0-9_.$-]+\] [(][A-Za-z0-9_# -]+[)] |(ERROR|WARN|WARNING|CRITICAL|FATAL) +\[?[a-z0-9_]+((::|[.])[a-z0-9_]+)*(: |\]:? +)|(ERROR|CRITICAL) [0-9-]+ [0-9:,]+ [A-Za-z0-9_.]+ [0-9]+ [0-9]+ |',
        '(\[[0-9]+\] )?\[?(ERROR|FATAL|CRITICAL|WARN|WARNING|LOG)\]?:? +|\[(error|fatal)\] +|(error|fatal): +)?',
        '(PHP (Fatal error|Recoverable fatal error|Warning): +|Unhandled exception[.] |(failed to connect|ping|pq|redis|sql|mysql|pgx|database|db|cache|store|error|connect|heartbeat): )?(Uncaught (exception )?)?(#<)?'), '') as text
  from log
  where ts > $now - interval '30 seconds' and ts <= $now
    and coalesce(program, '') not in ('haproxy', 'caddy', 'traefik', 'envoy', 'sshd', 'weir', 'postgresql', 'postgres', 'mysqld', 'mariadbd', 'mariadb', 'mysql', 'redis', 'redis-server', 'valkey-server', 'mongod', 'rabbitmq', 'rabbitmq-server', 'memcached', 'containerd', 'systemd') and coalesce(severity, '') not in ('debug', 'trace')
    and (coalesce(program, '') <> 'dockerd' or body like '[resolver] failed to query external DNS server%') and (coalesce(program, '') <> 'kubelet' or body like '% err="Get %') and not regexp_like(body, '^50[024] [A-Z]')
    and regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.stack_trace'], nullif(concat_ws(': ', attrs['error.type'], attrs['error.message']), ''),
            nullif(concat_ws(': ', attrs['exception.class'], attrs['exception.message']), ''), attrs['exception'], attrs['Exception'], attrs['exc_info'], attrs['stack_trace'], body),
      'E(CONNREFUSED|CONNRESET|TIMEDOUT|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN|ADDRNOTAVAIL)|dial (tcp|udp|unix)|OperationalError|[Cc]onnect|java[.]net[.]|PSQLException|CannotConnect|SQLSTATE|HY000|cURL error|getaddrinfo|gaierror|ConnectionPool|[Cc]ertificate|ECONNREFUSED|PKIX|x509|URLError|SocketException|ServerSelection|erver selection |Can''t reach database|OpenTimeout|SSLHandshakeException|SocketError|ResolutionError|Errno::E|[Tt]imeout|[Tt]imed out|deadline exceeded|reset by peer|no such host|fetch failed|socket hang up|failed to respond|Read(Error|Timeout)|RemoteProtocolError|[Dd]isconnected|NoBrokersAvailable|brokers|not present in metadata|BrokerUnreachable|AMQP|Amqp|NoNodeAvailable|AllNodesFailed|CircuitBreaker |circuit is now open|StatusRuntimeException|Operation .* buffering|MemcacheUnexpectedClose|NoLivingConnections|Failed to read session data|Unable to reach|e(connrefused|host|timedout)|unreachable|nxdomain|Communications link failure|Exception while (reading|writing)|failed to dial|FetchError|wrong version number|WRONG_VERSION|RECORD_LAYER|unrecognized SSL|HTTP response to HTTPS|i/o timeout')
  -- Also keeps the text from being computed anew for each pattern.
  limit 50000
),
own as (
  select * from lines where text is not null
),
-- One pattern per language: what a visitor wrote may stand anywhere but at the start of a line.
matched as (
  select host, program, text as body,
    case
      when regexp_like(text, '^(\[cause\]: |cause: |\[[A-Za-z]+\] Unhandled error event: )?([A-Za-z]*Error|AggregateError \[[A-Z]+\]): (connect |getaddrinfo )?(ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ENOTFOUND|EAI_AGAIN)( |$)')
        then coalesce(regexp_match(text, '(?:ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ENOTFOUND|EAI_AGAIN) ([^ ]+)')[1], 'a service')
      when regexp_like(text, '^((\[Connection\] |KafkaJS[A-Za-z]*: )?Connection error: )?(connect|getaddrinfo) (ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ENOTFOUND|EAI_AGAIN) [^ ]+( \{.*)?$') then regexp_match(text, 'E[A-Z_]+ ([^ ]+)')[1]
      when regexp_like(text, '^\[?(\[cause\]: |cause: )?\[?_?(ConnectTimeoutError|HeadersTimeoutError|BodyTimeoutError|SocketError): ') then coalesce(regexp_match(text, 'attempted address(?:es)?: ([^ ,)]+)')[1], 'a service')
      when regexp_like(text, '^(\[cause\]: |cause: )?AxiosError: (timeout of [0-9]+ms exceeded|socket hang up|Network Error)|^\[?TypeError: fetch failed\]?( \{)?$|^Error: socket hang up$') then 'a service'
      when regexp_like(text, '^FetchError: request to https?://[^/ ]+[^ ]* failed, reason: ') then regexp_match(text, 'https?://([^/ ]+)')[1]
      when regexp_like(text, '^Unable to connect to the database[.] Retrying [(]') then 'the database'
      when regexp_like(text, '^Mongo(ose)?Error: Operation `[^`]*` buffering timed out after ') then 'MongoDB'
      when regexp_like(text, '^(\[cause\]: )?Mongo(Network|NetworkTimeout)Error: connection [0-9<>a-z]+ to [^ ]+ (closed|timed out)') then regexp_match(text, ' to ([^ ]+) (?:closed|timed out)')[1]
      when regexp_like(text, '^(KafkaJS[A-Za-z]*: (Connection (error|timeout)|Failed to connect|Request .* timed out)|%[0-9]\|[0-9.]+\|(FAIL|ERROR)\|[^|]*\| \[thrd:[^\]]*\]: ([^ ]+: (Connect to|Failed to resolve|Disconnected)|[0-9]+/[0-9]+ brokers are down)|(kafka[.]errors[.])?(NoBrokersAvailable: |KafkaTimeoutError: ))') then coalesce(regexp_match(text, '\]: ([^ /]+:[0-9]+)(?:/[0-9a-z]+)?: (?:Connect|Failed|Disconn)')[1], 'Kafka')
      when regexp_like(text, '^\[(Producer|Consumer|AdminClient) clientId=[^\]]*\] (Connection to node -?[0-9]+ [(][^)]*[)] could not be established|Bootstrap broker [^ ]+ [(]id: [^)]*[)] disconnected)') then coalesce(regexp_match(text, 'node -?[0-9]+ [(](?:[^/)]*/)?([^)/]+)[)]')[1], regexp_match(text, 'Bootstrap broker ([^ ]+)')[1])
      when regexp_like(text, '^((Caused by: )?org\.apache\.kafka\.common\.errors\.TimeoutException: |kafka: client has run out of available brokers to talk to|client/metadata got error from broker [-#0-9]+ while fetching metadata: )') then coalesce(regexp_match(text, 'dial tcp ([^ ]+): ')[1], 'Kafka')
      when regexp_like(text, '^((pika[.]exceptions[.])(AMQPConnectionError|StreamLostError|ConnectionClosedByBroker|AMQPHeartbeatTimeout)(: |$)|(Caused by: )?org\.springframework\.amqp\.(AmqpConnectException|AmqpIOException|AmqpTimeoutException|rabbit\.connection\.AutoRecoverConnectionNotCurrentlyOpenException): |(Caused by: )?com\.rabbitmq\.client\.(AlreadyClosedException|ShutdownSignalException): |Bunny::(TCPConnectionFailed|NetworkFailure|ConnectionClosedError)|([A-Z][A-Za-z\\]*\\)?AMQP(IO|Runtime|ConnectionClosed|Timeout)Exception: |RabbitMQ\.Client\.Exceptions\.(BrokerUnreachableException|AlreadyClosedException)|Exception [(]504[)] Reason: "channel/connection is not open"|IllegalOperationError: (Channel|Connection) closed|(kombu[.]exceptions[.])OperationalError: \[Errno )') then coalesce(regexp_match(text, 'tcp://([^ ]+) [(]')[1], 'RabbitMQ')
      when regexp_like(text, '^Cannot connect to (amqp|amqps|redis|rediss|sentinel)://[^ ]+: ') then regexp_match(text, '://(?:[^@/ ]*@)?([^/ ]+?):?(?:/[^ ]*)?: ')[1]
      when regexp_like(text, '^((elastic_transport[.]|elasticsearch[.]exceptions[.])?(ConnectionError: Connection error caused by|ConnectionTimeout: Connection timed out|ConnectionError: Connection (timeout|refused))|NoLivingConnectionsError: )') then 'Elasticsearch'
      when regexp_like(text, '^(Caused by: )?com\.datastax\.[a-z.]+\.(AllNodesFailedException|NoNodeAvailableException|DriverTimeoutException): |^(cassandra[.]cluster[.])NoHostAvailable: ') then 'Cassandra'
      when regexp_like(text, '^pymemcache[.]exceptions[.]Memcache(UnexpectedClose|Server)Error|^Memcached?::[a-z]+[(][)]: Can''t connect to [^ ,]+') then coalesce(regexp_match(text, 'connect to ([^ ,]+)')[1], 'Memcached')
      when regexp_like(text, '^(\[cause\]: |cause: )?([A-Za-z]*Error)( \[[A-Z_]+\])?: (certificate has expired|unable to get (local )?issuer certificate|unable to verify the first certificate|self[- ]signed certificate|Hostname/IP does not match certificate)')
        then coalesce(regexp_match(text, 'altnames: Host: ([^ ]+?)[.] ')[1], 'a service')
      when regexp_like(text, '^(redis: )?connection pool: failed to dial after [0-9]+ attempts: dial (tcp|unix) [^ ]+: ') then regexp_match(text, 'dial (?:tcp|unix) ([^ ]+):')[1]
      when regexp_like(text, '^(failed to [a-z ]{1,40}: )?(connection\(\) error occurred during connection handshake: |server selection error: (context deadline exceeded|server selection timeout), current topology: )') then coalesce(regexp_match(text, 'Addr: ([^, ]+)')[1], 'MongoDB')
      when regexp_like(text, '^(rpc error: code = (Unavailable|DeadlineExceeded) desc = |(Caused by: )?io\.grpc\.StatusRuntimeException: (UNAVAILABLE|DEADLINE_EXCEEDED): |(grpc[.]_channel[.])?_InactiveRpcError: )') then coalesce(regexp_match(text, 'dial tcp ([^ ]+): ')[1], regexp_match(text, 'remote_addr=([^\],]+)')[1], 'a service')
      -- To a low port the program is the client: towards a high one it is a visitor that left.
      when regexp_like(text, '^docker resolver [^ ]+: ') then regexp_match(text, 'resolver (?:udp:|tcp:)?([^ ]+): ')[1]
      when regexp_like(text, '^(read|write) tcp [^ ]+->[^ ]+:([0-9]{1,4}|[12][0-9]{4}|3[01][0-9]{3}): ((read|write): (connection reset by peer|broken pipe|connection timed out|no route to host)|i/o timeout)$') then regexp_match(text, '->([^ ]+): ')[1]
      when regexp_like(text, '^(failed to connect to `[^`]*`: ?)?([^ ]+ [(][^)]*[)]: )?(dial error:? [(]?)?dial (tcp|udp|unix) [^ ]+: (connect: |i/o timeout|lookup )|^failed to connect to `[^`]*`: failed to receive message [(]read tcp ')
        then coalesce(regexp_match(text, 'dial (?:tcp|udp|unix) ([^ ]+):')[1], regexp_match(text, '->([^ ]+): ')[1])
      when regexp_like(text, '^dial tcp: lookup [^ ]+( on [^ ]+)?: ') then regexp_match(text, 'lookup ([^ ]+?)(?: on |: )')[1]
      -- Go writes a URL with its quotes escaped, so it cannot end early.
      when regexp_like(text, '^(Get|Post|Put|Patch|Delete|Head) "(?:[^"\\]|\\.)*": (dial tcp|context deadline exceeded|net/http: |tls: |x509: |EOF$|read tcp |http2: )')
        then regexp_match(text, '^[A-Z][a-z]+ "https?://([^/"?]+)')[1]
      when regexp_like(text, '^(tls: failed to verify certificate: )?x509: (certificate has expired|certificate signed by unknown authority|certificate is valid for )') then 'a service'
      when regexp_like(text, '^([(]?([a-z_0-9]+\.)*OperationalError[)]?:? ([a-z_0-9.]+: )?)?(connection to server (at|on) |could not connect to server: |could not translate host name |connection failed: connection to server at |connection is bad: )') and not regexp_like(text, 'failed: (FATAL|ERROR): ')
        then coalesce(regexp_match(text, 'connection to server at "([^"]+)"')[1], regexp_match(text, 'translate host name "([^"]+)"')[1], 'PostgreSQL')
      when regexp_like(text, '^[(]?([A-Za-z_0-9]+\.)*OperationalError[)]?:? ?[(]200[2356], "(Can''t connect to|Can''t connect to server|Unknown (MySQL )?server host)') then coalesce(regexp_match(text, '(?:server on|server host) ''([^'']+)''')[1], 'MySQL')
      when regexp_like(text, '^(redis\.exceptions\.|kombu\.exceptions\.)?(ConnectionError|TimeoutError|OperationalError): (Error -?[0-9]+ |Timeout |\[Errno -?[0-9]+\] )(connecting to|Connection refused|Name or service|Temporary failure)')
        then coalesce(regexp_match(text, 'connecting to ([^ ]+?)\.( |$)')[1], 'a service')
      -- The host of the pool is the program's; the URL behind it may be a visitor's.
      when regexp_like(text, '^(requests[.]exceptions[.]|urllib3[.]exceptions[.])?(ConnectionError|ConnectTimeout|ReadTimeout|SSLError|ProxyError|MaxRetryError|NewConnectionError|ReadTimeoutError|ConnectTimeoutError): HTTPS?ConnectionPool[(]host=''[^'']+'', port=[0-9]+[)]')
        then ltrim(replace(regexp_match(text, 'host=(''[^'']+'', port=[0-9]+)')[1], ''', port=', ':'), '''')
      when regexp_like(text, '^(aiohttp[.]client_exceptions[.])?Client(Proxy)?Connector(DNS|Certificate|SSL)?Error: Cannot connect to host [^ ]+ ssl:') then regexp_match(text, 'to host ([^ ]+)')[1]
      when regexp_like(text, '^(httpx|httpcore)[.](ConnectError|ConnectTimeout|ReadTimeout|ReadError|WriteTimeout|RemoteProtocolError: Server disconnected)(: |$| )|^(requests[.]exceptions[.])?ConnectionError: [(]''Connection aborted[.]'', |^(aiohttp[.]client_exceptions[.])?(ServerDisconnectedError|ServerTimeoutError|ClientOSError|SocketTimeoutError)(: |$)') then 'a service'
      when regexp_like(text, '^(botocore[.]exceptions[.])?(EndpointConnectionError|ConnectTimeoutError|ReadTimeoutError|ConnectionClosedError): [^"]*"https?://[^/"]+') then regexp_match(text, '"https?://([^/"]+)')[1]
      when regexp_like(text, '^(redis\.exceptions\.)TimeoutError: Timeout (reading from|connecting to) ') then coalesce(regexp_match(text, 'from ([^ ]+:[0-9]+)')[1], 'Redis')
      when regexp_like(text, '^(pymongo[.]errors[.])?(NetworkTimeout|AutoReconnect|ConnectionFailure): ') then coalesce(regexp_match(text, ': ([^ ]+:[0-9]+): ')[1], 'MongoDB')
      when regexp_like(text, '^urllib[.]error[.]URLError: <urlopen error (\[Errno -?[0-9]+\]|timed out|\[SSL)') then 'a service'
      when regexp_like(text, '^(socket[.])?gaierror: \[Errno -[0-9]+\] ') then 'a service'
      when regexp_like(text, '^(ConnectionRefusedError|TimeoutError|OSError): \[Errno 1(10|11|13)\] (Connect call failed|Connection refused|Connection timed out|No route to host|Host is unreachable|Network unreachable)')
        then coalesce(replace(regexp_match(text, 'failed [(]''([^'']+'', [0-9]+)')[1], ''', ', ':'), 'a service')
      when regexp_like(text, '^(\[cause\]: )?(Error: )?[0-9A-F]+:error:[0-9A-F]+:SSL routines:[a-z0-9_]*:(wrong version number|packet length too long|unknown protocol)|^(ssl[.])?SSLError: \[SSL: (WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE)\]|^(Caused by: )?javax\.net\.ssl\.SSLException: Unsupported or unrecognized SSL message|^(Get|Post) "https://[^/"]+[^"]*": http: server gave HTTP response to HTTPS client') then coalesce(regexp_match(text, '"https://([^/"]+)')[1], 'a service')
      when regexp_like(text, '^(ssl[.])?SSLCertVerificationError: \[SSL: CERTIFICATE_VERIFY_FAILED\]') then 'a service'
      when regexp_like(text, '^Mongo(ose)?ServerSelectionError: |^Mongo(Timeout|Network|)Error: ([Ss]erver selection (timed out after|failed))') then coalesce(regexp_match(text, '(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT) ([^ ,]+)')[2], 'MongoDB')
      when regexp_like(text, '^(pymongo[.]errors[.])?ServerSelectionTimeoutError: [^ ]+: ') then regexp_match(text, 'Error: ([^ ]+): ')[1]
      when regexp_like(text, '^(Invalid `[^`]*` invocation: )?(PrismaClient[A-Za-z]*Error: |Error: )?(P1001: )?Can''t reach database server at `') then replace(regexp_match(text, 'server at `([^ ]+)`')[1], '`', '')
      when regexp_like(text, '^(Caused by: )?java\.net\.(ConnectException|NoRouteToHostException|UnknownHostException|SocketTimeoutException|SocketException: (Connection reset|Broken pipe|Connection timed out))(: |$)') then coalesce(regexp_match(text, 'UnknownHostException: +([^ :]+)(?:: [A-Za-z ]+)?$')[1], regexp_match(text, 'Failed to connect to ([^ ]+)$')[1], regexp_match(text, 'Timeout connecting to \[([^\]]+)\]')[1], 'a service')
      when regexp_like(text, '^(Caused by: )?(org\.springframework\.web\.reactive\.function\.client\.WebClientRequestException: |io\.netty\.channel\.(AbstractChannel\$Annotated(Connect|NoRouteToHost)Exception|ConnectTimeoutException): )(finishConnect\(\.\.\) failed: )?(Connection refused|No route to host|Connection timed out|Connection reset|connection timed out( after [0-9]+ ms)?): [^ ]+$') then regexp_match(text, ': ([^ ]+)$')[1]
      when regexp_like(text, '^(Caused by: )?(org\.springframework\.web\.client\.ResourceAccessException: I/O error on [A-Z]+ request for "https?://[^/"]+|feign\.RetryableException: [A-Za-z ]+ executing [A-Z]+ https?://[^/ ]+|org\.apache\.(http|hc\.core5\.http)\.NoHttpResponseException: [^ ]+ failed to respond|io\.github\.resilience4j\.circuitbreaker\.CallNotPermittedException: CircuitBreaker ''[^'']+'' is OPEN)') then coalesce(regexp_match(text, 'https?://([^/" ]+)')[1], regexp_match(text, 'Exception: ([^ ]+) failed to respond')[1], regexp_match(text, 'CircuitBreaker ''([^'']+)''')[1])
      when regexp_like(text, '^(Caused by: )?java\.sql\.(SQLNonTransientConnectionException|SQLRecoverableException|SQLTransientConnectionException): (Could not connect to |Socket fail to connect|IO Error: (The Network Adapter|Connection reset|Socket read timed out|Got minus one)|Communications link failure)') then coalesce(regexp_match(text, 'host=([^)]+)[)]')[1], regexp_match(text, 'host:([^, ]+)')[1], 'a database')
      when regexp_like(text, '^(Caused by: )?com\.microsoft\.sqlserver\.jdbc\.SQLServerException: The TCP/IP connection to the host [^ ,]+') then replace(regexp_match(text, 'the host ([^ ,]+, port [0-9]+)')[1], ', port ', ':')
      when regexp_like(text, '^(Caused by: )?com\.mongodb\.Mongo(TimeoutException: Timed out after|SocketOpen|SocketRead|SocketReadTimeout|SocketWrite|NodeIsRecovering)(Exception: | )') then coalesce(regexp_match(text, 'address=([^, }]+)')[1], 'MongoDB')
      when regexp_like(text, '^Exception in monitor thread while connecting to server [^ ]+$') then regexp_match(text, 'server ([^ ]+)$')[1]
      when regexp_like(text, '^(Caused by: )?(org\.springframework\.data\.redis\.RedisConnectionFailureException: |io\.lettuce\.core\.RedisCommandTimeoutException: |org\.redisson\.client\.Redis(Connection|Timeout)Exception: |redis\.clients\.jedis\.exceptions\.JedisConnectionException: java\.net\.)') then coalesce(regexp_match(text, 'server: (?:[^/ ]*/)?([^ ]+)')[1], 'Redis')
      when regexp_like(text, '^(Caused by: )?org\.apache\.http(\.conn|\.hc\.client5\.http)\.(HttpHostConnectException|ConnectTimeoutException): Connect to [^ ]+') then regexp_match(text, 'Connect to (?:https?://)?([^ ]+)')[1]
      when regexp_like(text, '^(Caused by: )?org\.postgresql\.util\.PSQLException: (Connection to [^ ]+ refused|The connection attempt failed)') then coalesce(regexp_match(text, 'Connection to ([^ ]+) refused')[1], 'PostgreSQL')
      when regexp_like(text, '^(Caused by: )?com\.mysql\.[a-z.]+\.(CJ)?CommunicationsException: Communications link failure') then 'MySQL'
      when regexp_like(text, '^(Caused by: )?(io\.lettuce\.core\.RedisConnectionException: Unable to connect to |redis\.clients\.jedis\.exceptions\.JedisConnectionException: Failed to (connect to|create socket))') then coalesce(regexp_match(text, 'Unable to connect to \[?([^ \],]+)')[1], 'Redis')
      when regexp_like(text, '^(Caused by: )?(javax\.net\.ssl\.SSLHandshakeException|sun\.security\.validator\.ValidatorException|java\.security\.cert\.CertificateExpiredException): ?(PKIX path |NotAfter|No subject alternative )|^(Caused by: )?java\.security\.cert\.CertificateException: No (subject alternative|name matching) ') then coalesce(regexp_match(text, 'matching ([^ ]+) found')[1], 'a service')
      when regexp_like(text, '^(Caused by: )?javax\.net\.ssl\.SSLHandshakeException: ') and regexp_like(text, 'PKIX path (building|validation) failed') then 'a service'
      when regexp_like(text, '^(ActiveRecord::(ConnectionNotEstablished|DatabaseConnectionError) [(])?(PG::ConnectionBad|Mysql2::Error::ConnectionError|Redis::CannotConnectError|RedisClient::CannotConnectError|Errno::E(CONNREFUSED|HOSTUNREACH|TIMEDOUT)|SocketError|Socket::ResolutionError|Net::OpenTimeout|Net::ReadTimeout|Faraday::(ConnectionFailed|SSLError|TimeoutError)|OpenSSL::SSL::SSLError|RedisClient::(ReadTimeoutError|ConnectionError)|Redis::(TimeoutError|ConnectionError)|Trilogy::(BaseConnectionError|ConnectionError|TimeoutError|SyscallError::ECONNREFUSED)|Connection (refused|timed out) - connect\(2\) for)([ :(]|$)') and not regexp_like(text, 'FATAL: |ERROR: |Lost connection|gone away')
        then coalesce(regexp_match(text, 'TCP connection to ([^ ]+)')[1], regexp_match(text, 'connect\(2\) for "?([^ "]+"? port [0-9]+)')[1], regexp_match(text, 'connect\(2\) for ([^ )]+:[0-9]+)')[1], regexp_match(text, 'unable to connect to ([^ ]+?):? ')[1], regexp_match(text, 'at "([^"]+)"')[1],
          case when regexp_like(text, '^[A-Za-z: (]*PG::') then 'PostgreSQL' when regexp_like(text, '^[A-Za-z: (]*(Mysql2|Trilogy)::') then 'MySQL' when regexp_like(text, '^Redis') then 'Redis' end, 'a service')
      when regexp_like(text, '^ActiveRecord::ConnectionNotEstablished([:] | [(])(connection to server (at|on) )') and not regexp_like(text, 'FATAL: ') then coalesce(regexp_match(text, 'at "([^"]+)"')[1], 'PostgreSQL')
      -- PHP: PDO, mysqli, phpredis, Predis, Guzzle, Doctrine.
      when regexp_like(text, '^(PHP Exception [A-Za-z\\]+: "An exception occurred in the driver: |([A-Z][A-Za-z\\]*\\)?(PDOException|QueryException|ConnectionException|Exception): (An exception occurred in the driver: )?)?SQLSTATE\[(HY000|08006|08001)\] ?(\[(2002|2003|2005|7)\])')
          and regexp_like(text, 'SQLSTATE\[[0-9HY]+\] ?\[[0-9]+\] (Connection refused|Connection timed out|Operation timed out|No such file|No route to host|Host is unreachable|Network unreachable|php_network_getaddresses|Can''t connect|could not (connect|translate)|connection to server (at|on) "[^"]*"[^:]*failed: (Connection|No such|timeout|Operation|No route|could not)|Name or service)')
        then coalesce(regexp_match(text, 'connection to server at "([^"]+)"')[1], regexp_match(text, 'getaddrinfo for ([^ ]+) failed')[1], case when regexp_like(text, 'SQLSTATE\[08') then 'PostgreSQL' else 'MySQL' end)
      when regexp_like(text, '^(mysqli_sql_exception: |mysqli?_?[a-z_]*[(][)]: [(]HY000/200[2356][)]: |mysqli::[a-z_]+[(][)]: [(]HY000/200[2356][)]: )(php_network_getaddresses|Connection refused|Connection timed out|No such file|No route to host|Host is unreachable|Network unreachable|Can''t connect)') then 'MySQL'
      when regexp_like(text, '^(RedisException|Predis\\Connection\\ConnectionException): (Connection refused|Connection timed out|php_network_getaddresses|read error on connection|socket error)') then coalesce(regexp_match(text, '\[tcp://([^ \]]+)\]')[1], regexp_match(text, 'on connection to ([^ ]+)')[1], 'Redis')
      when regexp_like(text, '^Connection refused \[tcp://[^ \]]+\]|^(Connection refused|Connection timed out|php_network_getaddresses: [^{]*) [{]"exception":"\[object\] [(](RedisException|Predis)') then coalesce(regexp_match(text, '^[^{]*\[tcp://([^ \]]+)\]')[1], 'Redis')
      when regexp_like(text, '^(file_get_contents|fopen|copy|simplexml_load_file|get_headers|fsockopen|pfsockopen|stream_socket_client|SoapClient::__doRequest|readfile)[(](https?://[^/)]+[^)]*)?[)]: ([Ff]ailed to open stream: |[Uu]nable to connect to [^ ]+ [(])?(Connection (refused|timed out|reset by peer)|No route to host|Network is unreachable|php_network_getaddresses: |HTTP request failed)') then coalesce(regexp_match(text, '^[a-z_]+[(]https?://([^/)?]+)')[1], regexp_match(text, 'connect to (?:[a-z]+://)?([^ ]+)')[1], regexp_match(text, 'getaddrinfo for ([^ ]+) failed')[1], 'a service')
      when regexp_like(text, '^pg_p?connect[(][)]: Unable to connect to PostgreSQL server: (connection to server at |could not )') and not regexp_like(text, 'failed: (FATAL|ERROR): ') then coalesce(regexp_match(text, 'server at "([^"]+)"')[1], 'PostgreSQL')
      when regexp_like(text, '^session_start[(][)]: Failed to read session data: (redis|rediscluster|memcached?) ') then regexp_match(text, 'session data: ([a-z]+) ')[1]
      when regexp_like(text, '^(GuzzleHttp\\Exception\\(Connect|Request)Exception: )?cURL error (6|7|28|35|60): ') then coalesce(regexp_match(text, '^(?:[^:]*: )?cURL error [0-9]+: (?:Could not resolve host: |Failed to connect to )([^ ]+)')[1], 'a service')
      when regexp_like(text, '^( *---> )?(System\.Net\.Sockets\.SocketException \(1(1[013])\)|System\.Net\.Http\.HttpRequestException): (Connection refused|Connection timed out|No route to host|Host is unreachable|Network unreachable|Name or service not known|Resource temporarily unavailable|The SSL connection could not be established)|^(Connection refused|No route to host|Connection timed out|Name or service not known) [(][^ )]+:[0-9]+[)]$|^( *---> )?System\.Security\.Authentication\.AuthenticationException: The remote certificate |^System\.Threading\.Tasks\.TaskCanceledException: The request was canceled due to the configured HttpClient\.Timeout|^Polly\.CircuitBreaker\.BrokenCircuitException')
        then coalesce(regexp_match(text, ': [A-Z][a-z ]+ [(]([^ )]+)[)]$')[1], 'a service')
      when regexp_like(text, '^Npgsql\.NpgsqlException \(0x[0-9a-f]+\): (Failed to connect to [^ ]+|Exception while (reading|writing))') then coalesce(regexp_match(text, 'connect to ([^ ]+)')[1], 'PostgreSQL')
      when regexp_like(text, '^StackExchange\.Redis\.(RedisConnectionException: (It was not possible to connect|No connection is (active|available)|The message timed out)|RedisTimeoutException: )') then coalesce(regexp_match(text, 'serverEndpoint: ([^ ,]+)')[1], 'Redis')
      when regexp_like(text, '^(Microsoft\.Data|System\.Data)\.SqlClient\.SqlException [(]0x[0-9a-fA-F]+[)]: (A network-related or instance-specific error|A connection was successfully established with the server, but then an error)') then 'SQL Server'
      when regexp_like(text, '^MySql(Connector|\.Data\.MySqlClient)\.MySqlException [(]0x[0-9a-fA-F]+[)]: (Unable to connect to any of the specified|Couldn''t connect to server)') then 'MySQL'
      when regexp_like(text, '^(MongoDB\.Driver\.MongoConnectionException: |System\.TimeoutException: A timeout occurred after [0-9]+ms selecting a server)') then 'MongoDB'
      when regexp_like(text, '^(Postgrex\.Protocol|MyXQL\.Connection) [(]#PID<[0-9.]+>[^)]*[)] failed to connect: [*][*] [(](DBConnection\.Connection|Postgrex\.|MyXQL\.)Error[)] tcp connect( [(][^ )]+[)])?: ') then coalesce(regexp_match(text, 'tcp connect [(]([^ )]+)[)]')[1], 'a database')
      when regexp_like(text, '^(Failed to connect to|Disconnected from) (Redis|RabbitMQ) [(][^)]+[)]: ') then regexp_match(text, '[(]([^)]+)[)]')[1]
      when regexp_like(text, '^[*][*] [(](Mint\.TransportError|Mint\.HTTPError|HTTPoison\.Error|Req\.TransportError|Finch\.[A-Za-z]+)[)] ') then 'a service'
      when regexp_like(text, '^(error communicating with database|pool timed out|error connecting to (server|database)): .*[(]os error 1(1[013])[)]$|^(connection to server failed|error connecting to server): (could not connect to server|Connection refused)') then 'a database'
      when regexp_like(text, '^(Error: )?(reqwest::Error|error sending request for url [(]https?://[^/)]+)') then coalesce(regexp_match(text, 'https?://([^/)]+)')[1], 'a service')
      when regexp_like(text, '^(Error: )?(Connection refused|Connection timed out|No route to host|Network is unreachable) [(]os error 1[01][0-9][)]$') then 'a service'
      -- The error behind the program's own words, only in a field for errors, and only while requests fail: a
      -- message as a whole may have a visitor's words at its end.
      when is_field and regexp_like(text, '^[A-Za-z0-9_][A-Za-z0-9_ .,()/=#:-]*: (dial (tcp|unix) [^ ]+: (connect: [a-z ]+|i/o timeout)|dial tcp: lookup [^ ]+( on [^ ]+)?: [a-z /]+|(read|write) tcp [^ ]+->[^ ]+: ((read|write): connection reset by peer|i/o timeout)|context deadline exceeded|connect (ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH) [^ ]+|getaddrinfo (ENOTFOUND|EAI_AGAIN) [^ ]+|Connection refused|Connection timed out|No route to host)$')
        then concat('~', coalesce(regexp_match(text, 'dial (?:tcp|unix) ([^ ]+): (?:connect|i/o)')[1], regexp_match(text, 'lookup ([^ ]+?)(?: on [^ ]+)?: [a-z /]+$')[1], regexp_match(text, '->([^ ]+): ')[1], regexp_match(text, '(?:E[A-Z_]+) ([^ ]+)$')[1], 'a service'))
      when regexp_like(text, '^(Error: read E(CONNRESET|TIMEDOUT)|context deadline exceeded|(ConnectionResetError|TimeoutError|socket\.timeout): ?(\[Errno 1(04|10)\] .*|timed out|The read operation timed out)?)$') then '~a service'
    end as target,
    case
      when regexp_like(text, '(wrong version number|WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|packet length too long|unrecognized SSL message|HTTP response to HTTPS client)') then 'protocol'
      when regexp_like(text, '^docker resolver ') then 'resolver'
      when regexp_like(text, '(certificate has expired|issuer certificate|first certificate|[Ss]elf[- ]signed certificate|does not match certificate|certificate verify failed|CERTIFICATE_VERIFY_FAILED|x509: |PKIX path|CertificateExpired|cURL error 60|alternative |SSL connection could not|No name matching|remote certificate )') then 'certificate'
      when regexp_like(text, '(ENOTFOUND|EAI_AGAIN|lookup [^ ]+|UnknownHost|translate host name|Name or service not known|Name does not resolve|no such host|Temporary failure in name|getaddrinfo|gaierror|NameResolutionError|Unknown (MySQL )?server host|Could not resolve host|ConnectorDNSError|nxdomain|[Ff]ailed to resolve|Name does not)') then 'name'
      when regexp_like(text, '(EADDRNOTAVAIL|annot assign requested address)') then 'ports'
      when regexp_like(text, '(ECONNREFUSED|econnrefused|[Cc]onnection refused|Error 111 |[Rr]efused|Connect call failed|No such file|os error 111)') then 'refused'
      when regexp_like(text, '(ETIMEDOUT|i/o timeout|[Tt]imed out|SocketTimeout|[Tt]imeout|deadline exceeded|DEADLINE_EXCEEDED|DeadlineExceeded|cURL error 28|execution expired|not present in metadata|buffering)') then 'timeout'
      when regexp_like(text, '(EHOSTUNREACH|ENETUNREACH|[Nn]o route to host|unreachable|Error 113 )') then 'unreachable'
      when regexp_like(text, '(reset by peer|ECONNRESET|Connection reset|socket hang up|[Cc]losed|[Dd]isconnected|Connection aborted|failed to respond|StreamLost|Broken pipe|broken pipe|ReadError|ClientOSError|Exception while (reading|writing))') then 'broken'
      else 'failed'
    end as reason
  from own
),
counted as (
  select host, program, target, reason, count(*) as lines, max(substr(body, 1, 160)) as line, bool_and(is_behind) as is_behind,
    row_number() over (partition by host, program, target order by count(*) desc, reason) as place,
    max(case when target <> 'a service' and count(*) >= 3 and not bool_and(is_behind) then 1 else 0 end) over (partition by host, program, reason) as is_named
  from (select host, program, substr(ltrim(target, '~'), 1, 80) as target, target like '~%' as is_behind, reason, body from matched) m where target is not null
  group by host, program, target, reason
),
addressed as (
  select *, coalesce(regexp_match(target, '(?::| port )([0-9]{1,5})(?:/[^ ]*)?$')[1], regexp_match(line, '", port ([0-9]{1,5}) failed')[1]) as port
  from counted
  -- A traceback repeats the failure without the address.
  where place = 1 and (target <> 'a service' or is_named = 0)
),
-- Which database listens there: as weir's own probe knows it, by the usual port, or in the driver's words.
stores as (
  select host as store_host, regexp_match(server_address, ':([0-9]+)$')[1] as store_port, max(system) as system
  from db_server
  where ts > $now - interval '30 seconds' and ts <= $now
  group by host, store_port
),
named as (
  select a.*,
    case
      when s.system is not null then s.system
      when a.port = '5432' then 'postgresql' when a.port = '6432' then 'pgbouncer' when a.port = '3306' then 'mysql' when a.port = '6033' then 'proxysql'
      when a.port = '6379' then 'redis' when a.port = '27017' then 'mongodb' when a.port in ('5671', '5672') then 'rabbitmq' when a.port in ('9200', '9300') then 'elasticsearch'
      when a.port = '9092' then 'kafka' when a.port = '2379' then 'etcd' when a.port = '11211' then 'memcached'
      when regexp_like(a.line, '^[A-Za-z0-9_.:(]*(psycopg|PG::|asyncpg|PSQLException|Npgsql|Postgrex|org[.]postgresql|pg_p?connect)|^connection to server (at|on) "|^failed to connect to `') or regexp_like(a.target, '(?i)^(postgres|pg[-_0-9:.]|pg$)') then 'postgresql'
      when regexp_like(a.line, '^[A-Za-z0-9_.:(]*([Pp]y[Mm]y[Ss][Qq][Ll]|[Mm]y[Ss][Qq][Ll]|Trilogy|MyXQL)|SQLSTATE\[HY000\] ?\[200') or regexp_like(a.target, '(?i)^(mysql|mariadb)') then 'mysql'
      when regexp_like(a.line, '^[A-Za-z0-9_.:(]*([Rr]edis|Predis|Jedis|Lettuce)') or regexp_like(a.target, '(?i)(redis|valkey)') then 'redis'
      when regexp_like(a.target, '(?i)^mongo') then 'mongodb' when regexp_like(a.target, '(?i)^(rabbit|amqp)') then 'rabbitmq'
      when regexp_like(a.target, '(?i)^(elastic|opensearch)') then 'elasticsearch' when regexp_like(a.target, '(?i)^kafka') then 'kafka'
      when regexp_like(a.target, '(?i)^memcache') then 'memcached'
      -- A service that refuses is gone; one that is late may wait for a database itself.
      when a.port is not null and a.reason = 'refused' then 'other'
    end as store
  from addressed a
  left join stores s on s.store_host = a.host and s.store_port = a.port
),
answers as (
  select host, count(*) as requests, count(*) filter (where http_response_status_code >= 500 or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '30 seconds' and ts <= $now
  group by host
)
select c.host, c.program, c.program as log_program, c.target, c.lines, c.line, a.requests, a.failed,
  case when c.program in ('nginx', 'apache', 'apache2', 'httpd') or c.program like 'php%' then 'PHP' when c.program = 'other' then 'an application' else c.program end as shown,
  -- A pooler's failure may be that of the database behind it, and the other way round.
  case c.store when 'postgresql' then 'postgresql, pgbouncer' when 'pgbouncer' then 'pgbouncer, postgresql' when 'mysql' then 'mysqld, proxysql' when 'proxysql' then 'proxysql, mysqld' else c.store end as database_program,
  case when c.port is null then case c.store when 'postgresql' then 'postgresql, 5432' when 'mysql' then 'mysqld, 3306' when 'redis' then 'redis, 6379' else c.store end
    when c.store = 'pgbouncer' then concat(c.port, ', postgresql') when c.store = 'proxysql' then concat(c.port, ', mysqld') else c.port end as service_names,
  -- What cannot be the reason of this failure.
  case when c.reason in ('certificate', 'protocol') then '' when c.reason = 'ports' then 'tcp.ephemeral_exhausted' end as explained_by,
  case c.reason when 'refused' then 'dns.name_failing, tcp.ephemeral_exhausted, wire.host_unreachable, wire.connect_unanswered, kernel.neighbor_table_full, nic.errors, app.service_hangs'
    when 'name' then 'db.not_answering, db.server_log, tcp.ephemeral_exhausted, wire.connect_unanswered, app.service_hangs'
    when 'resolver' then 'db.not_answering, db.server_log, tcp.ephemeral_exhausted, app.service_hangs'
    when 'ports' then null else 'tcp.ephemeral_exhausted' end as not_explained_by,
  c.reason as reason_text,
  c.reason as why_text,
  c.reason as fix_text,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case when a.requests >= 10 and a.failed >= 0.2 * a.requests then 'page'
    when c.target = 'a service' and a.requests >= 10 and a.failed = 0 then 'note' else 'mail' end as class
from named c
left join answers a on a.host = c.host
where c.lines >= 3 and (not c.is_behind or a.failed >= 5 and a.failed >= 0.05 * a.requests and c.lines >= 0.2 * a.failed)
