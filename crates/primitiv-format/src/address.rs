use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Where a parameter stands in a model: a name whose parts are between its dots, or the parts
/// themselves, whatever is in them.
///
/// ```
/// use primitiv_format::{Archive, Builder, Tensor};
///
/// let w = Tensor::from_slice(&[1.0f32], &[1])?;
/// let mut builder = Builder::new();
/// builder.tensor("encoder.W", w.clone())?;
/// builder.tensor(["decoder", "W.v2"], w)?;
/// let archive = Archive::from_bytes(builder.to_vec()?)?;
/// let paths: Vec<Vec<&str>> = archive.entries().map(|entry| entry.path().collect()).collect();
/// assert_eq!(paths, [["decoder", "W.v2"], ["encoder", "W"]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address(Form);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Form {
    Name(String),
    Parts(Vec<Box<str>>),
}

impl Address {
    /// The parts, a name split at its dots or taken whole.
    pub(crate) fn into_path(self, split: bool) -> Vec<Box<str>> {
        match self.0 {
            Form::Parts(parts) => parts,
            Form::Name(name) if split => name.split('.').map(Box::from).collect(),
            Form::Name(name) => [name.into_boxed_str()].into(),
        }
    }
}

impl From<String> for Address {
    fn from(name: String) -> Self {
        Self(Form::Name(name))
    }
}

impl From<&String> for Address {
    fn from(name: &String) -> Self {
        name.clone().into()
    }
}

impl From<&str> for Address {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl<S: AsRef<str>> From<&[S]> for Address {
    fn from(parts: &[S]) -> Self {
        Self(Form::Parts(
            parts.iter().map(|part| part.as_ref().into()).collect(),
        ))
    }
}

impl<S: AsRef<str>, const N: usize> From<[S; N]> for Address {
    fn from(parts: [S; N]) -> Self {
        parts.as_slice().into()
    }
}

impl<S: AsRef<str>> From<Vec<S>> for Address {
    fn from(parts: Vec<S>) -> Self {
        parts.as_slice().into()
    }
}
