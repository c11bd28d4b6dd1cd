use core::fmt;
use core::ops::ControlFlow;

use crate::report::Item;
use crate::share::{Share, Whole};
use crate::sink::TransferError;

/// Called, from any thread, with the number of bytes just done; [`ControlFlow::Break`] stops the
/// work with an error of [`Kind::Cancelled`](crate::Kind::Cancelled).
///
/// ```
/// use std::ops::ControlFlow;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tensor_core::VerifyOptions;
///
/// let done = AtomicU64::new(0);
/// let progress = |bytes: u64| {
///     println!("{} bytes", done.fetch_add(bytes, Ordering::Relaxed) + bytes);
///     ControlFlow::Continue(()) // or Break(()), to stop
/// };
/// let options = VerifyOptions::default().with_progress(&progress).with_threads(1);
/// # assert!(options.progress.is_some_and(|progress| progress(5).is_continue()));
/// # assert_eq!(done.into_inner(), 5);
/// ```
pub type Progress<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// How to verify an archive.
///
/// ```
/// use std::ops::ControlFlow;
/// use tensor_core::VerifyOptions;
///
/// let progress = |_bytes| ControlFlow::Continue(());
/// let options = VerifyOptions::default()
///     .with_strict(true) // warnings count as failures
///     .with_threads(1) // read in rising order, as a disk likes it
///     .with_progress(&progress);
/// assert!(options.strict && options.threads == 1 && options.progress.is_some());
///
/// // Each check as it is made, instead of a list of all of them at the end.
/// let told = |item: &tensor_core::Item| println!("{item}");
/// assert!(options.with_items(&told).items.is_some());
/// // They may be a million that failed: their number is enough where all are told.
/// assert!(options.with_items(&told).with_forget(true).forget);
/// // So may the warnings.
/// let warned = |warning: &str| println!("warning: {warning}");
/// assert!(options.with_warnings(&warned).warnings.is_some());
/// // Or what is damaged matters only where it is not left out.
/// let spared = |tensor: &str| tensor.starts_with("optimizer.");
/// assert!(options.with_items(&told).with_spared(&spared).spared.is_some());
/// ```
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct VerifyOptions<'a> {
    /// Also report what readers tolerate but no careful writer leaves behind.
    pub strict: bool,
    /// How many threads to use, 0 for all; more than one needs the `rayon` feature. One thread
    /// reads the file in rising order.
    pub threads: usize,
    /// Told about every window of data that was checked.
    pub progress: Option<Progress<'a>>,
    /// Given every item of the report as it is found, in its order. The report then keeps only those that
    /// failed or can't be interpreted: a list of a million tensors that are well is long.
    pub items: Option<&'a (dyn Fn(&Item) + Sync)>,
    /// Keep none of the items that [`items`](Self::items) is given, only how many there were of each outcome:
    /// a damaged file may have a million that failed.
    pub forget: bool,
    /// Given every warning, after all items. The report then keeps only how many there were.
    pub warnings: Option<&'a (dyn Fn(&str) + Sync)>,
    /// Whether the caller does without a tensor, where nothing else matters about damage. Of what
    /// [`items`](Self::items) is given the report then keeps only what failed and names no tensor
    /// ([`Item::tensors`]) at that time, such as a shard; of those that it damages it names one that is spared
    /// and one that is not, where there are such.
    pub spared: Option<&'a (dyn Fn(&str) -> bool + Sync)>,
    /// Makes only the checks of a share, where several share the work. A report then lacks the items of
    /// others, and the share is told where those that are there stand.
    pub share: Option<&'a dyn Share>,
}

/// How to write a file.
///
/// ```
/// use std::ops::ControlFlow;
/// use tensor_core::WriteOptions;
///
/// let progress = |_bytes| ControlFlow::Continue(());
/// let options = WriteOptions::default()
///     .with_create_new(true) // fail where there is a file
///     .with_durable(false) // don't wait for the disk
///     .with_in_place(false) // a temporary file that is renamed
///     .with_threads(2)
///     .with_progress(&progress);
/// assert!(options.create_new && !options.durable && !options.in_place);
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct WriteOptions<'a> {
    /// How many threads may compress or hash, 0 for all; more than one needs the `rayon` feature.
    pub threads: usize,
    /// Told about every window of tensor data that was written.
    pub progress: Option<Progress<'a>>,
    /// Flush the file and its folder to the disk before success is reported. On by default.
    pub durable: bool,
    /// Write straight into the target instead of a temporary file that replaces it. For file
    /// systems that can't rename; a failure then leaves a broken file. Off by default.
    pub in_place: bool,
    /// Fail where there is a file at the target, also one that appears while this one is written.
    /// Off by default: a file is replaced.
    pub create_new: bool,
    /// Told about what a caller may want to know of where the file ended up.
    #[cfg(feature = "std")]
    pub notice: Option<&'a (dyn Fn(&crate::Notice) + Sync)>,
}

impl Default for WriteOptions<'_> {
    fn default() -> Self {
        Self {
            threads: 0,
            progress: None,
            durable: true,
            in_place: false,
            create_new: false,
            #[cfg(feature = "std")]
            notice: None,
        }
    }
}

#[cfg(feature = "std")]
impl WriteOptions<'_> {
    /// Passes on what is worth knowing.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use tensor_core::{Notice, WriteOptions};
    ///
    /// let told = AtomicBool::new(false);
    /// let listen = |_: &Notice| told.store(true, Ordering::Relaxed);
    /// let mut options = WriteOptions::default();
    /// options.notice = Some(&listen);
    /// options.tell(&Notice::Removed { file: "old-part.aero".into() });
    /// assert!(told.load(Ordering::Relaxed));
    /// ```
    pub fn tell(&self, notice: &crate::Notice) {
        if let Some(tell) = self.notice {
            tell(notice);
        }
    }
}

