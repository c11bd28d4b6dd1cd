use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use tensor_core::{Entries, Shape, Tensor};

use crate::{Archive, BuildError, Entry, Result};

/// What a file holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Object<'a> {
    /// A shape alone: its dims without trailing ones, and its batch.
    Shape {
        /// The dims, first fastest.
        dims: &'a Shape,
        /// The batch.
        batch: u32,
    },
    /// A tensor alone.
    Tensor(Entry<'a>),
    /// A parameter.
    Parameter(Parameter<'a>),
    /// Parameters by address.
    Model(Model<'a>),
    /// Configurations of an optimizer.
    Optimizer(&'a Optimizer),
}

/// A parameter: its value and its statistics.
///
/// ```
/// use primitiv_format::{Archive, Builder, Object, Tensor};
///
/// let mut builder = Builder::new();
/// builder.tensor("enc.W", Tensor::from_slice(&[1.0f32], &[1])?)?;
/// builder.stat("Adam.m1", Tensor::from_slice(&[0.5f32], &[1])?)?;
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let Object::Model(model) = archive.object() else {
///     return Err("no model".into());
/// };
/// let parameter = model.get(&["enc", "W"]).ok_or("no W")?;
/// assert_eq!(archive.read(parameter.value())?.to_vec::<f32>()?, [1.0]);
/// let names: Vec<&str> = parameter.stats().map(|entry| entry.name()).collect();
/// assert_eq!(names, ["enc.W:Adam.m1"]);
/// assert_eq!(model.parameters().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parameter<'a> {
    pub(crate) value: Entry<'a>,
    pub(crate) stats: Entries<'a, Archive>,
}

impl<'a> Parameter<'a> {
    /// The value.
    #[must_use]
    pub fn value(&self) -> Entry<'a> {
        self.value
    }

    /// The statistics, in file order.
    #[must_use]
    pub fn stats(&self) -> Entries<'a, Archive> {
        self.stats.clone()
    }

    /// The statistic with this key, such as `Adam.m1`.
    #[must_use]
    pub fn stat(&self, key: &str) -> Option<Entry<'a>> {
        self.stats().find(|entry| entry.stat() == Some(key))
    }

    /// The value and all statistics, read: what it takes to go on with training.
    ///
    /// ```
    /// # use primitiv_format::{Archive, Builder, Object, Tensor};
    /// # let mut builder = Builder::new();
    /// # builder.tensor("b", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// # builder.stat("Adam.m1", Tensor::from_slice(&[0.5f32], &[1])?)?;
    /// # builder.stat("Adam.m2", Tensor::from_slice(&[0.25f32], &[1])?)?;
    /// # let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// # let Object::Model(model) = archive.object() else { return Err("no model".into()) };
    /// let state = model.get(&["b"]).ok_or("no b")?.learning_state(&archive)?;
    /// // In memory the data lies wherever the format puts it: `as_slice` may find it unaligned.
    /// assert_eq!(state.value.to_vec::<f32>()?, [1.0]);
    /// assert_eq!(state.stat("Adam.m2").ok_or("no m2")?.to_vec::<f32>()?, [0.25]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Archive::read`].
    pub fn learning_state(&self, archive: &Archive) -> Result<LearningState> {
        let stat = |entry: Entry<'_>| {
            let key = entry.stat().unwrap_or_default().into();
            archive.read(entry).map(|tensor| (key, tensor))
        };
        Ok(LearningState {
            value: archive.read(self.value)?,
            stats: self.stats().map(stat).collect::<Result<_>>()?,
        })
    }
}

/// A parameter's value with the moments that its optimizer keeps.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LearningState {
    /// The value.
    pub value: Tensor,
    /// Each statistic with its key.
    pub stats: Vec<(String, Tensor)>,
}

impl LearningState {
    /// The statistic with this key.
    pub fn stat(&self, key: &str) -> Option<&Tensor> {
        self.stats
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, tensor)| tensor)
    }
}

/// The parameters of a model file.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    pub(crate) archive: &'a Archive,
}

impl<'a> Model<'a> {
    /// The parameter at an address, such as `["enc", "W"]`.
    #[must_use]
    pub fn get(&self, path: &[&str]) -> Option<Parameter<'a>> {
        let is_it =
            |entry: &Entry<'_>| entry.stat().is_none() && entry.path().eq(path.iter().copied());
        let joined = path.join(".");
        let entry = self.archive.entry(&joined).filter(is_it);
        let entry = entry.or_else(|| self.archive.same_named().find(is_it))?;
        Some(self.archive.parameter(entry))
    }

    /// All parameters, in file order.
    ///
    /// ```
    /// use primitiv_format::{Archive, Builder, Object, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.tensor("a", Tensor::from_slice(&[1.0f32], &[1])?)?;
    /// builder.tensor("b", Tensor::from_slice(&[2.0f32], &[1])?)?;
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let Object::Model(model) = archive.object() else {
    ///     return Err("no model".into());
    /// };
    /// let names: Vec<&str> = model.parameters().map(|parameter| parameter.value().name()).collect();
    /// assert_eq!(names, ["a", "b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parameters(&self) -> impl Iterator<Item = Parameter<'a>> + use<'a> {
        let archive = self.archive;
        let values = archive.entries().filter(|entry| entry.stat().is_none());
        values.map(|entry| archive.parameter(entry))
    }
}

