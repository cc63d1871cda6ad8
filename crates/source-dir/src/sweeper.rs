//! Lets go of files that local programs have removed.
//!
//! Problem: a held object keeps its inode, and so its space, after its last name is gone. What is
//! removed through Pagewell is let go at once; what a local program removes is not noticed.
//!
//! Rule: a thread looks at all held objects every [`PERIOD`] and lets go of those without names.
//! At most 16,384 looks of less than a microsecond: a few milliseconds of one core per period. It
//! also counts the turns by which objects are asked again where they are ([`super::containment`]).
//! Where another tree is served in the place of a removed one, it lets go of all and ends.
//!
//! Weakness: the space of a file removed locally may come back a period late.

use super::Tree;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Shorter than a person waits for `df` to show the space.
const PERIOD: Duration = Duration::from_secs(5);

/// How long it may take until something that was moved out of the export is found out.
const TURN: Duration = Duration::from_secs(1);

/// Starts the thread, which ends a turn after the tree does or is replaced.
pub(super) fn start(tree: &Arc<Tree>) -> std::io::Result<()> {
    let tree = Arc::downgrade(tree);
    let thread = std::thread::Builder::new().name("dir-sweeper".to_owned());
    thread.spawn(move || run(&tree)).map(drop)
}

fn run(tree: &Weak<Tree>) {
    let mut swept = Instant::now();
    // A call may have started it that was made as its caller.
    let _ = tree.upgrade().map(|tree| tree.acting.become_server());
    loop {
        std::thread::sleep(TURN);
        let Some(tree) = tree.upgrade() else { return };
        tree.end_turn();
        if tree.is_replaced.load(Ordering::Relaxed) {
            return tree.let_go_of_all();
        }
        if swept.elapsed() >= PERIOD {
            tree.sweep();
            swept = Instant::now();
        }
        tree.remembered.rest(Instant::now());
    }
}

impl Tree {
    /// Lets go of all held objects that have no names any more.
    pub(super) fn sweep(&self) {
        self.cache.each(|object| {
            // What has no name any more is closed by the look.
            let _ = self.look(object, true);
        });
    }

    /// Lets go of all that is held open and not in use.
    fn let_go_of_all(&self) {
        self.cache.each(|object| {
            self.release(object);
        });
        self.listings.forget_all();
        self.ordered.forget_all();
        self.remembered.end();
    }
}
