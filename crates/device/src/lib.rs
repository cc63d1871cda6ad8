//! Pagewell: device.
