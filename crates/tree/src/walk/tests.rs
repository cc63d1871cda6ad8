//! Walks over trees that no honest source has.

use std::sync::Arc;

use pagewell_base::sync::Mutex;
use pagewell_fs::{
    Access, Attributes, Call, DirectoryEntry, DirectoryPage, FileSystem, FileType, Limits,
    ReadReply, Result, Statistics, Timestamp, forward,
};

use super::*;

/// Directories by number, each with the names and numbers of what is in it; a number without an
/// entry is a file.
struct Graph(Vec<Vec<(&'static str, u8)>>);

impl Graph {
    fn attributes_of(&self, number: u8) -> Attributes {
        let is_directory = usize::from(number) < self.0.len();
        Attributes {
            file_type: if is_directory {
                FileType::Directory
            } else {
                FileType::Regular
            },
            mode: 0o755,
            link_count: 1,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: (0, 0),
            filesystem_id: 1,
            file_id: number.into(),
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            may_be_kept: true,
        }
    }

    fn entry(&self, number: u8) -> Entry {
        Entry {
            id: FileId::new(&[number]).unwrap(),
            attributes: self.attributes_of(number),
        }
    }
}

type Id = FileId;

/// Nothing can be changed or read, and only listing is of interest.
impl FileSystem for Graph {
    fn describe(&self) -> String {
        "a graph".to_owned()
    }
    fn root(&self) -> Id {
        self.entry(0).id
    }
    fn limits(&self) -> Limits {
        unreachable!("not asked by a walk")
    }
    fn attributes(&self, _: &Call<'_>, id: &Id) -> Result<Attributes> {
        Ok(self.attributes_of(id.as_bytes()[0]))
    }
    fn read_directory(
        &self,
        _: &Call<'_>,
        directory: &Id,
        cookie: u64,
        _: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let number = directory.as_bytes()[0];
        let names = &self.0[usize::from(number)];
        let mut end = true;
        for (at, (name, child)) in (1..).zip(names).filter(|(at, _)| *at > cookie) {
            let listed = DirectoryEntry {
                name: name.as_bytes(),
                file_id: (*child).into(),
                cookie: at,
                entry: Some(self.entry(*child)),
            };
            if !visit(&listed) {
                end = false;
                break;
            }
        }
        Ok(DirectoryPage {
            attributes: self.attributes_of(number),
            end,
            unusable: 0,
        })
    }

    fn lookup(&self, _: &Call<'_>, _: &Id, _: &[u8]) -> Result<Entry> {
        Err(Error::NotSupported)
    }
    fn access(&self, _: &Call<'_>, _: &Id, _: Access) -> Result<(Access, Attributes)> {
        Err(Error::NotSupported)
    }
    fn read_link(&self, _: &Call<'_>, _: &Id) -> Result<(Vec<u8>, Attributes)> {
        Err(Error::NotSupported)
    }
    fn read(&self, _: &Call<'_>, _: &Id, _: u64, _: u32) -> Result<ReadReply> {
        Err(Error::NotSupported)
    }
    fn statistics(&self, _: &Call<'_>) -> Result<Statistics> {
        Err(Error::NotSupported)
    }
}

/// The steps of a walk over everything, as text. They are the same with threads that list ahead.
fn steps(graph: Graph, skip: &[u8]) -> Vec<String> {
    let tree = Tree::new(Arc::new(graph));
    let steps = steps_with(&tree, 0, skip);
    for threads in [1, 3] {
        assert_eq!(steps_with(&tree, threads, skip), steps, "{threads}");
    }
    steps
}

fn listed_by(listers: usize) -> Preparation {
    Preparation {
        listers,
        reads_files: true,
    }
}

fn steps_with(tree: &Tree, threads: usize, skip: &[u8]) -> Vec<String> {
    let start = tree.root().unwrap();
    let mut steps = Vec::new();
    let ahead = listed_by(threads);
    let walked = walk(tree, ahead, &start, &mut |step| -> Result<Next> {
        let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let (text, next) = match step {
            Step::Enter(path, _) if path == skip => (format!("skip {}", shown(path)), Next::Skip),
            Step::Enter(path, _) => (format!("enter {}", shown(path)), Next::Go),
            Step::Listing(path, _, names) => {
                (format!("list {}: {}", shown(path), names.len()), Next::Go)
            }
            Step::Leave(path) => (format!("leave {}", shown(path)), Next::Go),
            Step::Object(path, _) => (format!("object {}", shown(path)), Next::Go),
            Step::Failed(path, error) => (format!("failed {}: {error}", shown(path)), Next::Go),
        };
        steps.push(text);
        Ok(next)
    });
    assert_eq!(walked, Ok(()));
    steps
}

#[test]
fn everything_is_visited_in_the_order_of_names() {
    let graph = Graph(vec![
        vec![("z", 9), ("sub", 1), ("a", 9), ("skipped", 2)],
        vec![("y", 9), ("x", 9)],
        vec![("unseen", 9)],
    ]);
    let expected = [
        "list : 4",
        "object a",
        "skip skipped",
        "enter sub",
        "list sub: 2",
        "object sub/x",
        "object sub/y",
        "leave sub",
        "object z",
    ];
    assert_eq!(steps(graph, b"skipped"), expected);
}

#[test]
fn a_directory_that_contains_itself_is_entered_once() {
    let graph = Graph(vec![
        vec![("a", 1)],
        vec![("b", 2)],
        vec![("c", 1), ("d", 9)],
    ]);
    let steps = steps(graph, b"");
    let looped = "failed a/b/c: I/O error: the directory contains itself";
    assert!(steps.iter().any(|step| step == looped), "{steps:?}");
    assert!(steps.iter().any(|step| step == "object a/b/d"), "{steps:?}");
    assert_eq!(steps.last().unwrap(), "leave a");
}

#[test]
fn a_tree_that_multiplies_is_walked_in_bounded_time() {
    // Each directory holds the next one twice: 2^40 paths.
    let twice = |number: u8| vec![("l", number + 1), ("r", number + 1)];
    let graph = Graph((0..40).map(twice).collect());
    let steps = steps(graph, b"");
    assert!(steps.len() < 40 * 16 * 8, "{} steps", steps.len());
    assert!(steps.iter().any(|step| step.contains("too many places")));
}

#[test]
fn directories_above_each_other_have_so_many_names_together() {
    let graph = Graph(vec![
        vec![("a", 1), ("b", 2), ("c", 3)],
        vec![("f", 9), ("g", 9), ("h", 9)],
        vec![("f", 9), ("g", 9), ("h", 9)],
        vec![("d", 4), ("f", 9)],
        vec![("f", 9), ("g", 9)],
    ]);
    let tree = Tree::new(Arc::new(graph));
    let walk = Walk {
        tree: &tree,
        ahead: None,
        reads_files: false,
        visits: HashMap::new(),
        names_left: 6,
        stack: Vec::new(),
    };
    let mut failed = Vec::new();
    let mut objects = 0;
    let walked = walk.run(&tree.root().unwrap(), &mut |step| -> Result<Next> {
        match step {
            Step::Failed(path, error) => failed.push((path.to_vec(), error)),
            Step::Object(..) => objects += 1,
            _ => {}
        }
        Ok(Next::Go)
    });
    assert_eq!(walked, Ok(()));
    let too_many = Error::Io("the directory has more than 1 names".to_owned());
    assert_eq!(failed, [(b"c/d".to_vec(), too_many)]);
    assert_eq!(objects, 7);
}

#[test]
fn a_directory_has_so_many_names_and_each_once() {
    let names = vec![("a", 9), ("b", 9), ("a", 9), ("c", 9)];
    let tree = Tree::new(Arc::new(Graph(vec![names])));
    let root = tree.root().unwrap().id;
    let listed = |names_max| tree.list_up_to(&root, false, names_max);
    let names = listed(4).unwrap().listed;
    let names: Vec<&[u8]> = names.iter().map(|one| one.name.as_slice()).collect();
    assert_eq!(names, [b"a", b"b", b"c"]);
    let error = listed(3).err().unwrap().to_string();
    assert!(error.contains("more than 3 names"), "{error}");
}

#[test]
fn wide_and_deep_trees_are_listed_ahead_in_any_number() {
    // 60 directories of two each, of one each, of a file.
    let mut graph = vec![Vec::new()];
    let names: Vec<&'static str> = (0..60)
        .map(|number| &*String::leak(format!("{number:02}")))
        .collect();
    for (at, name) in names.iter().enumerate() {
        let first = 1 + u8::try_from(at * 3).unwrap();
        graph[0].push((*name, first));
        graph.push(vec![("l", first + 1), ("m", 255), ("r", first + 2)]);
        graph.push(vec![("f", 255)]);
        graph.push(vec![]);
    }
    let steps = steps(Graph(graph), b"07");
    let entered = |step: &&String| step.starts_with("enter ");
    assert_eq!(steps.iter().filter(entered).count(), 59 * 3);
    assert_eq!(steps.last().unwrap(), "leave 59");
}

#[test]
fn an_error_of_the_visitor_ends_a_walk_that_looks_ahead() {
    let graph = Graph(vec![vec![("a", 1), ("b", 1), ("c", 2)], vec![], vec![]]);
    let tree = Tree::new(Arc::new(graph));
    let start = tree.root().unwrap();
    let walked = walk(&tree, listed_by(3), &start, &mut |step| match step {
        Step::Leave(path) => Err(path.to_vec()),
        _ => Ok(Next::Go),
    });
    assert_eq!(walked, Err(b"a".to_vec()));
}

#[test]
fn nesting_ends() {
    let tree = Tree::new(Arc::new(Graph(vec![vec![]])));
    let start = tree.root().unwrap();
    let frame = |_| Frame {
        read_ahead: 0,
        entry: Graph(vec![]).entry(7),
        path_length: 0,
        names: 0,
        rest: Vec::new().into_iter(),
    };
    let mut walk = Walk {
        tree: &tree,
        ahead: None,
        reads_files: false,
        visits: HashMap::new(),
        names_left: 1,
        stack: (0..DEPTH_MAX).map(frame).collect(),
    };
    assert!(walk.enter(&start).is_err());
    walk.stack.pop();
    assert!(walk.enter(&start).is_ok());
}

/// A directory of files, and what was said of them: before they are visited, and when.
struct Files {
    sizes: Vec<u64>,
    said: Mutex<Vec<Vec<u16>>>,
}

impl FileSystem for Files {
    forward! { self => Graph(vec![Vec::new()]);
    describe, root, limits, lookup, access, read_link, read, statistics }

    fn attributes(&self, _: &Call<'_>, _: &Id) -> Result<Attributes> {
        Ok(Graph(vec![Vec::new()]).attributes_of(0))
    }

    fn read_ahead(&self, files: &[Id]) {
        let number = |id: &Id| u16::from_be_bytes(id.as_bytes().try_into().unwrap());
        self.said.lock().push(files.iter().map(number).collect());
    }

    fn read_directory(
        &self,
        _: &Call<'_>,
        _: &Id,
        _: u64,
        _: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let graph = Graph(vec![Vec::new()]);
        for (number, size) in (0u16..).zip(&self.sizes) {
            let attributes = Attributes {
                size: *size,
                ..graph.attributes_of(1)
            };
            let id = FileId::new(&number.to_be_bytes()).unwrap();
            assert!(visit(&DirectoryEntry {
                name: format!("{number:05}").as_bytes(),
                file_id: number.into(),
                cookie: u64::from(number) + 1,
                entry: Some(Entry { id, attributes }),
            }));
        }
        Ok(DirectoryPage {
            attributes: graph.attributes_of(0),
            end: true,
            unusable: 0,
        })
    }
}

#[test]
fn small_files_are_announced_once_before_they_are_visited() {
    let sizes = (0..1000).map(|number| match number % 100 {
        7 => READ_AHEAD_BYTES + 1,
        _ => number * 30,
    });
    let files = Arc::new(Files {
        sizes: sizes.collect(),
        said: Mutex::default(),
    });
    let tree = Tree::new(files.clone());
    let start = tree.root().unwrap();
    let mut visited = 0;
    let walked = walk(&tree, listed_by(0), &start, &mut |step| -> Result<Next> {
        if let Step::Object(path, entry) = step {
            let number: u16 = std::str::from_utf8(path).unwrap().parse().unwrap();
            let said = files.said.lock();
            let times = said.iter().flatten().filter(|it| **it == number).count();
            let is_small = entry.attributes.size <= READ_AHEAD_BYTES;
            assert_eq!(times, usize::from(is_small), "{number}");
            let ahead: u64 = said
                .last()
                .unwrap()
                .iter()
                .map(|it| u64::from(*it) * 30)
                .sum();
            assert!(ahead < READ_AHEAD_BYTES + 30_000, "{ahead} bytes at once");
            visited += 1;
        }
        Ok(Next::Go)
    });
    assert_eq!((walked, visited), (Ok(()), 1000));
    assert!(files.said.lock().len() < 20);
}
