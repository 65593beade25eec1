//! `firewall_rule`: rules of the host's own firewall that drop or reject packets.

table! {
    /// Rules and chain policies of nftables (also those of iptables-nft, ufw, firewalld and Docker)
    /// that drop or reject packets and count them. The older iptables-legacy is not read.
    FirewallRule, FirewallRuleRows = "firewall_rule";
    grain: "one row per dropping rule and sample (5 s or rarer) in which its counter moved; in the first sample all of them";
    source: "netlink nf_tables (NFT_MSG_GETRULE, NFT_MSG_GETCHAIN); rules without a `counter` are not in it";
    sort: [host, netns, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 netns: Text = "Network namespace, as in `listener`.";
    4 family: Text = "`ip`, `ip6`, `inet`, `netdev`, `bridge` or `arp`.";
    5 table_name: Text = "The table, such as `filter`.";
    6 chain: Text = "The chain, such as `INPUT`.";
    7 rule_handle: Int = "Handle of the rule, for `nft delete rule`; 0 for the policy of a chain.";
    8 verdict: Text = "`drop` or `reject`.";
    9 protocol: OptText = "`tcp`, `udp`, `icmp` …; NULL when the rule does not match on it.";
    10 source_address: OptText = "Address or network that it matches as the source; NULL when there is none.";
    11 source_port: OptInt = "Port that it matches as the source; NULL when there is none.";
    12 destination_address: OptText = "Address or network that it matches as the destination; NULL when there is none.";
    13 destination_port: OptInt = "Port that it matches as the destination; NULL when there is none.";
    14 other_conditions: OptText = "Kinds of further conditions that weir does not read, such as `lookup` (a set) or `limit`, joined by a comma; NULL without any.";
    15 hook: OptText = "Where the chain is hooked: `input`, `output`, `forward`, `prerouting`, `postrouting`; NULL for a chain that others jump to.";
    16 packets_total: Int = "Packets that it dropped so far.";
    17 packets_increase: OptInt = "Increase of packets_total since the previous sample; NULL in the first.";
}
