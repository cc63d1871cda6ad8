//! What the clients of the model do, and what must be true of it.

use super::{BUSY_FOR, Event, Fate, Kind, MILLISECOND, Pipe, SECOND, Segment, Sent, World};

impl World {
    pub(super) fn receive(&mut self, pipe: usize, sent: &Sent, made_for: usize) {
        let client = {
            let pipe = &mut self.pipes.borrow_mut()[pipe];
            if pipe.is_silent {
                return;
            }
            pipe.client
        };
        if self.pipes.borrow()[pipe].is_closed {
            // Nothing takes it here any more.
            let arrival = self.now + self.clients[client].latency;
            self.at(arrival, Event::ResetAtServer(pipe));
            return;
        }
        let received = {
            let pipe = &mut self.pipes.borrow_mut()[pipe];
            pipe.received += 1;
            pipe.received
        };
        let delay = if self.random.chance(2) {
            self.random.below(200 * MILLISECOND)
        } else {
            0
        };
        let arrival = self.now + delay + self.clients[client].latency;
        self.acknowledge(pipe, received, arrival);
        let pending = &mut self.clients[client].pending;
        let Some(index) = pending.iter().position(|other| other.xid == sent.xid) else {
            return;
        };
        let answered = pending.remove(index);
        self.check(pipe, &answered, made_for);
        let pause = if self.random.chance(3) {
            self.random.below(SECOND)
        } else {
            self.random.below(2 * MILLISECOND)
        };
        self.at(self.now + pause, Event::Act(client));
    }

    fn check(&mut self, pipe: usize, call: &Sent, made_for: usize) {
        if call.call != made_for {
            let (own, owner) = (&self.calls[call.call], &self.calls[made_for]);
            let client = &self.clients[owner.client];
            let was_lost = owner.sent > 1 || client.pipe.is_none_or(|pipe| self.is_broken(pipe));
            let waited = owner.answered.is_none_or(|(at, _)| own.begun_at < at);
            let pipes = self.pipes.borrow();
            let was_reset = owner.answered.is_some_and(|(_, pipe)| pipes[pipe].is_reset);
            assert!(
                (was_lost && waited)
                    || was_reset
                    || own.has_waited
                    || (own.overlaps && pipe < owner.answered_on),
                "{call:?} of a {:?} client is answered with what was done for {made_for}, of a \
                 {:?} client, at {}",
                self.clients[own.client].kind,
                client.kind,
                self.now
            );
            drop(pipes);
            self.calls[made_for].is_taken = true;
            self.summary.excepted += 1;
        }
        self.calls[call.call].answered = Some((self.now, pipe));
    }

    fn is_broken(&self, pipe: usize) -> bool {
        let pipe = &self.pipes.borrow()[pipe];
        pipe.is_silent || pipe.is_reset || pipe.is_closed
    }

    fn open(&mut self, client: usize) -> usize {
        let token = self.pipes.borrow().len();
        self.pipes.borrow_mut().push(Pipe {
            client,
            was_read_at: self.now,
            // The handshake.
            last_to_server: self.now + 2 * self.clients[client].latency,
            ..Pipe::default()
        });
        self.clients[client].pipe = Some(token);
        if self.random.chance(3) {
            let at = self.now + self.random.below(3 * SECOND);
            self.at(at, Event::Fault(token));
        }
        token
    }

    pub(super) fn close_at_client(&mut self, pipe: usize) {
        self.pipes.borrow_mut()[pipe].is_closed = true;
    }

    fn send(&mut self, client: usize, sent: Sent) {
        let Some(pipe) = self.clients[client].pipe else {
            return;
        };
        let (call, timeout) = (sent.call, self.clients[client].timeout);
        self.calls[call].sent += 1;
        self.send_segment(pipe, Segment::Call(sent));
        self.at(self.now + timeout, Event::Timeout(pipe, call));
    }

    fn begin(&mut self, client: usize, content: u64) {
        let call = self.calls.len();
        self.calls.push(Fate {
            client,
            begun_at: self.now,
            ..Fate::default()
        });
        let now = self.now;
        let it = &mut self.clients[client];
        let xid = match it.kind {
            Kind::Clock => (now / SECOND) as u32,
            _ => it.next_xid,
        };
        it.next_xid = it.next_xid.wrapping_add(1);
        let sent = Sent { call, xid, content };
        it.pending.push(sent.clone());
        self.send(client, sent);
    }

