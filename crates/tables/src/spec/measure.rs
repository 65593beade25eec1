//! `measure`: values whose thresholds are mined, one per subject and five minutes.

table! {
    /// Values whose thresholds are mined: five minutes of a rule's subject, and what was normal
    /// then.
    Measure, MeasureRows = "measure";
    grain: "one row per rule with a section `[threshold]`, subject and five minutes";
    source: "rules";
    sort: [rule, host, subject, ts];
    1 ts: Time = "When the five minutes began.";
    2 host: Text = "The host that the value belongs to.";
    3 rule: Text = "The rule's id.";
    4 subject: Text = "Subject of the value: an upstream, a log.";
    5 value: Float = "The value, in the unit of the rule's threshold.";
    6 expected: OptFloat = "Normal value for this half hour of the week, as known at the time. NULL when too little was known, and for rules with a constant threshold.";
    7 low: OptFloat = "Values below are unusual; NULL as above.";
    8 high: OptFloat = "Values above are unusual; NULL as above.";
    9 nearness_ratio: OptFloat = "How close the last five minutes, half hour or three hours are to an event, 1 at the threshold; negative below normal. NULL as above.";
}
