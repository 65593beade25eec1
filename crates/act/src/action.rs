//! An action of a host's list: its steps, limits and parameters, and what an order makes of it.
//! Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ActError;
use crate::order::OrderMode;
use crate::param::ParamRule;

/// Highest step of the ladder that a host allows an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ceiling {
    /// Only dry runs.
    Observe,
    /// Only dry runs, shown to people.
    Suggest,
    /// Runs that a person approved.
    Ask,
    /// Runs that a hub orders by itself.
    Auto,
}

impl Ceiling {
    /// The name in action files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Suggest => "suggest",
            Self::Ask => "ask",
            Self::Auto => "auto",
        }
    }
}

/// One argument of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepArgument {
    /// A fixed text.
    Literal(String),
    /// The value of a parameter, as a whole argument.
    Param(String),
}

/// One program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<StepArgument>,
}

impl Step {
    fn argv(&self, params: &BTreeMap<String, String>) -> Vec<String> {
        let arguments = self.arguments.iter().map(|argument| match argument {
            StepArgument::Literal(text) => text.clone(),
            StepArgument::Param(name) => params.get(name).cloned().unwrap_or_default(),
        });
        std::iter::once(self.program.display().to_string()).chain(arguments).collect()
    }

    /// Names of the parameters in it.
    pub(crate) fn params(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().filter_map(|argument| match argument {
            StepArgument::Param(name) => Some(name.as_str()),
            StepArgument::Literal(_) => None,
        })
    }
}

/// How a run is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoPlan {
    /// By these steps.
    Steps(Vec<Step>),
    /// It cannot be, for this reason.
    Impossible(String),
}

/// What the processes of a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Time of all steps together.
    pub timeout: Duration,
    /// Memory of a process in bytes (RLIMIT_DATA).
    pub memory_bytes: u64,
    /// Processes of the user (RLIMIT_NPROC, which does not bind root; the unit's TasksMax does).
    pub tasks: u64,
    /// Bytes of output that are kept, from the end.
    pub output_bytes: usize,
}

/// An action of a host's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The id, which is the file's name.
    pub id: String,
    /// Programs that run one after the other, until one fails.
    pub steps: Vec<Step>,
    /// Programs that show what the steps would do, and change nothing; without any a dry run only checks the order.
    pub dry_run: Vec<Step>,
    /// How it is taken back.
    pub undo: UndoPlan,
    /// Account that runs it.
    pub user: String,
    /// What its processes may use.
    pub limits: RunLimits,
    /// Runs in an hour, whatever the parameters are.
    pub runs_per_hour: u32,
    /// Shortest time between runs with the same parameters.
    pub cooldown: Duration,
    /// Highest step of the ladder.
    pub ceiling: Ceiling,
    /// Rules whose findings it answers.
    pub heals: Vec<String>,
    /// What each parameter may be.
    pub params: BTreeMap<String, ParamRule>,
}

impl Action {
    /// The steps of a mode.
    ///
    /// # Errors
    /// The action cannot be undone.
    pub fn steps_of(&self, mode: OrderMode) -> Result<&[Step], ActError> {
        match (mode, &self.undo) {
            (OrderMode::Undo, UndoPlan::Impossible(why)) => {
                Err(ActError::new(format!("cannot undo `{}`: {why}", self.id)))
            }
            (OrderMode::Undo, UndoPlan::Steps(steps)) => Ok(steps),
            (OrderMode::DryRun, _) if !self.dry_run.is_empty() => Ok(&self.dry_run),
            _ => Ok(&self.steps),
        }
    }

    /// Whether programs run in a mode: a dry run without its own steps runs none.
    pub fn runs_in(&self, mode: OrderMode) -> bool {
        mode != OrderMode::DryRun || !self.dry_run.is_empty()
    }

    /// Arguments of each step of a mode, once every parameter is allowed.
    ///
    /// # Errors
    /// A parameter is missing, unknown, or has a value that is not allowed.
    pub fn argv(
        &self,
        mode: OrderMode,
        params: &BTreeMap<String, String>,
    ) -> Result<Vec<Vec<String>>, ActError> {
        if let Some(name) = params.keys().find(|name| !self.params.contains_key(*name)) {
            let known: Vec<&str> = self.params.keys().map(String::as_str).collect();
            return Err(ActError::new(format!("`{}` has no parameter `{name}`", self.id))
                .hint(format!("its parameters are: {}", known.join(", "))));
        }
        for (name, rule) in &self.params {
            let value = params.get(name).ok_or_else(|| {
                ActError::new(format!("`{}` needs the parameter `{name}`", self.id))
                    .hint(format!("{name}={rule}"))
            })?;
            rule.check(name, value)?;
        }
        Ok(self.steps_of(mode)?.iter().map(|step| step.argv(params)).collect())
    }

    /// Whether an order may run: the host has the last word.
    ///
    /// # Errors
    /// The ceiling is below the mode.
    pub fn allow(&self, mode: OrderMode, approved_by: Option<&str>) -> Result<(), ActError> {
        let needed = match (mode, approved_by) {
            (OrderMode::DryRun, _) => Ceiling::Observe,
            (OrderMode::Run, None) => Ceiling::Auto,
            (OrderMode::Run, Some(_)) | (OrderMode::Undo, _) => Ceiling::Ask,
        };
        if needed <= self.ceiling {
            return Ok(());
        }
        let (id, ceiling) = (&self.id, self.ceiling.as_str());
        let why = match self.ceiling {
            Ceiling::Ask => "no person approved it",
            _ => "this host allows dry runs only",
        };
        Err(ActError::new(format!("cannot run `{id}`: {why} (ceiling `{ceiling}`)")).hint(format!(
            "set `ceiling = \"{}\"` in /etc/weir/actions.d/{id}.toml on the host",
            needed.as_str()
        )))
    }
}
