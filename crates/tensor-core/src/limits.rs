/// Gives a codec's `Limits` its limits by name, so that whoever reads of one in an error can raise it.
///
/// ```
/// /// Bounds of a reader.
/// #[derive(Default)]
/// pub struct Limits {
///     /// How many.
///     pub max_tensors: u32,
/// }
/// tensor_core::limits_by_name!(Limits { max_tensors });
///
/// let mut limits = Limits::default();
/// assert!(limits.set("max_tensors", 7));
/// assert_eq!(limits.max_tensors, 7);
/// assert!(!limits.set("max_dims", 7));
/// assert_eq!(Limits::NAMES, ["max_tensors"]);
/// ```
#[macro_export]
macro_rules! limits_by_name {
    ($limits:ident { $($field:ident),+ $(,)? }) => {
        impl $limits {
            /// The name of each limit, as errors call it.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            /// Sets the limit of this name, to the most that it can be where `value` is more; `false`
            /// where there is none.
            #[must_use]
            #[allow(clippy::unnecessary_fallible_conversions, reason = "fields are of several widths")]
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($field) => self.$field = value.try_into().unwrap_or(!0),)+
                    _ => return false,
                }
                true
            }
        }
    };
}
