//! `willcall hosts`: who is there.

use crate::args::HostsArgs;
use crate::client::{Client, Settings};
use crate::problem::Failure;
use crate::render::Printer;
use crate::stop::Stop;

/// Asks, prints, and gives the exit code.
pub fn command(args: &HostsArgs, printer: &mut Printer<'_>) -> Result<i32, Failure> {
    let settings = Settings::from_environment()?;
    printer.token_exposed(&settings.token_file);
    let hosts = Client::new(settings, Stop::never())
        .hosts()
        .map_err(Failure::of_a_read)?;
    if args.json {
        printer.json(&hosts.json);
    } else {
        printer.hosts(&hosts.value.hosts);
    }
    Ok(0)
}
