//! `parcae dump`: all tasks of a running program.

use crate::args::DumpArgs;
use crate::stage::{Format, Stage};
use crate::target::{Client, Trouble};

pub(crate) fn run(args: &DumpArgs, format: Format) -> Result<(), Trouble> {
    let mut client = Client::find(args.target.target.as_deref())?;
    let stage = Stage::new(format);
    let of = |request: &str| if args.full { format!("{request} full") } else { request.to_owned() };
    match format {
        Format::Json => stage.document(&client.ask(&of("dump"))?),
        // The program itself formats the text, as `Runtime::dump` does.
        Format::Text => {
            let answer = client.ask(&of("text"))?;
            stage.say(format_args!("{}", client.hello));
            stage.say(answer["text"].as_str().unwrap_or_default().trim_end());
        }
    }
    Ok(())
}
