use super::*;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// Of a connection at an address of its own.
fn queue<J: Send + 'static>(pool: &Arc<Pool<J>>, export: u32, token: u64, job: J) {
    let host = u32::try_from(token).unwrap();
    queue_at(pool, export, (host, token), job);
}

fn queue_at<J: Send + 'static>(
    pool: &Arc<Pool<J>>,
    export: u32,
    (host, token): (u32, u64),
    job: J,
) {
    let address = Address::of(IpAddr::V4(Ipv4Addr::from_bits(host)));
    let flow = Flow {
        export,
        address,
        token,
    };
    pool.queue(&flow, job);
}

#[test]
fn connections_take_turns() {
    let (started, begin) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let (finished, end) = mpsc::channel();
    let pool = Pool::new(1, move |job: &'static str| {
        if job == "first" {
            started.send(()).unwrap();
            gate.lock().recv().unwrap();
        }
        seen.lock().push(job);
        finished.send(()).unwrap();
    });
    queue(&pool, 1, 0, "first");
    begin.recv().unwrap();
    for job in ["a1", "a2", "a3"] {
        queue(&pool, 1, 1, job);
    }
    queue(&pool, 1, 2, "b1");
    release.send(()).unwrap();
    for _ in 0..5 {
        end.recv().unwrap();
    }
    assert_eq!(*order.lock(), ["first", "a1", "b1", "a2", "a3"]);
    pool.stop();
}

#[test]
fn a_defect_of_a_job_costs_that_job_alone() {
    let (finished, end) = mpsc::channel();
    let pool = Pool::new(1, move |job: u32| {
        assert!(job > 1, "a defect");
        finished.send(job).unwrap();
    });
    for job in 0..4 {
        queue(&pool, 1, 0, job);
    }
    let patience = std::time::Duration::from_secs(60);
    assert_eq!(end.recv_timeout(patience), Ok(2));
    assert_eq!(end.recv_timeout(patience), Ok(3));
    pool.stop();
}

#[test]
fn addresses_take_turns_however_many_connections_they_have() {
    let (started, begin) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let pool = Pool::new(1, move |job: u64| {
        started.send(job).unwrap();
        gate.lock().recv().unwrap();
    });
    queue(&pool, 1, 0, 0);
    assert_eq!(begin.recv(), Ok(0));
    for token in 1..=100 {
        queue_at(&pool, 1, (7, token), token);
    }
    for job in [201, 202] {
        queue_at(&pool, 1, (8, 200), job);
    }
    for _ in 0..5 {
        release.send(()).unwrap();
    }
    let order: Vec<u64> = begin.iter().take(5).collect();
    assert_eq!(order, [1, 201, 2, 202, 3]);
    drop(release);
}

#[test]
fn an_address_leaves_threads_to_others_however_many_connections_it_has() {
    let (started, begin) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let pool = Pool::new(16, move |job: u64| {
        started.send(job).unwrap();
        let _ = gate.lock().recv();
    });
    for token in 1..=50 {
        queue_at(&pool, 1, (7, token), token);
    }
    for _ in 0..14 {
        assert!(begin.recv().unwrap() <= 50);
    }
    queue_at(&pool, 1, (8, 200), 200);
    assert_eq!(begin.recv(), Ok(200));
    assert!(begin.try_recv().is_err());
    drop(release);
}

#[test]
fn no_job_waits_behind_a_held_one_while_there_may_be_another_thread() {
    let (started, begin) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let pool = Pool::new(2, move |job: &'static str| {
        started.send(job).unwrap();
        if job == "held" {
            gate.lock().recv().unwrap();
        }
    });
    queue(&pool, 1, 0, "quick");
    begin.recv().unwrap();
    while pool.state.lock().free == 0 {
        std::thread::yield_now();
    }
    queue(&pool, 1, 0, "held");
    queue(&pool, 1, 1, "held");
    assert_eq!(begin.recv(), Ok("held"));
    assert_eq!(begin.recv(), Ok("held"));
    queue(&pool, 1, 2, "quick");
    pool.set_stalled(&HashMap::from([(1, 2)]));
    assert_eq!(begin.recv(), Ok("quick"));
    release.send(()).unwrap();
    release.send(()).unwrap();
    pool.stop();
}

#[test]
fn a_lane_that_is_stuck_holds_up_no_other_and_a_client_not_its_lane() {
    let (started, begin) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let pool = Pool::new(4, move |job: &'static str| {
        started.send(job).unwrap();
        if job == "held" {
            gate.lock().recv().unwrap();
        }
    });
    for _ in 0..20 {
        queue(&pool, 1, 7, "held");
    }
    for _ in 0..3 {
        assert_eq!(begin.recv(), Ok("held"));
    }
    queue(&pool, 2, 7, "other lane");
    assert_eq!(begin.recv(), Ok("other lane"));
    queue(&pool, 1, 8, "other client");
    assert_eq!(begin.recv(), Ok("other client"));
    assert!(begin.try_recv().is_err(), "no more of one client");
    pool.set_stalled(&HashMap::from([(1, 3)]));
    for _ in 0..3 {
        assert_eq!(begin.recv(), Ok("held"));
    }
    for _ in 0..20 {
        release.send(()).unwrap();
    }
    for _ in 0..14 {
        assert_eq!(begin.recv(), Ok("held"));
    }
    pool.stop();
    while pool.state.lock().threads > 0 {
        std::thread::yield_now();
    }
    assert!(pool.state.lock().turns.is_empty());
}

#[test]
fn every_job_is_done_once_by_many_threads() {
    let (done, results) = mpsc::channel();
    let pool = Pool::new(4, move |job: u64| done.send(job).unwrap());
    for job in 0..1000 {
        queue(&pool, (job % 3) as u32, job % 7, job);
    }
    let mut seen: Vec<u64> = results.iter().take(1000).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..1000).collect::<Vec<_>>());
    pool.stop();
    while pool.state.lock().threads > 0 {
        std::thread::yield_now();
    }
}

/// A thread inherits the user that the one acts for that starts it.
#[test]
fn threads_are_started_for_the_server() {
    static TURNED_BACK: AtomicBool = AtomicBool::new(false);
    let turn_back = || TURNED_BACK.store(true, Ordering::SeqCst);
    let (send, seen) = mpsc::channel();
    let pool = Pool::new(1, move |()| {
        send.send(TURNED_BACK.load(Ordering::SeqCst)).unwrap()
    });
    pagewell_fs::identity::acts_for_caller(turn_back);
    queue(&pool, 1, 0, ());
    assert!(seen.recv().unwrap());
    pool.stop();
}
