//! An open disc.

use std::sync::Arc;

use pagewell_cache::Cache;
use pagewell_fs::FileSystem;
use pagewell_fs::source::OpenError;
use pagewell_source_bytes::{Bytes, Violations};
use pagewell_source_iso::{IsoFileSystem, IsoOptions, Survey, survey};

use crate::check::{Depth, Tick, Troubles, Walked, compare, walk};
use crate::choose::{Candidate, TreeFound, choose};
use crate::options::{DiscOptions, TreeName};
use crate::owner::{Owned, Owner};

/// See the module's text.
pub struct Disc {
    candidates: Vec<Candidate>,
    chosen: usize,
    trees: Vec<TreeFound>,
    iso: Option<Survey>,
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
        let iso_options = IsoOptions {
            tree: None,
            session: options.session,
            case: options.case,
            keeps_compressed: options.keeps_compressed,
            violations,
        };
        let (iso, refusal) = match survey(bytes, &iso_options) {
            Ok(survey) => (Some(survey), None),
            Err(refusal) => (None, Some(refusal)),
        };
        let mut candidates = Vec::new();
        for found in iso.iter().flat_map(|survey| &survey.trees) {
            let name = TreeName::of_iso(found.kind);
            let one = IsoOptions {
                tree: Some(found.kind),
                ..iso_options.clone()
            };
            let tree: Arc<dyn FileSystem> = Arc::new(IsoFileSystem::of_bytes(bytes, cache, &one)?);
            candidates.push(Candidate { name, tree });
        }
        leave_out_plain(&mut candidates, options.tree);
        if let (true, Some(refusal)) = (candidates.is_empty(), refusal) {
            return Err(refusal);
        }
        let (chosen, trees) = choose(&candidates, options.tree).map_err(|reason| {
            let cut = iso.as_ref().and_then(shortfall);
            let cut = cut.map_or_else(String::new, |cut| format!(" (it {cut})"));
            OpenError::new(bytes.name(), &format!("{reason}{cut}"))
        })?;
        Ok(Self {
            candidates,
            chosen,
            trees,
            iso,
        })
    }
}

impl Disc {
    /// The tree that is served; dropping the disc closes the others.
    #[must_use]
    pub fn into_filesystem(mut self, owner: Owner) -> Arc<dyn FileSystem> {
        let tree = self.candidates.swap_remove(self.chosen).tree;
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
        self.iso.as_ref().map_or("", |survey| &survey.label)
    }

    /// What is known of it as a disc of ISO 9660, if it is one.
    #[must_use]
    pub fn iso(&self) -> Option<&Survey> {
        self.iso.as_ref()
    }

    /// What its reader must know: what is missing, and what other trees have.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let cut = self.iso.as_ref().and_then(shortfall);
        let has_udf = self.iso.as_ref().is_some_and(|survey| survey.has_udf);
        let udf = has_udf.then(|| "it also has a UDF file system, which is not read".to_owned());
        let also = self.trees.iter().filter_map(TreeFound::also_has);
        cut.into_iter().chain(udf).chain(also).collect()
    }

    /// Looks at all objects of all trees; `tick` is given the bytes of data that were read.
    pub fn check(&self, depth: Depth, tick: &mut Tick<'_>) -> Vec<TreeChecked> {
        let served = self.served();
        let check = |candidate: &Candidate| TreeChecked {
            name: candidate.name,
            walked: walk(&*candidate.tree, depth, tick),
            lacking: compare(
                (&*served.tree, served.name),
                (&*candidate.tree, candidate.name),
            ),
        };
        self.candidates.iter().map(check).collect()
    }

    fn served(&self) -> &Candidate {
        &self.candidates[self.chosen]
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

/// How much of the volume is there, when that is less than its descriptor says: in words that can
/// follow "it".
fn shortfall(survey: &Survey) -> Option<String> {
    let missing = survey.missing_bytes();
    let there = survey.length_bytes;
    let whole = there.saturating_add(missing);
    (missing > 0).then(|| {
        format!("has {there} of the {whole} bytes of its volume, as after an interrupted download")
    })
}

/// Rock Ridge shows all that the plain tree has: the same records.
fn leave_out_plain(candidates: &mut Vec<Candidate>, wanted: Option<TreeName>) {
    let has_more = candidates.iter().any(|it| it.name == TreeName::RockRidge);
    if has_more && wanted != Some(TreeName::Iso) {
        candidates.retain(|it| it.name != TreeName::Iso);
    }
}
