//! Commands of NRPE's configuration: `command[check_load]=/usr/lib/nagios/plugins/check_load -w 5`.
//!
//! Source: `nrpe.cfg` of NRPE 4.1. The surprising thing: NRPE runs each line in a shell and puts
//! arguments of its clients into it (`$ARG1$`); weir does neither, and refuses lines that need it.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::command_words::split_words;

/// A command that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NrpeCommand {
    /// The name in brackets.
    pub name: String,
    /// The program, an absolute path, and its arguments.
    pub argv: Vec<String>,
}

/// A command that cannot be run as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCommand {
    /// The name in brackets.
    pub name: String,
    /// File and line.
    pub place: String,
    /// The feature that the line needs.
    pub why: String,
    /// A line that would be right.
    pub hint: &'static str,
}

impl fmt::Display for RefusedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, place, why, hint } = self;
        write!(f, "cannot import command `{name}` of `{place}`: {why}\nhint: {hint}")
    }
}

impl std::error::Error for RefusedCommand {}

/// The content of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NrpeConfig {
    /// Commands in the order of the file; of several with one name the last one, as in NRPE.
    pub commands: Vec<NrpeCommand>,
    /// Commands that cannot be imported.
    pub refused: Vec<RefusedCommand>,
    /// Files that the file includes (`include`), which the caller may read.
    pub include_files: Vec<String>,
    /// Directories whose files ending in `.cfg` it includes (`include_dir`).
    pub include_directories: Vec<String>,
    /// How long a command may take (`command_timeout`).
    pub timeout_seconds: Option<u64>,
    /// The account that commands run as (`nrpe_user`).
    pub user: Option<String>,
}

/// Files that one configuration may include, directly or not.
const FILES_MAX: usize = 500;

/// The line of a command, which is split when all files are read.
#[derive(Clone, Debug)]
struct CommandLine {
    name: String,
    command: String,
    place: String,
}

/// Reads files as NRPE does: an included file where the line is that includes it, so that of
/// several commands with one name the last one read counts. The prefix is one for all files.
#[derive(Debug, Default)]
struct ConfigReader {
    config: NrpeConfig,
    commands: Vec<CommandLine>,
    prefix: String,
    /// Files that were read; `None` reads no included files.
    seen: Option<BTreeSet<PathBuf>>,
}

impl NrpeConfig {
    /// Reads a file with all that it includes. Of several commands with one name the last one
    /// counts, as in NRPE.
    ///
    /// # Errors
    /// The path that cannot be read, and why.
    pub fn load(path: &Path) -> Result<Self, (PathBuf, io::Error)> {
        let mut reader = ConfigReader { seen: Some(BTreeSet::new()), ..ConfigReader::default() };
        reader.load(path)?;
        let whole = reader.finish();
        Ok(Self { include_files: Vec::new(), include_directories: Vec::new(), ..whole })
    }

    /// Parses a file; `path` is for errors only.
    pub fn parse(path: &str, text: &str) -> Self {
        let mut reader = ConfigReader::default();
        reader.read((path, text)).expect("nothing else is read");
        reader.finish()
    }
}

impl ConfigReader {
    fn load(&mut self, path: &Path) -> Result<(), (PathBuf, io::Error)> {
        // A file that includes itself, or its directory, is read once.
        let Some(seen) = &mut self.seen else { return Ok(()) };
        if seen.len() >= FILES_MAX || !seen.insert(path.to_owned()) {
            return Ok(());
        }
        // Comments may be in any encoding.
        let bytes = std::fs::read(path).map_err(|error| (path.to_owned(), error))?;
        self.read((&path.display().to_string(), &String::from_utf8_lossy(&bytes)))
    }

