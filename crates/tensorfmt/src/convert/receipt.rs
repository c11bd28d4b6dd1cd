//! What the writer of a part leaves beside it, for who joins all of them.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use tensor_core::Source;

use super::Target;
use crate::json::hex;
use crate::{Part, Result};

/// How the name of a receipt ends, after that of the part's file.
pub(super) const ENDING: &str = ".receipt";
/// How long a receipt may be.
const MOST: u64 = 1 << 20;

/// That a part is written to its end, and what it is a part of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Receipt {
    /// The file name of the set.
    pub(super) set: String,
    pub(super) target: Target,
    pub(super) part: Part,
    /// The file name of the part.
    pub(super) file: String,
    pub(super) bytes: u64,
    /// Where the set says it.
    pub(super) sha256: Option<String>,
    /// The digest of the first and the last bytes.
    pub(super) ends: String,
    /// Digests of the plan, and of what it was made of.
    pub(super) plan: String,
    pub(super) options: String,
    pub(super) model: String,
    /// How the index of the set is written.
    pub(super) index: Json,
}

impl Receipt {
    /// Where the receipt of a part is.
    pub(super) fn path(file: &Path) -> PathBuf {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(ENDING);
        file.with_file_name(name)
    }

    pub(super) fn to_text(&self) -> String {
        let receipt = json!({
            "about": "a part of a set, which `tensorfmt join` joins",
            "set": self.set,
            "target": self.target.name(),
            "part": self.part.number(),
            "of": self.part.of(),
            "file": self.file,
            "bytes": self.bytes,
            "sha256": self.sha256,
            "ends": self.ends,
            "plan": self.plan,
            "options": self.options,
            "model": self.model,
            "index": self.index,
        });
        format!("{receipt:#}\n")
    }

    /// The receipt at a path; `None` where there is none, or something else.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let mut text = Vec::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(MOST).read_to_end(&mut text).ok()?;
        let json: Json = serde_json::from_slice(&text).ok()?;
        let text = |key: &str| Some(json.get(key)?.as_str()?.to_owned());
        let number = |key: &str| u32::try_from(json.get(key)?.as_u64()?).ok();
        let receipt = Self {
            set: text("set")?,
            target: Target::from_name(&text("target")?)?,
            part: Part::new(number("part")?, number("of")?).ok()?,
            file: text("file")?,
            bytes: json.get("bytes")?.as_u64()?,
            sha256: text("sha256"),
            ends: text("ends")?,
            plan: text("plan")?,
            options: text("options")?,
            model: text("model")?,
            index: json.get("index")?.clone(),
        };
        // It speaks of the file that it lies beside, and of no other.
        let beside = path.file_name()?.to_str()?.strip_suffix(ENDING)?;
        (beside == receipt.file).then_some(receipt)
    }

    /// The file of another part of the same plan.
    pub(super) fn file_of(&self, part: Part) -> String {
        let numbers = |part: Part| format!("-{:05}-of-{:05}", part.number(), part.of());
        match self.file.rsplit_once(&numbers(self.part)) {
            Some((stem, ending)) => format!("{stem}{}{ending}", numbers(part)),
            None => self.file.clone(),
        }
    }
}

/// The digest of the first and the last bytes of a file, which is as good as that of all to tell apart files
/// that were written whole.
pub(super) fn ends(file: &dyn Source) -> Result<String> {
    /// How many bytes at each end.
    const END: u64 = 1 << 20;
    let size = file.size();
    let mut digest = Sha256::new();
    digest.update(file.read(0..size.min(END))?);
    digest.update(file.read(size.saturating_sub(END)..size)?);
    Ok(hex(&digest.finalize()))
}
