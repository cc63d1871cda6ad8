//! The library that draws in pages, uPlot: a copy in `assets`, so that a browser asks for nothing
//! else. The page here has it, and the report of `pagewell bench`.

/// Its name and its licence.
pub const NAME: &str = "uPlot 1.6.32, MIT licence";
/// Its program, which makes `uPlot` known to later ones.
pub const PROGRAM: &str = include_str!("../assets/uPlot.iife.min.js");
/// Its style.
pub const STYLE: &str = include_str!("../assets/uPlot.min.css");
/// The text of its licence, which each copy must have.
pub const LICENCE: &str = include_str!("../assets/uPlot-LICENSE");