    fn read(&mut self, (path, text): (&str, &str)) -> Result<(), (PathBuf, io::Error)> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            let config = &mut self.config;
            match key {
                "include" | "include_file" => {
                    config.include_files.push(value.to_owned());
                    self.load(Path::new(value))?;
                }
                "include_dir" => {
                    config.include_directories.push(value.to_owned());
                    if self.seen.is_some() {
                        files_below(Path::new(value))
                            .iter()
                            .try_for_each(|file| self.load(file))?;
                    }
                }
                "nrpe_user" => config.user = Some(value.to_owned()).filter(|user| !user.is_empty()),
                "command_timeout" => config.timeout_seconds = value.parse().ok(),
                "command_prefix" => value.clone_into(&mut self.prefix),
                _ => {
                    let name = key.strip_prefix("command[").and_then(|key| key.strip_suffix(']'));
                    if let Some(name) = name {
                        self.commands.retain(|command| command.name != name);
                        self.commands.push(CommandLine {
                            name: name.to_owned(),
                            command: value.to_owned(),
                            place: format!("{path}:{}", index + 1),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> NrpeConfig {
        let Self { mut config, commands, prefix, .. } = self;
        for CommandLine { name, command, place } in commands {
            match argv(&format!("{prefix} {command}")) {
                Ok(argv) => config.commands.push(NrpeCommand { name, argv }),
                Err((why, hint)) => config.refused.push(RefusedCommand { name, place, why, hint }),
            }
        }
        config
    }
}

/// The files ending in `.cfg` in a directory and in those below it, in the order of their names. A
/// directory that is missing has none: packages list directories that they do not make.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && found.len() < FILES_MAX => waiting.push(entry.path()),
                Ok(_) if entry.path().extension().is_some_and(|ending| ending == "cfg") => {
                    found.push(entry.path());
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The arguments of a command line, or why it has none, and a hint.
fn argv(command: &str) -> Result<Vec<String>, (String, &'static str)> {
    if let Some(at) = command.find("$ARG") {
        let end = command[at + 1..].find('$').map_or(command.len(), |end| at + end + 2);
        let why = format!("it takes `{}` from its client", &command[at..end]);
        return Err((why, "write the value into the command"));
    }
    let words = split_words(command).map_err(|why| {
        let hint = "put the line into a script and name the script";
        (format!("it needs {why}"), hint)
    })?;
    match words.first() {
        None => Err(("it is empty".to_owned(), "name a program")),
        Some(program) if !program.starts_with('/') => {
            let why = format!("`{program}` is no absolute path");
            Err((why, "write the whole path of the program"))
        }
        Some(_) => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::NrpeConfig;

    /// Lines of Debian's `/etc/nagios/nrpe.cfg` (nagios-nrpe-server 4.1.0), and of answers to users.
    const CONFIG: &str = r#"
#############################################################################
# Sample NRPE Config File
log_facility=daemon
server_port=5666
allowed_hosts=127.0.0.1,::1
dont_blame_nrpe=0
# command_prefix=/usr/bin/sudo
command_timeout=60
connection_timeout=300
command[check_users]=/usr/lib/nagios/plugins/check_users -w 5 -c 10
command[check_load]=/usr/lib/nagios/plugins/check_load -r -w .15,.10,.05 -c .30,.25,.20
command[check_hda1]=/usr/lib/nagios/plugins/check_disk -w 20% -c 10% -p /dev/hda1
command[check_zombie_procs]=/usr/lib/nagios/plugins/check_procs -w 5 -c 10 -s Z
command[check_total_procs]=/usr/lib/nagios/plugins/check_procs -w 150 -c 200
#command[check_users]=/usr/lib/nagios/plugins/check_users $ARG1$
command[check_disk]=/usr/lib/nagios/plugins/check_disk $ARG1$
 command[check_web] = /usr/lib/nagios/plugins/check_http -H localhost -s "all is well"
command[check_mem]=free | awk '/Mem/ {print $3}'
command[check_mine]=check_mine.sh -x
command[check_none]=
command[check_total_procs]=/usr/lib/nagios/plugins/check_procs -w 250 -c 400
include=/etc/nagios/nrpe_local.cfg
include_dir=/etc/nagios/nrpe.d/
"#;

    #[test]
    fn commands_are_imported_and_shell_lines_refused() {
        let config = NrpeConfig::parse("nrpe.cfg", CONFIG);
        let mut shown = String::new();
        for command in &config.commands {
            shown += &format!("{}: {:?}\n", command.name, command.argv);
        }
        for refused in &config.refused {
            shown += &format!("{refused}\n");
        }
        expect![[r#"
            check_users: ["/usr/lib/nagios/plugins/check_users", "-w", "5", "-c", "10"]
            check_load: ["/usr/lib/nagios/plugins/check_load", "-r", "-w", ".15,.10,.05", "-c", ".30,.25,.20"]
            check_hda1: ["/usr/lib/nagios/plugins/check_disk", "-w", "20%", "-c", "10%", "-p", "/dev/hda1"]
            check_zombie_procs: ["/usr/lib/nagios/plugins/check_procs", "-w", "5", "-c", "10", "-s", "Z"]
            check_web: ["/usr/lib/nagios/plugins/check_http", "-H", "localhost", "-s", "all is well"]
            check_total_procs: ["/usr/lib/nagios/plugins/check_procs", "-w", "250", "-c", "400"]
            cannot import command `check_disk` of `nrpe.cfg:17`: it takes `$ARG1$` from its client
            hint: write the value into the command
            cannot import command `check_mem` of `nrpe.cfg:19`: it needs the shell's `|`
            hint: put the line into a script and name the script
            cannot import command `check_mine` of `nrpe.cfg:20`: `check_mine.sh` is no absolute path
            hint: write the whole path of the program
            cannot import command `check_none` of `nrpe.cfg:21`: it is empty
            hint: name a program
        "#]]
        .assert_eq(&shown);
        assert_eq!(config.include_files, ["/etc/nagios/nrpe_local.cfg"]);
        assert_eq!(config.include_directories, ["/etc/nagios/nrpe.d/"]);
        assert_eq!(config.timeout_seconds, Some(60));
    }

    #[test]
    fn prefix_is_put_before_every_command() {
        let text = "command[a]=/bin/a -x\ncommand_prefix=/usr/bin/sudo -n\n";
        let config = NrpeConfig::parse("nrpe.cfg", text);
        assert_eq!(config.commands[0].argv, ["/usr/bin/sudo", "-n", "/bin/a", "-x"]);
    }

    #[test]
    fn included_files_are_read_once_and_override_earlier_ones() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        std::fs::create_dir_all(dir.join("nrpe.d/team")).unwrap();
        let (main, local) = (dir.join("nrpe.cfg"), dir.join("local.cfg"));
        let text = format!(
            "nrpe_user=nagios\ncommand[a]=/bin/a\ncommand[b]=/bin/b\ninclude={}\ninclude_dir={}\ninclude_dir=/nonexistent\n",
            local.display(),
            dir.join("nrpe.d").display()
        );
        std::fs::write(&main, text).unwrap();
        let again = format!("command[b]=/bin/b $ARG1$\ninclude={}\n", main.display());
        std::fs::write(&local, again).unwrap();
        std::fs::write(dir.join("nrpe.d/team/c.cfg"), "command[c]=/bin/c\n").unwrap();
        std::fs::write(dir.join("nrpe.d/c.cfg.dpkg-old"), "command[old]=/bin/old\n").unwrap();
        let config = NrpeConfig::load(&main).unwrap();
        let names: Vec<&str> =
            config.commands.iter().map(|command| command.name.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(config.refused.len(), 1);
        assert_eq!(config.refused[0].place, format!("{}:1", local.display()));
        assert_eq!(config.user.as_deref(), Some("nagios"));
        let (missing, _) = NrpeConfig::load(&dir.join("none.cfg")).unwrap_err();
        assert_eq!(missing, dir.join("none.cfg"));
    }

    /// NagiosEnterprises/nrpe#144: before, the examples of the file came after what it includes and
    /// replaced it. NagiosEnterprises/nrpe#97 and #98: of a directory's files the last one counts.
    #[test]
    fn of_two_commands_with_a_name_the_one_that_is_read_last_counts() {
        let dir = tempfile::tempdir().unwrap();
        let parts = dir.path().join("nrpe.d");
        std::fs::create_dir(&parts).unwrap();
        let include = format!("include_dir={}\n", parts.display());
        for (name, text) in [
            ("nrpe.d/1_own.cfg", "command[load]=/own/load\ncommand[disk]=/own/disk\n".to_owned()),
            ("nrpe.d/0_usual.cfg", "command[load]=/usual/load\n".to_owned()),
            ("early.cfg", format!("{include}command[disk]=/disk\n")),
            ("late.cfg", format!("command[disk]=/disk\n{include}")),
        ] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        for (file, disk) in [("early.cfg", "/disk"), ("late.cfg", "/own/disk")] {
            let config = NrpeConfig::load(&dir.path().join(file)).unwrap();
            let mut programs: Vec<&str> =
                config.commands.iter().map(|command| command.argv[0].as_str()).collect();
            programs.sort_unstable();
            assert_eq!(programs, [disk, "/own/load"], "{file}");
        }
    }

    /// NagiosEnterprises/nrpe#202: a file that includes its own directory ends NRPE. A prefix is one
    /// for all files, wherever it is set: without `sudo` an included command would have other rights.
    #[test]
    fn prefix_is_that_of_included_files_and_a_directory_may_include_itself() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("a.cfg");
        let include = format!("include_dir={}\n", dir.path().display());
        let text = format!("{include}command[a]=/bin/a\ncommand_prefix=/usr/bin/sudo -n\n");
        std::fs::write(&main, text).unwrap();
        std::fs::write(dir.path().join("b.cfg"), format!("{include}command[b]=/bin/b\n")).unwrap();
        let config = NrpeConfig::load(&main).unwrap();
        let commands: Vec<String> =
            config.commands.iter().map(|command| command.argv.join(" ")).collect();
        assert_eq!(commands, ["/usr/bin/sudo -n /bin/b", "/usr/bin/sudo -n /bin/a"]);
    }

    #[test]
    fn no_text_makes_it_panic() {
        arbtest::arbtest(|u| {
            let text = u.arbitrary::<&str>()?;
            let _config = NrpeConfig::parse("nrpe.cfg", text);
            let _config = NrpeConfig::parse("nrpe.cfg", &format!("command[x]=/y $ARG{text}"));
            Ok(())
        });
    }
}
