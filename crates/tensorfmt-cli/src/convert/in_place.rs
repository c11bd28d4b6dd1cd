//! A file that is its own output and changes in its index alone.

use tensorfmt::convert::{Model, edit_in_place};
use tensorfmt::{Archive, Misfit};

use super::Job;
use super::report::Report;
use crate::failure::Failure;
use crate::signals::Graceful;
use crate::target;

/// Edits the file where it is, and says so; `false`, with the reason said, where it must be written anew.
pub(super) fn edit(
    job: &Job<'_>,
    model: &Model,
    archive: &Archive,
    report: &mut Report,
) -> Result<bool, Failure> {
    let (args, common, target) = (job.args, job.common, job.target);
    // What is salvaged, or becomes another format, is another file.
    if args.salvage || target.format() != archive.format() || target.is_set() {
        return Ok(false);
    }
    let path = &args.output;
    let _graceful = Graceful::new();
    let edited = edit_in_place(path, archive, model, &job.options);
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
