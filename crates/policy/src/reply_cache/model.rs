//! The whole of it in virtual time: random clients, random losses.
//!
//! Clients of five kinds share one address. Connections are reset, end in silence or in order; the
//! server reads late, works for long, and learns of acknowledgements late. Each call has a number
//! that the server does not see. Two sentences must hold: a call is never answered with what was
//! done for another one, and never done twice.
//!
//! Excepted is what no server can tell from its opposite, or the rule leaves (see the weaknesses):
//! an answer may go to an equal call of another client while its own client has lost its connection
//! and waits for it, when that connection was reset since, when that other call may have waited for
//! long at the server, or came on the older of the two connections and calls overlap there. A call
//! whose answer was taken so may be done again. Such calls are counted.

mod clients;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::{
    Delivery, GIVEN_UP_AFTER_MIN, Held, Identity, Key, Line, Moved, Place, ReplyCache, SentAt,
    Verdict,
};

/// Microseconds of virtual time.
type Time = u64;

const MILLISECOND: Time = 1000;
const SECOND: Time = 1000 * MILLISECOND;

/// Calls begin for so long; what is under way then ends.
const BUSY_FOR: Time = 12 * SECOND;
/// What is not over by then has met a fault of the model.
const ENDS_BY: Time = 600 * SECOND;

/// How often the server looks again at calls that are held.
const LOOK_PERIOD: Time = 20 * MILLISECOND;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn between(&mut self, least: Time, most: Time) -> Time {
        least + self.below(most - least + 1)
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// How a client chooses identifiers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Unique ones, several calls under way; what is lost it sends again.
    Careful,
    /// The same, one call at a time; it sends again on a connection that works, too.
    Impatient,
    /// From a constant on each connection, a connection for each run of the program.
    Counting,
    /// The same, with two calls under way.
    CountingAhead,
    /// The second of the clock.
    Clock,
}

#[derive(Clone, Debug)]
struct Sent {
    /// The number that the server does not see.
    call: usize,
    xid: u32,
    /// Zero: a call that changes nothing, which the cache does not see.
    content: u64,
}

#[derive(Clone, Debug)]
enum Segment {
    Call(Sent),
    End,
}

/// A connection, with both of its ends.
#[derive(Default)]
struct Pipe {
    client: usize,
    // The server's end.
    unread: VecDeque<Segment>,
    last_data_at: Time,
    is_reset: bool,
    has_end: bool,
    is_over: bool,
    sent: u64,
    acknowledged: u64,
    /// What of that the server has looked at in time.
    arrived: u64,
    calls: u64,
    under_way: u64,
    overlaps: bool,
    read_at: Time,
    /// Pipes there were when something was read last.
    heard_before: usize,
    /// When nothing was unread, before what is read now.
    empty_at: Time,
    was_read_at: Time,
    // The client's end.
    is_closed: bool,
    received: u64,
    // The network.
    is_silent: bool,
    last_to_server: Time,
    last_to_client: Time,
}

#[derive(Clone)]
struct ModelLine {
    token: usize,
    pipes: Rc<RefCell<Vec<Pipe>>>,
}

impl Pipe {
    fn observe(&mut self) {
        if !self.is_reset && !self.is_over {
            self.arrived = self.acknowledged;
        }
    }

    fn arrived_after(&self) -> Time {
        if self.overlaps {
            self.empty_at
        } else {
            self.last_data_at
        }
    }
}

impl Line for ModelLine {
    fn token(&self) -> u64 {
        self.token as u64
    }

    fn delivery(&self, sent_at: SentAt) -> Delivery {
        let SentAt::Byte(reply) = sent_at else {
            panic!("not of this model");
        };
        let pipe = &mut self.pipes.borrow_mut()[self.token];
        pipe.observe();
        if pipe.arrived >= reply {
            Delivery::Arrived
        } else if pipe.is_reset || pipe.is_over {
            Delivery::Lost
        } else {
            Delivery::Open
        }
    }

    fn arrived_after(&self, _overlaps: bool, _now: Duration) -> Duration {
        let pipe = &self.pipes.borrow()[self.token];
        Duration::from_micros(pipe.arrived_after())
    }

    fn is_live(&self) -> bool {
        let pipe = &self.pipes.borrow()[self.token];
        !pipe.is_reset && !pipe.is_over && !pipe.has_end
    }
}

enum Event {
    /// A client may begin a call, or a run.
    Act(usize),
    AtServer(usize, Segment),
    ResetAtServer(usize),
    Read(usize),
    LookAgain(usize, Sent, (Place, Held)),
    Done(usize, Sent),
    /// A reply: for which call it was made.
    AtClient(usize, Sent, usize),
    ResetAtClient(usize),
    Acknowledged(usize, u64),
    /// No reply to a call for long, on this connection.
    Timeout(usize, usize),
    Fault(usize),
}

