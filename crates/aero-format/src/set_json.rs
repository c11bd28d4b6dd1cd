//! The JSON of a set: values as serde_json has them, but no key twice, and files as it lists them.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde_core::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use tensor_core::{At, FileId};

use crate::{Error, Result, Rule};

/// A file as the set's JSON lists it.
pub(crate) struct Listed {
    pub(crate) place: Place,
    pub(crate) sha256: Option<String>,
    pub(crate) size: Option<u64>,
}

/// Where a file is.
#[derive(Clone)]
pub(crate) enum Place {
    Local(PathBuf),
    /// Beside a set that is not on this disk.
    Beside(String),
    /// At an address, or with a name below it.
    Remote(String, Option<String>),
}

/// What names of files are relative to.
#[derive(Clone, Copy)]
pub(crate) enum Folder<'a> {
    Local(&'a Path),
    /// That of a set which is not on this disk.
    Elsewhere,
    /// The address that the set has for all of its files.
    Below(&'a str),
}

pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) file: Listed,
    /// Its shards, as the set numbers them, in the order of the list.
    pub(crate) shards: Vec<u32>,
    /// Which file it was when the set was opened, `None` where there was none.
    pub(crate) id: Option<FileId>,
}

/// The whole text as a value.
pub(crate) fn parse(bytes: &[u8]) -> Result<Json> {
    match serde_json::from_slice(bytes) {
        Ok(Unique(json)) => Ok(json),
        Err(error) => Err(Error::invalid(
            match error.to_string().starts_with(TWICE) {
                true => Rule::SetDuplicateKey,
                false => Rule::SetJson,
            },
            At::new(0, "json"),
        )),
    }
}

/// How the error about a duplicate key begins.
const TWICE: &str = "a key is there twice";

/// A value in which no object has a key twice.
struct Unique(Json);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values).map(Self)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Json, A::Error> {
        let mut object = serde_json::Map::new();
        while let Some((key, Unique(value))) = pairs.next_entry::<String, _>()? {
            if object.insert(key, value).is_some() {
                return Err(A::Error::custom(TWICE));
            }
        }
        Ok(Json::Object(object))
    }
}

/// What is under a path of keys, null where there is nothing.
pub(crate) fn at_path<'a>(json: &'a Json, path: &[&str]) -> &'a Json {
    let step = |json: Option<&'a Json>, key: &&str| json?.get(*key);
    path.iter().fold(Some(json), step).unwrap_or(&Json::Null)
}

pub(crate) fn text_at<'a>(json: &'a Json, path: &[&str]) -> Option<&'a str> {
    at_path(json, path).as_str()
}

/// A file as listed, its path checked: one component after the other, none of them upwards, and
/// no link that leads out of the folder. Size and hash may be absent, but not of another type.
pub(crate) fn listed(json: &Json, folder: Folder<'_>) -> Result<Listed> {
    let wrong = |rule, field| Error::invalid(rule, At::new(0, field));
    let text = text_at(json, &["path"]).ok_or_else(|| wrong(Rule::SetJson, "path"))?;
    let size = match json.get("size_bytes") {
        None => None,
        Some(size) => {
            let size = size.as_u64();
            Some(size.ok_or_else(|| wrong(Rule::SetField, "size_bytes"))?)
        }
    };
    let sha256 = match json.get("sha256") {
        None => None,
        Some(digest) => {
            let digest = digest.as_str();
            let digest = digest.filter(|text| crate::integrity::unhex(text).is_some());
            Some(digest.ok_or_else(|| wrong(Rule::SetField, "sha256"))?)
        }
    };
    let place = match text.split_once("://") {
        Some((scheme, _)) if ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) => {
            Place::Remote(text.to_owned(), None)
        }
        Some(_) => return Err(wrong(Rule::SetPath, "path")),
        None => {
            let plain = !text.is_empty() && !text.contains(['\\', '\0', ':']);
            let inside = Path::new(text)
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            if !plain || !inside {
                return Err(wrong(Rule::SetPath, "path"));
            }
            match folder {
                Folder::Local(folder) => local(folder, text)?,
                Folder::Elsewhere => Place::Beside(text.to_owned()),
                Folder::Below(base) => Place::Remote(base.to_owned(), Some(text.to_owned())),
            }
        }
    };
    Ok(Listed {
        place,
        sha256: sha256.map(str::to_owned),
        size,
    })
}

/// A file in a folder, unless a link there leads out of it.
fn local(folder: &Path, name: &str) -> Result<Place> {
    let path = folder.join(name);
    if let (Ok(real), Ok(home)) = (path.canonicalize(), folder.canonicalize()) {
        if !real.starts_with(home) {
            return Err(Error::invalid(Rule::SetPath, At::new(0, "path")));
        }
    }
    Ok(Place::Local(path))
}
