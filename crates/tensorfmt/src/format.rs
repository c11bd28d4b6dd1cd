use std::fmt;
use std::path::Path;

macro_rules! define {
    (
        ()
        $($Format:ident {
            about: $about:literal,
            feature: $feature:literal,
            codec: $krate:ident as $module:ident,
            endings: $endings:tt,
            mark: $mark:expr,
            set: [$($Set:ident $name:literal $ending:literal)?],
        })*
    ) => {
        /// A tensor file format. All are always named here, whether the features of this build include
        /// them or not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format {$(
            #[doc = concat!($about, $(", and sets of them behind an `.", $ending, "`",)? ".")]
            $Format,
        )*}

        impl Format {
            /// Every format.
            pub const ALL: &'static [Self] = &[$(Self::$Format),*];

            /// The lower-case name: `mag`, `ztensor`, ... It is the name of its feature as well.
            pub const fn name(self) -> &'static str {
                match self {$(Self::$Format => $feature,)*}
            }

            /// File name endings, the usual one first.
            ///
            /// [`from_name`](Self::from_name) has an example.
            pub const fn extensions(self) -> &'static [&'static str] {
                match self {$(Self::$Format => &$endings,)*}
            }

            /// Whether this build can open and write the format.
            ///
            /// [`from_name`](Self::from_name) has an example.
            pub const fn is_enabled(self) -> bool {
                match self {$(Self::$Format => cfg!(feature = $feature),)*}
            }

            /// The format that a file is marked as by its first bytes.
            fn from_bytes(head: &[u8], len: u64) -> Option<Self> {
                let marks: &[(fn(&[u8], u64) -> bool, Self)] = &[$(($mark, Self::$Format)),*];
                let marked = marks.iter().find(|(mark, _)| mark(head, len));
                marked.map(|(_, format)| *format)
            }
        }
    };
}

formats! { define! () }

impl Format {
    /// How much of a file's start and end [`detect`](Self::detect) wants to see, in bytes.
    pub const DETECT_LEN: usize = 64;

    /// The format with this [`name`](Self::name).
    ///
    /// ```
    /// use tensorfmt::Format;
    ///
    /// let format = Format::from_name("safetensors").ok_or("no such format")?;
    /// assert_eq!((format, format.extensions().first()), (Format::Safetensors, Some(&"safetensors")));
    /// println!("built in: {}", format.is_enabled());
    /// # Ok::<(), &str>(())
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|format| format.name() == name)
    }

    /// The format that a path's ending stands for.
    ///
    /// ```
    /// # use tensorfmt::Format;
    /// assert_eq!(Format::from_path("runs/best.aeroset.json"), Some(Format::Aero));
    /// assert_eq!(Format::from_path("best.onnx"), None);
    /// ```
    pub fn from_path(path: impl AsRef<Path>) -> Option<Self> {
        let name = path
            .as_ref()
            .file_name()?
            .to_string_lossy()
            .to_ascii_lowercase();
        Self::ALL.iter().copied().find(|format| {
            format.extensions().iter().any(|extension| {
                name.strip_suffix(extension)
                    .is_some_and(|stem| stem.ends_with('.'))
            })
        })
    }

    /// Tells a file's format from its first bytes ([`DETECT_LEN`](Self::DETECT_LEN) of them are
    /// enough), its length and its path.
    ///
    /// The bytes decide wherever the format marks its files. The path decides for files whose
    /// mark is damaged, so that the codec can say what is wrong with them, and for primitiv's
    /// older generations, which have none.
    ///
    /// ```
    /// # use tensorfmt::Format;
    /// assert_eq!(Format::detect(b"MAG!\x01\0\0\0", 24, None), Some(Format::Mag));
    /// assert_eq!(Format::detect(b"\x89PNG\r\n\x1a\n", 5000, None), None);
    /// ```
    #[must_use]
    pub fn detect(head: &[u8], len: u64, path: Option<&Path>) -> Option<Self> {
        Self::from_bytes(head, len).or_else(|| {
            // A file that clearly is something else is not ours, whatever its name says.
            path.filter(|_| known_as(head).is_none())
                .and_then(Self::from_path)
        })
    }

    /// Whether the first bytes are the mark of one of the formats.
    pub(crate) fn is_marked(head: &[u8], len: u64) -> bool {
        Self::from_bytes(head, len).is_some()
    }
}

