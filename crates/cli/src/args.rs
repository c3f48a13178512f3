//! The command line.

use crate::role::RoleName;
use clap::{Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;
use willcall_protocol::ids::{OutputId, SessionId, TurnId};
use willcall_protocol::message::{StrategyAsked, Turn, ViewAsked};

/// Run commands on hosts; large outputs stay there, and are picked up page by page.
#[derive(Debug, Parser)]
#[command(name = "willcall", version, after_help = ENVIRONMENT)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const ENVIRONMENT: &str = "\
Environment:
  WILLCALL_URL         the gateway's API, such as http://127.0.0.1:8080
  WILLCALL_TOKEN_FILE  a file with the API token
  WILLCALL_LOG         what the processes of demo and dev log, such as info or debug

Exit codes: that of the command; 128+n if signal n ended it; 124 if it timed out;
125 if it was refused or the call failed; 255 if the outcome is unknown.

Ctrl-C or TERM during exec cancels the command on its host and waits for its end: 130 or 143
if that ended it, its own code if it was over before. The second one leaves at once (130 or
143), and says under which id the run goes on.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the whole idea in a few seconds: a whole system on this machine, one command through it, and all gone again.
    Demo(DemoArgs),
    /// Keep a whole system up on this machine until Ctrl-C.
    Dev(DevArgs),
    /// Run a command on a host.
    Exec(ExecArgs),
    /// Read a page of an output that is held on a host.
    Read(ReadArgs),
    /// List the hosts.
    Hosts(HostsArgs),
    /// Be one of the system's processes.
    #[command(hide = true, disable_help_flag = true)]
    Role(RoleArgs),
}

/// How a command's output is limited, and the command itself.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct LimitArgs {
    /// Bytes of text that may come back for each stream.
    #[arg(long, value_name = "N")]
    pub max_bytes: Option<u64>,
    /// Lines of text that may come back for each stream.
    #[arg(long, value_name = "N")]
    pub max_lines: Option<u64>,
    /// Which end of a stream comes back when not all of it may.
    #[arg(long, value_name = "WHICH", default_value = "head_tail")]
    pub strategy: Strategy,
    /// How streams are shown: auto drops escape sequences and what was written over, raw drops nothing.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub view: View,
    /// End the command after that long, such as 90s or 5m.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub timeout: Option<Duration>,
}

/// Which end of a stream comes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Strategy {
    /// Beginning and end.
    #[default]
    HeadTail,
    /// The beginning.
    Head,
    /// The end.
    Tail,
}

impl From<Strategy> for StrategyAsked {
    fn from(strategy: Strategy) -> Self {
        match strategy {
            Strategy::HeadTail => Self::HeadTail,
            Strategy::Head => Self::Head,
            Strategy::Tail => Self::Tail,
        }
    }
}

/// The turn that a call is part of.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TurnArgs {
    /// One of the calls that are made together: their texts share one budget.
    #[arg(long, value_name = "ID")]
    pub turn: Option<TurnId>,
    /// How many calls the turn has in all.
    #[arg(long, value_name = "N", requires = "turn")]
    pub turn_calls: Option<NonZeroU32>,
}

impl TurnArgs {
    /// What is asked for, if anything is.
    pub fn asked(&self) -> Option<Turn> {
        let calls = self.turn_calls;
        self.turn.clone().map(|id| Turn { id, calls })
    }
}

/// How a stream is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum View {
    /// As a person would have seen it.
    #[default]
    Auto,
    /// As its bytes are.
    Raw,
}

impl From<View> for ViewAsked {
    fn from(view: View) -> Self {
        match view {
            View::Auto => Self::Auto,
            View::Raw => Self::Raw,
        }
    }
}

/// `willcall demo`.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Print the outcome as one JSON object, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// How the output is limited.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Keep the state directory, and print its path on stderr.
    #[arg(long)]
    pub keep: bool,
    /// The host's configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The command [default: ls -lR /usr]
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `willcall dev`.
#[derive(Debug, clap::Args)]
pub struct DevArgs {
    /// Where the system keeps its state, from one start to the next [default: a directory that goes with it]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The host's configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Which configuration the host has.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConfigArgs {
    /// The host's configuration [default: /etc/willcall/config.toml, if there is one]
    #[arg(long = "config", value_name = "FILE")]
    pub path: Option<PathBuf>,
}

