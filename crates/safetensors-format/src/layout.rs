#![deny(clippy::arithmetic_side_effects)]

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tensor_core::{At, LimitExceeded, Shape, Source, Truncated};

use crate::json::put_text;
use crate::{DTypeCode, Error, Limits, Result};

/// The name in the header that is no tensor's.
pub(crate) const METADATA: &str = "__metadata__";
/// "Format": bytes of the first field.
pub(crate) const PREFIX: u64 = 8;
/// What the start of the data is a multiple of in files that are written here.
pub(crate) const ALIGN: usize = 8;

/// "Format": the length of the header, which is within the file and the limit.
pub(crate) fn header_len(source: &dyn Source, limits: &Limits) -> Result<u64> {
    let size = source.size();
    let at = At::new(0, "header length");
    let Some(available) = size.checked_sub(PREFIX) else {
        let (needed, available) = (PREFIX, size);
        return Err(Truncated {
            at,
            needed,
            available,
        }
        .into());
    };
    let prefix = source.read(0..PREFIX)?;
    let len = u64::from_le_bytes(prefix.as_ref().try_into().unwrap_or_default());
    if len > available {
        let needed = len;
        return Err(Truncated {
            at,
            needed,
            available,
        }
        .into());
    }
    // Places within the header are kept in 32 bits.
    let max = limits.max_header_bytes.min(u32::MAX.into());
    if len > max {
        let limit = "max_header_bytes";
        let value = len;
        return Err(Error::Limit(LimitExceeded {
            limit,
            value,
            max,
            at,
        }));
    }
    Ok(len)
}

/// Keys and values, with a comma between each two.
pub(crate) fn put_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, out: &mut String) {
    for (at, (key, value)) in pairs.enumerate() {
        if at > 0 {
            out.push(',');
        }
        put_text(key, out);
        out.push(':');
        put_text(value, out);
    }
}

/// A header that is written, after eight bytes for its length.
pub(crate) struct Header(String);

impl Header {
    pub(crate) fn new() -> Self {
        Self(String::from("\0\0\0\0\0\0\0\0{"))
    }

    fn begin(&mut self, name: &str) {
        if self.0.len() > 9 {
            self.0.push(',');
        }
        put_text(name, &mut self.0);
        self.0.push_str(":{");
    }

    /// The pairs of `__metadata__`, in this order.
    pub(crate) fn put_metadata<'a>(&mut self, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
        self.begin(METADATA);
        put_pairs(pairs, &mut self.0);
        self.0.push('}');
    }

    /// A tensor; its extra keys follow the three that all have.
    pub(crate) fn put_tensor(
        &mut self,
        name: &str,
        code: &DTypeCode,
        shape: &Shape,
        (begin, end): (u64, u64),
        extras: &[(String, String)],
    ) {
        self.begin(name);
        self.0.push_str("\"dtype\":");
        put_text(code.name(), &mut self.0);
        self.0.push_str(",\"shape\":[");
        let mut first = true;
        for dim in shape.dims() {
            let comma = if core::mem::take(&mut first) { "" } else { "," };
            self.0.push_str(&format!("{comma}{dim}"));
        }
        self.0
            .push_str(&format!("],\"data_offsets\":[{begin},{end}]"));
        for (key, json) in extras {
            self.0.push(',');
            put_text(key, &mut self.0);
            self.0.push(':');
            self.0.push_str(json);
        }
        self.0.push('}');
    }

    /// The start of the file, up to the data.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.push('}');
        while self.0.len() % ALIGN != 0 {
            self.0.push(' ');
        }
        let mut bytes = self.0.into_bytes();
        let len = (bytes.len() as u64).saturating_sub(PREFIX);
        if let Some(field) = bytes.first_chunk_mut() {
            *field = len.to_le_bytes();
        }
        bytes
    }
}