/// Whether a file starts with the length of a header, and the header like JSON.
fn is_safetensors(head: &[u8], len: u64) -> bool {
    let Some((header, [b'{', ..])) = head.split_first_chunk() else {
        return false;
    };
    u64::from_le_bytes(*header) <= len.saturating_sub(8)
}

/// Whether JSON starts like the index of an AERO set: its `format` has the name `AEROSET`.
fn is_aeroset(head: &[u8]) -> bool {
    let text: Vec<u8> = head
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_whitespace())
        .collect();
    text.windows(16)
        .any(|window| window == b"\"name\":\"AEROSET\"")
}

/// What a file that is none of ours looks like, for an error message.
pub(crate) fn looks_like(head: &[u8], len: u64) -> Option<String> {
    if let Some(what) = known_as(head) {
        return Some(what.to_owned());
    }
    if head.len() >= 8 && head.iter().all(|&byte| byte == 0) {
        return Some(format!(
            "zeros ({len} bytes: a download that was never filled?)"
        ));
    }
    // Protocol Buffers have no mark; this is how the fields of a model begin.
    if matches!(head, [0x08, 1..=20, 0x12, ..]) {
        return Some("an ONNX model".to_owned());
    }
    let text = text_of(head)?;
    let line = text
        .trim_start()
        .lines()
        .next()
        .unwrap_or_default()
        .trim_end();
    let more = if (line.len() as u64) < len { "..." } else { "" };
    let what = match text.trim_start().starts_with(['{', '[']) {
        true => "JSON",
        false => "text",
    };
    (len >= 4 && !line.is_empty()).then(|| format!("{what}: {line}{more}"))
}

/// The beginning of a text: printable characters, the last of which may be cut.
fn text_of(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(head.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    let is_text = |c: char| !c.is_control() || c.is_ascii_whitespace();
    text.chars().all(is_text).then_some(text)
}

/// What the first bytes are the mark of, if they are one that is known.
fn known_as(head: &[u8]) -> Option<&'static str> {
    let known: &[(&[u8], &str)] = &[
        (b"\x89PNG", "a PNG image"),
        (b"\xFF\xD8\xFF", "a JPEG image"),
        (b"GGUF", "a GGUF model"),
        (
            b"PK\x03\x04",
            "a zip archive (a PyTorch checkpoint or an .npz?)",
        ),
        (b"\x93NUMPY", "a NumPy array"),
        (b"\x89HDF", "an HDF5 file"),
        (b"\x1F\x8B", "a gzip archive"),
        (b"\x28\xB5\x2F\xFD", "a zstd archive"),
        (b"\x80\x02", "a Python pickle"),
        (b"\x80\x04", "a Python pickle"),
        (b"%PDF", "a PDF document"),
        (b"PAR1", "a Parquet file"),
        (b"ARROW1", "an Arrow file"),
        (b"7z\xBC\xAF\x27\x1C", "a 7z archive"),
        (b"BZh", "a bzip2 archive"),
        (b"\xFD7zXZ\0", "an xz archive"),
        (b"tjgg", "a GGML model"),
        (b"lmgg", "a GGML model"),
        (b"\x7FELF", "a program"),
        (
            b"version https://git-lfs",
            "a Git LFS pointer, not the file itself",
        ),
        (b"<!DOCTYPE", "an HTML page"),
        (b"<!doctype", "an HTML page"),
        (b"<html", "an HTML page"),
    ];
    // This one's mark is after a length.
    if head.get(4..8) == Some(b"TFL3") {
        return Some("a TensorFlow Lite model");
    }
    known
        .iter()
        .find(|(magic, _)| head.starts_with(magic))
        .map(|&(_, what)| what)
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
