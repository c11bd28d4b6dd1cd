/// Gives a codec's `Limits` its limits by name, so that whoever reads of one in an error can raise it.
///
/// Each is a `u64`. Its name ends in what it counts: `_count` of things, `_bytes` of a file or of
/// memory, `_depth` of nesting, `_ratio`. A name means the same in every codec, since it may be set in
/// all of them at once.
///
/// ```
/// /// Bounds of a reader.
/// #[derive(Default)]
/// pub struct Limits {
///     /// How many.
///     pub max_tensor_count: u64,
/// }
/// tensor_core::limits_by_name!(Limits { max_tensor_count });
///
/// let mut limits = Limits::default();
/// assert!(limits.set("max_tensor_count", 7));
/// assert_eq!(limits.max_tensor_count, 7);
/// assert!(!limits.set("max_dim_count", 7));
/// assert_eq!(Limits::NAMES, ["max_tensor_count"]);
/// ```
#[macro_export]
macro_rules! limits_by_name {
    ($limits:ident { $($field:ident),+ $(,)? }) => {
        impl $limits {
            /// The name of each limit, as errors call it.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            /// Sets the limit of this name; `false` where there is none.
            #[must_use]
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($field) => self.$field = value,)+
                    _ => return false,
                }
                true
            }
        }
    };
}
