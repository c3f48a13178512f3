//! What people and scripts on the cloud side type.
//!
//! Every command is a function that returns data; [`render`] alone prints, and [`exit`] alone decides how the
//! process ends.
//!
//! | module | what |
//! |---|---|
//! | [`args`] | the command line |
//! | [`client`] | the gateway's API over HTTP |
//! | [`problem`] | what can go wrong, and what it means |
//! | [`exec`], [`read`], [`hosts`] | one command each |
//! | `interrupt` | an exec that Ctrl-C or TERM interrupts |
//! | [`system`] | gateway and agent as child processes of this one |
//! | [`demo`], [`dev`] | a whole system, for a moment or until stopped |
//! | [`role`] | the processes of the system, in this same program |
//! | [`render`], [`exit`] | what is shown, and the exit code |
//! | `patience` | how long a lost connection is tried again |
//! | `stop` | Ctrl-C and TERM, as something to look at and wait for |
//! | [`limits`] | every bound, each with its why |
#![forbid(unsafe_code)]

pub mod args;
pub mod client;
pub mod demo;
pub mod dev;
pub mod exec;
pub mod exit;
pub mod hosts;
mod interrupt;
pub mod limits;
mod patience;
pub mod problem;
pub mod read;
pub mod render;
pub mod role;
mod stop;
pub mod system;

use args::{Args, Command};
use clap::Parser;
use render::Printer;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

/// The whole program. `args` begin with its name.
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return exit::code(error.exit_code());
        }
    };
    let (out, err) = (std::io::stdout(), std::io::stderr());
    let terminals = (out.is_terminal(), err.is_terminal());
    let mut printer = Printer::new(out, err).on_terminals(terminals.0, terminals.1);
    let done = match args.command {
        Command::Role(role) => return role::main_from(role.role, role.args),
        Command::Exec(exec) => exec::command(exec, &mut printer),
        Command::Read(read) => read::command(&read, &mut printer),
        Command::Hosts(hosts) => hosts::command(&hosts, &mut printer),
        Command::Demo(demo) => demo::command(&demo, &mut printer),
        Command::Dev(dev) => dev::command(&dev, &mut printer),
    };
    let printed = printer.finish();
    let code = done.and_then(|code| printed.map(|()| code));
    exit::code(code.unwrap_or_else(|failure| {
        printer.failure(&failure);
        exit::of_failure(&failure)
    }))
}
