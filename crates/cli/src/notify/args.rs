//! Flags of `weir notify`.

use clap::{Args, Subcommand};

use crate::client::WeirArgs;

/// Check the configuration of notices, send a test, take answers by mail.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir notify check                              receivers, people, rotas and routes that cannot work
  weir notify check --config weir.toml
  weir notify test --receiver phone              send a test page to one receiver
  weir notify test --person ada                  to the receivers of one person
  weir notify preview --kind resolved            a sample message, as your templates make it
  weir notify reply < mail                       a mail server pipes answers to pages into it")]
pub(crate) struct NotifyArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: NotifyAction,
}

/// What to do about notices.
#[derive(Debug, Subcommand)]
pub(crate) enum NotifyAction {
    /// Check the configuration: unknown names, gaps in a rota, people in no rota, files that cannot be read; then log in to
    /// each receiver without sending anything. Exit status 1 if something is wrong.
    Check {
        /// Check the configuration only, connect to nothing.
        #[arg(long)]
        offline: bool,
    },
    /// Send a test message and wait for the receiver's answer.
    ///
    /// The running weir sends it; if none runs, this command does, with the configuration file.
    Test {
        /// The receiver's name.
        #[arg(
            long,
            value_name = "NAME",
            required_unless_present = "person",
            conflicts_with = "person"
        )]
        receiver: Option<String>,
        /// All receivers of a person's pages.
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
        #[command(flatten)]
        weir: WeirArgs,
    },
    /// Print a sample message as the templates of the configuration make it.
    ///
    /// Subject, text, line for a phone and HTML. What is wrong with a template is printed first, and its built-in form is shown.
    Preview {
        /// Kind of the message: page, mail, ack, resolved or test.
        #[arg(long, value_name = "KIND", default_value = "page")]
        kind: String,
        /// The message to this receiver, for templates of one receiver.
        #[arg(long, value_name = "NAME")]
        receiver: Option<String>,
    },
    /// Acknowledge or resolve by a mail that answers a page, read from standard input.
    ///
    /// The first word of the answer is `ack` or `resolve`. Automatic answers, and senders that got no
    /// page, change nothing; the exit status is 0 then, too, so that no bounce is sent.
    Reply {
        #[command(flatten)]
        weir: WeirArgs,
    },
}
