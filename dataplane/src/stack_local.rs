//! The local end of a stream: a connected TCP or Unix socket of this machine that never blocks.

use socket2::{Socket, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// A little more than the kernel keeps an orphaned half-closed connection (tcp_fin_timeout).
const KEEPALIVE: Duration = Duration::from_secs(65);

/// What a local read or write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Bytes(usize),
    /// Nothing now; an event tells when it is worth trying again.
    Later,
    /// The other side sends no more. Only of reads.
    Ended,
    /// The other side is gone.
    Broken,
}

/// A connected local socket.
pub struct Local {
    socket: Socket,
}

impl Local {
    /// Takes over a connected stream socket.
    pub fn new(socket: Socket) -> io::Result<Local> {
        socket.set_nonblocking(true)?;
        // Only TCP knows these. The keepalive finds a program that is gone after it had ended its half.
        let _ = socket.set_tcp_nodelay(true);
        let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        Ok(Local { socket })
    }

    /// Reads what is there.
    pub fn read(&self, buffer: &mut [u8]) -> Moved {
        match moved(|| (&self.socket).read(buffer)) {
            Moved::Bytes(0) => Moved::Ended,
            other => other,
        }
    }

    /// Writes what is taken.
    pub fn write(&self, bytes: &[u8]) -> Moved {
        moved(|| (&self.socket).write(bytes))
    }

    /// Tells the other side that nothing more comes.
    pub fn finish(&self) {
        // A side that is gone already needs no telling.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Closes so that the other side sees an error, not an end; a Unix socket can only end.
    pub fn reset(self) {
        let _ = self.socket.set_linger(Some(Duration::ZERO));
    }

    /// The descriptor, for poll.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn moved(mut operation: impl FnMut() -> io::Result<usize>) -> Moved {
    loop {
        match operation() {
            Ok(n) => return Moved::Bytes(n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Moved::Later,
            Err(_) => return Moved::Broken,
        }
    }
}
