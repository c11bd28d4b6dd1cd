//! Sets that lie beside a file and name it: to write the file breaks them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tensorfmt::Format;

use crate::target::same_name;

/// How many bytes of all sets of a folder are searched; what is beyond is left alone.
const MOST: u64 = 64 << 20;
/// How much of them is looked at at a time.
const WINDOW: usize = 1 << 16;
/// How much of a file tells what it is.
const HEAD: usize = 4096;

/// The set beside `path` that names the file there, or the one that it leads to; `own` is not meant.
pub(crate) fn set_of(path: &Path, own: Option<&Path>) -> Option<PathBuf> {
    path.symlink_metadata().ok()?;
    let led_to = path
        .is_symlink()
        .then(|| path.canonicalize().ok())
        .flatten();
    let paths = std::iter::once(path.to_path_buf()).chain(led_to);
    let mut left = MOST;
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str());
        let mut sets = name.map_or_else(Vec::new, |_| jsons(&path));
        sets.retain(|set| !own.is_some_and(|own| same_name(own, set)) && !same_name(&path, set));
        let found = sets.into_iter().find(|set| {
            name.is_some_and(|name| is_set_with(set, name, &mut left).unwrap_or(false))
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The line about a file whose replacement breaks such a set.
pub(crate) fn breaks(path: &Path, own: Option<&Path>) -> Option<String> {
    let set = set_of(path, own)?;
    Some(format!(
        "{} is a file of the set {}, which is broken by another one in its place",
        path.display(),
        set.display()
    ))
}

/// The JSON files in the folder of a file, hidden ones left out, in the order of their names.
fn jsons(path: &Path) -> Vec<PathBuf> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let is_json = |name: &String| name.to_ascii_lowercase().ends_with(".json");
    let mut names: Vec<String> = names
        .filter(|name| is_json(name) && !name.starts_with('.'))
        .collect();
    names.sort_unstable();
    // As the output was given.
    let beside = |name: String| path.with_file_name(name);
    names.into_iter().map(beside).collect()
}

/// Whether a file is a set's and names another one, as far as `left` bytes of it tell.
fn is_set_with(set: &Path, name: &str, left: &mut u64) -> io::Result<bool> {
    if !set.metadata()?.is_file() {
        return Ok(false);
    }
    let file = File::open(set)?;
    let len = file.metadata()?.len();
    let mut file = file.take(*left);
    let mut text = Vec::with_capacity(2 * WINDOW);
    let read = (&mut file).take(HEAD as u64).read_to_end(&mut text)?;
    *left = left.saturating_sub(read as u64);
    let file_name = set
        .file_name()
        .map(|name| name.to_string_lossy().to_ascii_lowercase());
    let ends = |end: &str| file_name.as_ref().is_some_and(|name| name.ends_with(end));
    let is_set = ends(".aeroset.json")
        || ends(".index.json")
        || Format::detect(&text, len, None) == Some(Format::Aero)
        || text.windows(12).any(|window| window == b"\"weight_map\"");
    if !is_set {
        return Ok(false);
    }
    let quoted = serde_json::to_string(name).map_err(io::Error::from)?;
    let quoted = quoted.as_bytes();
    loop {
        let from = text.len();
        let read = (&mut file).take(WINDOW as u64).read_to_end(&mut text)?;
        *left = left.saturating_sub(read as u64);
        if has_value(&text, quoted, read == 0) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
        // What may go on in the next piece.
        let keep = quoted.len() + 64;
        text.drain(..from.saturating_sub(keep));
    }
}

/// Whether a piece of JSON has a text that is the `quoted` name, alone or after a folder, and no key.
fn has_value(text: &[u8], quoted: &[u8], is_end: bool) -> bool {
    let Some(bare) = quoted.get(1..).filter(|bare| !bare.is_empty()) else {
        return false;
    };
    let hits = text.windows(bare.len()).enumerate();
    let hits = hits.filter(|(_, window)| *window == bare);
    hits.into_iter().any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        let after = text.get(at + bare.len()..).unwrap_or_default();
        let next = after.iter().find(|byte| !byte.is_ascii_whitespace());
        let is_whole = matches!(before, Some(b'"' | b'/'));
        is_whole && next.map_or(is_end, |&next| next != b':')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_value_and_no_key_whatever_the_piece() {
        let quoted = br#""a.aero""#;
        for (text, is_end, expected) in [
            (&br#"{"path": "a.aero"}"#[..], false, true),
            (br#"{"path": "./a.aero"}"#, false, true),
            (br#"{"path": "a.aero" , "#, false, true),
            (br#"["a.aero""#, true, true),
            (br#"["a.aero""#, false, false),
            (br#"{"a.aero": 1}"#, false, false),
            (br#"{"a.aero"  : 1}"#, false, false),
            (br#"{"path": "aa.aero"}"#, false, false),
            (br#"{"path": "a.aero.old"}"#, false, false),
        ] {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(has_value(text, quoted, is_end), expected, "{shown}");
        }
    }

    #[test]
    fn a_name_is_found_wherever_pieces_end() {
        let folder = tempfile::tempdir().unwrap();
        for fill in [0, HEAD - 30, HEAD + WINDOW - 30, 3 * WINDOW] {
            for shift in 0..60 {
                let fill = "x".repeat(fill + shift);
                let text = format!(r#"{{"fill":"{fill}","weight_map":{{"w":"a.safetensors"}}}}"#);
                let set = folder.path().join("m.safetensors.index.json");
                std::fs::write(&set, text).unwrap();
                let mut left = MOST;
                assert!(is_set_with(&set, "a.safetensors", &mut left).unwrap());
                assert!(left < MOST && !is_set_with(&set, "w", &mut left).unwrap());
            }
        }
    }
}
