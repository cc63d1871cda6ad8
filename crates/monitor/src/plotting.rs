//! The plotting library uPlot, as a copy in `assets`, for the page and the report of `pagewell
//! bench`.

/// Name and licence.
pub const NAME: &str = "uPlot 1.6.32, MIT licence";
/// The program, which defines `uPlot`.
pub const PROGRAM: &str = include_str!("../assets/uPlot.iife.min.js");
/// The style.
pub const STYLE: &str = include_str!("../assets/uPlot.min.css");
/// The text of the licence, which each copy needs.
pub const LICENCE: &str = include_str!("../assets/uPlot-LICENSE");
