//! What the elevator must do, written down with nothing but lists that are walked.
//!
//! The model is told what is inserted, promoted and completed. It says which request
//! must be chosen next and why, and checks a dispatch against every rule. To the model objects are
//! parts of one address space, so wide apart that nothing reaches from one to the next.

use std::time::Duration;

use pagewell_policy::elevator::{
    BATCH_BYTES, Class, Depth, Dispatch, DispatchId, Extent, Order, RUN_BYTES_MAX, Reason,
    RequestId, SEEK_CHARGE_BYTES, Settings,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) id: RequestId,
    extent: Extent,
    class: Class,
    arrival: Duration,
    /// Stands in line because of an overlap.
    waits: bool,
}

#[derive(Debug)]
pub(crate) struct Model {
    settings: Settings,
    /// Not dispatched, in the order of arrival.
    pub(crate) requests: Vec<Known>,
    /// At the device.
    pub(crate) flying: Vec<(DispatchId, Class, Vec<Known>)>,
    head: u64,
    /// Direction and bytes of the run.
    run: Option<(bool, u64)>,
    batch: u64,
    /// The class of the last pick because of a deadline, and what is owed to more urgent ones.
    pick: Option<(Class, usize)>,
    pub(crate) wraps: u64,
    pub(crate) picks: u64,
    pub(crate) backward: u64,
}

/// Bytes from one object to the next.
const OBJECT_BYTES: u64 = 1 << 40;

/// Bytes of an object in the address space of the model.
pub(crate) fn lifted(object: u32, extent: Extent) -> Extent {
    let offset = u64::from(object) * OBJECT_BYTES + extent.offset;
    Extent { offset, ..extent }
}

fn overlap(a: Extent, b: Extent) -> bool {
    a.offset < b.offset + b.length && b.offset < a.offset + a.length
}

fn conflict(a: &Known, b: &Known) -> bool {
    overlap(a.extent, b.extent) && (a.class.is_write() || b.class.is_write())
}

