//! The list of tables. A new table is one file in this directory and one line in this list.

macro_rules! specs {
    ($($file:ident: $Row:ident, $Rows:ident;)+) => {
        $(mod $file;)+
        $(pub use $file::{$Row, $Rows};)+
        pub(crate) const ALL: &[&crate::TableSpec] = &[$(&$Row::SPEC),+];
        #[cfg(test)]
        pub(crate) const FILES: &[&str] = &[$(stringify!($file)),+];
    };
}

specs! {
    request: Request, RequestRows;
    log: Log, LogRows;
    reject: Reject, RejectRows;
    log_gap: LogGap, LogGapRows;
    finding: Finding, FindingRows;
    listener: Listener, ListenerRows;
    unix_listener: UnixListener, UnixListenerRows;
    tcp_stat: TcpStat, TcpStatRows;
    tcp_state: TcpState, TcpStateRows;
    tcp_accept: TcpAccept, TcpAcceptRows;
    tcp_peer: TcpPeer, TcpPeerRows;
    tcp_path: TcpPath, TcpPathRows;
    sock_stat: SockStat, SockStatRows;
    net_dev: NetDev, NetDevRows;
    softnet_stat: SoftnetStat, SoftnetStatRows;
    cpu_stat: CpuStat, CpuStatRows;
    pressure: Pressure, PressureRows;
    mem_stat: MemStat, MemStatRows;
    cgroup_stat: CgroupStat, CgroupStatRows;
    disk_stat: DiskStat, DiskStatRows;
    filesystem: Filesystem, FilesystemRows;
    process_stat: ProcessStat, ProcessStatRows;
    raid: Raid, RaidRows;
    raid_member: RaidMember, RaidMemberRows;
    block_device: BlockDevice, BlockDeviceRows;
    qdisc: Qdisc, QdiscRows;
    nic_stat: NicStat, NicStatRows;
    conntrack_stat: ConntrackStat, ConntrackStatRows;
    firewall_rule: FirewallRule, FirewallRuleRows;
    deleted_file: DeletedFile, DeletedFileRows;
    idle_close: IdleClose, IdleCloseRows;
    clock_stat: ClockStat, ClockStatRows;
    resolver_probe: ResolverProbe, ResolverProbeRows;
    certificate: Certificate, CertificateRows;
    name_probe: NameProbe, NameProbeRows;
    name_lookup: NameLookup, NameLookupRows;
    db_server: DbServer, DbServerRows;
    proxy_stat: ProxyStat, ProxyStatRows;
    db_replica: DbReplica, DbReplicaRows;
    db_member: DbMember, DbMemberRows;
    kmsg: Kmsg, KmsgRows;
    sysctl: Sysctl, SysctlRows;
    config_directive: ConfigDirective, ConfigDirectiveRows;
    host_info: HostInfo, HostInfoRows;
    collector_run: CollectorRun, CollectorRunRows;
    ship: Ship, ShipRows;
    agent_link: AgentLink, AgentLinkRows;
    tcp_conn: TcpConn, TcpConnRows;
    wire_request: WireRequest, WireRequestRows;
    wire_slice: WireSlice, WireSliceRows;
    metric: Metric, MetricRows;
    span: Span, SpanRows;
    intake_run: IntakeRun, IntakeRunRows;
    intake_batch: IntakeBatch, IntakeBatchRows;
    output_run: OutputRun, OutputRunRows;
    edge_refusal: EdgeRefusal, EdgeRefusalRows;
    edge_backend: EdgeBackend, EdgeBackendRows;
    edge_listener: EdgeListener, EdgeListenerRows;
    edge_certificate: EdgeCertificate, EdgeCertificateRows;
    beacon: Beacon, BeaconRows;
    slow_query: SlowQuery, SlowQueryRows;
    measure: Measure, MeasureRows;
    threshold_proposal: ThresholdProposal, ThresholdProposalRows;
    judgement: Judgement, JudgementRows;
    setting_trial: SettingTrial, SettingTrialRows;
}
