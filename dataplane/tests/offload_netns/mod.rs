//! Network namespaces for tests; each belongs to one thread and ends with it.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use xylem_dataplane::udp::{RecvBatch, Socket};

/// Bytes that arrive until there are `count` (bounded).
pub fn receive(socket: &Socket, count: usize) -> Vec<u8> {
    let mut batch = RecvBatch::new(8);
    let mut got = Vec::new();
    let start = Instant::now();
    while got.len() < count {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{} of {count} bytes arrived",
            got.len()
        );
        if socket.recv(&mut batch).is_ok() {
            batch
                .messages()
                .for_each(|m| got.extend_from_slice(m.bytes));
        } else {
            thread::yield_now();
        }
    }
    got
}

/// Runs the `ip` command in this thread's namespace.
pub fn ip(arguments: &str) {
    let done = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Moves this thread into a network namespace of its own, which ends with the thread and its sockets.
pub fn enter() -> bool {
    // SAFETY: changes the network namespace of this thread only.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

/// Runs a test in a fresh network namespace, or says that it can't.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let run = thread::spawn(|| {
        if enter() {
            test();
        } else {
            eprintln!("skipped: needs root for network namespaces");
        }
    });
    if let Err(panic) = run.join() {
        std::panic::resume_unwind(panic);
    }
}
