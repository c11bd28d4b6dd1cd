use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use url::Url;

use crate::{Problem, RemoteError};

/// Which kind of store an address is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// `s3://bucket/key`.
    S3,
    /// `gs://bucket/key`.
    Gcs,
    /// `az://container/key`, or `abfs://` and `abfss://` with an account behind an `@`.
    Azure,
    /// `http://` and `https://`.
    Http,
    /// `file:///path`.
    File,
}

impl Scheme {
    /// The feature that turns it on.
    ///
    /// ```
    /// use tensor_remote::RemoteAddress;
    ///
    /// let address: RemoteAddress = "gs://models/a.aero".parse()?;
    /// assert_eq!(address.scheme().feature(), "gcs");
    /// # Ok::<(), tensor_remote::RemoteError>(())
    /// ```
    #[must_use]
    pub const fn feature(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gcs",
            Self::Azure => "azure",
            Self::Http => "http",
            Self::File => "file",
        }
    }
}

/// The address of an object: `s3://bucket/model.aero`, `https://host/model.aero` and the like.
///
/// What it prints as is safe to show: the query of an address may be a signature, and what stands before an
/// `@` a password, so neither ever appears.
///
/// ```
/// use tensor_remote::RemoteAddress;
///
/// let address: RemoteAddress = "https://me:secret@host/a/model.aero?X-Signature=00ff".parse()?;
/// assert_eq!(address.to_string(), "https://host/a/model.aero?...");
/// assert_eq!(address.file_name(), "model.aero");
/// assert_eq!(address.join("parts/0.aero")?.to_string(), "https://host/a/parts/0.aero?...");
/// assert!(address.join("../0.aero").is_err());
/// assert_eq!(address.origin().as_deref(), Some("https://host"));
/// # Ok::<(), tensor_remote::RemoteError>(())
/// ```
///
/// A text may be a path, an address, or what looks like one and isn't:
///
/// ```
/// use tensor_remote::{RemoteAddress, Scheme};
///
/// assert!(RemoteAddress::parse("models/a.aero")?.is_none());
/// let address = RemoteAddress::parse("s3://models/a.aero")?.ok_or("a path")?;
/// assert_eq!((address.scheme(), address.local_path()), (Scheme::S3, None));
/// assert!(RemoteAddress::parse("s3://models/").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// One that stands in a file may be one over http(s) alone, and names below it stay there:
///
/// ```
/// use tensor_remote::RemoteAddress;
///
/// let part = RemoteAddress::linked_below("https://host/parts", "0.aero")?;
/// assert_eq!(part, RemoteAddress::linked("https://host/parts/0.aero")?);
/// assert!(RemoteAddress::linked("file:///etc/passwd").is_err());
/// # Ok::<(), tensor_remote::RemoteError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    scheme: Scheme,
    place: Place,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    /// As the address says it, all of it.
    Web(Url),
    /// A key is what it is, without escapes.
    Bucket {
        /// As typed, in lower case.
        word: String,
        /// Bucket or container, with an account where there is one.
        host: String,
        key: String,
    },
    File(PathBuf),
}

