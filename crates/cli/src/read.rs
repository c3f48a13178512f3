//! `willcall read`: one page of what a host holds.

use crate::args::ReadArgs;
use crate::client::{Client, PageRequest, Settings};
use crate::problem::Failure;
use crate::render::Printer;
use crate::stop::Stop;
use willcall_protocol::message::ReadTarget;

/// Reads, prints, and gives the exit code.
pub fn command(args: &ReadArgs, printer: &mut Printer<'_>) -> Result<i32, Failure> {
    read(args, printer).map_err(Failure::of_a_read)
}

fn read(args: &ReadArgs, printer: &mut Printer<'_>) -> Result<i32, Failure> {
    for (name, asked) in [("limit", args.window.limit), ("lines", args.window.lines)] {
        if asked == Some(0) {
            return Err(Failure::ZeroLimit(name));
        }
    }
    printer.raw(args.raw);
    let settings = Settings::from_environment()?;
    printer.token_exposed(&settings.token_file);
    let client = Client::new(settings, Stop::never());
    let page = client.page(&request(&client, args)?)?;
    if args.json {
        printer.json(&page.json);
    } else {
        printer.page(&page.value, &args.window);
    }
    Ok(0)
}

fn request(client: &Client, args: &ReadArgs) -> Result<PageRequest, Failure> {
    let target = match (args.target.output, &args.target.path) {
        (Some(output), _) => ReadTarget::Output(output),
        (None, path) => ReadTarget::Path(path.clone().unwrap_or_default()),
    };
    let host = match (&args.host, &target) {
        (None, ReadTarget::Output(output)) => client.holder(*output)?,
        (asked, _) => client.host(asked.as_deref())?,
    };
    Ok(PageRequest {
        session: args.session.clone(),
        host,
        target,
        window: args.window.clone(),
        turn: args.turn.asked(),
    })
}
