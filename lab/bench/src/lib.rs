//! The experiments: well-known reports of slow storage, repeated with what they lacked switched
//! off and on. The binary `pagewell-bench` runs them.

pub mod experiment;
