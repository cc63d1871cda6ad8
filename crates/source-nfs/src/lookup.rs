//! From names to objects.

use std::sync::Arc;

use pagewell_counters::names as counters;
use pagewell_fs::{Access, Call, Entry, Error, FileId, Result};
use pagewell_sunrpc::nfs3::{DecodeReply, LookupReply, Procedure, Status};

use super::calls::may_wait;
use super::convert;
use super::names::{NAMES_MAX, Names};
use super::naming::operation;
use super::node::Node;
use super::objects::Objects;

pub(super) struct Namespace {
    objects: Arc<Objects>,
    names: Names,
}

impl Namespace {
    pub(super) fn new(objects: Arc<Objects>) -> Self {
        let names = Names::new(NAMES_MAX);
        Self { objects, names }
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Those that are remembered.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// [`pagewell_fs::FileSystem::lookup`].
    pub(super) fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let node = self.objects.directory(call, directory)?;
        if name == b"." || name == b".." && directory == self.objects.root().id() {
            let attributes = self.objects.attributes_of(call, &node)?;
            return Ok(Entry {
                id: *node.id(),
                attributes,
            });
        }
        if name != b".."
            && let Some(known) = self.remembered(call, &node, name)?
        {
            counters::CLIENT_NAME_HITS.add(1);
            return known.ok_or(Error::NotFound);
        }
        may_wait(call)?;
        counters::CLIENT_NAME_MISSES.add(1);
        self.ask_name(call, &node, name)
    }

    /// What is believed of a name, for a caller that may look it up: an object or none.
    fn remembered(
        &self,
        call: &Call<'_>,
        directory: &Node,
        name: &[u8],
    ) -> Result<Option<Option<Entry>>> {
        let meaning = self.names.find(directory, name);
        let known = match meaning {
            None => return Ok(None),
            Some(None) => None,
            Some(Some(id)) => {
                let believed = self.objects.node(&id).lock().believed();
                let Some(attributes) = believed else {
                    return Ok(None);
                };
                Some(Entry { id, attributes })
            }
        };
        self.objects.check(call, directory, Access::LOOKUP)?;
        Ok(Some(known))
    }

    /// A name's object, if remembered.
    pub(super) fn known_meaning(&self, directory: &Node, name: &[u8]) -> Option<Arc<Node>> {
        let object = self.names.find(directory, name)?;
        object.map(|id| self.objects.node(&id))
    }

    pub(super) fn ask_name(&self, call: &Call<'_>, node: &Node, name: &[u8]) -> Result<Entry> {
        let before = node.stamp();
        let directory = self.objects.root().on_wire(node.id());
        let arguments = operation(&directory, name);
        let answer = self
            .objects
            .calls()
            .ask(call, Procedure::Lookup, &arguments, |decoder| {
                Ok(LookupReply::decode_reply(decoder)?.map(|found| {
                    let id = convert::id(found.object);
                    (id, found.object_attributes, found.directory_attributes)
                }))
            })?;
        match answer.value {
            Ok((id, attributes, directory)) => {
                self.objects
                    .files()
                    .look(node, directory.as_ref(), answer.sent)?;
                let entry = self
                    .objects
                    .entry(call, id?, attributes.as_ref(), answer.sent)?;
                if name != b".." {
                    self.names.learn(node, name, Some(entry.id), before);
                }
                Ok(entry)
            }
            Err(failure) => {
                let attributes = failure.body;
                self.objects
                    .files()
                    .look(node, attributes.as_ref(), answer.sent)?;
                match failure.status {
                    Status::NotFound => self.names.learn(node, name, None, before),
                    Status::Stale | Status::BadHandle => node.lock().doubt(),
                    _ => {}
                }
                Err(convert::error(failure.status))
            }
        }
    }
}
