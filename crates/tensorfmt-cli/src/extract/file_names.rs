//! Names of files for tensors, whatever the tensors are called.

use std::collections::HashSet;

/// How many bytes of a tensor's name are kept; the whole with its ending fits every file system.
const MAX_NAME_BYTES: usize = 180;

/// Gives each tensor a file name of its own: letters, digits, dots, dashes and underscores, none of which
/// is a path, hidden, reserved on some system, or another one in other cases.
#[derive(Debug, Default)]
pub(super) struct FileNames(HashSet<String>);

impl FileNames {
    /// The name for a tensor, without the ending.
    pub(super) fn next(&mut self, tensor: &str) -> String {
        let plain = plain(tensor);
        let mut name = plain.clone();
        let mut number = 2u64;
        while !self.0.insert(name.to_lowercase()) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        name
    }
}

fn plain(tensor: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let mut name = String::with_capacity(tensor.len());
    for c in tensor.chars() {
        if name.len() >= MAX_NAME_BYTES {
            break;
        }
        name.push(if is_plain(c) { c } else { '_' });
    }
    // A name that begins with a dash is an option to many programs.
    let stem = name
        .split('.')
        .next()
        .unwrap_or_default()
        .to_ascii_uppercase();
    if name.is_empty() || name.starts_with(['.', '-']) || is_reserved(&stem) {
        name.insert(0, '_');
    }
    name
}

/// Whether Windows has a device of this name, whatever comes after a dot.
fn is_reserved(stem: &str) -> bool {
    let port = |kind| {
        let number: Option<&str> = stem.strip_prefix(kind);
        number.is_some_and(|number| number.len() == 1 && number.bytes().all(|b| b.is_ascii_digit()))
    };
    matches!(stem, "CON" | "PRN" | "AUX" | "NUL") || port("COM") || port("LPT")
}

/// The name of a tensor in an archive: its own, unless whoever unpacks the archive could come to harm.
pub(super) fn in_archive(tensor: &str) -> Option<&str> {
    let is_harmless = |part: &str| !matches!(part, "" | "." | "..");
    let is_short = tensor.len() <= super::npz::MOST_NAME;
    let is_text = |c: char| !c.is_control() && !matches!(c, '\\' | ':');
    (tensor.split('/').all(is_harmless) && tensor.chars().all(is_text) && is_short)
        .then_some(tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_and_differ_everywhere() {
        let mut names = FileNames::default();
        for (tensor, name) in [
            ("layer.0.weight", "layer.0.weight"),
            ("layer.0.Weight", "layer.0.Weight_2"),
            ("LAYER.0.WEIGHT", "LAYER.0.WEIGHT_3"),
            ("../../etc/passwd", "_.._.._etc_passwd"),
            ("/root", "_root"),
            ("a/b", "a_b"),
            ("a\\b", "a_b_2"),
            ("a:b", "a_b_3"),
            ("a_b_2", "a_b_2_2"),
            ("", "_"),
            (".", "_."),
            ("..", "_.."),
            (".hidden", "_.hidden"),
            ("-rf", "_-rf"),
            ("con", "_con"),
            ("Nul.weight", "_Nul.weight"),
            ("com1", "_com1"),
            ("com10", "com10"),
            ("conv", "conv"),
            ("w[0:2]", "w_0_2_"),
            ("ä\n", "__"),
        ] {
            assert_eq!(names.next(tensor), name, "{tensor:?}");
        }
        let long = names.next(&"x".repeat(5000));
        assert_eq!(long.len(), MAX_NAME_BYTES);
        assert_eq!(names.next(&"x".repeat(5001)), format!("{long}_2"));
    }

    #[test]
    fn archives_keep_names_that_do_no_harm() {
        for name in ["w", "a/b/w", "layer.0.weight", "w[0:2]", "..w", "ä b"] {
            let kept = in_archive(name).is_some();
            assert_eq!(kept, !name.contains(':'), "{name}");
        }
        for name in [
            "", "/w", "a//b", "../w", "a/../w", "a/.", "a\\b", "c:w", "a\0b",
        ] {
            assert_eq!(in_archive(name), None, "{name:?}");
        }
    }
}
