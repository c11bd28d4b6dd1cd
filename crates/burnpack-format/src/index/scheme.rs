//! Quantization schemes, of which two generations are spelled in two ways.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use ciborium_ll::Header as Head;

use super::parser::{Parser, put, unique};
use crate::cbor::{Parsed, fault, is_null};
use crate::quant::{
    BlockSize, QuantBlock, QuantGeneration, QuantMode, QuantParam, QuantScheme, QuantStore,
    QuantValue,
};
use crate::{DTypeCode, Rule};

impl Parser<'_> {
    /// "Quantization": a scheme of either generation.
    pub(super) fn scheme(&mut self) -> Parsed<DTypeCode> {
        let start = self.cbor.position();
        let Head::Map(mut left) = self.cbor.value()? else {
            return fault(Rule::Scheme { key: "QFloat" }, start);
        };
        let mut parts = Parts::default();
        let mut unknown_part = None;
        let mut unknown = Vec::new();
        while self.cbor.more(&mut left)? {
            let at = self.cbor.position();
            let key = self.key()?;
            match &*key {
                b"value" => {
                    let known = self.named("value", QuantValue::from_name, &mut unknown_part)?;
                    put(&mut parts.value, known, at)?;
                }
                b"store" => {
                    let known = self.store(&mut unknown_part)?;
                    put(&mut parts.store, known, at)?;
                }
                b"mode" => {
                    let known = self.named("mode", QuantMode::from_name, &mut unknown_part)?;
                    put(&mut parts.mode, known, at)?;
                }
                b"param" => {
                    let known = self.named("param", QuantParam::from_name, &mut unknown_part)?;
                    put(&mut parts.param, known, at)?;
                }
                b"level" => {
                    let known = self.level(&mut unknown_part)?;
                    put(&mut parts.level, known, at)?;
                }
                b"tensor" => {
                    let head = self.cbor.value()?;
                    let known = if is_null(head) {
                        Some(None)
                    } else {
                        let from = QuantParam::from_name;
                        self.named_from(head, "tensor", from, &mut unknown_part)?
                            .map(Some)
                    };
                    put(&mut parts.tensor, known, at)?;
                }
                b"block" => {
                    let known = self.block(&mut unknown_part)?;
                    put(&mut parts.block, known, at)?;
                }
                _ => self.unknown_key(&mut unknown, key, at)?,
            }
        }
        unique(&mut unknown, start)?;
        match parts.check_keys(start)? {
            QuantGeneration::Old => self.signs.old_scheme = true,
            QuantGeneration::New => self.signs.new_scheme = true,
        }
        if let Some(unknown_part) = unknown_part {
            let name = Cow::Owned(format!("QFloat({unknown_part})"));
            return Ok(DTypeCode::Unknown(self.kept(name, start)?));
        }
        match parts.scheme() {
            Some(scheme) => Ok(DTypeCode::QFloat(Box::new(scheme))),
            None => fault(Rule::Scheme { key: "QFloat" }, start),
        }
    }

    /// A text that is one of a list of names, `None`, noted in `unknown_part`, where
    /// it is another.
    fn named<T>(
        &mut self,
        key: &'static str,
        from_name: impl Fn(&str) -> Option<T>,
        unknown_part: &mut Option<String>,
    ) -> Parsed<Option<T>> {
        let head = self.cbor.value()?;
        self.named_from(head, key, from_name, unknown_part)
    }

    /// Such a text whose head was read.
    fn named_from<T>(
        &mut self,
        head: Head,
        key: &'static str,
        from_name: impl Fn(&str) -> Option<T>,
        unknown_part: &mut Option<String>,
    ) -> Parsed<Option<T>> {
        let Head::Text(len) = head else {
            return fault(Rule::Scheme { key }, self.cbor.position());
        };
        let name = self.cbor.text(len)?;
        let known = from_name(&name);
        if known.is_none() {
            unknown_part.get_or_insert_with(|| format!("{key} {name}"));
        }
        Ok(known)
    }

    fn store(&mut self, unknown_part: &mut Option<String>) -> Parsed<Option<QuantStore>> {
        let rule = Rule::Scheme { key: "store" };
        let from_name = |name: &str| match name {
            "Native" => Some(QuantStore::Native),
            "U32" => Some(QuantStore::PackedU32(0)),
            _ => None,
        };
        let start = self.cbor.position();
        let mut left = match self.cbor.value()? {
            Head::Map(left) => left,
            head => return self.named_from(head, "store", from_name, unknown_part),
        };
        if !self.cbor.more(&mut left)? {
            return fault(rule, start);
        }
        let key = self.key()?;
        let store = match &*key {
            b"PackedNative" => Some(QuantStore::PackedNative(self.cbor.unsigned(rule)?)),
            b"PackedU32" => Some(QuantStore::PackedU32(self.cbor.unsigned(rule)?)),
            _ => {
                self.unknown_variant("store", &key, unknown_part)?;
                None
            }
        };
        if self.cbor.more(&mut left)? {
            return fault(rule, start);
        }
        Ok(store)
    }

    fn level(&mut self, unknown_part: &mut Option<String>) -> Parsed<Option<Level>> {
        let rule = Rule::Scheme { key: "level" };
        let from_name = |name: &str| (name == "Tensor").then_some(Level::Tensor);
        let start = self.cbor.position();
        let mut left = match self.cbor.value()? {
            Head::Map(left) => left,
            head => return self.named_from(head, "level", from_name, unknown_part),
        };
        if !self.cbor.more(&mut left)? {
            return fault(rule, start);
        }
        let key = self.key()?;
        let level = match &*key {
            b"Block" => {
                let head = self.cbor.value()?;
                Some(Level::Block(self.block_size(head, "level")?))
            }
            _ => {
                self.unknown_variant("level", &key, unknown_part)?;
                None
            }
        };
        if self.cbor.more(&mut left)? {
            return fault(rule, start);
        }
        Ok(level)
    }

    /// Reads past the value of a variant that is not known.
    fn unknown_variant(
        &mut self,
        field: &str,
        key: &[u8],
        unknown_part: &mut Option<String>,
    ) -> Parsed<()> {
        let Ok(name) = core::str::from_utf8(key) else {
            return fault(Rule::CborUtf8, self.cbor.position());
        };
        unknown_part.get_or_insert_with(|| format!("{field} {name}"));
        self.cbor.skip()
    }

    /// `null`, or a map of `size` and `dtype`.
    fn block(&mut self, unknown_part: &mut Option<String>) -> Parsed<Option<Option<QuantBlock>>> {
        let rule = Rule::Scheme { key: "block" };
        let start = self.cbor.position();
        let mut left = match self.cbor.value()? {
            Head::Map(left) => left,
            head if is_null(head) => return Ok(Some(None)),
            _ => return fault(rule, start),
        };
        let (mut size, mut dtype) = (None, None);
        let mut unknown = Vec::new();
        while self.cbor.more(&mut left)? {
            let at = self.cbor.position();
            let key = self.key()?;
            match &*key {
                b"size" => {
                    let head = self.cbor.value()?;
                    let value = self.block_size(head, "block")?;
                    put(&mut size, value, at)?;
                }
                b"dtype" => {
                    let known = self.named("block", QuantParam::from_name, unknown_part)?;
                    put(&mut dtype, known, at)?;
                }
                _ => self.unknown_key(&mut unknown, key, at)?,
            }
        }
        unique(&mut unknown, start)?;
        match (size, dtype) {
            (Some(size), Some(dtype)) => Ok(dtype.map(|dtype| Some(QuantBlock { size, dtype }))),
            _ => fault(rule, start),
        }
    }

    /// `{"storage": [5 numbers], "len": n}`.
    fn block_size(&mut self, head: Head, key: &'static str) -> Parsed<BlockSize> {
        let rule = Rule::Scheme { key };
        let start = self.cbor.position();
        let Head::Map(mut left) = head else {
            return fault(rule, start);
        };
        let (mut storage, mut len) = (None, None);
        let mut unknown = Vec::new();
        while self.cbor.more(&mut left)? {
            let at = self.cbor.position();
            let key = self.key()?;
            match &*key {
                b"storage" => {
                    let value = self.storage(rule)?;
                    put(&mut storage, value, at)?;
                }
                b"len" => {
                    let value = self.byte(rule)?;
                    put(&mut len, value, at)?;
                }
                _ => self.unknown_key(&mut unknown, key, at)?,
            }
        }
        unique(&mut unknown, start)?;
        let size = storage.zip(len);
        match size.and_then(|(storage, len)| BlockSize::from_storage(storage, len)) {
            Some(size) => Ok(size),
            None => fault(rule, start),
        }
    }

    fn storage(&mut self, rule: Rule) -> Parsed<[u8; BlockSize::MAX_RANK]> {
        let at = self.cbor.position();
        let Head::Array(mut left) = self.cbor.value()? else {
            return fault(rule, at);
        };
        let mut storage = [0; BlockSize::MAX_RANK];
        for byte in &mut storage {
            if !self.cbor.more(&mut left)? {
                return fault(rule, at);
            }
            *byte = self.byte(rule)?;
        }
        if self.cbor.more(&mut left)? {
            return fault(rule, at);
        }
        Ok(storage)
    }

    fn byte(&mut self, rule: Rule) -> Parsed<u8> {
        let at = self.cbor.position();
        match u8::try_from(self.cbor.unsigned(rule)?) {
            Ok(byte) => Ok(byte),
            Err(_) => fault(rule, at),
        }
    }
}

