use crate::{DType, bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that tensors can be read as without a conversion: the integers of 8 to 64 bits,
/// [`f16`](crate::f16), [`bf16`], `f32` and `f64`.
///
/// `bool` is not one: files hold bytes other than 0 and 1, which Rust's `bool` must never see.
/// Read such tensors as `u8`. Sealed: formats know no other element types.
pub trait Element: bytemuck::Pod + Send + Sync + sealed::Sealed {
    /// The dtype whose elements have this type.
    const DTYPE: DType;

    /// The same element with its bytes in the opposite order.
    #[doc(hidden)]
    fn swapped(self) -> Self;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident, |$value:ident| $swapped:expr;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;

            fn swapped(self) -> Self {
                let $value = self;
                $swapped
            }
        }
    )*};
}

elements! {
    u8 => U8, |value| value;
    i8 => I8, |value| value;
    u16 => U16, |value| value.swap_bytes();
    i16 => I16, |value| value.swap_bytes();
    u32 => U32, |value| value.swap_bytes();
    i32 => I32, |value| value.swap_bytes();
    u64 => U64, |value| value.swap_bytes();
    i64 => I64, |value| value.swap_bytes();
    f16 => F16, |value| f16::from_bits(value.to_bits().swap_bytes());
    bf16 => BF16, |value| bf16::from_bits(value.to_bits().swap_bytes());
    f32 => F32, |value| f32::from_bits(value.to_bits().swap_bytes());
    f64 => F64, |value| f64::from_bits(value.to_bits().swap_bytes());
}
