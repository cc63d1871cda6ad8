//! How to show an image.

/// How to show an image; the default shows what its writer most probably meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IsoOptions {
    /// The letters of plain names.
    pub case: Case,
}

/// How to show the letters of plain names (ECMA-119 clause 7.5), which the standard allows only as
/// capitals. Names of Rock Ridge and Joliet are never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Case {
    /// Small, unless the writer recorded small letters, so that capitals have a meaning.
    #[default]
    Automatic,
    /// Small.
    Lower,
    /// Capitals.
    Upper,
    /// As recorded.
    Keep,
}
