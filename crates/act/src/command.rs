//! The commands of weir-act: `serve`, `check`, `trust`, `dry-run`, and `launch` for itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::action::{Action, Step, StepArgument, UndoPlan};
use crate::error::ActError;
use crate::execute::StepRunner;
use crate::host::{ActHost, HubPin};
use crate::order::{Order, OrderMode};
use crate::serve::{OrderServer, READ_PATIENCE, WallClock};
use crate::sign::PublicKey;

/// How weir-act is used.
pub const USAGE: &str = "\
Runs repairs that root has listed in /etc/weir/actions.d, on signed orders of a hub.

Usage: weir-act COMMAND

  serve                              answer one order on stdin, a socket from systemd
  check                              list the actions, what each allows, and what is wrong
  trust FILE [--agent NAME] [--user ACCOUNT]
                                     pin a hub's public key (link/orders.pub of its data); NAME is
                                     the agent's name, by default this host's
  dry-run ACTION [PARAMETER=VALUE…]  print what an order would run

Examples:
  weir-act trust orders.pub --user weir
  weir-act dry-run restart-unit unit=shop.service
";

/// Where the commands work: `/` and root, except in tests.
pub struct CommandContext<'a> {
    /// The host's files.
    pub host: ActHost,
    /// The program weir-act.
    pub launcher: PathBuf,
    /// The host's clock.
    pub clock: &'a dyn WallClock,
    /// The host's name.
    pub host_name: String,
}

/// What a command prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// For stdout.
    pub text: String,
    /// Problems that `check` found.
    pub problems: usize,
}

impl CommandContext<'_> {
    /// Runs a command other than `launch`.
    ///
    /// # Errors
    /// Why it failed.
    pub fn run(&self, arguments: &[String]) -> Result<CommandOutput, ActError> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let text = match words.as_slice() {
            ["serve"] => self.serve().map(|()| String::new()),
            ["check"] => return self.check(),
            ["trust", file, options @ ..] => self.trust(file, options),
            ["dry-run", action, params @ ..] => self.dry_run(action, params),
            ["help" | "--help" | "-h"] => Ok(USAGE.to_owned()),
            ["--version" | "-V"] => Ok(format!("weir-act {}\n", env!("CARGO_PKG_VERSION"))),
            _ => Err(ActError::new("cannot use these arguments").hint("weir-act --help")),
        };
        text.map(|text| CommandOutput { text, problems: 0 })
    }

    fn serve(&self) -> Result<(), ActError> {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        let stream = stdin.map(UnixStream::from).map_err(|why| no_socket(&why))?;
        let peer =
            rustix::net::sockopt::socket_peercred(&stream).map_err(|why| no_socket(&why.into()))?;
        let _ = stream.set_read_timeout(Some(READ_PATIENCE));
        let _ = stream.set_write_timeout(Some(READ_PATIENCE));
        // Processes that a step leaves behind become children of this one, and are ended.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let runner = StepRunner { launcher: self.launcher.clone(), is_reaping: true };
        let server = OrderServer { host: &self.host, runner: &runner, clock: self.clock };
        server.serve(&stream, &stream, peer.uid.as_raw());
        Ok(())
    }

    fn check(&self) -> Result<CommandOutput, ActError> {
        let mut text = String::new();
        let mut problems = 0;
        match self.host.pin() {
            Ok(pin) => _ = writeln!(text, "hub      {}\nagent    {}", pin.key, pin.agent),
            Err(error) => {
                problems += 1;
                let _ = writeln!(text, "hub      {}", indented(&error));
            }
        }
        if let Some(off) = self.host.off() {
            let _ = writeln!(text, "switch   off: {}", off.message);
        }
        for (id, action) in self.host.actions()? {
            match action {
                Ok(action) => describe(&mut text, &action),
                Err(error) => {
                    problems += 1;
                    let _ = writeln!(text, "\n{id}: refused\n         {}", indented(&error));
                }
            }
        }
        Ok(CommandOutput { text, problems })
    }

    fn trust(&self, file: &str, options: &[&str]) -> Result<String, ActError> {
        let mut pin = HubPin { key: String::new(), agent: self.host_name.clone(), agent_uid: None };
        for option in options.chunks(2) {
            match option {
                ["--agent", name] => pin.agent = (*name).to_owned(),
                ["--user", name] => pin.agent_uid = Some(self.host.account(name)?.uid),
                _ => {
                    let why = format!("cannot use `{}`", option.join(" "));
                    return Err(ActError::new(why).hint("weir-act --help"));
                }
            }
        }
        let path = Path::new(file);
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|why| ActError::file("read", path, why))?;
        pin.key = PublicKey::parse(&text)?.to_string();
        self.host.set_pin(&pin)?;
        Ok(format!(
            "orders of this hub may run here, for the agent `{}`:\n{}\n",
            pin.agent, pin.key
        ))
    }

    fn dry_run(&self, action: &str, params: &[&str]) -> Result<String, ActError> {
        let mut known = BTreeMap::new();
        for param in params {
            let (name, value) = param.split_once('=').ok_or_else(|| {
                ActError::new(format!("cannot use `{param}`: it is no PARAMETER=VALUE"))
            })?;
            if known.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(ActError::new(format!("the parameter `{name}` is given twice")));
            }
        }
        let order = Order {
            id: [0; 16],
            action: action.to_owned(),
            params: known,
            agent: String::new(),
            finding_id: String::new(),
            not_after_micros: 0,
            mode: OrderMode::Run,
            approved_by: None,
        };
        let runner = StepRunner { launcher: self.launcher.clone(), is_reaping: false };
        let server = OrderServer { host: &self.host, runner: &runner, clock: self.clock };
        let report = server.rehearse(&order)?;
        let lines = report.argv.iter().map(|argv| format!("{}\n", shown(argv)));
        Ok(lines.collect())
    }
}

