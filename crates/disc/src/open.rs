//! An open disc.

use std::sync::Arc;

use pagewell_cache::Cache;
use pagewell_fs::FileSystem;
use pagewell_fs::source::OpenError;
use pagewell_source_bytes::{Bytes, Violations};
use pagewell_source_iso::{IsoFileSystem, IsoOptions, Session, Survey, survey};
use pagewell_source_udf::{Description, UdfFileSystem};

use crate::check::{Depth, Tick, Troubles, Walked, compare, walk};
use crate::choose::{Candidate, TreeFound, choose};
use crate::options::{DiscOptions, TreeName};
use crate::owner::{Owned, Owner};

const SECTOR_BYTES: u64 = 2048;

/// See the module's text.
pub struct Disc {
    found: Found,
    chosen: usize,
    trees: Vec<TreeFound>,
}

/// What readers of formats make of an image.
struct Found {
    candidates: Vec<Candidate>,
    iso: Result<Survey, OpenError>,
    /// Nothing of an image that has no readable UDF.
    udf: Option<Arc<UdfFileSystem>>,
    /// Trees that are announced and cannot be opened.
    damaged: Vec<(TreeName, OpenError)>,
    length_bytes: u64,
}

impl Disc {
    /// Opens a disc.
    ///
    /// # Errors
    /// It is none, it has no such tree or session, or no root directory can be read.
    pub fn open(bytes: &Bytes, cache: &Cache, options: &DiscOptions) -> Result<Self, OpenError> {
        Self::noting((bytes, cache), options, None)
    }

    /// The same, that notes departures from its formats.
    pub fn noting(
        (bytes, cache): (&Bytes, &Cache),
        options: &DiscOptions,
        violations: Option<Arc<Violations>>,
    ) -> Result<Self, OpenError> {
        let mut found = Found::iso((bytes, cache), options, violations.clone());
        let wants_session = options.session != Session::Default;
        if !wants_session || options.tree == Some(TreeName::Udf) {
            found.add_udf(bytes, violations);
        }
        if found.candidates.is_empty() {
            return Err(found.refusal(bytes.name()));
        }
        let (chosen, trees) = choose(&found.candidates, options.tree).map_err(|reason| {
            let cut = found.shortfall();
            let cut = cut.map_or_else(String::new, |cut| format!(" (it {cut})"));
            OpenError::new(bytes.name(), &format!("{reason}{cut}"))
        })?;
        Ok(Self {
            found,
            chosen,
            trees,
        })
    }
}

impl Found {
    fn iso(
        (bytes, cache): (&Bytes, &Cache),
        options: &DiscOptions,
        violations: Option<Arc<Violations>>,
    ) -> Self {
        let iso_options = IsoOptions {
            tree: None,
            session: options.session,
            case: options.case,
            charset: options.charset,
            all_versions: options.all_versions,
            keeps_compressed: options.keeps_compressed,
            violations,
        };
        let iso = survey(bytes, options.session);
        let (mut candidates, mut damaged) = (Vec::new(), Vec::new());
        for kind in iso.iter().flat_map(|survey| &survey.trees) {
            let name = TreeName::of_iso(*kind);
            let one = IsoOptions {
                tree: Some(*kind),
                ..iso_options.clone()
            };
            match IsoFileSystem::of_bytes(bytes, cache, &one) {
                Ok(tree) => candidates.push(Candidate {
                    name,
                    tree: Arc::new(tree),
                }),
                Err(error) => damaged.push((name, error)),
            }
        }
        // Rock Ridge shows all that the plain tree has: the same records.
        let has_more = candidates.iter().any(|it| it.name == TreeName::RockRidge);
        if has_more && options.tree != Some(TreeName::Iso) {
            candidates.retain(|it| it.name != TreeName::Iso);
        }
        Self {
            candidates,
            iso,
            udf: None,
            damaged,
            length_bytes: bytes.length_bytes(),
        }
    }

    fn add_udf(&mut self, bytes: &Bytes, violations: Option<Arc<Violations>>) {
        if !UdfFileSystem::is_named_in(bytes).unwrap_or(false) {
            return;
        }
        match UdfFileSystem::of_bytes(bytes, violations) {
            Ok(udf) => {
                let udf = Arc::new(udf);
                self.udf = Some(udf.clone());
                self.candidates.push(Candidate {
                    name: TreeName::Udf,
                    tree: udf,
                });
            }
            Err(error) => self.damaged.push((TreeName::Udf, error)),
        }
    }

