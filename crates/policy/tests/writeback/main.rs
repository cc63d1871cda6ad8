//! Write-back against a model that knows every byte, against a simulated device in virtual
//! time, and against the program of the report.

#![allow(clippy::unwrap_used)]

mod fuzz;
mod gathered;
mod model;
mod random;
mod reasons;
mod report;
mod schedules;
mod simulation;
mod streams;