fn no_socket(why: &std::io::Error) -> ActError {
    ActError::new(format!("cannot serve: stdin is no connected socket: {why}"))
        .hint("systemd starts it by weir-act.socket; by hand, use `weir-act dry-run`")
}

fn indented(error: &ActError) -> String {
    error.to_string().replace('\n', "\n         ")
}

/// Arguments as one line, quoted where that is needed to read them.
fn shown(argv: &[String]) -> String {
    let words = argv.iter().map(|word| {
        let is_plain = !word.is_empty()
            && word.chars().all(|letter| letter.is_alphanumeric() || "-_./:=@,+%".contains(letter));
        if is_plain { word.clone() } else { format!("{word:?}") }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn describe(text: &mut String, action: &Action) {
    let _ = writeln!(text, "\n{}: {}", action.id, action.ceiling.as_str());
    for step in &action.steps {
        let _ = writeln!(text, "  step     {}", step_line(step));
    }
    for step in &action.dry_run {
        let _ = writeln!(text, "  dry run  {}", step_line(step));
    }
    match &action.undo {
        UndoPlan::Steps(steps) => {
            for step in steps {
                let _ = writeln!(text, "  undo     {}", step_line(step));
            }
        }
        UndoPlan::Impossible(why) => _ = writeln!(text, "  undo     none: {why}"),
    }
    for (name, rule) in &action.params {
        let _ = writeln!(text, "  {{{name}}}  {rule}");
    }
    let limits = &action.limits;
    let _ = writeln!(
        text,
        "  limits   user {}, {} s, {} MiB, {} tasks, {} runs an hour, {} s apart",
        action.user,
        limits.timeout.as_secs(),
        limits.memory_bytes >> 20,
        limits.tasks,
        action.runs_per_hour,
        action.cooldown.as_secs(),
    );
    if !action.heals.is_empty() {
        let _ = writeln!(text, "  heals    {}", action.heals.join(", "));
    }
}

fn step_line(step: &Step) -> String {
    let arguments = step.arguments.iter().map(|argument| match argument {
        StepArgument::Literal(text) => text.clone(),
        StepArgument::Param(name) => format!("{{{name}}}"),
    });
    let words = std::iter::once(step.program.display().to_string()).chain(arguments);
    words.collect::<Vec<_>>().join(" ")
}
