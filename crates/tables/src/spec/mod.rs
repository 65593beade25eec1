//! The list of tables. A new table is one file in this directory and one line in this list, which
//! also says who writes it: an agent can write to no table of the hub.

/// Who writes the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableWriter {
    /// Collectors, on every host; of `action_run` the hub as well.
    Agent,
    /// Parts of the hub: rules, people, outputs, other shippers.
    Hub,
}

macro_rules! specs {
    ($($file:ident: $Row:ident, $Rows:ident, $writer:ident;)+) => {
        $(mod $file;)+
        $(pub use $file::{$Row, $Rows};)+
        pub(crate) const ALL: &[&crate::TableSpec] = &[$(&$Row::SPEC),+];
        pub(crate) const WRITERS: &[TableWriter] = &[$(TableWriter::$writer),+];
        #[cfg(test)]
        pub(crate) const FILES: &[&str] = &[$(stringify!($file)),+];
    };
}

specs! {
    request: Request, RequestRows, Agent;
    log: Log, LogRows, Agent;
    reject: Reject, RejectRows, Agent;
    log_gap: LogGap, LogGapRows, Agent;
    finding: Finding, FindingRows, Hub;
    listener: Listener, ListenerRows, Agent;
    unix_listener: UnixListener, UnixListenerRows, Agent;
    tcp_stat: TcpStat, TcpStatRows, Agent;
    tcp_state: TcpState, TcpStateRows, Agent;
    tcp_accept: TcpAccept, TcpAcceptRows, Agent;
    tcp_peer: TcpPeer, TcpPeerRows, Agent;
    tcp_path: TcpPath, TcpPathRows, Agent;
    tcp_connect: TcpConnect, TcpConnectRows, Agent;
    tcp_wait: TcpWait, TcpWaitRows, Agent;
    file_lock_wait: FileLockWait, FileLockWaitRows, Agent;
    pg_activity: PgActivity, PgActivityRows, Agent;
    sock_stat: SockStat, SockStatRows, Agent;
    net_dev: NetDev, NetDevRows, Agent;
    softnet_stat: SoftnetStat, SoftnetStatRows, Agent;
    cpu_stat: CpuStat, CpuStatRows, Agent;
    pressure: Pressure, PressureRows, Agent;
    mem_stat: MemStat, MemStatRows, Agent;
    cgroup_stat: CgroupStat, CgroupStatRows, Agent;
    disk_stat: DiskStat, DiskStatRows, Agent;
    filesystem: Filesystem, FilesystemRows, Agent;
    process_stat: ProcessStat, ProcessStatRows, Agent;
    raid: Raid, RaidRows, Agent;
    raid_member: RaidMember, RaidMemberRows, Agent;
    block_device: BlockDevice, BlockDeviceRows, Agent;
    qdisc: Qdisc, QdiscRows, Agent;
    nic_stat: NicStat, NicStatRows, Agent;
    conntrack_stat: ConntrackStat, ConntrackStatRows, Agent;
    firewall_rule: FirewallRule, FirewallRuleRows, Agent;
    deleted_file: DeletedFile, DeletedFileRows, Agent;
    idle_close: IdleClose, IdleCloseRows, Agent;
    clock_stat: ClockStat, ClockStatRows, Agent;
    resolver_probe: ResolverProbe, ResolverProbeRows, Agent;
    certificate: Certificate, CertificateRows, Agent;
    name_probe: NameProbe, NameProbeRows, Agent;
    name_lookup: NameLookup, NameLookupRows, Agent;
    db_server: DbServer, DbServerRows, Agent;
    check_result: CheckResult, CheckResultRows, Agent;
    proxy_stat: ProxyStat, ProxyStatRows, Agent;
    db_replica: DbReplica, DbReplicaRows, Agent;
    db_member: DbMember, DbMemberRows, Agent;
    kmsg: Kmsg, KmsgRows, Agent;
    sysctl: Sysctl, SysctlRows, Agent;
    config_directive: ConfigDirective, ConfigDirectiveRows, Agent;
    host_info: HostInfo, HostInfoRows, Agent;
    collector_run: CollectorRun, CollectorRunRows, Agent;
    ship: Ship, ShipRows, Agent;
    agent_link: AgentLink, AgentLinkRows, Hub;
    tcp_conn: TcpConn, TcpConnRows, Agent;
    wire_request: WireRequest, WireRequestRows, Agent;
    wire_slice: WireSlice, WireSliceRows, Agent;
    metric: Metric, MetricRows, Hub;
    span: Span, SpanRows, Hub;
    intake_run: IntakeRun, IntakeRunRows, Hub;
    intake_batch: IntakeBatch, IntakeBatchRows, Hub;
    output_run: OutputRun, OutputRunRows, Hub;
    edge_refusal: EdgeRefusal, EdgeRefusalRows, Agent;
    edge_backend: EdgeBackend, EdgeBackendRows, Agent;
    edge_listener: EdgeListener, EdgeListenerRows, Agent;
    edge_certificate: EdgeCertificate, EdgeCertificateRows, Agent;
    beacon: Beacon, BeaconRows, Agent;
    slow_query: SlowQuery, SlowQueryRows, Hub;
    store_fault: StoreFault, StoreFaultRows, Hub;
    measure: Measure, MeasureRows, Hub;
    slo_slice: SloSlice, SloSliceRows, Hub;
    threshold_proposal: ThresholdProposal, ThresholdProposalRows, Hub;
    judgement: Judgement, JudgementRows, Hub;
    incident: Incident, IncidentRows, Hub;
    notice: Notice, NoticeRows, Hub;
    setting_trial: SettingTrial, SettingTrialRows, Agent;
    action_run: ActionRun, ActionRunRows, Agent;
}