/// The keys of a scheme that are there; the value of one is `None` where nothing knows it.
#[derive(Default)]
struct Parts {
    value: Option<Option<QuantValue>>,
    store: Option<Option<QuantStore>>,
    mode: Option<Option<QuantMode>>,
    /// Of an old scheme.
    param: Option<Option<QuantParam>>,
    level: Option<Option<Level>>,
    /// Of a new scheme, where null is a value.
    tensor: Option<Option<Option<QuantParam>>>,
    block: Option<Option<Option<QuantBlock>>>,
}

impl Parts {
    /// Checks that the keys of one generation are there, and none of the other.
    fn check_keys(&self, start: usize) -> Parsed<QuantGeneration> {
        let need = |is_right: bool, key| match is_right {
            true => Ok(()),
            false => fault(Rule::Scheme { key }, start),
        };
        need(self.value.is_some(), "value")?;
        need(self.store.is_some(), "store")?;
        need(self.mode.is_some(), "mode")?;
        if self.param.is_none() && self.level.is_none() {
            return Ok(QuantGeneration::New);
        }
        need(self.param.is_some(), "param")?;
        need(self.level.is_some(), "level")?;
        need(self.tensor.is_none(), "tensor")?;
        need(self.block.is_none(), "block")?;
        Ok(QuantGeneration::Old)
    }

    /// The scheme, where all of its parts are known.
    fn scheme(self) -> Option<QuantScheme> {
        let mut scheme = QuantScheme::new(self.value??, self.store??, self.mode??);
        if let (Some(Some(param)), Some(Some(level))) = (self.param, self.level) {
            scheme.generation = QuantGeneration::Old;
            match level {
                Level::Tensor => scheme.tensor = Some(param),
                Level::Block(size) => scheme.block = Some(QuantBlock { size, dtype: param }),
            }
        } else {
            scheme.tensor = self.tensor.flatten().flatten();
            scheme.block = self.block.flatten().flatten();
        }
        Some(scheme)
    }
}

/// `level` of an old scheme.
enum Level {
    Tensor,
    Block(BlockSize),
}