/// `willcall exec`.
#[derive(Debug, clap::Args)]
pub struct ExecArgs {
    /// The host; may be left out where there is one.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// The conversation that the run belongs to; only it can read what is held.
    #[arg(long, value_name = "SESSION", default_value = "default")]
    pub session: SessionId,
    /// How the output is limited.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// What it is part of.
    #[command(flatten)]
    pub turn: TurnArgs,
    /// The working directory on the host.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Add to the host's clean environment.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = env_pair)]
    pub env: Vec<(String, String)>,
    /// Print the outcome as one JSON object, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Give terminals the output as it is: by default what could steer one is shown as a character that cannot. What goes
    /// to pipes and files is never changed.
    #[arg(long)]
    pub raw: bool,
    /// Program and arguments; no shell unless you name one.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `willcall read`.
#[derive(Debug, clap::Args)]
pub struct ReadArgs {
    /// The host; may be left out where there is one.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// The conversation that the output belongs to.
    #[arg(long, value_name = "SESSION", default_value = "default")]
    pub session: SessionId,
    /// What to read.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Which part of it.
    #[command(flatten)]
    pub window: WindowArgs,
    /// What it is part of.
    #[command(flatten)]
    pub turn: TurnArgs,
    /// Print the page as one JSON object, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Give terminals the output as it is: by default what could steer one is shown as a character that cannot. What goes
    /// to pipes and files is never changed.
    #[arg(long)]
    pub raw: bool,
}

/// Which part of an output to read.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct WindowArgs {
    /// Where to begin, in bytes [default: 0]
    #[arg(long, value_name = "N", conflicts_with = "line")]
    pub offset: Option<u64>,
    /// Bytes that the page may have.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// The line to begin at, from 1; -100 begins at the last hundred.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = line)]
    pub line: Option<i64>,
    /// Lines that the page may have.
    #[arg(long, value_name = "N")]
    pub lines: Option<u64>,
    /// Have the host compare the file with its digest first.
    #[arg(long)]
    pub verify: bool,
}

/// What to read: one of the two.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// A held output, by its id.
    #[arg(long, value_name = "ID")]
    pub output: Option<OutputId>,
    /// A held output, by its path on the host.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
}

/// `willcall hosts`.
#[derive(Debug, clap::Args)]
pub struct HostsArgs {
    /// Print the gateway's answer as one JSON object, and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// `willcall role ROLE ARGS...`.
#[derive(Debug, clap::Args)]
pub struct RoleArgs {
    /// Which one.
    pub role: RoleName,
    /// Its own arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

fn line(line: &str) -> Result<i64, String> {
    match line.parse() {
        Ok(0) => Err("lines count from 1, or from -1 for the last one".to_owned()),
        Ok(line) => Ok(line),
        Err(_) => Err("expected a line's number".to_owned()),
    }
}

fn env_pair(pair: &str) -> Result<(String, String), String> {
    match pair.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        let words = std::iter::once("willcall").chain(line.split(' ').filter(|w| !w.is_empty()));
        Args::try_parse_from(words).map(|args| args.command)
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn everything_after_the_dashes_is_the_command() {
        let line = "exec --host h --timeout 1m30s --env A=b=c --env D= --json -- ls -la --json";
        let Ok(Command::Exec(exec)) = parse(line) else {
            panic!("not an exec");
        };
        assert_eq!(exec.command, ["ls", "-la", "--json"]);
        assert_eq!(exec.limits.timeout, Some(Duration::from_secs(90)));
        let env: Vec<_> = exec.env.iter().map(|(k, v)| format!("{k}:{v}")).collect();
        assert_eq!(env, ["A:b=c", "D:"]);
        assert_eq!(exec.session.as_str(), "default");
        assert_eq!(exec.turn.asked(), None);
        assert!(exec.json);
    }

    #[test]
    fn a_call_says_what_turn_it_is_part_of() {
        let Ok(Command::Exec(exec)) = parse("exec --turn t-1 --turn-calls 3 -- ls") else {
            panic!("not an exec");
        };
        let turn = exec.turn.asked().expect("named");
        assert_eq!(
            (turn.id.as_str(), turn.calls.map(NonZeroU32::get)),
            ("t-1", Some(3))
        );
    }

    #[test]
    fn a_page_begins_at_a_line_from_either_end() {
        for (given, expected) in [("7", 7), ("-100", -100), ("9223372036854775807", i64::MAX)] {
            let Ok(Command::Read(read)) = parse(&format!("read --path /a --line {given}")) else {
                panic!("not a read");
            };
            assert_eq!(
                (read.window.line, read.window.offset),
                (Some(expected), None)
            );
        }
    }

    #[test]
    fn a_demo_needs_nothing() {
        let Ok(Command::Demo(demo)) = parse("demo") else {
            panic!("not a demo");
        };
        assert!(demo.command.is_empty() && !demo.json && !demo.keep);
        assert_eq!(demo.limits.strategy, Strategy::HeadTail);
        assert_eq!(demo.limits.view, View::Auto);
    }

    #[test]
    fn a_role_gets_its_arguments_as_they_are() {
        let Ok(Command::Role(role)) = parse("role gateway serve --help --state -- x") else {
            panic!("not a role");
        };
        assert_eq!(role.args, ["serve", "--help", "--state", "--", "x"]);
        assert!(
            !Args::command()
                .render_long_help()
                .to_string()
                .contains("role")
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for line in [
            "",
            "exec",
            "exec ls",
            "exec --session a/b -- ls",
            "exec --env A -- ls",
            "exec --env =b -- ls",
            "exec --timeout soon -- ls",
            "exec --strategy middle -- ls",
            "exec --view pretty -- ls",
            "exec --max-bytes -1 -- ls",
            "exec --turn a/b -- ls",
            "exec --turn-calls 2 -- ls",
            "exec --turn a --turn-calls 0 -- ls",
            "read",
            "read --output x",
            "read --path /a --line 0",
            "read --path /a --line x",
            "read --path /a --line 1 --offset 0",
            "read --path /a --output 01990000-0000-7000-8000-000000000001/stdout",
            "role nobody",
        ] {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }
}
