//! What the kernel is shown of objects, and for how long it keeps that.

use std::time::Duration;

use fuser::FileAttr;
use pagewell_fs::{Attributes, Coherence};

use crate::convert::Appearance;

/// Answers with at least this lifetime never expire in practice.
const UNLIMITED: Duration = Duration::from_secs(60 * 60);

#[derive(Clone, Copy)]
pub(crate) struct KernelView {
    coherence: Coherence,
    appearance: Appearance,
    source_is_read_only: bool,
}

impl KernelView {
    pub(crate) fn new(
        coherence: Coherence,
        appearance: Appearance,
        source_is_read_only: bool,
    ) -> Self {
        Self {
            coherence,
            appearance,
            source_is_read_only,
        }
    }

    /// Whether only this mount changes the source.
    pub(crate) fn is_private(&self) -> bool {
        self.coherence.attributes >= UNLIMITED && self.coherence.names >= UNLIMITED
    }

    /// Whether nothing in the source ever changes.
    pub(crate) fn is_immutable(&self) -> bool {
        self.is_private() && self.source_is_read_only
    }

    /// Whether the kernel has another owner or permissions than the source's.
    pub(crate) fn hides_owners(&self) -> bool {
        self.appearance != Appearance::default()
    }

    /// Whether the kernel keeps attributes at all.
    pub(crate) fn keeps_attributes(&self) -> bool {
        !self.coherence.attributes.is_zero()
    }

    /// How long the kernel keeps attributes: not at all when they lack something.
    pub(crate) fn attributes_lifetime(&self, attributes: &Attributes) -> Duration {
        if attributes.may_be_kept {
            self.coherence.attributes
        } else {
            Duration::ZERO
        }
    }

    pub(crate) fn name_lifetime(&self) -> Duration {
        self.coherence.names
    }

    /// How long the kernel keeps that a name means nothing.
    pub(crate) fn missing_name_lifetime(&self) -> Duration {
        self.coherence.missing_names
    }

    /// The shorter of both, where the protocol has one field.
    pub(crate) fn entry_lifetime(&self, attributes: &Attributes) -> Duration {
        self.attributes_lifetime(attributes)
            .min(self.name_lifetime())
    }

    pub(crate) fn shown(&self, attributes: &Attributes, node: u64) -> FileAttr {
        self.appearance.shown(attributes, node)
    }
}
