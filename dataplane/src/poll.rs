//! Waiting for descriptors: epoll(7) and eventfd(2).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Wakes a thread that waits in `Poller` or `wait_readable`.
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// A waker that is not raised.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: eventfd takes no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        Ok(Waker { fd: owned(fd)? })
    }

    /// Raises it; stays raised until `clear`.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer lives through the call and has the 8 bytes that an eventfd wants.
        // A full counter (EAGAIN) is raised already.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Lowers it.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the buffer lives through the call and has the 8 bytes that an eventfd gives.
        unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// The descriptor to wait for.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Tells which of many descriptors can be read.
pub struct Poller {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    /// A poller without descriptors.
    pub fn new() -> io::Result<Poller> {
        // SAFETY: epoll_create1 takes no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        Ok(Poller {
            fd: owned(fd)?,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; 64],
        })
    }

    /// Watches a descriptor; a closed one leaves by itself.
    pub fn add(&self, fd: RawFd, token: u64) -> io::Result<()> {
        self.control(fd, token, libc::EPOLLIN as u32)
    }

    /// Watches a connected socket: tells once each time that reading or writing becomes possible, and of its end.
    pub fn add_edges(&self, fd: RawFd, token: u64) -> io::Result<()> {
        let edges = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.control(fd, token, edges as u32)
    }

    fn control(&self, fd: RawFd, token: u64, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: `event` lives through the call; both descriptors are checked by the kernel.
        let r = unsafe {
            libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event)
        };
        if r < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Stops to watch a descriptor: while anybody holds it open it would be told ready for ever.
    pub fn remove(&self, fd: RawFd) {
        // SAFETY: no pointer is read for this operation (since Linux 2.6.9). One that is not watched is no harm.
        unsafe {
            libc::epoll_ctl(
                self.fd.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                fd,
                std::ptr::null_mut(),
            )
        };
    }

    /// Waits until a descriptor can be read or the time is up (`None`: for ever); appends tokens.
    pub fn wait(&mut self, timeout_ms: Option<u64>, ready: &mut Vec<u64>) -> io::Result<()> {
        let n = self.wait_events(timeout_ms)?;
        ready.extend(self.events.iter().take(n).map(|e| e.u64));
        Ok(())
    }

    /// Like `wait`; appends tokens with what epoll says of them (EPOLLIN ...).
    pub fn wait_edges(
        &mut self,
        timeout_ms: Option<u64>,
        ready: &mut Vec<(u64, u32)>,
    ) -> io::Result<()> {
        let n = self.wait_events(timeout_ms)?;
        ready.extend(self.events.iter().take(n).map(|e| (e.u64, e.events)));
        Ok(())
    }

    fn wait_events(&mut self, timeout_ms: Option<u64>) -> io::Result<usize> {
        let timeout = timeout_ms.map_or(-1, |ms| ms.min(i32::MAX as u64) as i32);
        // SAFETY: the kernel writes at most `events.len()` entries of the vector that we own.
        let n = unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as i32,
                timeout,
            )
        };
        if n < 0 {
            let e = io::Error::last_os_error();
            return if e.kind() == io::ErrorKind::Interrupted {
                Ok(0)
            } else {
                Err(e)
            };
        }
        Ok(n as usize)
    }
}

/// Waits until either descriptor can be read or has failed.
pub fn wait_readable(fds: [RawFd; 2]) -> io::Result<()> {
    let mut set = fds.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: the array lives through the call and its length is given.
    let n = unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, -1) };
    if n < 0 {
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
    Ok(())
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_waker_ends_the_wait_and_stays_raised_until_cleared() {
        let waker = Waker::new().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(waker.fd(), 7).unwrap();
        let mut ready = Vec::new();
        poller.wait(Some(0), &mut ready).unwrap();
        assert_eq!(ready, [0u64; 0]);
        waker.wake();
        waker.wake();
        poller.wait(None, &mut ready).unwrap();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [7, 7]);
        poller.remove(waker.fd());
        ready.clear();
        poller.wait(Some(0), &mut ready).unwrap();
        assert_eq!(ready, [0u64; 0], "nobody watches");
        poller.remove(waker.fd());
        poller.add(waker.fd(), 7).unwrap();
        waker.clear();
        poller.wait(Some(0), &mut ready).unwrap();
        assert_eq!(ready, [0u64; 0]);
    }
}