impl RemoteAddress {
    /// The address that a text is, `None` where it does not begin like one: then it is a path.
    ///
    /// # Errors
    /// [`Problem::Address`] where it begins like one and can't be.
    pub fn parse(text: &str) -> Result<Option<Self>, RemoteError> {
        let Some((word, rest)) = text.split_once("://") else {
            return Ok(None);
        };
        let word = word.to_ascii_lowercase();
        let scheme = match word.as_str() {
            "s3" | "s3a" => Scheme::S3,
            "gs" => Scheme::Gcs,
            "az" | "abfs" | "abfss" => Scheme::Azure,
            "http" | "https" => Scheme::Http,
            "file" => Scheme::File,
            _ => return Ok(None),
        };
        let wrong = |why: &str| RemoteError::new(&shown(text), Problem::Address(why.into()));
        if text.chars().any(|c| c.is_control()) {
            return Err(wrong("it has control characters"));
        }
        let place = match scheme {
            Scheme::Http => {
                let mut url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
                url.set_fragment(None);
                if url.host_str().is_none_or(str::is_empty) {
                    return Err(wrong("it names no host"));
                }
                Place::Web(url)
            }
            Scheme::File => {
                let path = Url::parse(text)
                    .ok()
                    .and_then(|url| url.to_file_path().ok());
                Place::File(path.ok_or_else(|| wrong("it is no path of this machine"))?)
            }
            _ => {
                let (host, key) = rest.split_once('/').unwrap_or((rest, ""));
                if host.is_empty() {
                    return Err(wrong("it names no bucket"));
                }
                if host.contains(['?', '#', ':']) || (host.contains('@') && scheme != Scheme::Azure)
                {
                    return Err(wrong(
                        "a bucket's name stands alone; keys and passwords come from the environment",
                    ));
                }
                check_key(key).map_err(|why| wrong(&why))?;
                Place::Bucket {
                    word,
                    host: host.to_owned(),
                    key: key.to_owned(),
                }
            }
        };
        let address = Self { scheme, place };
        if address.file_name().is_empty() {
            return Err(wrong("it names no object, only what holds some"));
        }
        Ok(Some(address))
    }

    /// Which kind of store it is of.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The last part of its path: what a file there would be called.
    #[must_use]
    pub fn file_name(&self) -> String {
        match &self.place {
            Place::Web(url) => {
                let last = url.path().rsplit('/').next().unwrap_or_default();
                decoded(last)
            }
            Place::Bucket { key, .. } => key.rsplit('/').next().unwrap_or_default().to_owned(),
            Place::File(path) => path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }

    /// The path on this machine, of a `file://` address.
    #[must_use]
    pub fn local_path(&self) -> Option<&Path> {
        match &self.place {
            Place::File(path) => Some(path),
            _ => None,
        }
    }

    /// The object of this name beside it, or in a folder below: what an index calls its parts. It never
    /// leads out of the folder. A signature or token in the address is kept, since it goes to the same server.
    ///
    /// # Errors
    /// [`Problem::Outside`] for a name that leads elsewhere: absolute, with `..`, with a scheme.
    pub fn join(&self, name: &str) -> Result<Self, RemoteError> {
        let outside = || RemoteError::new(self, Problem::Outside(name.to_owned()));
        let is_bad = |part: &str| part.is_empty() || part == "..";
        let has_bad = name.contains(['\\', ':']) || name.chars().any(char::is_control);
        if has_bad || name.split('/').any(is_bad) {
            return Err(outside());
        }
        let parts: Vec<&str> = name.split('/').filter(|part| *part != ".").collect();
        if parts.is_empty() {
            return Err(outside());
        }
        let place = match &self.place {
            Place::Web(url) => {
                let mut url = url.clone();
                if let Ok(mut path) = url.path_segments_mut() {
                    path.pop().extend(&parts);
                }
                Place::Web(url)
            }
            Place::Bucket { word, host, key } => {
                let folder = key.rsplit_once('/').map(|(folder, _)| folder);
                let parts = parts.join("/");
                Place::Bucket {
                    word: word.clone(),
                    host: host.clone(),
                    key: folder.map_or_else(|| parts.clone(), |folder| format!("{folder}/{parts}")),
                }
            }
            Place::File(path) => {
                let folder = path.parent().unwrap_or(Path::new("/"));
                Place::File(
                    parts
                        .iter()
                        .fold(folder.to_path_buf(), |at, part| at.join(part)),
                )
            }
        };
        Ok(Self {
            scheme: self.scheme,
            place,
        })
    }

    /// The object that an address inside a file means: one of its own, or a path from this one's server.
    /// Who asks for it must be allowed to, see [`Remote::open_linked`](crate::Remote::open_linked).
    ///
    /// # Errors
    /// [`Problem::Address`] where it is none over http(s).
    pub fn linked(text: &str) -> Result<Self, RemoteError> {
        match Self::parse(text)? {
            Some(address) if address.scheme == Scheme::Http => Ok(address),
            _ => {
                let why = "a file can only name http and https addresses".into();
                Err(RemoteError::new(&shown(text), Problem::Address(why)))
            }
        }
    }

    /// The object of this name below the folder at an address, both out of a file; the name never leads out
    /// of it.
    ///
    /// # Errors
    /// As [`linked`](Self::linked) and [`join`](Self::join).
    pub fn linked_below(base: &str, name: &str) -> Result<Self, RemoteError> {
        let (path, query) = match base.find(['?', '#']) {
            Some(at) => base.split_at(at),
            None => (base, ""),
        };
        // Any name will do: it is the one that is replaced.
        Self::linked(&format!("{}/_{query}", path.trim_end_matches('/')))?.join(name)
    }

    /// Scheme, host and port, of an http(s) address: `https://host:8443`.
    #[must_use]
    pub fn origin(&self) -> Option<String> {
        match &self.place {
            Place::Web(url) => Some(origin_of(url)),
            _ => None,
        }
    }

    /// The whole address, secrets included, for the request itself.
    #[cfg(feature = "http")]
    pub(crate) fn url(&self) -> Option<&Url> {
        match &self.place {
            Place::Web(url) => Some(url),
            _ => None,
        }
    }

    /// The same for all addresses of one object, as far as their texts tell.
    pub(crate) fn identity(&self) -> String {
        match &self.place {
            Place::Web(url) => url.as_str().to_owned(),
            Place::Bucket { host, key, .. } => format!("{:?} {host}/{key}", self.scheme),
            Place::File(path) => format!("file {}", path.display()),
        }
    }

    /// What the builders of stores take, and the key.
    #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
    pub(crate) fn bucket(&self) -> Option<(String, &str)> {
        match &self.place {
            Place::Bucket { word, host, key } => Some((format!("{word}://{host}"), key)),
            _ => None,
        }
    }
}

impl FromStr for RemoteAddress {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        Self::parse(text)?.ok_or_else(|| {
            let why = "it begins with none of s3:// gs:// az:// abfs:// abfss:// http:// https:// file://";
            RemoteError::new(&shown(text), Problem::Address(why.into()))
        })
    }
}

