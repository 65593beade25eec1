//! `setting_trial`: trials of kernel settings, and their outcome.

table! {
    /// Kernel settings tried by `weir tune --try`, and whether they were kept. The newest row of a
    /// trial is current.
    SettingTrial, SettingTrialRows = "setting_trial";
    grain: "one row per trial when it starts, when it ends, and at each start of weir for trials of the last two weeks";
    source: "weir tune --try";
    sort: [host, name, ts];
    ids: [trial_id];
    1 ts: Time = "When the host's weir reported it.";
    2 host: Text = "The host that it was set on.";
    3 trial_id: Text = "The trial.";
    4 netns: Text = "Network namespace of the setting: host, a name of `ip netns`, or `net:[inode]`.";
    5 name: Text = "The setting, such as net.core.somaxconn.";
    6 value_before: Text = "The previous value.";
    7 value: Text = "The value that was tried.";
    8 state: Text = "`running`, `kept` or `reverted`.";
    9 reason: OptText = "Why it was kept or reverted; NULL while it runs.";
    10 began_ts: Time = "When it was set.";
    11 ended_ts: OptTime = "When it was kept or reverted; NULL while it runs.";
    12 user_name: Text = "The user who tried it.";
    13 measures: OptText = "Counters before and with it: JSON array of objects; NULL while it runs, and when it died.";
}
