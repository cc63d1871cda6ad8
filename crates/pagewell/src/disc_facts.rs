//! The facts of a disc image, for people and for programs.

use pagewell_base::size;
use pagewell_disc::Disc;
use pagewell_source_iso::{BootEntry, BootMedium, Survey};
use pagewell_source_udf::Description;
use serde::Serialize;

use crate::escape;
use crate::time_text::seconds_text;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct DiscFacts {
    /// What is around the image, outermost first.
    layers: Vec<String>,
    label: String,
    served: &'static str,
    /// Its trees, the served one first.
    found: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iso: Option<IsoFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udf: Option<UdfFacts>,
    missing_bytes: u64,
}

/// From descriptors of ISO 9660.
#[derive(Clone, Debug, Serialize)]
struct IsoFacts {
    system: String,
    publisher: String,
    preparer: String,
    application: String,
    created: Option<String>,
    is_high_sierra: bool,
    block_bytes: u32,
    volume_blocks: u32,
    /// First sectors of its sessions.
    sessions: Vec<u64>,
    boot: Vec<BootFacts>,
}

/// From descriptors of UDF.
#[derive(Clone, Debug, Serialize)]
struct UdfFacts {
    revision: String,
    label: String,
    created: Option<String>,
    block_bytes: u32,
    partitions: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct BootFacts {
    platform: String,
    medium: String,
    is_bootable: bool,
    position: u64,
    length_bytes: u64,
}

impl DiscFacts {
    pub(crate) fn of(disc: &Disc, layers: Vec<String>) -> Self {
        let served = disc.chosen().title();
        let others = disc.trees().iter().map(|tree| tree.name.title());
        let others = others.filter(|title| *title != served);
        Self {
            layers,
            label: shown(disc.label()),
            served,
            found: std::iter::once(served).chain(others).collect(),
            iso: disc.iso().map(IsoFacts::of),
            udf: disc.udf().map(UdfFacts::of),
            missing_bytes: disc.missing_bytes(),
        }
    }

    /// Bytes of the volume that the image lacks.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.missing_bytes
    }

    /// One line: the label, the trees, and which of them is served.
    pub(crate) fn line(&self) -> String {
        let label = match self.label.as_str() {
            "" => "no label".to_owned(),
            label => format!("label '{label}'"),
        };
        let sessions = match self.iso.as_ref().map_or(0, |iso| iso.sessions.len()) {
            0 | 1 => String::new(),
            count => format!(", {count} sessions"),
        };
        let found = self.found.join(", ");
        let layers: String = self
            .layers
            .iter()
            .map(|layer| format!("{layer}, "))
            .collect();
        format!(
            "{layers}{label}{sessions}, {} is served, of: {found}",
            self.served
        )
    }

    /// Further lines: the writer, boot entries, partitions of UDF.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(iso) = &self.iso {
            lines.extend(iso.lines());
        }
        lines.extend(self.udf.as_ref().map(UdfFacts::line));
        lines
    }
}

impl IsoFacts {
    fn of(survey: &Survey) -> Self {
        Self {
            system: shown(&survey.system),
            publisher: shown(&survey.publisher),
            preparer: shown(&survey.preparer),
            application: shown(&survey.application),
            created: survey.created.map(|time| seconds_text(time.seconds)),
            is_high_sierra: survey.is_high_sierra,
            block_bytes: survey.block_bytes,
            volume_blocks: survey.volume_blocks,
            sessions: survey.sessions.clone(),
            boot: survey.boot.iter().map(BootFacts::of).collect(),
        }
    }

    fn lines(&self) -> Vec<String> {
        let format = if self.is_high_sierra {
            "High Sierra"
        } else {
            "ISO 9660"
        };
        let volume = u64::from(self.volume_blocks) * u64::from(self.block_bytes);
        let mut lines = vec![format!(
            "{format}: {} in blocks of {} bytes",
            size::display(volume),
            self.block_bytes
        )];
        for (title, text) in [
            ("created", self.created.as_deref().unwrap_or_default()),
            ("system", &self.system),
            ("publisher", &self.publisher),
            ("preparer", &self.preparer),
            ("application", &self.application),
        ] {
            if !text.is_empty() {
                lines.push(format!("{title}: {text}"));
            }
        }
        if self.sessions.len() > 1 {
            let sectors: Vec<String> = self.sessions.iter().map(u64::to_string).collect();
            lines.push(format!("sessions begin at sectors {}", sectors.join(", ")));
        }
        lines.extend(self.boot.iter().map(BootFacts::line));
        lines
    }
}

impl UdfFacts {
    fn of(description: &Description) -> Self {
        let kinds = description.partitions.iter();
        Self {
            revision: description.revision_text(),
            label: shown(&description.label),
            created: description.created.map(|time| seconds_text(time.seconds)),
            block_bytes: description.block_bytes,
            partitions: kinds.map(ToString::to_string).collect(),
        }
    }

    fn line(&self) -> String {
        let created = match &self.created {
            Some(time) => format!(", created {time}"),
            None => String::new(),
        };
        format!(
            "UDF {}: label '{}'{created}, blocks of {} bytes, partitions: {}",
            self.revision,
            self.label,
            self.block_bytes,
            self.partitions.join(", ")
        )
    }
}

impl BootFacts {
    fn of(entry: &BootEntry) -> Self {
        let platform = match entry.platform {
            0 => "x86".to_owned(),
            1 => "PowerPC".to_owned(),
            2 => "Mac".to_owned(),
            0xef => "EFI".to_owned(),
            other => format!("platform {other}"),
        };
        let medium = match entry.medium {
            BootMedium::None => "as it is".to_owned(),
            BootMedium::Floppy(kibibytes) => format!("as a floppy disk of {kibibytes} KiB"),
            BootMedium::HardDisk => "as a hard disk".to_owned(),
            BootMedium::Unknown(number) => format!("as medium {number}"),
        };
        Self {
            platform,
            medium,
            is_bootable: entry.bootable,
            position: entry.position,
            length_bytes: entry.length_bytes,
        }
    }

    fn line(&self) -> String {
        let (platform, medium) = (&self.platform, &self.medium);
        let not = if self.is_bootable {
            ""
        } else {
            " (not marked bootable)"
        };
        let length = size::display(self.length_bytes);
        format!(
            "boots {platform} {medium}{not}: {length} at byte {}",
            self.position
        )
    }
}

fn shown(text: &str) -> String {
    escape::text(text.as_bytes())
}
