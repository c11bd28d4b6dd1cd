use core::fmt;

/// The version of a format that a file has: one to three numbers, as the format writes them.
///
/// ```
/// use tensor_core::Version;
///
/// let version = Version::new(0, 1);
/// assert_eq!((version.major(), version.minor(), version.patch()), (0, Some(1), None));
/// assert_eq!(version.to_string(), "0.1");
/// assert!(version < Version::from(1) && Version::from(1) < Version::from([1, 0, 1]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: Option<u32>,
    patch: Option<u32>,
}

impl Version {
    /// `major.minor`
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self {
            major,
            minor: Some(minor),
            patch: None,
        }
    }

    /// The first number.
    #[must_use]
    pub const fn major(self) -> u32 {
        self.major
    }

    /// The second, where the format has one.
    #[must_use]
    pub const fn minor(self) -> Option<u32> {
        self.minor
    }

    /// The third, where the format has one.
    #[must_use]
    pub const fn patch(self) -> Option<u32> {
        self.patch
    }

    /// `major`
    ///
    /// ```
    /// use tensor_core::Version;
    ///
    /// let version = Version::of_one(2);
    /// assert_eq!((version.major(), version.minor(), version.to_string()), (2, None, "2".into()));
    /// ```
    #[must_use]
    pub const fn of_one(major: u32) -> Self {
        Self {
            major,
            minor: None,
            patch: None,
        }
    }

    /// `major.minor.patch`
    ///
    /// ```
    /// use tensor_core::Version;
    ///
    /// let version = Version::of_three(0, 1, 5);
    /// assert_eq!((version.patch(), version.to_string()), (Some(5), "0.1.5".into()));
    /// ```
    #[must_use]
    pub const fn of_three(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor: Some(minor),
            patch: Some(patch),
        }
    }
}

impl From<u32> for Version {
    fn from(major: u32) -> Self {
        Self::of_one(major)
    }
}

impl From<[u32; 3]> for Version {
    fn from([major, minor, patch]: [u32; 3]) -> Self {
        Self::of_three(major, minor, patch)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.major)?;
        for number in [self.minor, self.patch].into_iter().flatten() {
            write!(f, ".{number}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}
