//! Action files (`/etc/weir/actions.d/ID.toml`): from text to an [`Action`], with file and line in
//! errors. Pure.
//!
//! What a file leaves out has the safest value: the ceiling is `observe`, and no parameter is
//! free text.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::action::{Action, Ceiling, RunLimits, Step, StepArgument, UndoPlan};
use crate::error::ActError;
use crate::param::{AddressBlock, ParamRule, WholePattern, never_allowed};

/// Programs that run what their arguments say, which nothing checks.
const LAUNCHERS: &[&str] = &[
    "ash",
    "bash",
    "busybox",
    "chroot",
    "csh",
    "dash",
    "doas",
    "env",
    "find",
    "fish",
    "flock",
    "ksh",
    "mksh",
    "nice",
    "nohup",
    "nsenter",
    "pkexec",
    "rbash",
    "runuser",
    "script",
    "setpriv",
    "setsid",
    "sh",
    "socat",
    "ssh",
    "stdbuf",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "tcsh",
    "timeout",
    "toybox",
    "unshare",
    "watch",
    "xargs",
    "zsh",
];

/// Limits of the values in a file: smallest, default, largest.
const TIMEOUT_SECONDS: [u64; 3] = [1, 60, 600];
const MEMORY_BYTES: [u64; 3] = [4 << 20, 256 << 20, 4 << 30];
const TASKS: [u64; 3] = [1, 64, 4096];
const OUTPUT_BYTES: [u64; 3] = [0, 16 << 10, 64 << 10];
const RUNS_PER_HOUR: [u64; 3] = [1, 2, 60];
const COOLDOWN_SECONDS: [u64; 3] = [0, 900, 86_400];
const STEPS_MAX: usize = 16;
const ARGUMENTS_MAX: usize = 64;
const ANY_OF_MAX: usize = 1000;
const PATTERN_BYTES_MAX: u64 = 256;