impl<'a> VerifyOptions<'a> {
    /// Sets [`strict`](Self::strict).
    #[must_use]
    pub fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Sets [`threads`](Self::threads).
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets [`progress`](Self::progress).
    #[must_use]
    pub fn with_progress(mut self, progress: Progress<'a>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Sets [`items`](Self::items).
    #[must_use]
    pub fn with_items(mut self, items: &'a (dyn Fn(&Item) + Sync)) -> Self {
        self.items = Some(items);
        self
    }

    /// Sets [`forget`](Self::forget).
    #[must_use]
    pub fn with_forget(mut self, forget: bool) -> Self {
        self.forget = forget;
        self
    }

    /// Sets [`warnings`](Self::warnings).
    #[must_use]
    pub fn with_warnings(mut self, warnings: &'a (dyn Fn(&str) + Sync)) -> Self {
        self.warnings = Some(warnings);
        self
    }

    /// Sets [`spared`](Self::spared).
    #[must_use]
    pub fn with_spared(mut self, spared: &'a (dyn Fn(&str) -> bool + Sync)) -> Self {
        self.spared = Some(spared);
        self
    }

    /// Sets [`share`](Self::share).
    ///
    /// ```
    /// use tensor_core::{Share, VerifyOptions};
    ///
    /// /// What belongs to no tensor.
    /// struct Rest;
    ///
    /// impl Share for Rest {
    ///     fn has(&self, _: &mut dyn Iterator<Item = usize>) -> bool {
    ///         false
    ///     }
    ///     fn has_rest(&self) -> bool {
    ///         true
    ///     }
    ///     fn at(&self, _: u32, _: u64) {}
    /// }
    /// let options = VerifyOptions::default().with_share(&Rest);
    /// assert!(options.has_rest() && !options.has(0));
    /// ```
    #[must_use]
    pub fn with_share(mut self, share: &'a dyn Share) -> Self {
        self.share = Some(share);
        self
    }

    /// Whether the checks of the tensor at this position are made.
    ///
    /// [`Share`] has an example.
    #[must_use]
    pub fn has(&self, tensor: usize) -> bool {
        self.has_any(core::iter::once(tensor))
    }

    /// Whether the checks that cover all of these tensors are made; they are given by their positions, in
    /// rising order.
    ///
    /// ```
    /// use tensor_core::VerifyOptions;
    ///
    /// assert!(VerifyOptions::default().has_any([0, 1].into_iter())); // unless there is a share
    /// ```
    #[must_use]
    pub fn has_any(&self, mut tensors: impl Iterator<Item = usize>) -> bool {
        self.share.is_none_or(|share| share.has(&mut tensors))
    }

    /// Whether the checks that belong to no tensor are made.
    ///
    /// [`Share`] has an example.
    #[must_use]
    pub fn has_rest(&self) -> bool {
        self.share.is_none_or(|share| share.has_rest())
    }

    /// Calls `work` with the same options, but all checks: of a file of a set that a share has as a whole.
    ///
    /// ```
    /// use tensor_core::VerifyOptions;
    ///
    /// let strict = VerifyOptions::default().with_strict(true);
    /// assert!(strict.whole(|options| options.strict && options.has_rest()));
    /// ```
    pub fn whole<T>(&self, work: impl FnOnce(&VerifyOptions<'_>) -> T) -> T {
        let Some(share) = self.share else {
            return work(self);
        };
        let whole = Whole(share);
        let mut options = *self;
        options.share = Some(&whole);
        work(&options)
    }
}

impl<'a> WriteOptions<'a> {
    /// Sets [`threads`](Self::threads).
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets [`progress`](Self::progress).
    #[must_use]
    pub fn with_progress(mut self, progress: Progress<'a>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Sets [`durable`](Self::durable).
    #[must_use]
    pub fn with_durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// Sets [`in_place`](Self::in_place).
    #[must_use]
    pub fn with_in_place(mut self, in_place: bool) -> Self {
        self.in_place = in_place;
        self
    }

    /// Sets [`create_new`](Self::create_new).
    #[must_use]
    pub fn with_create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }
}

impl fmt::Debug for VerifyOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyOptions")
            .field("strict", &self.strict)
            .field("threads", &self.threads)
            .field("progress", &self.progress.is_some())
            .finish()
    }
}

impl fmt::Debug for WriteOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions")
            .field("threads", &self.threads)
            .field("progress", &self.progress.is_some())
            .field("durable", &self.durable)
            .field("in_place", &self.in_place)
            .field("create_new", &self.create_new)
            .finish_non_exhaustive()
    }
}

/// Reports work to a progress function, if there is one.
///
/// ```
/// use std::ops::ControlFlow;
/// use tensor_core::codec::{Ticker, TransferError};
///
/// let stop = |_bytes: u64| ControlFlow::Break(());
/// assert!(matches!(Ticker::new(Some(&stop)).tick(4096), Err(TransferError::Cancelled)));
/// assert!(Ticker::new(None).tick(4096).is_ok());
/// ```
#[derive(Clone, Copy, Default)]
pub struct Ticker<'a>(Option<Progress<'a>>);

impl<'a> Ticker<'a> {
    /// Reports to `progress`.
    #[must_use]
    pub fn new(progress: Option<Progress<'a>>) -> Self {
        Self(progress)
    }

    /// Reports that `bytes` more are done.
    ///
    /// # Errors
    /// [`TransferError::Cancelled`] where the function asks to stop.
    pub fn tick(&self, bytes: u64) -> Result<(), TransferError> {
        match self.0 {
            Some(progress) if progress(bytes).is_break() => Err(TransferError::Cancelled),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Ticker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticker").field(&self.0.is_some()).finish()
    }
}