/// Whether a text begins like an address: with `s3://` and the like.
pub(crate) fn check_key(key: &str) -> Result<(), String> {
    match object_store::path::Path::parse(key) {
        Ok(path) if path.as_ref() == key => Ok(()),
        _ if key.is_empty() => Ok(()),
        _ => Err("its key has an empty part, `.` or `..`, which stores can't be asked for".into()),
    }
}

pub(crate) fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// A segment of a path with its escapes resolved.
fn decoded(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digit = |at: usize| {
            let byte = tail.get(at).copied().map(char::from);
            byte.and_then(|digit| digit.to_digit(16))
        };
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Without what stands before an `@` and behind a `?`.
pub(crate) fn shown(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let (text, more) = match text.find(['?', '#']) {
        Some(at) => (text.get(..at).unwrap_or_default(), "?..."),
        None => (text.as_str(), ""),
    };
    let Some((scheme, rest)) = text.split_once("://") else {
        return format!("{text}{more}");
    };
    let (host, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    // Of Azure it is the container.
    let host = match host.rsplit_once('@') {
        Some((_, host))
            if !scheme.eq_ignore_ascii_case("abfs") && !scheme.eq_ignore_ascii_case("abfss") =>
        {
            host
        }
        _ => host,
    };
    format!("{scheme}://{host}{path}{more}")
}

/// Safe to show: without a query, without a user.
impl fmt::Display for RemoteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Web(url) => f.write_str(&shown(url.as_str())),
            Place::Bucket { word, host, key } => {
                f.write_str(&shown(&format!("{word}://{host}/{key}")))
            }
            Place::File(path) => write!(f, "file://{}", path.display()),
        }
    }
}