type ArgumentList = Spanned<Vec<Spanned<String>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionTable {
    id: Spanned<String>,
    steps: Spanned<Vec<ArgumentList>>,
    dry_run: Option<Spanned<Vec<ArgumentList>>>,
    undo: Option<Spanned<Vec<ArgumentList>>>,
    undo_none: Option<Spanned<String>>,
    user: Spanned<String>,
    timeout_seconds: Option<Spanned<u64>>,
    memory_bytes: Option<Spanned<u64>>,
    tasks: Option<Spanned<u64>>,
    output_bytes: Option<Spanned<u64>>,
    runs_per_hour: Option<Spanned<u64>>,
    cooldown_seconds: Option<Spanned<u64>>,
    ceiling: Option<Ceiling>,
    #[serde(default)]
    heals: Vec<Spanned<String>>,
    #[serde(default)]
    params: BTreeMap<Spanned<String>, Spanned<ParamTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParamTable {
    any_of: Option<Vec<Spanned<String>>>,
    #[serde(rename = "type")]
    kind: Option<ParamKind>,
    min: Option<i64>,
    max: Option<i64>,
    below: Option<String>,
    networks: Option<Vec<Spanned<String>>>,
    ports: Option<[u16; 2]>,
    pattern: Option<String>,
    max_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ParamKind {
    Integer,
    Path,
    Address,
    Regex,
}

/// An action from the text of its file.
///
/// # Errors
/// What is wrong, with file and line.
pub fn parse_action(path: &Path, text: &str) -> Result<Action, ActError> {
    let source = SourceFile { path, text };
    let table: ActionTable = toml::from_str(text).map_err(|error| {
        let why = error.message().lines().collect::<Vec<_>>().join(", ");
        source.error(error.span().unwrap_or_default(), why, "docs/act.md has every key")
    })?;
    source.action(table)
}

/// An id of actions and parameters: small letters, digits, `-` and `_`, as a file name and in `{}`.
pub fn is_plain_id(text: &str) -> bool {
    text.len() <= 64
        && !text.starts_with(['-', '_'])
        && !text.is_empty()
        && text.bytes().all(|letter| matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
}

struct SourceFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl SourceFile<'_> {
    fn error(
        &self,
        span: Range<usize>,
        why: impl std::fmt::Display,
        hint: impl Into<String>,
    ) -> ActError {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let path = self.path.display();
        ActError::new(format!("cannot use `{path}`, line {line}: {why}")).hint(hint)
    }

    fn action(&self, table: ActionTable) -> Result<Action, ActError> {
        let id = table.id.get_ref().clone();
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        if !is_plain_id(&id) || id != stem {
            let why = format!("`id` is `{}`, but the file is `{stem}.toml`", id.escape_debug());
            let hint = "an id has small letters, digits, `-` and `_`, and is the file's name";
            return Err(self.error(table.id.span(), why, hint));
        }
        let params = self.params(table.params)?;
        let steps = self.steps(&table.steps, &params)?;
        let dry_run = table.dry_run.map(|steps| self.steps(&steps, &params)).transpose()?;
        let undo = self.undo(table.undo, table.undo_none, table.id.span(), &params)?;
        self.check_use(&steps, &undo, &params, table.steps.span())?;
        if table.user.get_ref().is_empty() {
            let hint = "name an account of this host, such as `root`";
            return Err(self.error(table.user.span(), "`user` is empty", hint));
        }
        for rule in &table.heals {
            let is_rule =
                rule.get_ref().split('.').all(is_plain_id) && rule.get_ref().contains('.');
            if !is_rule {
                let why = format!("`{}` is no rule's id", rule.get_ref().escape_debug());
                return Err(self.error(rule.span(), why, "write ids such as `app.down`"));
            }
        }
        let limits = RunLimits {
            timeout: Duration::from_secs(self.number(
                "timeout_seconds",
                table.timeout_seconds,
                TIMEOUT_SECONDS,
            )?),
            memory_bytes: self.number("memory_bytes", table.memory_bytes, MEMORY_BYTES)?,
            tasks: self.number("tasks", table.tasks, TASKS)?,
            output_bytes: usize::try_from(self.number(
                "output_bytes",
                table.output_bytes,
                OUTPUT_BYTES,
            )?)
            .expect("it is at most 64 KiB"),
        };
        let runs_per_hour = self.number("runs_per_hour", table.runs_per_hour, RUNS_PER_HOUR)?;
        let cooldown = self.number("cooldown_seconds", table.cooldown_seconds, COOLDOWN_SECONDS)?;
        Ok(Action {
            id,
            dry_run: dry_run.unwrap_or_default(),
            steps,
            undo,
            user: table.user.into_inner(),
            limits,
            runs_per_hour: u32::try_from(runs_per_hour).expect("it is at most 60"),
            cooldown: Duration::from_secs(cooldown),
            ceiling: table.ceiling.unwrap_or(Ceiling::Observe),
            heals: table.heals.into_iter().map(Spanned::into_inner).collect(),
            params,
        })
    }

    fn number(
        &self,
        key: &str,
        value: Option<Spanned<u64>>,
        [least, usual, most]: [u64; 3],
    ) -> Result<u64, ActError> {
        let Some(value) = value else { return Ok(usual) };
        if (least..=most).contains(value.get_ref()) {
            return Ok(value.into_inner());
        }
        let why = format!("`{key}` is {}", value.get_ref());
        Err(self.error(value.span(), why, format!("write a number from {least} to {most}")))
    }

    fn undo(
        &self,
        steps: Option<Spanned<Vec<ArgumentList>>>,
        none: Option<Spanned<String>>,
        id: Range<usize>,
        params: &BTreeMap<String, ParamRule>,
    ) -> Result<UndoPlan, ActError> {
        match (steps, none) {
            (Some(steps), None) => Ok(UndoPlan::Steps(self.steps(&steps, params)?)),
            (None, Some(why)) if !why.get_ref().trim().is_empty() => {
                Ok(UndoPlan::Impossible(why.into_inner()))
            }
            (None, Some(why)) => {
                Err(self.error(why.span(), "`undo_none` is empty", "write why it cannot be undone"))
            }
            (None, None) => Err(self.error(
                id,
                "it has neither `undo` nor `undo_none`",
                "write the steps that take it back as `undo`, or why there are none as `undo_none`",
            )),
            (Some(steps), Some(_)) => Err(self.error(
                steps.span(),
                "it has both `undo` and `undo_none`",
                "remove one of them",
            )),
        }
    }

    fn steps(
        &self,
        steps: &Spanned<Vec<ArgumentList>>,
        params: &BTreeMap<String, ParamRule>,
    ) -> Result<Vec<Step>, ActError> {
        let count = steps.get_ref().len();
        if !(1..=STEPS_MAX).contains(&count) {
            let hint = format!("write 1 to {STEPS_MAX} lists of arguments");
            return Err(self.error(steps.span(), format!("there are {count} steps"), hint));
        }
        steps.get_ref().iter().map(|step| self.step(step, params)).collect()
    }

    fn step(
        &self,
        step: &ArgumentList,
        params: &BTreeMap<String, ParamRule>,
    ) -> Result<Step, ActError> {
        let Some((program, arguments)) = step.get_ref().split_first() else {
            return Err(self.error(step.span(), "a step is empty", "write a program's path"));
        };
        if arguments.len() > ARGUMENTS_MAX {
            let why = format!("a step has {} arguments", arguments.len());
            return Err(self.error(step.span(), why, format!("at most {ARGUMENTS_MAX}")));
        }
        let arguments = arguments.iter().map(|argument| self.argument(argument, params));
        Ok(Step {
            program: self.program(program)?,
            arguments: arguments.collect::<Result<_, _>>()?,
        })
    }

    fn program(&self, program: &Spanned<String>) -> Result<PathBuf, ActError> {
        let text = program.get_ref();
        let is_plain = text.starts_with('/')
            && !text.contains(|letter: char| letter.is_control() || "{}".contains(letter))
            && text[1..].split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !is_plain {
            let why = format!("the program `{}` is not a plain absolute path", text.escape_debug());
            let hint =
                "write it from `/`, such as `/usr/bin/systemctl`; a parameter cannot be in it";
            return Err(self.error(program.span(), why, hint));
        }
        let name = text.rsplit('/').next().unwrap_or_default();
        if LAUNCHERS.contains(&name) {
            let why = format!("`{text}` runs what its arguments say");
            let hint = "name the program itself; or write a script that root owns, and name that";
            return Err(self.error(program.span(), why, hint));
        }
        Ok(PathBuf::from(text))
    }

    fn argument(
        &self,
        argument: &Spanned<String>,
        params: &BTreeMap<String, ParamRule>,
    ) -> Result<StepArgument, ActError> {
        let text = argument.get_ref();
        if text.contains('\0') {
            return Err(self.error(argument.span(), "an argument has a NUL byte", "remove it"));
        }
        let Some(name) = placeholder(text) else {
            return Ok(StepArgument::Literal(text.clone()));
        };
        if text.len() != name.len() + 2 {
            let why = format!("`{{{name}}}` is a part of `{}`", text.escape_debug());
            let hint = "a parameter is a whole argument: let its values have the rest, too";
            return Err(self.error(argument.span(), why, hint));
        }
        if !params.contains_key(name) {
            let why = format!("there is no parameter `{name}`");
            let hint = format!("add `[params.{name}]`, with `any_of` or `type`");
            return Err(self.error(argument.span(), why, hint));
        }
        Ok(StepArgument::Param(name.to_owned()))
    }

    fn check_use(
        &self,
        steps: &[Step],
        undo: &UndoPlan,
        params: &BTreeMap<String, ParamRule>,
        span: Range<usize>,
    ) -> Result<(), ActError> {
        let undo = match undo {
            UndoPlan::Steps(steps) => steps.as_slice(),
            UndoPlan::Impossible(_) => &[],
        };
        let used: BTreeSet<&str> = steps.iter().chain(undo).flat_map(Step::params).collect();
        match params.keys().find(|name| !used.contains(name.as_str())) {
            Some(name) => Err(self.error(
                span,
                format!("no step uses the parameter `{name}`"),
                format!("write `{{{name}}}` as an argument, or remove `[params.{name}]`"),
            )),
            None => Ok(()),
        }
    }

    fn params(
        &self,
        tables: BTreeMap<Spanned<String>, Spanned<ParamTable>>,
    ) -> Result<BTreeMap<String, ParamRule>, ActError> {
        let mut params = BTreeMap::new();
        for (name, table) in tables {
            if !is_plain_id(name.get_ref()) {
                let why = format!("`{}` cannot be a parameter", name.get_ref().escape_debug());
                let hint = "its name has small letters, digits, `-` and `_`";
                return Err(self.error(name.span(), why, hint));
            }
            let rule = self.rule(name.get_ref(), &table)?;
            params.insert(name.into_inner(), rule);
        }
        if params.len() > crate::order::PARAMS_MAX {
            let why = format!("it has {} parameters", params.len());
            return Err(self.error(0..0, why, format!("at most {}", crate::order::PARAMS_MAX)));
        }
        Ok(params)
    }

    fn rule(&self, name: &str, table: &Spanned<ParamTable>) -> Result<ParamRule, ActError> {
        let param = table.get_ref();
        let rule = match (&param.any_of, param.kind) {
            (Some(values), None) => self.any_of(values, table.span()).map(Ok)?,
            (None, Some(ParamKind::Integer)) => integer(param),
            (None, Some(ParamKind::Path)) => path(param),
            (None, Some(ParamKind::Address)) => address(param),
            (None, Some(ParamKind::Regex)) => pattern(param),
            _ => Err("it needs either `any_of` or `type`".to_owned()),
        };
        let rule = rule.and_then(|rule| unused_key(param, &rule).map_or(Ok(rule), Err));
        rule.map_err(|why| {
            let why = format!("the parameter `{name}`: {why}");
            self.error(table.span(), why, "docs/act.md has the kinds of parameters")
        })
    }

    fn any_of(
        &self,
        values: &[Spanned<String>],
        span: Range<usize>,
    ) -> Result<ParamRule, ActError> {
        if !(1..=ANY_OF_MAX).contains(&values.len()) {
            let why = format!("`any_of` has {} values", values.len());
            return Err(self.error(span, why, format!("write 1 to {ANY_OF_MAX}")));
        }
        let mut known = BTreeSet::new();
        for value in values {
            if let Some(why) = never_allowed(value.get_ref()) {
                let why = format!("`{}` is never allowed: {why}", value.get_ref().escape_debug());
                return Err(self.error(value.span(), why, "remove it"));
            }
            if !known.insert(value.get_ref().clone()) {
                let why = format!("`{}` is listed twice", value.get_ref());
                return Err(self.error(value.span(), why, "remove one of them"));
            }
        }
        Ok(ParamRule::AnyOf(known))
    }
}

/// The name in the first `{name}` of a text.
fn placeholder(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let name = &rest[..rest.find('}')?];
        is_plain_id(name).then_some(name)
    })
}

