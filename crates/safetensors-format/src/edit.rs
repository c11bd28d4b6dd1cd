//! The index of a file that is changed where it is.

use alloc::string::String;
use alloc::vec::Vec;

use tensor_core::{Misfit, Patch};

use crate::json::put_text;
use crate::layout::{METADATA, PREFIX, put_pairs};
use crate::write::{Planned, extras_of};
use crate::{Archive, Builder, Entry, Result};

type Edit<T> = core::result::Result<T, Misfit>;

impl Builder {
    /// What to write over the file of `archive` so that its tensors have the names, and it has the metadata,
    /// of this builder, whose tensors are those of the archive in the same order: their data is taken to
    /// be the same. The header keeps its length and, but for what changes, its text.
    ///
    /// ```
    /// use safetensors_format::{Archive, Builder, Tensor};
    ///
    /// let mut old = Builder::new();
    /// old.tensor("weight", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// let mut bytes = old.to_vec()?;
    /// let archive = Archive::from_bytes(bytes.clone())?;
    /// let mut new = Builder::new();
    /// new.copy_as("w", &archive, archive.entry("weight").ok_or("no tensor")?)?;
    /// for (at, write) in new.edit(&archive)??.writes() {
    ///     bytes[at as usize..][..write.len()].copy_from_slice(write);
    /// }
    /// assert!(Archive::from_bytes(bytes)?.entry("w").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the source fails with; the inner error is why the change can't be made in place.
    pub fn edit(&self, archive: &Archive) -> Result<Edit<Patch>> {
        let header = archive.source.read(PREFIX..archive.data_start())?;
        let header = core::str::from_utf8(&header).unwrap_or_default();
        let edit = |apart| {
            let new = self.edited(archive, header, apart)?;
            let mut patch = Patch::new(archive.file_len());
            patch.switch(PREFIX, header.as_bytes(), new.as_bytes())?;
            Ok(patch)
        };
        // Where less is in the way of what grows, all moves.
        Ok(match edit(true) {
            Err(Misfit::Tensors) => Err(Misfit::Tensors),
            Err(why) => edit(false).map_err(|_| why),
            patch => patch,
        })
    }

    /// The new header, as long as the old one; `apart` has what stays stay where it is.
    fn edited(&self, archive: &Archive, header: &str, apart: bool) -> Edit<String> {
        if !self.has_tensors_of(archive) {
            return Err(Misfit::Tensors);
        }
        let entries = archive.entries();
        let (tensors, metadata) = self.parts();
        let (members, end) = members(header);
        let is_metadata = |member: &Member| header.get(member.key..member.colon) == Some(QUOTED);
        let has_metadata = members.iter().any(is_metadata);
        if members.len() != entries.len() + usize::from(has_metadata) {
            return Err(Misfit::Layout(
                "a key of the header is spelled in an unusual way",
            ));
        }
        let text = |from, to| header.get(from..to).unwrap_or_default();
        let mut pairs = Vec::new();
        pairs.extend(metadata.iter().map(|(key, value)| (&**key, &**value)));
        pairs.sort_unstable();
        let mut before: Vec<(&str, &str)> = Vec::new();
        before.extend(
            archive
                .metadata()
                .iter()
                .map(|pair| (pair.key(), pair.value())),
        );
        before.sort_unstable();
        let mut out = String::from("{");
        let mut tensors = tensors.iter().zip(&entries);
        for member in &members {
            let place = |out: &mut String| {
                if out.len() > 1 {
                    out.push(',');
                }
                // What got shorter leaves room, so that all that follows stays where it is.
                while apart && out.len() < member.key {
                    out.push(' ');
                }
            };
            if !is_metadata(member) {
                let Some((planned, entry)) = tensors.next() else {
                    continue;
                };
                place(&mut out);
                match planned.name == entry.name() {
                    true => out.push_str(text(member.key, member.end)),
                    false => {
                        put_text(&planned.name, &mut out);
                        out.push_str(text(member.colon, member.end));
                    }
                }
            } else if pairs == before {
                place(&mut out);
                out.push_str(text(member.key, member.end));
            } else if !pairs.is_empty() {
                place(&mut out);
                put_metadata(&pairs, &mut out);
            }
        }
        if !has_metadata && !pairs.is_empty() {
            if out.len() > 1 {
                out.push(',');
            }
            put_metadata(&pairs, &mut out);
        }
        while apart && out.len() < end {
            out.push(' ');
        }
        out.push('}');
        filled_up(out, header.len())
    }

    /// Whether the tensors are those of the archive, in the same order, whatever their names.
    fn has_tensors_of(&self, archive: &Archive) -> bool {
        let (tensors, _) = self.parts();
        let entries = archive.entries();
        let same = |(planned, entry): (&Planned, Entry<'_>)| {
            planned.code == *entry.dtype_code()
                && planned.shape == *entry.shape()
                && planned.len == entry.len()
                && planned.extras == extras_of(entry)
        };
        tensors.len() == entries.len() && tensors.iter().zip(&entries).all(same)
    }
}

/// A header that is filled up with spaces to a length.
fn filled_up(mut header: String, len: usize) -> Edit<String> {
    let (needed, room) = (header.len() as u64, len as u64);
    if needed > room {
        return Err(Misfit::Room { needed, room });
    }
    while header.len() < len {
        header.push(' ');
    }
    Ok(header)
}

/// The name of the metadata as it stands in a header.
const QUOTED: &str = "\"__metadata__\"";

fn put_metadata(pairs: &[(&str, &str)], out: &mut String) {
    put_text(METADATA, out);
    out.push_str(":{");
    put_pairs(pairs.iter().copied(), out);
    out.push('}');
}

/// A member of the header's object: where its key begins and ends, and where its value ends.
#[derive(Debug)]
struct Member {
    key: usize,
    colon: usize,
    end: usize,
}

/// The members of a header that was parsed before, and where its object is closed.
fn members(header: &str) -> (Vec<Member>, usize) {
    let mut members: Vec<Member> = Vec::new();
    let (mut depth, mut text, mut escaped, mut value) = (0usize, false, false, false);
    let mut last = 0;
    for (at, byte) in header.bytes().enumerate() {
        if text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    text = false;
                    if let Some(member) = members.last_mut().filter(|_| depth == 1 && !value) {
                        member.colon = at.saturating_add(1);
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => {
                text = true;
                if depth == 1 && !value {
                    let (key, colon, end) = (at, at, at);
                    members.push(Member { key, colon, end });
                }
            }
            b':' if depth == 1 => value = true,
            b',' if depth == 1 => value = false,
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                last = at;
                if let Some(member) = members.last_mut().filter(|_| depth == 1) {
                    member.end = at.saturating_add(1);
                }
            }
            _ => {}
        }
    }
    (members, last)
}
