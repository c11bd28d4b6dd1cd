//! What `--dry-run` answers: what would be written.

use std::path::Path;

use serde::Serialize;
use tensorfmt::convert::Plan;

use crate::failure::Failure;
use crate::output::{Out, escape, human};

/// What a plan would write.
#[derive(Serialize)]
pub(super) struct Planned {
    file: String,
    /// Bytes of tensor data.
    bytes: u64,
    /// What workers that write parts of one set share.
    fingerprint: Option<String>,
    parts: Vec<Part>,
}

/// One part of it.
#[derive(Serialize)]
struct Part {
    part: u32,
    of: u32,
    file: String,
    tensors: usize,
    bytes: u64,
}

impl Planned {
    pub(super) fn new(plan: &Plan, path: &Path) -> Self {
        let mut files = plan.files_beside(path).into_iter();
        let parts = plan.parts().iter().map(|planned| Part {
            part: planned.part.number(),
            of: planned.part.of(),
            file: shown(&files.next().unwrap_or_default()),
            tensors: planned.tensors.len(),
            bytes: planned.data_len,
        });
        Self {
            parts: parts.collect(),
            file: shown(path),
            bytes: plan.data_len(),
            fingerprint: plan.fingerprint().map(str::to_owned),
        }
    }

    /// Prints it for people.
    pub(super) fn print(&self) -> Result<(), Failure> {
        let mut out = Out::new();
        for part in &self.parts {
            out.line(&escape(&format!(
                "part {}/{}: {}: {} tensors, {} of data",
                part.part,
                part.of,
                part.file,
                part.tensors,
                human(part.bytes)
            )))?;
        }
        let (file, bytes) = (&self.file, human(self.bytes));
        out.line(&escape(&format!("{file}: {bytes} of tensor data")))?;
        if let Some(fingerprint) = &self.fingerprint {
            out.line(&format!("fingerprint: {fingerprint}"))?;
        }
        out.line("nothing is written: --dry-run")?;
        out.finish()
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
