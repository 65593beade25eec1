//! Every key of the configuration file: name, kind, default, unit, reason. A new key is one entry
//! here.

use std::path::PathBuf;

use toml::Value;

use weir_probe::check::CheckSpec;

use super::buckets::NamedBucket;
use super::checks::NamedCheck;
use super::databases::NamedDatabase;
use super::heal::HealBlock;
use super::key::Key;
use super::key_macro::keys;
use super::logins::NamedLogin;
use super::logs::NamedLog;
use super::notify::NotifyEntries;
use super::outputs::OutputEntry;
use super::scrape::ScrapeTarget;
use super::setting::Setting;
use super::slos::SloSpec;
use super::templates::MessageTemplate;

keys! {
    /// The web page and the HTTP API.
    api: Api {
        /// Where the page and the API are served. Loopback by default, because rows hold addresses
        /// of visitors; beyond loopback it must speak TLS, or `api.plain_http` must be set. Port 0
        /// takes any free port.
        listen: String = "127.0.0.1:4770".into(), "address:port";
        /// A file whose first line is the login that may do everything: sent as
        /// `Authorization: Bearer …`, or as the password of HTTP Basic with any user name, so that
        /// browsers can use it. At least 16 characters. Without it the hub makes one at its first
        /// start, in the file `login` of `store.dir`, and root and weir's own user need none on
        /// this host. Logins that may do less: `[[logins]]`.
        token_file: Option<PathBuf> = None, "";
        /// The certificate chain (PEM) with which page and API speak TLS. Not set: plain HTTP.
        tls_certificate_file: Option<PathBuf> = None, "";
        /// Private key of `tls_certificate_file` (PEM).
        tls_key_file: Option<PathBuf> = None, "";
        /// Whether page and API may be served without TLS beyond loopback, where logins and rows can
        /// be read on the way: behind a proxy that speaks TLS, or in a network of one's own.
        plain_http: bool = false, "";
        /// Names besides `localhost`, this host's name and plain addresses under which the page may
        /// be requested. Other names in the header `Host` are refused, so that a foreign web page
        /// cannot rebind its own name to this address.
        host_names: Vec<String> = Vec::new(), "";
        /// Serves the page from this directory instead of the built-in one: save, reload, no tool.
        ui_dir: Option<PathBuf> = None, "";
        /// Queries that run at the same time; more wait for their turn. Four keep two cores busy
        /// and the memory bounded.
        concurrent_queries: u64 = 4, "queries";
        /// A query that takes longer is ended with an error, so that one bad query does not take
        /// the store away from the rules.
        query_timeout_seconds: u64 = 30, "s";
        /// How many of them may be of one user (of HTTP Basic, else one address); more of that user
        /// wait, and others go first.
        user_queries: u64 = 3, "queries";
        /// Memory that all running queries of users may use together. Rules have a quarter of it
        /// beside that.
        query_memory_bytes: u64 = 512 << 20, "B";
        /// Memory that one of them may use. Sorting, grouping and joins that need more spill to
        /// files below `store.dir`.
        one_query_memory_bytes: u64 = 384 << 20, "B";
        /// Decoded columns of files stay in memory up to this size, so that the next queries need
        /// not read and decode them again (docs/store.md#columns-in-memory). 0: none stay.
        column_cache_bytes: u64 = 256 << 20, "B";
        /// Disk space of all running queries for what does not fit into memory. It ends before the
        /// disk has less than twice `store.min_free_bytes`. 0: queries that need more memory end.
        query_spill_bytes: u64 = 4 << 30, "B";
        /// A query that needs to read more from files is ended. 0 sets no limit.
        query_read_bytes: u64 = 16 << 30, "B";
        /// What all queries of one user together may read from files within an hour; then they are
        /// ended, until the hour has moved on. 0 sets no limit.
        user_read_bytes: u64 = 256 << 30, "B";
        /// A query with a larger result is ended; all its rows count, as they are in memory.
        answer_bytes: u64 = 64 << 20, "B";
        /// Queries that take at least this long get a row in `slow_query`; queries that exceed a
        /// limit always get one.
        slow_query_milliseconds: u64 = 1_000, "ms";
        /// Largest body of a parcel that an agent may send.
        parcel_bytes: u64 = 64 << 20, "B";
        /// Largest capture that may be dropped on the page. It is held in memory while it is read,
        /// and not kept.
        capture_bytes: u64 = 64 << 20, "B";
    }
    /// Where rows are kept, and for how long.
    store: Store {
        /// The data directory. Default: `/var/lib/weir` for root, else `$XDG_DATA_HOME/weir` or
        /// `~/.local/share/weir`.
        dir: PathBuf = super::place::data_dir(), "";
        /// Rows in memory before they are written to Parquet files. More means larger files, better
        /// packed.
        hot_bytes: u64 = 128 << 20, "B";
        /// Rows older than this are written to Parquet files although `store.hot_bytes` is not
        /// reached, so that the write-ahead log stays short.
        flush_seconds: u64 = 300, "s";
        /// Rows that came in longer ago than this are deleted, by whole files, whatever time they
        /// say of themselves. 0 keeps them for ever. Findings are kept.
        retention_days: u64 = 30, "days";
        /// The oldest files are deleted while all files together are larger. 0 sets no limit.
        retention_bytes: u64 = 0, "B";
        /// Where files move as they grow old, and queries read them: a directory on a slower,
        /// cheaper disk, or `s3://BUCKET/PREFIX` (docs/store.md#move-old-files-to-a-cold-tier). Without it nothing
        /// moves.
        slow_path: Option<PathBuf> = None, "";
        /// Files move when their last row came in longer ago than this.
        slow_after_days: u64 = 7, "days";
        /// `store.slow_after_days` for single tables: `["request=2", "log=14"]`.
        slow_after_days_of: Vec<String> = Vec::new(), "days";
        /// The oldest files move earlier while all files in `store.dir` together are larger. 0 sets
        /// no limit.
        fast_bytes: u64 = 0, "B";
        /// `store.fast_bytes` for single tables: `["request=10737418240"]`.
        fast_bytes_of: Vec<String> = Vec::new(), "B";
        /// For a bucket: where the service is, such as `http://minio:9000`. Empty is Amazon's.
        slow_endpoint: String = String::new(), "URL";
        /// For a bucket: the region. Empty takes what the environment says.
        slow_region: String = String::new(), "";
        /// For a bucket: the access key. Without it, keys are those of the environment or of the
        /// machine's role.
        slow_user: String = String::new(), "";
        /// For a bucket: a file whose first line is the secret key.
        slow_password_file: Option<PathBuf> = None, "";
        /// For a bucket: an authority (PEM) that the service's certificate may be of, beside the
        /// system's.
        slow_ca_file: Option<PathBuf> = None, "";
        /// For a bucket: timeout of a request with all its retries; each may take a third of it.
        /// Below `api.query_timeout_seconds`, so that a query fails with the reason.
        slow_timeout_seconds: u64 = 20, "s";
        /// For a bucket: concurrent requests, of all queries and moves together. `weir bench store`
        /// measures the best value.
        slow_requests: u64 = 64, "";
        /// For a bucket: a read that has no answer after this is sent a second time (hedged), at
        /// most five of a hundred. 0 turns it off.
        slow_hedge_milliseconds: u64 = 500, "ms";
        /// For a bucket: parts of a file that are nearer to each other than this are read with one
        /// request.
        slow_join_bytes: u64 = 131_072, "B";
        /// For a bucket: footers and text indexes of its files are kept in `store.dir` up to this,
        /// so that a search fetches only the rows that it needs. 0 keeps none.
        slow_cache_bytes: u64 = 10 << 30, "B";
        /// For a bucket: what a million requests that read cost, for `weir query --dry-run` and the
        /// page.
        slow_cents_per_million_reads: u64 = 40, "cents";
        /// For a bucket: what it costs to read 10⁹ bytes. Amazon takes nothing within a region, and
        /// 9 out of it.
        slow_cents_per_gigabyte: u64 = 0, "cents";
        /// Rows that are further ahead of this host's clock are kept apart until their time comes:
        /// `select * from future.log` shows those of `log`, `weir_store_future_rows` of `/metrics`
        /// counts them.
        future_seconds: u64 = 86_400, "s";
        /// Files that were merged, moved or whose time is over stay this long for other programs
        /// that read them, such as engines that attach to the tables (docs/iceberg.md). Set it
        /// above the time that their longest query takes.
        grace_seconds: u64 = 60, "s";
        /// Every file in `store.dir` is read once within this time, at most 8 MiB/s, so that damage
        /// is found while a backup still has the file. 0: damage is found when a query reads it.
        scrub_days: u64 = 30, "days";
        /// New rows are refused below this much free space, so that the disk never fills up; what
        /// was acknowledged is kept, and weir resumes when space is free again. 0 means 256 MiB or
        /// 1 % of the file system, whichever is smaller.
        min_free_bytes: u64 = 0, "B";
    }
    /// A hub as one of several over one manifest and one place for files (docs/cluster.md).
    cluster: Cluster {
        /// The PostgreSQL that has the manifest: `postgresql://weir@db/weir`; `?sslmode=require`
        /// encrypts and verifies. Empty: a hub alone.
        manifest: String = String::new(), "URL";
        /// A file whose first line is its password.
        password_file: Option<PathBuf> = None, "";
        /// An authority (PEM) that its certificate may be of, instead of the system's.
        ca_file: Option<PathBuf> = None, "";
        /// The schema of its tables there; made when it is missing.
        schema: String = "weir".into(), "";
        /// What this hub is called, unlike all others. Empty takes `collect.host`.
        name: String = String::new(), "";
        /// Where the other hubs reach the page and API of this one: `http://10.0.0.5:4770`. Empty
        /// takes `api.listen`, with the host's name in the place of 0.0.0.0; `https://` where the
        /// API speaks TLS.
        address: String = String::new(), "URL";
        /// A file whose first line is the login of the hubs among each other, the same on all of
        /// them. It may do nothing else. Without it they use `api.token_file`.
        token_file: Option<PathBuf> = None, "";
        /// A query that reads more bytes of files than this is dealt out to all hubs: each reads
        /// some of the files.
        spread_bytes: u64 = 256 << 20, "B";
    }
    /// Notices of incidents to people and other systems (docs/notify.md).
    notify: Notify {
        /// Address of the page for links in messages: `https://weir.example.net`. Empty: no links.
        public_url: String = String::new(), "URL";
        /// Dead man's switch: fetched each minute while pages can be sent, else its `/fail`.
        heartbeat_url: String = String::new(), "URL";
        /// Target of the weekly report: `everyone`, a person, a receiver or `rota:NAME`. Empty: none.
        report_to: String = String::new(), "";
    }
    /// Repairs of hosts by `[[heals]]` (docs/heal.md).
    heal: Heal {
        /// Whether repairs are considered. Each starts by recording only.
        enabled: bool = false, "";
        /// Runs of the whole fleet within an hour.
        fleet_per_hour: u64 = 10, "runs";
        /// How long an approval is awaited.
        answer_minutes: u64 = 15, "min";
        /// When this many findings begin within a minute, nothing is repaired for 10 minutes.
        storm_findings: u64 = 10, "findings";
    }
    /// PostgreSQL's protocol, for psql, Grafana and other clients (docs/postgresql.md). Database
    /// `weir`, any user.
    pg: Pg {
        /// Where clients connect to. The password of a user that `[[logins]]` names is that login,
        /// of every other user the one that may do everything (`api.token_file`). Empty listens
        /// nowhere.
        listen: String = String::new(), "address:port";
        /// The certificate chain (PEM) for clients that ask for TLS.
        tls_certificate_file: Option<PathBuf> = None, "";
        /// Private key of `tls_certificate_file` (PEM).
        tls_key_file: Option<PathBuf> = None, "";
        /// Whether connections without TLS are turned away.
        require_tls: bool = false, "";
    }
    /// Collection on this host.
    collect: Collect {
        /// The name of this host in every row. Default: the kernel's host name.
        host: String = super::place::host_name(), "";
        /// What this host is for, such as `web`: shown with it, and a group of hosts in rules.
        role: String = String::new(), "";
        /// Where this host is, such as `fra1`: a probe's failure is the target's if hosts of two
        /// zones see it.
        zone: String = String::new(), "";
        /// Whether health digests of applications are searched at local listeners, and read every 5 s
        /// (docs/checks.md#digest).
        health_digests: bool = true, "";
        /// Listeners that are never queried for a health digest: ports (`"8125"`) and names of processes,
        /// with `*` at the end for any text (`"java"`, `"worker*"`).
        health_digests_exclude: Vec<String> = Vec::new(), "";
        /// The root below which files are read. Another one is for recorded hosts and for
        /// containers that see the host's file system under a path.
        root: PathBuf = "/".into(), "";
        /// Log files to read besides those found by themselves: paths or globs with `*` and `?` in
        /// the last component. These are read from their beginning.
        tail: Vec<String> = Vec::new(), "";
        /// Whether log files are discovered in the configurations of nginx, HAProxy and Apache, in
        /// `/var/log`, in the directories of containers, in the journal, and where listening processes write.
        find_logs: bool = true, "";
        /// Whether the kernel's figures are sampled, once a second.
        sample_host: bool = true, "";
        /// How often configurations and log directories are scanned. A new listener of a web server
        /// is followed at once.
        discover_seconds: u64 = 10, "s";
        /// Rotated parts of logs, also compressed ones, that were written within this many days and
        /// that the hub does not know are read too, oldest first and with lower priority than live
        /// logs. 0 reads none of them: a new agent then reads the last 64 MiB of a discovered log,
        /// all of a named one, and what is rotated from then on.
        backfill_days: u64 = 0, "days";
        /// Bytes of log lines that may be on their way to the store at one time; reading stops
        /// above.
        in_flight_bytes: u64 = 16 << 20, "B";
    }
    /// How lines of logs are understood (`docs/parsers.md`).
    parsers: Parsers {
        /// A directory with pipelines (`*.toml`) and patterns (`*.grok`); a pipeline with the name
        /// of a built-in one replaces that. A file that cannot be used ends the start, because
        /// going on without it could send what it redacts.
        dir: Option<PathBuf> = None, "";
        /// What is redacted in every line before it leaves this host: `email`, `card`, `token`,
        /// `client_address`.
        redact: Vec<String> = Vec::new(), "";
        /// The zone of times that name none: `local` (this host's `/etc/localtime`), a name such as
        /// `Europe/Berlin`, or an offset such as `+02:00`. A pipeline's own zone goes over it.
        time_zone: String = "local".into(), "";
        /// Distinct names of attributes that one file may bring; values of further names are kept
        /// together in the attribute `weir.more`, counted, and reported by the rule
        /// `log.key_explosion`.
        distinct_keys: u64 = 1_000, "names";
    }
    /// The rules that run over the rows.
    rules: Rules {
        /// A directory with rule files (`*.sql`); one with the id of a built-in rule replaces that.
        dir: Option<PathBuf> = None, "";
        /// How often the rules that are due are run. Findings appear at most this much later than
        /// their cause shows.
        every_seconds: u64 = 1, "s";
    }
    /// How a hub takes what agents send (`docs/formats/link.md`): TLS 1.3 with certificates on both
    /// sides.
    link: Link {
        /// Where agents connect. `weir hub` opens it when the first agent is invited, or at start
        /// when this key is set; `weir up` only when it is set. Nothing passes the handshake
        /// without the hub's certificate or an invitation.
        listen: String = "0.0.0.0:4771".into(), "address:port";
        /// Where agents find this hub, best first: what join tokens say. Default: the address it
        /// listens on, or this host's name.
        addresses: Vec<String> = Vec::new(), "host:port";
        /// Agents that may be connected at one time; further agents are refused and try another
        /// hub.
        connections: u64 = 4096, "connections";
        /// How long an agent's certificate is valid. It is renewed by itself when a third is left,
        /// so an agent may be off for that long before it has to join again.
        certificate_days: u64 = 90, "days";
        /// Hosts whose rows an agent may send besides those of its own name: `"relay1: db1"`, or with
        /// `*` for any characters `"relay1: db*"`. Rows of other hosts are refused.
        speaks_for: Vec<String> = Vec::new(), "";
        /// Each side says something at least this often; after three times this in silence the
        /// connection is cut.
        heartbeat_seconds: u64 = 5, "s";
    }
    /// How an agent reaches its hub, and what it may cost its host.
    agent: Agent {
        /// Hubs, best first: the agent fails over to the next. When empty, the hubs that the join
        /// token named. One `http://…` instead is for a hub on the same host, without certificates.
        hubs: Vec<String> = Vec::new(), "host:port";
        /// Where the agent keeps its certificate and its spool. Default: `/var/lib/weir-agent` for
        /// root, else `$XDG_DATA_HOME/weir-agent` or `~/.local/share/weir-agent`.
        dir: PathBuf = super::place::agent_dir(), "";
        /// A file whose first line is the hub's login; for `http://` only.
        token_file: Option<PathBuf> = None, "";
        /// Disk space for samples that no hub has in its tables yet: those of about an hour. Log
        /// lines need none, they are read again from their files. When full, the oldest samples are
        /// dropped and counted.
        spool_bytes: u64 = 64 << 20, "B";
        /// Disk space for rests of deleted logs, packed to about a tenth (`docs/formats/rest.md`).
        /// A log that is deleted while no hub takes its lines holds its space as long as it is
        /// open; with its rest copied it is closed. 0 copies none.
        rest_bytes: u64 = 256 << 20, "B";
        /// How long a deleted log may hold its space before its rest is copied.
        deleted_seconds: u64 = 300, "s";
        /// Where a log's file system is fuller than this, the rest of a deleted log is copied as
        /// soon as no process writes to it any more; if `agent.rest_bytes` is too small for it, its
        /// lines are dropped, and counted in `log_gap`.
        deleted_used_percent: u64 = 90, "%";
        /// Memory limit of the agent (resident set). Buffers get a share of it: a chunk of lines is
        /// at most a 256th (and a line no longer than a chunk), chunks in flight an eighth, parcels
        /// a sixteenth; near the limit, reading of logs pauses. At least 32 MiB; 0 sets no limit.
        memory_bytes: u64 = 256 << 20, "B";
        /// Parcels that may be on their way to the hub at one time; more only helps over long and
        /// fast lines.
        window_bytes: u64 = 4 << 20, "B";
        /// How much the agent yields to other programs when they want the processor: 0 not at all,
        /// 19 always.
        nice: u64 = 5, "";
        /// Whether the agent's disk requests wait for those of all other programs.
        idle_io: bool = true, "";
        /// Processor time that the agent may use, of one processor; above, reading of logs waits. 0
        /// sets no limit.
        cpu_percent: u64 = 100, "%";
        /// How fast the agent sends; one second's worth may go at once. 0 sets no limit.
        bandwidth_bytes: u64 = 0, "B/s";
        /// Samples kept in memory while the hub does not answer; for `http://` only.
        buffer_bytes: u64 = 4 << 20, "B";
    }
    /// Repairs of this host on orders of the hub (docs/act.md). The agent carries orders; root's
    /// helper weir-act decides and runs them.
    act: Act {
        /// The socket of weir-act. Where nothing listens, every order is refused.
        socket: PathBuf = "/run/weir/act.sock".into(), "";
    }
    /// What other people's shippers may send here (docs/intake.md). Nothing is listened on unless
    /// it is named.
    intake: Intake {
        /// Where protocols over HTTP and gRPC are taken: JSON lines, Elasticsearch's bulk protocol,
        /// OTLP, Prometheus remote write, Loki's push; all of them on each address.
        http: Vec<String> = Vec::new(), "address:port";
        /// Addresses of the same HTTP endpoints over TLS, with `intake.tls_certificate_file`.
        https: Vec<String> = Vec::new(), "address:port";
        /// Syslog over UDP. The kernel's losses at a full buffer are counted in `intake_run`.
        syslog_udp: Vec<String> = Vec::new(), "address:port";
        /// Syslog over TCP: frames end at a newline or NUL, or have an octet count.
        syslog_tcp: Vec<String> = Vec::new(), "address:port";
        /// Syslog over TLS.
        syslog_tls: Vec<String> = Vec::new(), "address:port";
        /// Fluent's forward protocol, as Fluentd and Fluent Bit speak it.
        fluent: Vec<String> = Vec::new(), "address:port";
        /// Addresses for the same protocol over TLS.
        fluent_tls: Vec<String> = Vec::new(), "address:port";
        /// A file whose first line is the shared key that Fluent's clients have to know. At least
        /// 16 characters.
        fluent_shared_key_file: Option<PathBuf> = None, "";
        /// Lumberjack 1 and 2, as the Logstash outputs of Beats and Logstash speak it.
        lumberjack: Vec<String> = Vec::new(), "address:port";
        /// Addresses for the same protocol over TLS.
        lumberjack_tls: Vec<String> = Vec::new(), "address:port";
        /// GELF over UDP, packed and in chunks.
        gelf_udp: Vec<String> = Vec::new(), "address:port";
        /// GELF over TCP, each message ending in NUL or a newline.
        gelf_tcp: Vec<String> = Vec::new(), "address:port";
        /// statsd over UDP.
        statsd_udp: Vec<String> = Vec::new(), "address:port";
        /// Graphite's plaintext protocol over TCP.
        graphite_tcp: Vec<String> = Vec::new(), "address:port";
        /// NSCA: passive results of checks, as `send_nsca` sends them (docs/checks.md).
        nsca: Vec<String> = Vec::new(), "address:port";
        /// Encryption of NSCA's clients: `none`, `xor` or `aes256` (0, 1 and 14 in send_nsca.cfg).
        nsca_encryption: String = "aes256".into(), "";
        /// A file whose first line is the password of NSCA's clients.
        nsca_password_file: Option<PathBuf> = None, "";
        /// Which senders may report results of checks about which hosts: `"10.0.0.0/8: web*"`, with
        /// `*` for any characters. Without entries every sender may report about every host.
        check_hosts: Vec<String> = Vec::new(), "";
        /// When a passive result is overdue whose sender states no time; 0 goes by its usual rhythm.
        check_ttl_seconds: u64 = 0, "s";
        /// The certificate chain (PEM) for everything over TLS here.
        tls_certificate_file: Option<PathBuf> = None, "";
        /// Private key of `tls_certificate_file` (PEM).
        tls_key_file: Option<PathBuf> = None, "";
        /// An authority (PEM): over TLS only senders with a certificate of it are accepted, and
        /// syslog needs no login.
        tls_client_ca_file: Option<PathBuf> = None, "";
        /// A file whose first line is the login of protocols over HTTP: `Authorization: Bearer …`,
        /// the password of HTTP Basic, or the key of `ApiKey`. When set, it is needed from
        /// everywhere. At least 16 characters.
        token_file: Option<PathBuf> = None, "";
        /// Networks that may send without a login, such as `10.0.0.0/8`, besides this machine
        /// itself. An address that others can reach is listened on only with a login or with this.
        allow: Vec<String> = Vec::new(), "";
        /// Largest body of a request, unpacked. Shippers send 1 to 10 MiB at a time.
        body_bytes: u64 = 16 << 20, "B";
        /// Bytes of bodies and frames, decompressed, that may be processed at one time, all senders
        /// together; further requests are answered with "retry later". One address gets at most half
        /// of it for one protocol.
        in_flight_bytes: u64 = 64 << 20, "B";
        /// Receive buffer of each UDP socket. Root gets it in full; for others the kernel's
        /// `net.core.rmem_max` is the limit.
        udp_buffer_bytes: u64 = 8 << 20, "B";
        /// Connections that may be open at one time; more wait in the kernel's queue. One address gets
        /// at most a quarter of them for one protocol; more are closed.
        connections: u64 = 1024, "connections";
        /// How long identities that shippers give (`_id`, `Idempotency-Key`) are remembered, so
        /// that what is sent again is kept once, also after a restart. At most 500,000 of them.
        known_seconds: u64 = 3600, "s";
        /// The version of Elasticsearch that is reported to shippers. Beats refuse to send to one
        /// that is older than they are.
        elasticsearch_version: String = "8.19.0".into(), "";
    }
    /// Packets that are watched all the time (docs/wire.md). Needs CAP_NET_RAW; nothing is watched
    /// unless an interface is named.
    wire: Wire {
        /// Interfaces: `eth0`, `lo`, `any` for all of them, or `NETNS/eth0` in a named network
        /// namespace. They are not made promiscuous.
        interfaces: Vec<String> = Vec::new(), "";
        /// Ports of servers on this host and of the upstreams that it asks, at most 32. Empty
        /// watches all of TCP.
        ports: Vec<u16> = vec![80, 443, 8080], "";
        /// Bytes kept of each packet from its IP header on: enough for the head of a request. Of
        /// what is read, only method, host, path without query, status and request id get into
        /// rows.
        snap_bytes: u64 = 512, "B";
        /// Memory that the kernel fills with packets, for each interface.
        ring_bytes: u64 = 16 << 20, "B";
        /// Connections that are followed at one time, for each interface; 400 bytes each. Idle ones
        /// are given up first.
        connections: u64 = 100_000, "connections";
        /// Processor time that each interface may cost, of one processor. Above, fewer connections
        /// are followed, each of them whole; rows say of which share they are (`sampled_ratio`).
        cpu_percent: u64 = 25, "%";
        /// Requests that get a row, for each interface. Above this rate, fewer connections get
        /// rows; slices still count all.
        requests_per_second: u64 = 1_000, "requests/s";
    }
    /// What TCP sockets do, counted in the kernel by eBPF (docs/wire.md). Needs a weir that was
    /// built with `--features ebpf`, and CAP_BPF and CAP_PERFMON.
    ebpf: Ebpf {
        /// Whether it is counted: tables `tcp_state`, `tcp_peer` and `tcp_accept`.
        enabled: bool = false, "";
        /// Whether waits for accept() are measured. This adds a probe at the end of every system
        /// call of the host.
        accept_wait: bool = true, "";
        /// Connections that are in accept queues at one time; 96 bytes of the kernel's memory each.
        /// More are not timed, and said.
        queued: u64 = 65_536, "connections";
        /// Peers with retransmits or resets that are distinguished within a second; 120 bytes of
        /// kernel memory each.
        peers: u64 = 8_192, "peers";
        /// Rows of `tcp_peer` for each second: the peers with most; the others are summed.
        peer_rows: u64 = 100, "rows/s";
    }
    /// The load balancer and beacon collector (docs/edge.md): `weir edge`, or any role of weir that
    /// finds `edge.listen` set. SIGHUP reads all of it again and changes to it without closing a
    /// connection.
    edge: Edge {
        /// Addresses that clients connect to. Nothing is served unless one is named, here or in
        /// `edge.listen_tls`.
        listen: Vec<String> = Vec::new(), "address:port";
        /// Addresses that clients connect to with TLS 1.2 or 1.3; HTTP/2 is offered there.
        listen_tls: Vec<String> = Vec::new(), "address:port";
        /// Addresses where clients speak HTTP/2 from the first byte, without TLS (h2c), such as
        /// gRPC's within a data centre.
        listen_h2c: Vec<String> = Vec::new(), "address:port";
        /// Those of the addresses above on which each connection begins with a PROXY protocol
        /// header (1 or 2) of a balancer in front.
        proxy_header_from: Vec<String> = Vec::new(), "address:port";
        /// Networks of these balancers. Connections from other networks carry no header: their peer is
        /// the client.
        proxy_header_trusted: Vec<String> = super::place::private_networks(), "";
        /// Networks of HTTP proxies in front, such as `10.0.0.0/8`. From them, `X-Forwarded-*`,
        /// `X-Real-IP` and `Forwarded` are kept, and rows show the client that they name; from
        /// others, these fields are removed.
        trusted_proxies: Vec<String> = Vec::new(), "";
        /// Certificate chains (PEM). The first is for names that no other has. Files that change
        /// are read again within five seconds.
        tls_certificate_files: Vec<String> = Vec::new(), "";
        /// Private keys of the certificates (PEM), in the same order.
        tls_key_files: Vec<String> = Vec::new(), "";
        /// Certificates that the edge obtains and renews by itself (ACME): the names of each,
        /// parted by spaces, such as `["example.net www.example.net", "api.example.net"]`. With it
        /// you agree to the authority's terms. Empty obtains none.
        acme_names: Vec<String> = Vec::new(), "";
        /// Certificate authority: `letsencrypt`, `letsencrypt-staging` to try settings out, or the
        /// URL of another authority's directory.
        acme_directory: String = "letsencrypt".into(), "";
        /// Where the authority writes to when something is wrong: `mailto:web@example.net`.
        acme_contact: Vec<String> = Vec::new(), "";
        /// How names are proved: http-01 (the authority asks at port 80), tls-alpn-01 (at port
        /// 443), or auto: what the listeners can, and after a failure the other one.
        acme_challenge: String = "auto".into(), "";
        /// Where account and certificates are kept, for the edge's user only. Default: `acme` in
        /// `store.dir`.
        acme_dir: Option<PathBuf> = None, "";
        /// The authorities (PEM) that the certificate of `edge.acme_directory` itself must come
        /// from.
        acme_ca_file: PathBuf = "/etc/ssl/certs/ca-certificates.crt".into(), "";
        /// Where requests go: `10.0.0.5:8080`, or `10.0.0.5:8080*3` with a weight; weight 0 drains
        /// it; at its end may stand its zone, `@eu-1a`. Before the address may stand a pool,
        /// `api=10.0.0.7:8080`, and what is spoken there: `https://app.internal:8443`, `h2://…` for
        /// HTTP/2 over TLS, `h2c://…` for HTTP/2 without.
        backends: Vec<String> = Vec::new(), "address:port";
        /// Names of backends are looked up again after that, or after their TTL if that is less. Each
        /// address is a backend; one that stops resolving keeps its last addresses.
        resolve_seconds: u64 = 10, "s";
        /// Routes to pools: `api.example.net=api`, `*.example.net=all`, `/static/=files`,
        /// `shop.example/img/=files`; the first match wins. Requests that match none go to the
        /// backends without a pool. Paths are compared as received, not decoded.
        routes: Vec<String> = Vec::new(), "";
        /// The authorities (PEM) that certificates of backends must come from.
        backend_ca_file: PathBuf = "/etc/ssl/certs/ca-certificates.crt".into(), "";
        /// The edge's own certificate (PEM), for backends that ask for one.
        backend_certificate_file: Option<PathBuf> = None, "";
        /// Private key of the client certificate (PEM).
        backend_key_file: Option<PathBuf> = None, "";
        /// two_choices, least_connections, round_robin, or hash by the client's address.
        balance: String = "two_choices".into(), "";
        /// The zone that this edge is in. Requests stay with the backends of it
        /// (`10.0.0.5:8080@eu-1a`) as long as half of those are up; one that finds none there goes
        /// to another zone. Empty: zones do not matter.
        zone: String = String::new(), "";
        /// The path that takes beacons, such as `/ping`; the script for pages is at
        /// `/ping/weir.js`. Empty takes none.
        beacon: String = String::new(), "";
        /// Where `weir edge show`, `change`, `export` and `--replace` reach the edge; its user and
        /// root may. Default: `edge.sock` in `store.dir`.
        control_socket: Option<PathBuf> = None, "";
        /// Threads, each with its own listening sockets. 0: one for each CPU.
        threads: u64 = 0, "";
        /// Requested length of each accept queue. The kernel limits it to `net.core.somaxconn`; a
        /// warning is logged when it does.
        backlog: u64 = 4096, "connections";
        /// Open connections of all clients; more are reset and counted.
        connections: u64 = 100_000, "connections";
        /// Open connections of one IPv4 address or IPv6 /64; more are reset and counted.
        address_connections: u64 = 10_000, "connections";
        /// Requests on one connection, after which it is closed.
        connection_requests: u64 = 100_000, "requests";
        /// Largest head of a request; larger ones get 431. At least 8 KiB.
        head_bytes: u64 = 32 << 10, "B";
        /// Most header fields of a request.
        headers: u64 = 100, "";
        /// Largest body of a request; larger ones get 413.
        body_bytes: u64 = 64 << 20, "B";
        /// Time for a whole body of a request, however slowly it comes; after that, it gets 408. Not for
        /// streams (gRPC, a body whose answer has begun) and WebSockets. 0 sets no limit.
        body_seconds: u64 = 3600, "s";
        /// `edge.body_seconds` for single pools: `uploads=14400`; `=60` for backends without one.
        pool_body_seconds: Vec<String> = Vec::new(), "pool=s";
        /// For the TLS handshake, and for the PROXY header.
        handshake_seconds: u64 = 10, "s";
        /// Timeout for the whole head of a request, so that a slow sender cannot hold a connection.
        head_seconds: u64 = 10, "s";
        /// An idle connection of a client is closed after that: the keep-alive time-out. An idle
        /// one costs little (docs/edge.md).
        idle_seconds: u64 = 15, "s";
        /// `edge.idle_seconds` for single addresses: `0.0.0.0:80=5`. Beacons that come every 15 s
        /// want more than that, or less.
        listener_idle_seconds: Vec<String> = Vec::new(), "address:port=s";
        /// Longest pause of a client that sends a body or takes an answer. A body may pause for
        /// longer once its answer has begun.
        client_pause_seconds: u64 = 30, "s";
        /// How long a client that closed its side of the connection during a request, and receives
        /// nothing, is assumed to wait for the answer. A client that has gone looks the same, so a
        /// backend may work this long for no one; 0 ends such requests within a second or two.
        half_closed_seconds: u64 = 5, "s";
        /// Longest silence of a WebSocket, of a stream of events, and of a gRPC response.
        tunnel_idle_seconds: u64 = 600, "s";
        /// For connecting to a backend.
        connect_milliseconds: u64 = 2000, "ms";
        /// From the last byte of the request to the first of a backend's answer, and the longest
        /// pause within it.
        answer_seconds: u64 = 60, "s";
        /// An idle connection to a backend is closed after that. It must be less than the backend's
        /// own time-out, or requests are sent into connections that are being closed; the edge goes
        /// below it by itself where the backend tells (`Keep-Alive: timeout=5`) or shows its
        /// time-out. Four seconds are below the defaults of Node.js and Apache (5) and nginx (75).
        upstream_idle_seconds: u64 = 4, "s";
        /// `edge.pool_idle_seconds` for single pools: `api=30`; `=30` for backends without one.
        pool_idle_seconds: Vec<String> = Vec::new(), "pool=s";
        /// Requests under way at one backend; more wait. 0 sets no limit.
        in_flight: u64 = 0, "requests";
        /// Requests that may wait for a backend with room; more get 503.
        queue: u64 = 1024, "requests";
        /// How long they may wait.
        queue_milliseconds: u64 = 5000, "ms";
        /// Retries as a share of requests, beyond a hundred at once. 0 tries nothing again.
        retry_percent: u64 = 10, "%";
        /// Failures in a row that put a backend out.
        failures: u64 = 3, "requests";
        /// How long it is out the first time; doubled each time, up to 32 times that.
        ejection_seconds: u64 = 5, "s";
        /// A backend with two or more overdue requests that answers none for that long, while others
        /// answer, is out; what waits there and may be repeated goes elsewhere. Eight times its
        /// usual latency, when that is more.
        stall_milliseconds: u64 = 750, "ms";
        /// A request is overdue after twice what its route took lately, and after this at the
        /// latest. A route that is new gets all of it: it may be a long poll.
        stall_late_seconds: u64 = 60, "s";
        /// A backend that comes back gets its full share only after that.
        slow_start_seconds: u64 = 10, "s";
        /// When more backends than that look ill, none is believed to be, and all get requests.
        panic_percent: u64 = 50, "%";
        /// Path of the health check of each backend: a status below 400 is healthy, unless the body
        /// is a health report with another result (docs/edge.md#checks). `connect` only connects,
        /// with TLS where the backend has it. Empty: no active checks, only requests count.
        check: String = String::new(), "";
        /// Pause between two checks.
        check_milliseconds: u64 = 1000, "ms";
        /// Good checks in a row until a backend is well again.
        check_rise: u64 = 2, "checks";
        /// Bad checks in a row until it is ill.
        check_fall: u64 = 2, "checks";
        /// The PROXY protocol header that is sent to backends: off, v1 or v2. With one, each
        /// request has a separate connection.
        send_proxy_header: String = "off".into(), "";
        /// One request of this many gets a row of `request`, chosen by its id; `sampled_ratio` has
        /// the ratio. `edge_listener` counts all of them.
        record_one_of: u64 = 1, "requests";
        /// A file that gets a line of JSON for each row of `request`. It is opened for each batch,
        /// so rename it to rotate it.
        log_file: Option<PathBuf> = None, "";
    }
    /// HAProxys that are there already (docs/edge.md#an-haproxy-that-is-there-already).
    haproxy: Haproxy {
        /// Runtime sockets of HAProxy (`stats socket` in haproxy.cfg), as paths or HOST:PORT: for
        /// `weir haproxy` and the page. Changes need `level admin` there, and on the page a login.
        sockets: Vec<String> = vec!["/run/haproxy/admin.sock".into()], "";
    }
    /// Settings that are tried (docs/tune.md).
    tune: Tune {
        /// Where `weir tune --try` writes down what it sets, before it sets it. Whatever watches
        /// this host puts back from there what a trial that died had set. Default:
        /// `/var/lib/weir-tune` for root.
        dir: PathBuf = super::place::tune_dir(), "";
    }
    /// What weir says about itself.
    log: Log {
        /// error, warn, info, debug or trace; written to stderr.
        level: String = "info".into(), "";
    }
}
