//! Flags of `weir heal`.

use clap::{Args, Subcommand};

use crate::client::WeirArgs;

/// List repairs, approve, refuse, undo and stop them, and draft new ones.
///
/// A repair is an action that root of a host has listed, ordered for a finding that it cures. It starts by recording only
/// (docs/heal.md).
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir heal list                                 what is configured, how far each goes, and whether all are stopped
  weir heal runs                                 runs of the last eight days, newest first
  weir heal approve 4k7qx2 --by ada
  weir heal undo 4k7qx2 --by ada
  weir heal stop --by ada --reason 'deploy'      nothing is repaired until weir heal start
  weir heal lock --role web --for 30m --reason 'deploy 1.4.2'
  weir heal unlock --role web
  weir heal draft app.down                       the host's action file and the block for weir.toml")]
pub(crate) struct HealArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: HealAction,
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
}

/// What to do about repairs.
#[derive(Debug, Subcommand)]
pub(crate) enum HealAction {
    /// List what is configured and how far each repair goes.
    List {
        /// One JSON object for a program.
        #[arg(long)]
        json: bool,
    },
    /// List runs, newest first, with the reason of each refusal.
    Runs {
        /// One JSON array for a program.
        #[arg(long)]
        json: bool,
    },
    /// Approve a run; it is ordered if all limits allow it.
    Approve(RunArgs),
    /// Refuse a run; the fault is not repaired until it is resolved and comes back.
    Refuse(RunArgs),
    /// Take a run back, if its action can be.
    Undo(RunArgs),
    /// Stop all repairs at once; what runs on a host ends by itself.
    Stop {
        /// Why.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
        /// Who stops them; default: the login.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Start repairs that were stopped.
    Start {
        /// Who starts them; needed on the hub's host, elsewhere it is the login.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Let a repair go one step further on a role, once five approved runs were verified.
    Raise {
        /// The rule.
        #[arg(value_name = "RULE")]
        rule: String,
        /// The action.
        #[arg(value_name = "ACTION")]
        action: String,
        /// The role; without it hosts that have none.
        #[arg(long, value_name = "ROLE", default_value = "")]
        role: String,
        /// Who raises it; needed on the hub's host, elsewhere it is the login.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Lock a role or hosts: no repair starts there until the lock ends.
    Lock {
        #[command(flatten)]
        scope: LockScope,
        /// How long it holds, at most 24h.
        #[arg(long = "for", value_name = "DURATION", default_value = "30m")]
        length: String,
        /// Why; shown with each repair that is refused.
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Who locks; default: the login.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// End a lock before its time.
    Unlock {
        /// The lock's id, or its first letters.
        #[arg(value_name = "ID", conflicts_with_all = ["role", "host"])]
        id: Option<String>,
        #[command(flatten)]
        scope: LockScope,
        /// Who ends it; default: the login.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// List locks that hold.
    Locks {
        /// One JSON array for a program.
        #[arg(long)]
        json: bool,
    },
    /// Print the action file for a host and the block for weir.toml that a rule's cure suggests.
    Draft {
        /// The rule.
        #[arg(value_name = "RULE")]
        rule: String,
    },
    /// Print the hub's public key, which root of each host pins with `weir-act trust`.
    Key,
}

/// What a lock is for.
#[derive(Args, Debug)]
pub(crate) struct LockScope {
    /// Hosts of this role (`collect.role`).
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// A host; `*` matches any characters.
    #[arg(long, value_name = "HOST", conflicts_with = "role")]
    pub(crate) host: Option<String>,
}

/// A run, and the person that decides.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The run's id, or its first letters.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Who decides; needed on the hub's host, elsewhere it is the login.
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}
