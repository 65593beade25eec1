//! `setting_trial`: kernel settings that were tried for a while, and what became of them.

table! {
    /// Kernel settings that `weir tune --try` set for a while, and whether they were kept. The newest row of a trial holds.
    SettingTrial, SettingTrialRows = "setting_trial";
    grain: "one row per trial when it begins, when it ends, and for those of the last two weeks at each start of weir";
    source: "weir tune --try";
    sort: [host, name, ts];
    ids: [trial_id];
    1 ts: Time = "When the weir that watches the host told it.";
    2 host: Text = "The host that it was set on.";
    3 trial_id: Text = "The trial.";
    4 netns: Text = "Network namespace that it was set in: host, a name of `ip netns`, or net:[inode].";
    5 name: Text = "The setting, such as net.core.somaxconn.";
    6 value_before: Text = "Its value before.";
    7 value: Text = "The value that was tried.";
    8 state: Text = "`running`, `kept` or `reverted`.";
    9 reason: OptText = "Why it was kept or put back; NULL while it runs.";
    10 began_ts: Time = "When it was set.";
    11 ended_ts: OptTime = "When it was kept or put back; NULL while it runs.";
    12 user_name: Text = "Who tried it.";
    13 measures: OptText = "What was counted before and with it: JSON array of objects; NULL while it runs, and when it died.";
}
