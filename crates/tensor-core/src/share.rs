/// Which checks of a verification are made, where several share the work and their reports are put together
/// again: [`VerifyOptions::share`](crate::VerifyOptions::share).
///
/// A check that covers several tensors, such as the hash of a shard, is asked for once, with all of them.
/// Where a format has nothing that could be shared, all its checks are those that belong to no tensor.
///
/// ```
/// use std::sync::Mutex;
/// use tensor_core::{Item, Outcome, Report, Share, VerifyOptions};
///
/// /// The checks of every other tensor, and where each stands among all.
/// #[derive(Default)]
/// struct Odd(Mutex<Vec<(u32, u64)>>);
///
/// impl Share for Odd {
///     fn has(&self, tensors: &mut dyn Iterator<Item = usize>) -> bool {
///         tensors.next().is_some_and(|first| first % 2 == 1)
///     }
///     fn has_rest(&self) -> bool {
///         false
///     }
///     fn at(&self, section: u32, item: u64) {
///         self.0.lock().unwrap().push((section, item));
///     }
/// }
/// let odd = Odd::default();
/// let options = VerifyOptions::default().with_share(&odd);
/// let mut report = Report::default();
/// for tensor in 0..4 {
///     match options.has(tensor) {
///         true => report.tell(Item::new(format!("tensor {tensor}"), Outcome::Ok), &options),
///         false => report.skip(1),
///     }
/// }
/// assert_eq!((report.items.len(), options.has_rest()), (2, false));
/// assert_eq!(*odd.0.lock().unwrap(), [(0, 1), (0, 3)]);
/// ```
pub trait Share: Sync {
    /// Whether the checks of these tensors are made, which are given by their positions, in rising order.
    fn has(&self, tensors: &mut dyn Iterator<Item = usize>) -> bool;

    /// Whether the checks that belong to no tensor are made.
    fn has_rest(&self) -> bool;

    /// Told, before an item or a warning is, where it stands among all: the section of the report, and the place in
    /// that.
    fn at(&self, section: u32, item: u64);
}

/// All checks, at the places that another share is told about.
#[derive(Clone, Copy)]
pub(crate) struct Whole<'a>(pub(crate) &'a dyn Share);

impl Share for Whole<'_> {
    fn has(&self, _tensors: &mut dyn Iterator<Item = usize>) -> bool {
        true
    }

    fn has_rest(&self) -> bool {
        true
    }

    fn at(&self, section: u32, item: u64) {
        self.0.at(section, item);
    }
}
