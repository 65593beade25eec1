//! Repairs that root has listed on a host, run on orders that a hub has signed, each at most once.
//!
//! `order`, `sign` and `reply` are what travels; the hub and the agent use them. The rest is the
//! host's side, for the program weir-act: `trusted` opens files that only root can change,
//! `action_file` reads the list, `journal` remembers orders, `serve` decides, `execute` runs.

mod action;
mod action_file;
mod command;
mod error;
mod execute;
mod host;
mod journal;
mod launch;
mod order;
mod param;
mod reply;
mod serve;
mod sign;
mod trusted;

pub use action::{Action, Ceiling, RunLimits, Step, StepArgument, UndoPlan};
pub use action_file::{is_plain_id, parse_action};
pub use command::{CommandContext, CommandOutput, USAGE};
pub use error::ActError;
pub use execute::StepRunner;
pub use host::{Account, ActHost, HubPin};
pub use journal::{JournalEntry, OrderJournal, RepairLock};
pub use launch::{EXIT_NOT_STARTED, LAUNCH, LaunchRequest};
pub use order::{
    NAME_BYTES_MAX, ORDER_SPAN_MICROS, Order, OrderMode, PARAMS_MAX, VALUE_BYTES_MAX,
    order_id_text, random_order_id,
};
pub use param::{AddressBlock, ParamRule, WholePattern};
pub use reply::{LINE_BYTES_MAX, OrderCode, OrderReply, RunReport, RunState};
pub use serve::{OrderServer, READ_PATIENCE, WallClock};
pub use sign::{OrderSigner, OrderVerifier, PublicKey, SIGNED_BYTES_MAX, SignedOrder};
pub use trusted::TrustedRoot;