    /// Bytes of its volume that the image lacks, by the descriptors of either format.
    fn missing_bytes(&self) -> u64 {
        let of_iso = self.iso.as_ref().map_or(0, |iso| iso.missing_bytes);
        let udf = self.udf.as_ref().map(|udf| udf.description());
        let missing = of_iso.max(udf.map_or(0, |udf| udf.missing_bytes));
        // Some writers do not pad the last sector.
        if missing < SECTOR_BYTES { 0 } else { missing }
    }

    /// How much of the volume is there, when the image is too short, in words that can follow "it".
    fn shortfall(&self) -> Option<String> {
        let missing = self.missing_bytes();
        let there = self.length_bytes;
        let whole = there.saturating_add(missing);
        (missing > 0).then(|| {
            let tail = "bytes of its volume, as after an interrupted download";
            format!("has {there} of the {whole} {tail}")
        })
    }

    /// Why there is no tree.
    fn refusal(self, name: &str) -> OpenError {
        match (self.damaged.into_iter().next(), self.iso) {
            (Some((_, refusal)), _) | (None, Err(refusal)) => refusal,
            (None, Ok(_)) => OpenError::new(name, "no tree of files"),
        }
    }
}

impl Disc {
    /// The tree that is served; dropping the disc closes the others.
    #[must_use]
    pub fn into_filesystem(mut self, owner: Owner) -> Arc<dyn FileSystem> {
        let tree = self.found.candidates.swap_remove(self.chosen).tree;
        if owner.is_none() {
            return tree;
        }
        Arc::new(Owned::new(tree, owner))
    }

    /// The kind of the tree that is served.
    #[must_use]
    pub fn chosen(&self) -> TreeName {
        self.served().name
    }

    /// All its trees, but plain ISO 9660 below Rock Ridge.
    #[must_use]
    pub fn trees(&self) -> &[TreeFound] {
        &self.trees
    }

    /// The name of its volume.
    #[must_use]
    pub fn label(&self) -> &str {
        match (self.chosen(), self.udf(), self.iso()) {
            (TreeName::Udf, Some(udf), _) | (_, Some(udf), None) => &udf.label,
            (_, _, Some(iso)) => &iso.label,
            (_, None, None) => "",
        }
    }

    /// What is known of it as a disc of ISO 9660, if it is one.
    #[must_use]
    pub fn iso(&self) -> Option<&Survey> {
        self.found.iso.as_ref().ok()
    }

    /// What is known of it as a disc of UDF, if it is one.
    #[must_use]
    pub fn udf(&self) -> Option<&Description> {
        self.found.udf.as_ref().map(|udf| udf.description())
    }

    /// Whether each format that it names, and the root of each of its trees, can be read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.found.damaged.is_empty() && self.trees.iter().all(|tree| tree.root_names.is_ok())
    }

    /// Bytes of its volume that the image lacks, by the descriptors of either format.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.found.missing_bytes()
    }

    /// What is missing of `source`, `iso:IMAGE`, and what other trees have.
    #[must_use]
    pub fn notes(&self, source: &str) -> Vec<String> {
        let cut = self.found.shortfall();
        let damaged = self.found.damaged.iter();
        let damaged = damaged.map(|(name, error)| {
            let title = name.title();
            format!("its {title} tree cannot be read: {error}")
        });
        let also = self.trees.iter().filter_map(|tree| tree.also_has(source));
        cut.into_iter().chain(damaged).chain(also).collect()
    }

    /// Looks at all objects of all trees; `tick` gets the bytes read.
    pub fn check(&self, depth: Depth, tick: &mut Tick<'_>) -> Vec<TreeChecked> {
        let served = self.served();
        let check = |candidate: &Candidate| TreeChecked {
            name: candidate.name,
            walked: walk(&*candidate.tree, self.udf_of(candidate), depth, tick),
            lacking: compare(
                (&*served.tree, served.name),
                (&*candidate.tree, candidate.name),
            ),
        };
        self.found.candidates.iter().map(check).collect()
    }

    fn udf_of(&self, candidate: &Candidate) -> Option<&UdfFileSystem> {
        let udf = self.found.udf.as_deref();
        udf.filter(|_| candidate.name == TreeName::Udf)
    }

    fn served(&self) -> &Candidate {
        &self.found.candidates[self.chosen]
    }
}

/// What a look at all of a tree found.
#[derive(Clone, Debug)]
pub struct TreeChecked {
    /// Its kind.
    pub name: TreeName,
    /// What it holds.
    pub walked: Walked,
    /// What it has and the tree that is served lacks.
    pub lacking: Troubles,
}