fn integer(param: &ParamTable) -> Result<ParamRule, String> {
    match (param.min, param.max) {
        (Some(min), Some(max)) if min < 0 || max < min => {
            Err(format!("the bounds {min} to {max} are negative or empty"))
        }
        (Some(min), Some(max)) => Ok(ParamRule::Integer { min, max }),
        _ => Err("an integer needs `min` and `max`".to_owned()),
    }
}

fn path(param: &ParamTable) -> Result<ParamRule, String> {
    let Some(below) = &param.below else {
        return Err("a path needs `below`, a directory".to_owned());
    };
    let is_plain = below.starts_with('/')
        && below[1..].split('/').all(|part| !matches!(part, "" | "." | ".."))
        && never_allowed(below).is_none();
    if !is_plain {
        return Err(format!("`below` is `{}`, not a plain absolute path", below.escape_debug()));
    }
    Ok(ParamRule::Path { below: PathBuf::from(below) })
}

fn address(param: &ParamTable) -> Result<ParamRule, String> {
    let Some(networks) = param.networks.as_ref().filter(|networks| !networks.is_empty()) else {
        return Err("an address needs `networks`, such as `[\"10.0.0.0/8\"]`".to_owned());
    };
    let networks = networks.iter().map(|network| {
        let text = network.get_ref();
        AddressBlock::parse(text).ok_or_else(|| format!("`{}` is no network", text.escape_debug()))
    });
    let networks = networks.collect::<Result<_, _>>()?;
    match param.ports {
        Some([first, last]) if first == 0 || last < first => {
            Err(format!("the ports {first} to {last} are empty"))
        }
        ports => Ok(ParamRule::Address { networks, ports: ports.map(|[a, b]| (a, b)) }),
    }
}

