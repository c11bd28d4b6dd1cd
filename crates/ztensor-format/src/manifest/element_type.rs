//! What dtypes and logical types of components mean.

use tensor_core::{DType, Shape};

use crate::tensors::Obstacle;
use crate::{Generation, Rule};

/// The elements of a component, which its dtype and its logical type name together.
pub(crate) struct ElementType<'a> {
    pub(crate) dtype: Option<DType>,
    /// The name of the dtype, where it is not `dtype`'s.
    pub(crate) name: Option<&'a str>,
    pub(crate) storage: Option<DType>,
    /// Why there is nothing to be read.
    pub(crate) obstacle: Option<Obstacle>,
    /// Bytes of an element as stored; `None` where unknown.
    pub(crate) width: Option<u64>,
    pub(crate) half: bool,
}

impl<'a> ElementType<'a> {
    pub(crate) fn plain(dtype: DType) -> Self {
        Self {
            dtype: Some(dtype),
            name: None,
            storage: None,
            obstacle: None,
            width: dtype.size(),
            half: false,
        }
    }

    /// A dtype that the generation does not have.
    pub(crate) fn unknown(name: &'a str) -> Self {
        Self {
            dtype: None,
            name: Some(name),
            storage: None,
            obstacle: Some(Obstacle::DType),
            width: None,
            half: false,
        }
    }

    /// Bytes of all elements of `shape`; `Ok(None)` where the size of one is unknown.
    pub(crate) fn len_of(&self, shape: &Shape) -> Result<Option<u64>, ()> {
        let elements = shape.elements();
        if self.half {
            return Ok(Some(elements.div_ceil(2)));
        }
        match self.width {
            Some(width) => elements.checked_mul(width).map(Some).ok_or(()),
            None => Ok(None),
        }
    }
}

/// The logical types that have a dtype of their own, and what they are stored as.
const TYPES: [(&str, DType, DType); 8] = [
    ("bool", DType::U8, DType::Bool),
    ("f8_e4m3fn", DType::U8, DType::F8E4M3),
    ("f8_e5m2", DType::U8, DType::F8E5M2),
    ("f8_e4m3fnuz", DType::U8, DType::F8E4M3Fnuz),
    ("f8_e5m2fnuz", DType::U8, DType::F8E5M2Fnuz),
    ("f8_e8m0", DType::U8, DType::F8E8M0),
    ("complex64", DType::F32, DType::C64),
    ("complex128", DType::F64, DType::C128),
];

/// What the logical type `kind` over `storage` means.
pub(crate) fn element_type(
    storage: DType,
    kind: &str,
    generation: Generation,
) -> Result<ElementType<'_>, Rule> {
    let is_v2 = generation == Generation::V2;
    if !is_v2 && kind == storage.name() {
        return Ok(ElementType::plain(storage));
    }
    let mut element_type = ElementType {
        dtype: None,
        name: Some(kind),
        storage: Some(storage),
        obstacle: Some(Obstacle::Type),
        width: None,
        half: false,
    };
    if is_v2 && kind == "f4_e2m1" {
        element_type.half = true;
        return match storage {
            DType::U8 => Ok(element_type),
            _ => Err(Rule::TypeDType),
        };
    }
    let known = TYPES.iter().find(|(name, ..)| *name == kind);
    // Generation 1 has these two nowhere.
    let Some(&(_, over, dtype)) = known.filter(|_| is_v2 || !["bool", "f8_e8m0"].contains(&kind))
    else {
        return Ok(element_type);
    };
    if over != storage {
        return match is_v2 {
            true => Err(Rule::TypeDType),
            false => Ok(element_type),
        };
    }
    element_type.dtype = Some(dtype);
    element_type.width = dtype.size();
    element_type.obstacle = None;
    Ok(element_type)
}