impl Model {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            requests: Vec::new(),
            flying: Vec::new(),
            head: 0,
            run: None,
            batch: BATCH_BYTES,
            pick: None,
            wraps: 0,
            picks: 0,
            backward: 0,
        }
    }

    pub(crate) fn insert(&mut self, id: RequestId, extent: Extent, class: Class, now: Duration) {
        let mut new = Known {
            id,
            extent,
            class,
            arrival: now,
            waits: false,
        };
        let all_flying = self.flying.iter().flat_map(|(_, _, members)| members);
        new.waits = self
            .requests
            .iter()
            .chain(all_flying)
            .any(|known| conflict(known, &new));
        self.requests.push(new);
    }

    pub(crate) fn promote(&mut self, id: RequestId, class: Class) {
        for known in &mut self.requests {
            if known.id == id && !known.class.is_write() {
                known.class = known.class.min(class);
            }
        }
    }

    pub(crate) fn complete(&mut self, id: DispatchId) -> bool {
        let before = self.flying.len();
        self.flying.retain(|(flying, _, _)| *flying != id);
        self.move_line_up();
        self.flying.len() < before
    }

    /// Those in line go on one after the other, until one must stay.
    fn move_line_up(&mut self) {
        while let Some(first) = self.requests.iter().position(|known| known.waits) {
            let head = self.requests[first];
            let ready = self.requests.iter().filter(|known| !known.waits);
            let flying = self.flying.iter().flat_map(|(_, _, members)| members);
            if ready.chain(flying).any(|known| conflict(known, &head)) {
                return;
            }
            self.requests[first].waits = false;
        }
    }

    fn depth(&self, class: Class) -> Depth {
        self.settings.depths[class as usize]
    }

    fn flying_of(&self, class: Class) -> u32 {
        self.flying.iter().filter(|(_, c, _)| *c == class).count() as u32
    }

    fn has_place(&self, class: Class) -> bool {
        self.flying_of(class) < self.depth(class).maximum
    }

    /// How many places of its minimum the class has when they are dealt round.
    fn share(&self, class: Class) -> u32 {
        let mut shares = [0; 3];
        for place in 0..self.settings.depth_max {
            let open = Class::ALL
                .into_iter()
                .filter(|c| shares[*c as usize] < self.depth(*c).minimum);
            let Some(next) = open.min_by_key(|c| shares[*c as usize]) else {
                assert!(place > 0 || Class::ALL.iter().all(|c| self.depth(*c).minimum == 0));
                break;
            };
            shares[next as usize] += 1;
        }
        shares[class as usize]
    }

    fn gap_max(&self, is_write: bool) -> u64 {
        if is_write {
            0
        } else {
            self.settings.read_gap_bytes_max
        }
    }

    /// The requests that may go as far as depths and overlaps are concerned.
    fn ready(&self) -> impl Iterator<Item = &Known> {
        let open = (self.flying.len() as u32) < self.settings.depth_max;
        let ready = self.requests.iter();
        ready.filter(move |known| open && !known.waits && self.has_place(known.class))
    }

    fn due(&self, known: &Known) -> Option<Duration> {
        let deadline = if known.class.is_write() {
            self.settings.write_deadline
        } else {
            self.settings.read_deadline
        };
        deadline.map(|deadline| known.arrival + deadline)
    }

    /// Which request must be chosen now, and why.
    pub(crate) fn expected(&self, now: Duration) -> Option<(RequestId, Reason)> {
        let in_order = self.onward().or_else(|| self.in_order());
        let overdue = self
            .ready()
            .filter(|known| self.due(known).is_some_and(|due| due <= now))
            .min_by_key(|known| self.due(known));
        match (in_order, overdue) {
            (Some((next, _)), Some(late)) if next != late.id && self.batch_is_done(late) => {
                Some((late.id, Reason::Deadline))
            }
            (in_order, _) => in_order,
        }
    }

    fn batch_is_done(&self, late: &Known) -> bool {
        let owed = self.pick.is_some_and(|(_, owed)| owed > 0);
        let passed_over = owed && self.ready().any(|known| known.class < late.class);
        self.batch >= BATCH_BYTES * if passed_over { 2 } else { 1 }
    }

    /// What goes on in the run.
    fn onward(&self) -> Option<(RequestId, Reason)> {
        let (is_write, bytes) = self.run?;
        if bytes >= RUN_BYTES_MAX || self.settings.order == Order::Arrival {
            return None;
        }
        let limit = self.head + self.gap_max(is_write);
        let near = self.ready().filter(|known| {
            known.class.is_write() == is_write && (self.head..=limit).contains(&known.extent.offset)
        });
        // Of several at one address the more urgent, then the older.
        let next = near.min_by_key(|known| (known.extent.offset, known.class))?;
        Some((next.id, Reason::Order))
    }

    fn in_order(&self) -> Option<(RequestId, Reason)> {
        let owed = |known: &&Known| self.flying_of(known.class) < self.share(known.class);
        if self.settings.order == Order::Arrival {
            let by_share = self.ready().filter(owed);
            let next = by_share
                .min_by_key(|known| (known.class, known.arrival))
                .or_else(|| self.ready().min_by_key(|known| known.arrival))?;
            return Some((next.id, Reason::Order));
        }
        let first_owed = self.ready().filter(owed).map(|known| known.class).min();
        let class = first_owed.or_else(|| self.ready().map(|known| known.class).min())?;
        let lane = || self.ready().filter(|known| known.class == class);
        let above = lane().filter(|known| known.extent.offset >= self.head);
        if let Some(next) = above.min_by_key(|known| known.extent.offset) {
            return Some((next.id, Reason::Order));
        }
        let lowest = lane().min_by_key(|known| known.extent.offset)?;
        Some((lowest.id, Reason::Wrap))
    }

    /// Checks a dispatch against every rule and takes it over.
    pub(crate) fn dispatched(&mut self, dispatch: &Dispatch, now: Duration) {
        let (seed, reason) = self.expected(now).expect("nothing may go");
        assert_eq!(dispatch.reason, reason, "{dispatch:?} {self:?}");
        let members: Vec<Known> = dispatch
            .members
            .iter()
            .map(|member| {
                let mut found = self.requests.iter().filter(|known| known.id == member.id);
                let known = found.next().expect("lost, or dispatched twice");
                assert_eq!(known.extent, member.extent);
                *known
            })
            .collect();
        assert!(members.iter().any(|known| known.id == seed), "{dispatch:?}");
        self.check_shape(dispatch, &members);
        self.check_overlaps(&members);
        self.check_nothing_left_beside(dispatch);
        self.move_head(dispatch);
        self.requests
            .retain(|known| members.iter().all(|member| member.id != known.id));
        self.flying.push((dispatch.id, dispatch.class, members));
    }

    fn check_shape(&self, dispatch: &Dispatch, members: &[Known]) {
        let (first, last) = (members[0], members[members.len() - 1]);
        assert_eq!(first.extent.offset, dispatch.extent.offset);
        assert_eq!(last.extent.end(), dispatch.extent.end());
        let urgent = members.iter().map(|known| known.class).min();
        assert_eq!(urgent, Some(dispatch.class));
        assert!(self.has_place(dispatch.class), "too deep");
        assert!((self.flying.len() as u32) < self.settings.depth_max);
        let is_write = dispatch.class.is_write();
        assert!(
            members
                .iter()
                .all(|known| known.class.is_write() == is_write)
        );
        if members.len() > 1 {
            assert!(self.settings.merge);
            assert!(dispatch.extent.length <= self.settings.transfer_bytes_max);
        }
        for pair in members.windows(2) {
            let (below, above) = (pair[0].extent, pair[1].extent);
            assert!(below.end() <= above.offset, "members overlap or descend");
            assert!(above.offset - below.end() <= self.gap_max(is_write));
        }
        let ordered = self.settings.order == Order::CircularLook;
        if ordered && dispatch.reason == Reason::Order {
            assert!(dispatch.extent.offset >= self.head, "went back in order");
        }
    }

    /// Nothing passes an earlier request that it must not pass.
    fn check_overlaps(&self, members: &[Known]) {
        for member in members {
            for (_, _, flying) in &self.flying {
                assert!(!flying.iter().any(|known| conflict(known, member)));
            }
            let earlier = self
                .requests
                .iter()
                .take_while(|known| known.id != member.id);
            for known in earlier {
                assert!(!conflict(known, member), "{member:?} passed {known:?}");
            }
        }
    }

    /// Where nothing overlaps, no request that fits stays right beside the dispatch.
    fn check_nothing_left_beside(&self, dispatch: &Dispatch) {
        let extents: Vec<Extent> = self.requests.iter().map(|known| known.extent).collect();
        let apart = |i: usize| {
            extents[..i]
                .iter()
                .all(|other| !overlap(*other, extents[i]))
        };
        if !self.settings.merge || !(0..extents.len()).all(apart) {
            return;
        }
        let ordered = self.settings.order == Order::CircularLook;
        let floor = if ordered && dispatch.reason == Reason::Order {
            self.head
        } else {
            0
        };
        for known in self.requests.iter().filter(|known| !known.waits) {
            let beside = known.extent.offset == dispatch.extent.end()
                || known.extent.end() == dispatch.extent.offset && known.extent.offset >= floor;
            let joins = known.class.is_write() == dispatch.class.is_write()
                && (known.class >= dispatch.class || self.has_place(known.class));
            let length = known.extent.length + dispatch.extent.length;
            let fits = length <= self.settings.transfer_bytes_max;
            assert!(
                !(beside && joins && fits),
                "{known:?} stayed behind {dispatch:?}"
            );
        }
    }

    fn move_head(&mut self, dispatch: &Dispatch) {
        let (start, length) = (dispatch.extent.offset, dispatch.extent.length);
        let is_write = dispatch.class.is_write();
        let follows = self.run.is_some_and(|(direction, _)| direction == is_write)
            && start >= self.head
            && start - self.head <= self.gap_max(is_write);
        let so_far = self.run.map_or(0, |(_, bytes)| bytes);
        self.run = Some((is_write, if follows { so_far + length } else { length }));
        let ready = self.requests.iter().filter(|known| !known.waits);
        let urgent = ready.filter(|known| known.class < dispatch.class).count();
        self.pick = match (dispatch.reason, self.pick) {
            (Reason::Deadline, _) => Some((dispatch.class, urgent)),
            (_, Some((class, owed)))
                if dispatch.class < class && (!follows || self.batch >= BATCH_BYTES) =>
            {
                Some((class, owed.saturating_sub(1)))
            }
            (_, pick) => pick,
        };
        self.batch = match dispatch.reason {
            Reason::Deadline => length,
            _ if follows => self.batch + length,
            _ => self.batch + length + SEEK_CHARGE_BYTES,
        };
        self.wraps += u64::from(dispatch.reason == Reason::Wrap);
        self.picks += u64::from(dispatch.reason == Reason::Deadline);
        self.backward += u64::from(start < self.head);
        self.head = dispatch.extent.end();
    }
}
