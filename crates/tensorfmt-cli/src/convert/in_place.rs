//! A file that is its own output and changes in its index alone.

use tensorfmt::convert::{Model, Options, Target, edit_in_place};
use tensorfmt::{Archive, Misfit};

use super::report::Report;
use crate::cli::{Common, Convert};
use crate::failure::Failure;
use crate::signals::Graceful;
use crate::target;

/// Edits the file where it is, and says so; `false`, with the reason said, where it must be written anew.
pub(super) fn edit(
    model: &Model,
    archive: &Archive,
    target: Target,
    options: &Options,
    args: &Convert,
    common: &Common,
    report: &mut Report,
) -> Result<bool, Failure> {
    // What is salvaged, or becomes another format, is another file.
    if args.salvage || target.format() != archive.format() || target.is_set() {
        return Ok(false);
    }
    let path = &args.output;
    let _graceful = Graceful::new();
    let edited = edit_in_place(path, archive, model, options);
    match edited.map_err(|error| Failure::about(path, &error))? {
        Ok(bytes) => {
            target::leftovers(path, args.remove_leftovers, common.quiet)?;
            report.written_in_place(bytes, common);
            Ok(true)
        }
        // That is what was asked for.
        Err(Misfit::Tensors) => Ok(false),
        Err(why) => {
            let what = format!("the whole file is written anew, not its index alone: {why}");
            report.notices(vec![what], common);
            Ok(false)
        }
    }
}
