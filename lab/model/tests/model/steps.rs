//! The driver, continued: steps about names.

use std::cell::RefCell;

use pagewell_fs::{Credentials, Entry, Error, RenameMode};

use crate::driver::{Driver, create_mode, how_of};
use crate::operation::{Operation, Pick};
use crate::reference::{Named, refuse};
use crate::rules::{self, EXECUTE};

impl Driver<'_> {
    pub(crate) fn step_making(&mut self, who: &Credentials, operation: &Operation) {
        let (pick, name) = match operation {
            Operation::Create(pick, name, _)
            | Operation::MakeDirectory(pick, name, _)
            | Operation::MakeSymlink(pick, name, ..)
            | Operation::MakeNode(pick, name, ..) => (pick, name.bytes()),
            _ => unreachable!("{operation:?}"),
        };
        let parent = self.pick(*pick);
        let id = self.id(parent);
        let before = self.before(parent);
        let model = &mut self.model;
        let uncertain = match operation {
            Operation::Create(_, _, how) => model.uncertain(parent, &name, &how_of(*how)),
            _ => None,
        };
        let mut expected = match operation {
            Operation::Create(_, _, how) => model.create(who, parent, &name, &how_of(*how)),
            Operation::MakeDirectory(_, _, request) => {
                model.make_directory(who, parent, &name, request)
            }
            Operation::MakeSymlink(_, _, target, request) => {
                model.make_symlink(who, parent, &name, &target.bytes(), request)
            }
            Operation::MakeNode(_, _, kind, request) => {
                model.make_node(who, parent, &name, *kind, request)
            }
            _ => unreachable!("{operation:?}"),
        };
        let actual = self.call(who, |filesystem, call| match operation {
            Operation::Create(_, _, how) => {
                filesystem.create(call, &id, &name, &create_mode(how_of(*how)))
            }
            Operation::MakeDirectory(_, _, request) => {
                filesystem.make_directory(call, &id, &name, request)
            }
            Operation::MakeSymlink(_, _, target, request) => {
                filesystem.make_symlink(call, &id, &name, &target.bytes(), request)
            }
            Operation::MakeNode(_, _, kind, request) => {
                filesystem.make_node(call, &id, &name, *kind, request)
            }
            _ => unreachable!("{operation:?}"),
        });
        if let (Some(number), Ok(_), Err(_)) = (uncertain, &actual, &expected) {
            expected = Ok(number);
        }
        if let (Some(_), Err(Error::Exists), Ok(_)) = (uncertain, &actual, &expected) {
            expected = refuse(Error::Exists);
        }
        if let Some(made) = self.agree(actual, expected) {
            self.meet_created(parent, before, made);
        }
    }

    pub(crate) fn step_on_names(&mut self, who: &Credentials, operation: &Operation) {
        match operation {
            Operation::Lookup(pick, name) => {
                let (named, name) = (self.pick(*pick), name.bytes());
                let id = self.id(named);
                let actual = self.call(who, |filesystem, call| filesystem.lookup(call, &id, &name));
                if let Some((entry, number)) =
                    self.agree(actual, self.model.lookup(who, named, &name))
                {
                    self.meet_entry(number, &entry);
                }
            }
            Operation::Link(object, pick, name) => {
                let (object, named, name) = (self.pick(*object), self.pick(*pick), name.bytes());
                let (object_id, id) = (self.id(object), self.id(named));
                let before = self.before(named);
                let actual = self.call(who, |filesystem, call| {
                    filesystem.link(call, &object_id, &id, &name)
                });
                let expected = self.model.link(who, object, named, &name);
                if let Some(((seen, change), (object, directory))) = self.agree(actual, expected) {
                    self.model.meet(object, &seen);
                    self.meet_change(directory, before, &change);
                }
            }
            Operation::Remove(pick, name) => self.remove(who, *pick, &name.bytes(), false),
            Operation::RemoveDirectory(pick, name) => self.remove(who, *pick, &name.bytes(), true),
            Operation::Rename(from, old, to, new) => {
                let (from, to) = (self.pick(*from), self.pick(*to));
                let (old, new) = (old.bytes(), new.bytes());
                self.rename(who, (from, &old), (to, &new));
            }
            _ => unreachable!("{operation:?}"),
        }
    }

    fn remove(&mut self, who: &Credentials, pick: Pick, name: &[u8], wants_directory: bool) {
        let named = self.pick(pick);
        let id = self.id(named);
        let before = self.before(named);
        let actual = self.call(who, |filesystem, call| {
            if wants_directory {
                filesystem.remove_directory(call, &id, name)
            } else {
                filesystem.remove(call, &id, name)
            }
        });
        let expected = self.model.remove(who, named, name, wants_directory);
        if let Some((change, directory)) = self.agree(actual, expected) {
            self.meet_change(directory, before, &change);
        }
    }

    fn rename(&mut self, who: &Credentials, from: (Named, &[u8]), to: (Named, &[u8])) {
        let (from_id, to_id) = (self.id(from.0), self.id(to.0));
        let (from_before, to_before) = (self.before(from.0), self.before(to.0));
        let actual = self.call(who, |filesystem, call| {
            filesystem.rename(
                call,
                (&from_id, from.1),
                (&to_id, to.1),
                RenameMode::Replace,
            )
        });
        let expected = self.model.rename(who, from, to);
        if let Some(((left, right), (from, to))) = self.agree(actual, expected) {
            self.meet_change(from, from_before, &left);
            self.meet_change(to, to_before, &right);
        }
    }

    /// Lists a directory in pieces and compares names, objects and cookies.
    pub(crate) fn read_directory(
        &mut self,
        who: &Credentials,
        named: Named,
        page_entries: usize,
        with_attributes: bool,
    ) {
        let id = self.id(named);
        let expected = self.model.read_directory(who, named);
        let mut cookie = 0;
        let mut cookies = Vec::new();
        let mut listed: Vec<(Vec<u8>, u64, Option<Entry>)> = Vec::new();
        let directory = loop {
            let at = cookie;
            let found = RefCell::new(Vec::new());
            let actual = self.call(who, |filesystem, call| {
                found.borrow_mut().clear();
                filesystem.read_directory(call, &id, at, with_attributes, &mut |entry| {
                    let mut found = found.borrow_mut();
                    if found.len() == page_entries {
                        return false;
                    }
                    found.push((
                        entry.cookie,
                        entry.name.to_vec(),
                        entry.file_id,
                        entry.entry,
                    ));
                    true
                })
            });
            let Some((page, directory)) = self.agree(actual, expected.clone()) else {
                return;
            };
            self.model.meet(directory, &page.attributes);
            self.model.note_read(directory);
            for (at, name, file_id, entry) in found.into_inner() {
                cookie = at;
                cookies.push(at);
                listed.push((name, file_id, entry));
            }
            if page.end {
                break directory;
            }
            assert!(cookies.len() < 10_000, "the listing does not end");
        };
        assert!(!cookies.contains(&0), "cookie 0");
        let count = cookies.len();
        cookies.sort_unstable();
        cookies.dedup();
        assert_eq!(cookies.len(), count, "a cookie twice");
        self.meet_listing(who, directory, &mut listed, with_attributes);
    }

    fn meet_listing(
        &mut self,
        who: &Credentials,
        directory: usize,
        listed: &mut [(Vec<u8>, u64, Option<Entry>)],
        with_attributes: bool,
    ) {
        let mut expected = self.model.entries(directory).clone();
        expected.insert(b".".to_vec(), directory);
        expected.insert(b"..".to_vec(), self.model.parent(directory));
        listed.sort_by(|left, right| left.0.cmp(&right.0));
        let names: Vec<&Vec<u8>> = listed.iter().map(|(name, ..)| name).collect();
        assert_eq!(names, expected.keys().collect::<Vec<_>>(), "names");
        let searchable = rules::allows(who, &self.model.objects[directory], EXECUTE);
        for (name, file_id, entry) in listed {
            let number = expected[name];
            if let Some(known) = self.model.objects[number].file_id {
                let outside = directory == 0 && name == b"..";
                assert!(*file_id == known || outside, "file id of {name:?}");
            }
            match entry {
                Some(entry) => {
                    assert!(with_attributes, "attributes nobody asked for");
                    self.meet_entry(number, entry);
                }
                None => assert!(!with_attributes || !searchable, "no attributes of {name:?}"),
            }
        }
    }
}
