//! The UDP socket on loopback: batches, sizes at the edges, source addresses, and a kernel that refuses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests fail by panics.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use xylem_dataplane::udp::{RecvBatch, SEND_MAX, SendOutcome, Socket, self_test};

const LOOPBACKS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn bind(addr: &str, offloads: bool) -> Socket {
    Socket::bind(addr.parse().unwrap(), offloads).unwrap()
}

fn address(socket: &Socket, ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse::<SocketAddr>().unwrap().ip(), socket.local_port())
}

/// Datagram sizes, sender's and local address of what arrives until `count` datagrams did (bounded).
fn receive(socket: &Socket, count: usize) -> Vec<(Vec<u8>, SocketAddr, Option<IpAddr>)> {
    let mut batch = RecvBatch::new(8);
    let mut got = Vec::new();
    let start = Instant::now();
    while got.len() < count {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{} of {count} arrived",
            got.len()
        );
        match socket.recv(&mut batch) {
            Ok(_) => {
                for message in batch.messages() {
                    got.extend(
                        message
                            .datagrams()
                            .map(|d| (d.to_vec(), message.from, message.local)),
                    );
                }
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(e) => panic!("{e}"),
        }
    }
    got
}

#[test]
fn a_batch_arrives_as_the_datagrams_that_it_stands_for() {
    for loopback in LOOPBACKS {
        for offloads in [true, false] {
            let (a, b) = (bind(loopback, offloads), bind(loopback, offloads));
            let bytes: Vec<u8> = (0..1_452 * 40 + 100).map(|i| (i % 253) as u8).collect();
            let to = address(&b, loopback);
            assert_eq!(a.send(&bytes, Some(1_452), to, None), SendOutcome::Sent);
            let got = receive(&b, 41);
            let want: Vec<&[u8]> = bytes.chunks(1_452).collect();
            assert!(
                got.iter().map(|(d, ..)| d.as_slice()).eq(want),
                "{loopback} {offloads}"
            );
            assert!(
                got.iter()
                    .all(|(_, from, local)| *from == address(&a, loopback)
                        && *local == Some(to.ip()))
            );
        }
    }
}

/// W54: what is used is what was seen to work.
#[test]
fn w54_the_self_test_sees_this_kernels_offloads_and_sockets_say_what_they_use() {
    for loopback in LOOPBACKS {
        let seen = self_test(loopback.starts_with('['));
        assert_eq!(bind(loopback, true).offloads(), (seen.gso, seen.gro));
        assert_eq!(bind(loopback, false).offloads(), (false, false));
    }
}

#[test]
fn an_empty_datagram_does_not_stop_receiving() {
    let (a, b) = (bind(LOOPBACKS[0], true), bind(LOOPBACKS[0], true));
    let to = address(&b, LOOPBACKS[0]);
    assert_eq!(a.send(&[], None, to, None), SendOutcome::Sent);
    assert_eq!(a.send(&[7], Some(1_000), to, None), SendOutcome::Sent);
    assert_eq!(receive(&b, 1)[0].0, [7]);
}

/// W30: a datagram that no packet can hold harms nothing.
#[test]
fn w30_the_longest_datagram_passes_and_a_longer_one_is_counted() {
    let (a, b) = (bind(LOOPBACKS[0], true), bind(LOOPBACKS[0], true));
    let to = address(&b, LOOPBACKS[0]);
    let bytes = vec![9u8; SEND_MAX + 1];
    assert_eq!(a.send(&bytes, None, to, None), SendOutcome::TooLong);
    assert_eq!(a.counters().too_long, 1);
    assert_eq!(
        a.send(&bytes[..SEND_MAX], None, to, None),
        SendOutcome::Sent
    );
    assert_eq!(receive(&b, 1)[0].0.len(), SEND_MAX);
}

/// W20: on a machine with two uplinks an answer leaves with the address that was asked.
#[test]
fn w20_a_datagram_leaves_from_the_source_address_that_was_asked_for() {
    let (a, b) = (bind("0.0.0.0:0", true), bind("0.0.0.0:0", true));
    let to = SocketAddr::new("127.0.0.9".parse().unwrap(), b.local_port());
    let from: IpAddr = "127.0.0.5".parse().unwrap();
    assert_eq!(
        a.send(&[1; 300], Some(100), to, Some(from)),
        SendOutcome::Sent
    );
    let got = receive(&b, 3);
    assert!(
        got.iter()
            .all(|(_, f, local)| f.ip() == from && *local == Some(to.ip()))
    );
}

#[test]
fn a_source_address_that_is_gone_is_replaced_and_does_not_cost_the_offload() {
    let (a, b) = (bind("0.0.0.0:0", true), bind("127.0.0.1:0", true));
    let to = address(&b, LOOPBACKS[0]);
    let gone = Some("192.0.2.77".parse().unwrap());
    let before = a.offloads();
    assert_eq!(a.send(&[1; 300], Some(100), to, gone), SendOutcome::Sent);
    assert_eq!(a.send(&[1; 50], None, to, gone), SendOutcome::Sent);
    assert_eq!(receive(&b, 4).len(), 4);
    assert_eq!(a.counters().source_lost, 2);
    assert_eq!(a.counters().gso_refused, 0);
    assert_eq!(a.offloads(), before);
}

#[test]
fn a_source_address_of_the_other_family_is_ignored() {
    let (a, b) = (bind(LOOPBACKS[1], true), bind(LOOPBACKS[1], true));
    let to = address(&b, LOOPBACKS[1]);
    let other = Some("127.0.0.1".parse().unwrap());
    assert_eq!(a.send(&[1; 50], None, to, other), SendOutcome::Sent);
    assert_eq!(receive(&b, 1).len(), 1);
}

#[test]
fn ipv6_sockets_leave_the_ipv4_port_alone() {
    let six = bind("[::]:0", true);
    let four = Socket::bind(
        SocketAddr::new("0.0.0.0".parse().unwrap(), six.local_port()),
        true,
    );
    assert!(four.is_ok());
}

#[test]
fn nobody_listening_is_never_fatal() {
    let (a, b) = (bind(LOOPBACKS[0], true), bind(LOOPBACKS[0], true));
    let closed = address(&b, LOOPBACKS[0]);
    drop(b);
    for _ in 0..3 {
        assert_eq!(
            a.send(&[1; 300], Some(100), closed, None),
            SendOutcome::Sent
        );
    }
    let mut batch = RecvBatch::new(1);
    let error = a.recv(&mut batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(batch.is_empty());
}

#[test]
fn a_family_that_the_socket_does_not_speak_is_counted() {
    let a = bind(LOOPBACKS[0], true);
    let outcome = a.send(&[1; 300], Some(100), "[::1]:9".parse().unwrap(), None);
    assert!(
        matches!(outcome, SendOutcome::Failed(_) | SendOutcome::Unreachable),
        "{outcome:?}"
    );
    let counters = a.counters();
    assert_eq!(
        (counters.failed + counters.unreachable, counters.gso_refused),
        (1, 0)
    );
    assert!(
        a.offloads().0 == self_test(false).gso,
        "an address error says nothing about GSO"
    );
}