fn pattern(param: &ParamTable) -> Result<ParamRule, String> {
    let (Some(pattern), Some(max_bytes)) = (&param.pattern, param.max_bytes) else {
        return Err("a regex needs `pattern` and `max_bytes`".to_owned());
    };
    if !(1..=PATTERN_BYTES_MAX).contains(&max_bytes) {
        return Err(format!("`max_bytes` is {max_bytes}, not 1 to {PATTERN_BYTES_MAX}"));
    }
    let pattern = WholePattern::new(pattern).map_err(|why| {
        let why = why.lines().last().unwrap_or_default().trim().to_owned();
        format!("`pattern` is no regular expression: {why}")
    })?;
    let max_bytes = usize::try_from(max_bytes).expect("it is at most 256");
    Ok(ParamRule::Pattern { pattern, max_bytes })
}

/// A bound that does not apply to a rule: its author would rely on a limit that does not exist.
fn unused_key(param: &ParamTable, rule: &ParamRule) -> Option<String> {
    let [is_integer, is_path, is_address, is_pattern] = [
        matches!(rule, ParamRule::Integer { .. }),
        matches!(rule, ParamRule::Path { .. }),
        matches!(rule, ParamRule::Address { .. }),
        matches!(rule, ParamRule::Pattern { .. }),
    ];
    let keys = [
        ("min", param.min.is_some() && !is_integer),
        ("max", param.max.is_some() && !is_integer),
        ("below", param.below.is_some() && !is_path),
        ("networks", param.networks.is_some() && !is_address),
        ("ports", param.ports.is_some() && !is_address),
        ("pattern", param.pattern.is_some() && !is_pattern),
        ("max_bytes", param.max_bytes.is_some() && !is_pattern),
    ];
    let unused = keys.into_iter().find(|(_, is_unused)| *is_unused);
    unused.map(|(key, _)| format!("`{key}` does not apply to it"))
}