struct Client {
    kind: Kind,
    latency: Time,
    timeout: Time,
    pipe: Option<usize>,
    pending: Vec<Sent>,
    next_xid: u32,
    /// Distinguishes what a program does after it was broken off.
    generation: u64,
    /// Calls of this run that are left, and the step.
    left: u64,
    step: u64,
    last_content: u64,
}

/// What became of a call.
#[derive(Default)]
struct Fate {
    client: usize,
    begun_at: Time,
    done: u32,
    /// When, and on which connection.
    answered: Option<(Time, usize)>,
    /// The server knows of its first transmission no more than that it came after this.
    arrived_after: Option<Time>,
    /// How often it was sent.
    sent: u32,
    /// It may have been unread or waiting for longer than some client would have waited.
    has_waited: bool,
    /// It came where calls overlap.
    overlaps: bool,
    /// Where its answer was sent last.
    answered_on: usize,
    /// Another client has got its answer, which could not be known.
    is_taken: bool,
}

#[derive(Default)]
struct Summary {
    calls: u64,
    done: u64,
    replayed: u64,
    sent_again: u64,
    excepted: u64,
}

struct World {
    random: Random,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    bodies: HashMap<u64, Event>,
    next_event: u64,
    pipes: Rc<RefCell<Vec<Pipe>>>,
    clients: Vec<Client>,
    cache: ReplyCache<ModelLine>,
    calls: Vec<Fate>,
    summary: Summary,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let count = random.between(2, 6);
        let kinds = [
            Kind::Careful,
            Kind::Impatient,
            Kind::Counting,
            Kind::CountingAhead,
            Kind::Clock,
            Kind::Clock,
        ];
        let clients = (0..count).map(|_| Client {
            kind: kinds[random.below(6) as usize],
            latency: random.between(50, 20 * MILLISECOND),
            timeout: random.between(SECOND, 5 * SECOND),
            pipe: None,
            pending: Vec::new(),
            next_xid: random.next() as u32,
            generation: 0,
            left: 0,
            step: 0,
            last_content: 0,
        });
        let clients: Vec<_> = clients.collect();
        let mut world = Self {
            random,
            now: 0,
            events: BinaryHeap::new(),
            bodies: HashMap::new(),
            next_event: 0,
            pipes: Rc::default(),
            clients,
            cache: ReplyCache::new(1 << 20),
            calls: Vec::new(),
            summary: Summary::default(),
        };
        for client in 0..world.clients.len() {
            let at = world.random.between(0, SECOND);
            world.at(at, Event::Act(client));
        }
        world
    }

    fn at(&mut self, time: Time, event: Event) {
        self.events.push(Reverse((time, self.next_event)));
        self.bodies.insert(self.next_event, event);
        self.next_event += 1;
    }

    fn run(mut self) -> Summary {
        while let Some(Reverse((time, number))) = self.events.pop() {
            self.now = time;
            assert!(time < ENDS_BY, "the history does not end");
            let event = self.bodies.remove(&number).unwrap();
            self.step(event);
        }
        self.summary.calls = self.calls.len() as u64;
        self.summary
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Act(client) => self.act(client),
            Event::AtServer(pipe, segment) => self.arrive(pipe, segment),
            Event::ResetAtServer(pipe) => {
                self.pipes.borrow_mut()[pipe].is_reset = true;
            }
            Event::Read(pipe) => self.read(pipe),
            Event::LookAgain(pipe, sent, again) => self.look(pipe, sent, Some(again)),
            Event::Done(pipe, sent) => self.done(pipe, sent),
            Event::AtClient(pipe, sent, made_for) => self.receive(pipe, &sent, made_for),
            Event::ResetAtClient(pipe) => {
                let client = self.pipes.borrow()[pipe].client;
                self.close_at_client(pipe);
                if self.clients[client].pipe == Some(pipe) {
                    self.lost(client);
                }
            }
            Event::Acknowledged(pipe, count) => {
                let pipe = &mut self.pipes.borrow_mut()[pipe];
                if !pipe.is_reset {
                    pipe.acknowledged = pipe.acknowledged.max(count);
                }
            }
            Event::Timeout(pipe, call) => self.timeout(pipe, call),
            Event::Fault(pipe) => self.fault(pipe),
        }
    }

    // --- the network

    fn send_segment(&mut self, pipe: usize, segment: Segment) {
        let client = self.pipes.borrow()[pipe].client;
        let latency = self.clients[client].latency;
        let arrival = self.now + latency + self.random.below(latency / 2 + 1);
        let arrival = {
            let pipe = &mut self.pipes.borrow_mut()[pipe];
            pipe.last_to_server = pipe.last_to_server.max(arrival);
            pipe.last_to_server
        };
        // It acknowledges what was received before it was sent.
        let received = self.pipes.borrow()[pipe].received;
        self.acknowledge(pipe, received, arrival);
        self.at(arrival, Event::AtServer(pipe, segment));
    }

    fn acknowledge(&mut self, pipe: usize, count: u64, arrival: Time) {
        if !self.pipes.borrow()[pipe].is_silent {
            self.at(arrival, Event::Acknowledged(pipe, count));
        }
    }

    fn arrive(&mut self, pipe: usize, segment: Segment) {
        {
            let pipe = &mut self.pipes.borrow_mut()[pipe];
            if pipe.is_silent || pipe.is_reset || pipe.is_over {
                return;
            }
            match &segment {
                Segment::End => pipe.has_end = true,
                Segment::Call(_) => pipe.last_data_at = self.now,
            }
            pipe.unread.push_back(segment);
        }
        let delay = if self.random.chance(30) {
            self.random.between(0, 4 * SECOND)
        } else {
            self.random.between(0, 2 * MILLISECOND)
        };
        let read_at = {
            let pipe = &mut self.pipes.borrow_mut()[pipe];
            // A reader that is late is late for all that comes until then.
            if pipe.read_at <= self.now {
                pipe.read_at = self.now + delay;
            }
            pipe.read_at
        };
        self.at(read_at, Event::Read(pipe));
    }

    fn fault(&mut self, pipe: usize) {
        let client = self.pipes.borrow()[pipe].client;
        if self.pipes.borrow()[pipe].is_closed || self.pipes.borrow()[pipe].is_silent {
            return;
        }
        if self.random.chance(2) {
            self.pipes.borrow_mut()[pipe].is_silent = true;
        } else {
            // Both learn of it before a new connection can be made.
            let latency = self.clients[client].latency;
            self.at(self.now + latency, Event::ResetAtServer(pipe));
            let arrival = self.now + self.random.below(latency + 1);
            self.at(arrival, Event::ResetAtClient(pipe));
        }
    }

    // --- the server

    fn read(&mut self, pipe: usize) {
        let pipes = self.pipes.borrow().len();
        let segments: Vec<Segment> = {
            let pipe = &mut self.pipes.borrow_mut()[pipe];
            if pipe.is_over {
                return;
            }
            if pipe.unread.is_empty() {
                return;
            }
            pipe.empty_at = std::mem::replace(&mut pipe.was_read_at, self.now);
            let segments: Vec<_> = pipe.unread.drain(..).collect();
            let calls = segments
                .iter()
                .filter(|segment| matches!(segment, Segment::Call(_)));
            let calls = calls.count();
            pipe.overlaps |= calls > 1;
            if calls > 0 {
                pipe.heard_before = pipes;
            }
            segments
        };
        for segment in segments {
            match segment {
                Segment::Call(sent) => {
                    {
                        let pipe = &mut self.pipes.borrow_mut()[pipe];
                        pipe.calls += 1;
                        pipe.overlaps |= pipe.under_way > 0;
                    }
                    self.look(pipe, sent, None);
                }
                Segment::End => self.end(pipe),
            }
        }
    }

    /// The server lets go of a connection that was ended, once nothing is under way.
    fn end(&mut self, pipe: usize) {
        let pipe = &mut self.pipes.borrow_mut()[pipe];
        pipe.observe();
        pipe.is_over |= pipe.under_way == 0;
    }

    fn key(sent: &Sent) -> Key {
        Key {
            share: 1,
            identity: Identity {
                xid: sent.xid,
                digest: sent.content,
            },
            is_write: false,
        }
    }

    fn look(&mut self, pipe: usize, sent: Sent, again: Option<(Place, Held)>) {
        let held = again.map(|(_, held)| held);
        let place = {
            let pipe = &mut self.pipes.borrow_mut()[pipe];
            if held.is_none() {
                pipe.under_way += 1;
            }
            let now = Place {
                number: pipe.calls,
                overlaps: pipe.overlaps,
            };
            again.map_or(now, |(place, _)| place)
        };
        if self.is_given_up(pipe) {
            self.pipes.borrow_mut()[pipe].under_way -= 1;
            return;
        }
        let arrived_after = self.pipes.borrow()[pipe].arrived_after();
        let fate = &mut self.calls[sent.call];
        let arrived_after = *fate.arrived_after.get_or_insert(arrived_after);
        let waited = Duration::from_micros(self.now - arrived_after);
        fate.has_waited |= waited > GIVEN_UP_AFTER_MIN;
        fate.overlaps |= place.overlaps;
        if sent.content == 0 {
            let took = self.random.between(20, MILLISECOND);
            self.at(self.now + took, Event::Done(pipe, sent));
            return;
        }
        let line = ModelLine {
            token: pipe,
            pipes: self.pipes.clone(),
        };
        let now = Duration::from_micros(self.now);
        match self
            .cache
            .look(&Self::key(&sent), (&line, place), held, now)
        {
            Verdict::New => {
                self.calls[sent.call].done += 1;
                self.summary.done += 1;
                let fate = &self.calls[sent.call];
                assert!(
                    fate.done == 1 || fate.is_taken,
                    "{sent:?} of a {:?} client is done twice at {}",
                    self.clients[fate.client].kind,
                    self.now
                );
                let took = if self.random.chance(20) {
                    self.random.between(0, 6 * SECOND)
                } else {
                    self.random.between(20, 5 * MILLISECOND)
                };
                self.at(self.now + took, Event::Done(pipe, sent));
            }
            Verdict::InProgress => self.pipes.borrow_mut()[pipe].under_way -= 1,
            Verdict::Held(held) => {
                let again = self.now + LOOK_PERIOD;
                self.at(again, Event::LookAgain(pipe, sent, (place, held)));
            }
            Verdict::Answered(reply, moved) => {
                self.summary.replayed += 1;
                let made_for = u64::from_le_bytes(reply.try_into().unwrap());
                let key = Self::key(&sent);
                let sent_at = self.reply(pipe, sent, made_for as usize);
                if moved == Moved::Yes {
                    self.cache.sent(&key, &line, sent_at);
                }
            }
        }
    }

    /// Whether no client waits for what comes on a connection.
    fn is_given_up(&self, pipe: usize) -> bool {
        let pipes = self.pipes.borrow();
        let is_elsewhere = pipes[pipe].heard_before.max(pipe + 1) < pipes.len();
        pipes[pipe].is_reset || (pipes[pipe].has_end && is_elsewhere)
    }

    fn done(&mut self, pipe: usize, sent: Sent) {
        let (made_for, key) = (sent.call, Self::key(&sent));
        let is_change = sent.content != 0;
        let sent_at = self.reply(pipe, sent, made_for);
        if is_change {
            let reply = (made_for as u64).to_le_bytes();
            let now = Duration::from_micros(self.now);
            self.cache.finish(&key, &reply, sent_at, now);
        }
    }

    fn reply(&mut self, pipe: usize, sent: Sent, made_for: usize) -> SentAt {
        if sent.call == made_for {
            self.calls[made_for].answered_on = pipe;
        }
        let client = self.pipes.borrow()[pipe].client;
        let latency = self.clients[client].latency;
        let arrival = self.now + latency + self.random.below(latency / 2 + 1);
        let (arrival, reply) = {
            let pipe = &mut self.pipes.borrow_mut()[pipe];
            pipe.under_way -= 1;
            pipe.sent += 1;
            pipe.last_to_client = pipe.last_to_client.max(arrival);
            (pipe.last_to_client, pipe.sent)
        };
        self.at(arrival, Event::AtClient(pipe, sent, made_for));
        if self.pipes.borrow()[pipe].has_end {
            self.end(pipe);
        }
        SentAt::Byte(reply)
    }
}

/// How many histories are tried; `PAGEWELL_REPLY_CACHE_HISTORIES` has another number tried.
fn histories() -> u64 {
    let wanted = std::env::var("PAGEWELL_REPLY_CACHE_HISTORIES").ok();
    wanted.map_or(10_000, |number| number.parse().expect("a number"))
}

#[test]
fn no_call_is_answered_with_what_was_done_for_another_and_none_is_done_twice() {
    let mut sum = Summary::default();
    for seed in 0..histories() {
        let run = std::panic::catch_unwind(|| World::new(seed).run());
        let of_one = run.unwrap_or_else(|_| panic!("history {seed}"));
        sum.calls += of_one.calls;
        sum.done += of_one.done;
        sum.replayed += of_one.replayed;
        sum.sent_again += of_one.sent_again;
        sum.excepted += of_one.excepted;
    }
    println!(
        "{} calls, {} done, {} sent again, {} replayed, {} excepted",
        sum.calls, sum.done, sum.sent_again, sum.replayed, sum.excepted
    );
    // The model is not idle, and the exception is one.
    assert!(sum.replayed * 200 > sum.calls && sum.sent_again * 50 > sum.calls);
    assert!(sum.excepted * 200 < sum.calls, "{} excepted", sum.excepted);
}