/// "Types", Optimizer: two maps of configurations, in file order.
///
/// ```
/// use primitiv_format::{Archive, Object, Optimizer, OptimizerKind};
///
/// let mut optimizer = Optimizer::new();
/// optimizer.uint("Optimizer.epoch", 3)?.float("SGD.eta", 0.1)?;
/// assert_eq!(optimizer.kind(), Some(OptimizerKind::Sgd));
///
/// let archive = Archive::from_bytes(optimizer.to_vec()?)?;
/// let Object::Optimizer(read) = archive.object() else { return Err("no optimizer".into()) };
/// assert_eq!(read.get_uint("Optimizer.epoch"), Some(3));
/// assert_eq!(read.get_float("SGD.eta"), Some(0.1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Optimizer {
    pub(crate) uints: Vec<(Box<str>, u32)>,
    pub(crate) floats: Vec<(Box<str>, f32)>,
}

impl Optimizer {
    /// One without configurations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an integer.
    ///
    /// # Errors
    /// [`BuildError::Duplicate`].
    pub fn uint(&mut self, key: &str, value: u32) -> Result<&mut Self> {
        if self.get_uint(key).is_some() {
            return Err(BuildError::Duplicate { name: key.into() }.into());
        }
        self.uints.push((key.into(), value));
        Ok(self)
    }

    /// Adds a float; its bits are kept.
    ///
    /// # Errors
    /// [`BuildError::Duplicate`].
    pub fn float(&mut self, key: &str, value: f32) -> Result<&mut Self> {
        if self.get_float(key).is_some() {
            return Err(BuildError::Duplicate { name: key.into() }.into());
        }
        self.floats.push((key.into(), value));
        Ok(self)
    }

    /// The integers, in file order.
    ///
    /// ```
    /// let mut optimizer = primitiv_format::Optimizer::new();
    /// optimizer.uint("Optimizer.epoch", 7)?;
    /// assert_eq!(optimizer.uints().collect::<Vec<_>>(), [("Optimizer.epoch", 7)]);
    /// # Ok::<(), primitiv_format::Error>(())
    /// ```
    pub fn uints(&self) -> impl Iterator<Item = (&str, u32)> {
        self.uints.iter().map(|(key, value)| (&**key, *value))
    }

    /// The floats, in file order.
    ///
    /// ```
    /// let mut optimizer = primitiv_format::Optimizer::new();
    /// optimizer.float("SGD.eta", 0.5)?;
    /// assert_eq!(optimizer.floats().collect::<Vec<_>>(), [("SGD.eta", 0.5)]);
    /// # Ok::<(), primitiv_format::Error>(())
    /// ```
    pub fn floats(&self) -> impl Iterator<Item = (&str, f32)> {
        self.floats.iter().map(|(key, value)| (&**key, *value))
    }

    /// The integer with this key.
    #[must_use]
    pub fn get_uint(&self, key: &str) -> Option<u32> {
        self.uints()
            .find(|&(known, _)| known == key)
            .map(|(_, value)| value)
    }

    /// The float with this key.
    #[must_use]
    pub fn get_float(&self, key: &str) -> Option<f32> {
        self.floats()
            .find(|&(known, _)| known == key)
            .map(|(_, value)| value)
    }

    /// The class that the keys speak of; the file itself does not say it.
    #[must_use]
    pub fn kind(&self) -> Option<OptimizerKind> {
        self.floats()
            .find_map(|(key, _)| OptimizerKind::from_prefix(key.split('.').next()?))
    }
}

/// The optimizer classes that primitiv has.
///
/// ```
/// use primitiv_format::OptimizerKind;
///
/// assert_eq!(OptimizerKind::Adam.name(), "Adam");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OptimizerKind {
    /// Stochastic gradient descent.
    Sgd,
    /// Stochastic gradient descent with momentum.
    MomentumSgd,
    /// AdaGrad.
    AdaGrad,
    /// RMSProp.
    RmsProp,
    /// AdaDelta.
    AdaDelta,
    /// Adam.
    Adam,
}

impl OptimizerKind {
    /// Every class.
    pub const ALL: &'static [Self] = &[
        Self::Sgd,
        Self::MomentumSgd,
        Self::AdaGrad,
        Self::RmsProp,
        Self::AdaDelta,
        Self::Adam,
    ];

    /// The class's name, which its keys start with.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => "SGD",
            Self::MomentumSgd => "MomentumSGD",
            Self::AdaGrad => "AdaGrad",
            Self::RmsProp => "RMSProp",
            Self::AdaDelta => "AdaDelta",
            Self::Adam => "Adam",
        }
    }

    fn from_prefix(prefix: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == prefix)
    }
}
