//! What a server works by: defaults and the command line, resolved into one value.

pub(crate) mod settings;
