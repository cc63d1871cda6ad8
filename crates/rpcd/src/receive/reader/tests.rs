use super::*;
use std::net::IpAddr;

fn address(last: u8) -> Address {
    Address::of(IpAddr::from([10, 0, 0, last]))
}

#[test]
fn addresses_take_turns_however_many_connections_they_have() {
    let mut ready = Ready::default();
    let many: Vec<Line> = (0..100).map(|_| ready.join(address(1))).collect();
    let one = ready.join(address(2));
    for (token, line) in (1..).zip(&many) {
        ready.push(*line, token);
    }
    ready.push(one, 500);
    assert_eq!(ready.round(), 2);
    assert_eq!((ready.pop(), ready.pop()), (Some(1), Some(500)));
    ready.push(one, 500);
    assert_eq!(ready.round(), 2);
    assert_eq!((ready.pop(), ready.pop()), (Some(2), Some(500)));
    assert_eq!(ready.pop(), Some(3));
}

#[test]
fn rounds_of_an_address_alone_get_longer_until_another_comes() {
    let mut ready = Ready::default();
    assert_eq!((ready.round(), ready.round()), (0, 0), "nothing to do");
    let line = ready.join(address(1));
    let mut rounds = Vec::new();
    for token in 0..200 {
        ready.push(line, token);
    }
    for _ in 0..8 {
        let round = ready.round();
        rounds.push(round);
        for _ in 0..round {
            let token = ready.pop().unwrap();
            ready.push(line, token);
        }
    }
    assert_eq!(rounds, [1, 2, 4, 8, 16, 32, 64, 64]);
    let other = ready.join(address(2));
    ready.push(other, 500);
    assert_eq!(ready.round(), 2);
    assert!(ready.pop().is_some() && ready.pop() == Some(500));
    assert_eq!(ready.round(), 1);
}

#[test]
fn lines_of_addresses_that_are_gone_are_used_again() {
    let mut ready = Ready::default();
    for last in 0..200 {
        let line = ready.join(address(last));
        ready.push(line, 1);
        ready.leave(address(last), line);
        assert_eq!(ready.pop(), Some(1));
    }
    assert_eq!(ready.lines.len(), 1);
    assert!(ready.is_empty() && ready.by_address.is_empty());
}