impl fmt::Debug for RemoteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> RemoteAddress {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_no_address_is_a_path() {
        for path in [
            "model.aero",
            "/a/b.aero",
            "C:\\a.aero",
            "ftp://host/a",
            "a:b://c",
        ] {
            assert!(RemoteAddress::parse(path).unwrap().is_none(), "{path}");
        }
    }

    #[test]
    fn addresses_that_name_no_object_are_refused() {
        for text in [
            "s3://",
            "s3://bucket",
            "s3://bucket/",
            "https://host",
            "https://host/",
            "https:///a",
            "http://",
            "s3://key:secret@bucket/a",
            "s3://b/a//c",
            "s3://b/../c",
            "gs://b/./c",
            "file://",
            "s3://b/a\nb",
        ] {
            let error = RemoteAddress::parse(text).unwrap_err().to_string();
            assert!(
                !error.contains("secret") && !error.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn no_secret_is_ever_shown() {
        for text in [
            "https://me:secret@host:1/a/b.aero?sig=secret#secret",
            "https://secret@host/a?secret",
            "s3://bucket/a?secret",
            "az://c/a?sv=secret",
        ] {
            let address = address(text);
            for shown in [format!("{address}"), format!("{address:?}"), shown(text)] {
                assert!(!shown.contains("secret"), "{shown}");
            }
        }
        assert_eq!(
            address("abfss://c@acc.dfs.core.windows.net/a").to_string(),
            "abfss://c@acc.dfs.core.windows.net/a"
        );
    }

    #[test]
    fn parts_stay_in_the_folder() {
        for base in [
            "https://h/a/b/i.json",
            "s3://b/a/b/i.json",
            "file:///a/b/i.json",
        ] {
            let base = address(base);
            for name in ["x.aero", "./x.aero", "d/x.aero", "a b", "%2e%2e", "ü.aero"] {
                let joined = base.join(name).unwrap();
                assert!(joined.to_string().contains("/b/"), "{joined}");
                assert_eq!(
                    joined.file_name(),
                    name.rsplit('/').next().unwrap(),
                    "{name}"
                );
            }
            for name in [
                "",
                ".",
                "..",
                "../x",
                "d/../../x",
                "/x",
                "d//x",
                "x/",
                "\\x",
                "a\\..\\x",
                "https://h/x",
                "C:x",
                "a\0b",
            ] {
                let error = base.join(name).unwrap_err();
                assert!(
                    matches!(error.problem(), Problem::Outside(_)),
                    "{name}: {error}"
                );
            }
        }
        assert_eq!(
            address("s3://b/i.json").join("x").unwrap().to_string(),
            "s3://b/x"
        );
    }

    #[test]
    fn a_part_of_a_signed_address_keeps_the_signature() {
        let part = address("https://h/a/i.json?sig=1").join("p%.aero").unwrap();
        assert_eq!(part.url().unwrap().as_str(), "https://h/a/p%25.aero?sig=1");
    }

    #[test]
    fn what_is_below_an_address_stays_there() {
        let below =
            |base, name| RemoteAddress::linked_below(base, name).map(|address| address.to_string());
        for base in ["https://h/a", "https://h/a/", "https://h/a//"] {
            assert_eq!(below(base, "b/c.aero").unwrap(), "https://h/a/b/c.aero");
        }
        assert_eq!(below("https://h/a?s=1", "c").unwrap(), "https://h/a/c?...");
        assert_eq!(below("https://h", "c").unwrap(), "https://h/c");
        for (base, name) in [
            ("https://h/a", "../c"),
            ("https://h/a", "//h2/c"),
            ("s3://b/a", "c"),
            ("a", "c"),
            ("", "c"),
        ] {
            below(base, name).unwrap_err();
        }
    }

    #[test]
    fn origins_have_the_port_that_counts() {
        for (text, origin) in [
            ("https://Host/a", "https://host"),
            ("https://host:443/a", "https://host"),
            ("http://host:80/a", "http://host"),
            ("http://[::1]:9/a", "http://[::1]:9"),
        ] {
            assert_eq!(address(text).origin().as_deref(), Some(origin));
        }
        assert_eq!(address("s3://host/a").origin(), None);
    }
}