    pub(super) fn act(&mut self, client: usize) {
        if self.now > BUSY_FOR {
            return;
        }
        match self.clients[client].kind {
            Kind::Careful | Kind::Impatient => self.act_with_unique(client),
            Kind::Counting | Kind::CountingAhead => self.act_counting(client),
            Kind::Clock => self.act_by_the_clock(client),
        }
    }

    fn act_with_unique(&mut self, client: usize) {
        let depth = match self.clients[client].kind {
            Kind::Careful => 4,
            _ => 1,
        };
        let is_new = self.clients[client].pipe.is_none();
        if is_new {
            self.open(client);
        }
        let wanted = if is_new {
            depth
        } else {
            self.random.between(1, depth)
        };
        while (self.clients[client].pending.len() as u64) < wanted {
            let content = self.random.below(4);
            self.begin(client, content);
        }
    }

    fn act_counting(&mut self, client: usize) {
        let ahead = match self.clients[client].kind {
            Kind::CountingAhead => 2,
            _ => 1,
        };
        if self.clients[client].left == 0 {
            if !self.clients[client].pending.is_empty() {
                return;
            }
            if let Some(pipe) = self.clients[client].pipe.take() {
                self.close_in_order(pipe);
                let at = self.now + self.random.below(SECOND);
                self.at(at, Event::Act(client));
                return;
            }
            let left = self.random.between(1, 4);
            let it = &mut self.clients[client];
            (it.left, it.step, it.next_xid) = (left, 0, 10);
            self.open(client);
        }
        while self.clients[client].left > 0 && self.clients[client].pending.len() < ahead {
            let it = &mut self.clients[client];
            it.left -= 1;
            it.step += 1;
            // Each run does the same.
            let content = 100 * (it.generation * 100 + client as u64) + it.step % 3 + 1;
            self.begin(client, content);
        }
    }

    fn close_in_order(&mut self, pipe: usize) {
        self.send_segment(pipe, Segment::End);
        self.close_at_client(pipe);
    }

    fn act_by_the_clock(&mut self, client: usize) {
        if !self.clients[client].pending.is_empty() {
            return;
        }
        if self.clients[client].pipe.is_some() && self.random.chance(4) {
            let pipe = self.clients[client].pipe.take();
            pipe.into_iter().for_each(|pipe| self.close_in_order(pipe));
            self.clients[client].last_content = 0;
        }
        if self.clients[client].pipe.is_none() {
            self.open(client);
        }
        // The same two objects for all clients, never the same call twice in a row.
        let mut content = self.random.below(3);
        if content == self.clients[client].last_content {
            content = 0;
        }
        self.clients[client].last_content = content;
        self.begin(client, content);
    }

    pub(super) fn timeout(&mut self, pipe: usize, call: usize) {
        let client = self.pipes.borrow()[pipe].client;
        let it = &self.clients[client];
        let Some(sent) = it.pending.iter().find(|sent| sent.call == call).cloned() else {
            return;
        };
        if it.pipe != Some(pipe) {
            return;
        }
        if it.kind == Kind::Impatient && self.random.chance(2) {
            self.summary.sent_again += 1;
            self.send(client, sent);
            return;
        }
        // It gives the connection up, with an end or with a reset.
        if self.random.chance(2) {
            self.close_in_order(pipe);
        } else {
            self.close_at_client(pipe);
            if !self.pipes.borrow()[pipe].is_silent {
                let arrival = self.now + self.clients[client].latency;
                self.at(arrival, Event::ResetAtServer(pipe));
            }
        }
        self.lost(client);
    }

    /// The connection of a client is lost: what was not answered is sent again on another.
    pub(super) fn lost(&mut self, client: usize) {
        self.clients[client].pipe = None;
        let is_counting = matches!(
            self.clients[client].kind,
            Kind::Counting | Kind::CountingAhead
        );
        let pending = self.clients[client].pending.clone();
        let it = &mut self.clients[client];
        if pending.is_empty() {
            // An equal call anew after a reset cannot be told from one that is sent again.
            it.generation += 1;
            it.last_content = 0;
            it.left = 0;
            if it.kind == Kind::Clock {
                it.left = u64::MAX;
            }
            let at = self.now + SECOND + self.random.below(SECOND);
            self.at(at, Event::Act(client));
            return;
        }
        if is_counting {
            it.generation += 1;
        }
        self.open(client);
        for sent in pending {
            self.summary.sent_again += 1;
            self.send(client, sent);
        }
    }
}
