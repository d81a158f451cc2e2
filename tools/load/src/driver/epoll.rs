//! The driver on epoll, for kernels without the io_uring operations that the other one needs: a descriptor of the process a
//! connection, level-triggered, one read an event.

use super::{BUFFER_BYTES, Driver, Event, Settings};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;
use throng_sys::calls;

/// Events taken in one call.
const EVENTS_PER_WAIT: usize = 1024;

const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

#[derive(Default)]
struct Slot {
    /// The owner has asked for a connection and not closed it; there may be none if no socket could be made.
    open: bool,
    fd: Option<OwnedFd>,
    /// What the kernel has not taken; empty for no send in flight.
    rest: Option<Box<(Vec<u8>, usize)>>,
    armed: u32,
    connecting: bool,
    paused: bool,
    ended: bool,
}

/// See the module.
pub(super) struct Epoll {
    epoll: OwnedFd,
    slots: Vec<Slot>,
    events: Vec<libc::epoll_event>,
    buffer: Box<[u8]>,
    /// To be told with the next wait; bounded by the slots: a few a connection.
    notices: Vec<Event<'static>>,
    to: SockAddr,
    family: Domain,
    sources: Vec<SockAddr>,
}

impl Epoll {
    pub(super) fn new(settings: &Settings) -> io::Result<Epoll> {
        let mut slots = Vec::new();
        slots.resize_with(settings.clients as usize, Slot::default);
        Ok(Epoll {
            epoll: calls::epoll_create()?,
            slots,
            events: Vec::with_capacity(EVENTS_PER_WAIT),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            notices: Vec::new(),
            to: settings.to.into(),
            family: Domain::for_address(settings.to),
            sources: settings.sources.iter().map(|ip| SocketAddr::new(*ip, 0).into()).collect(),
        })
    }

    fn slot(&mut self, client: u32) -> &mut Slot {
        &mut self.slots[client as usize]
    }

    fn raw(&self, client: u32) -> Option<RawFd> {
        self.slots[client as usize].fd.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn socket(&self, source: usize) -> io::Result<Socket> {
        let socket = Socket::new(self.family, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if !self.sources.is_empty() {
            calls::set_port_late(socket.as_raw_fd())?;
            socket.bind(&self.sources[source % self.sources.len()])?;
        }
        match socket.connect(&self.to) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    }

    /// Waits for what the connection wants now.
    fn arm(&mut self, client: u32) {
        let Some(fd) = self.raw(client) else { return };
        let slot = &mut self.slots[client as usize];
        let mut wanted = if slot.connecting || slot.rest.is_some() { OUT } else { 0 };
        if !slot.connecting && !slot.paused && !slot.ended {
            wanted |= IN;
        }
        if slot.armed != wanted {
            slot.armed = wanted;
            let done = calls::epoll_ctl(&self.epoll, libc::EPOLL_CTL_MOD, fd, wanted, u64::from(client));
            if let Err(error) = done {
                self.end(client, error.raw_os_error());
            }
        }
    }

    fn end(&mut self, client: u32, errno: Option<i32>) {
        let slot = self.slot(client);
        if slot.open && !slot.ended {
            slot.ended = true;
            self.notices.push(Event::Ended(client, errno));
            self.arm(client);
        }
    }

    fn ready(&mut self, client: u32, events: u32, on_event: &mut dyn FnMut(Event<'_>)) {
        let Some(fd) = self.raw(client) else { return };
        let hurt = events & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0;
        let slot = self.slot(client);
        if slot.ended {
            // Told already; an error that stays must not keep this thread busy until the owner closes.
            let _ = calls::epoll_ctl(&self.epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
            return;
        }
        if slot.connecting || hurt {
            let error = slot.fd.as_ref().and_then(|fd| SockRef::from(fd).take_error().ok().flatten());
            if let Some(error) = error {
                return self.end(client, error.raw_os_error());
            }
        }
        let slot = self.slot(client);
        if slot.connecting {
            slot.connecting = false;
            on_event(Event::Connected(client));
            return self.arm(client);
        }
        if events & OUT != 0 {
            self.write(client, fd);
        }
        if hurt || events & IN != 0 && !self.slots[client as usize].paused {
            match calls::receive(fd, &mut self.buffer) {
                Ok(0) => self.end(client, None),
                Ok(count) => on_event(Event::Received(client, &self.buffer[..count])),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => self.end(client, error.raw_os_error()),
            }
        }
    }

    fn write(&mut self, client: u32, fd: RawFd) {
        let Some(mut rest) = self.slot(client).rest.take() else { return };
        match calls::send(fd, &rest.0[rest.1..]) {
            Ok(count) if rest.1 + count == rest.0.len() => {
                rest.0.clear();
                self.notices.push(Event::Sent(client, rest.0));
            }
            Ok(count) => {
                rest.1 += count;
                self.slot(client).rest = Some(rest);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.slot(client).rest = Some(rest);
            }
            Err(error) => self.end(client, error.raw_os_error()),
        }
        self.arm(client);
    }

    fn tell(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        for notice in std::mem::take(&mut self.notices) {
            let gone = |client: u32| !self.slots[client as usize].open;
            match &notice {
                // Closed meanwhile: nothing but that is told.
                Event::Sent(client, _) | Event::Ended(client, _) if gone(*client) => {}
                _ => on_event(notice),
            }
        }
    }
}

impl Driver for Epoll {
    fn connect(&mut self, client: u32, source: usize) {
        assert!(!self.slots[client as usize].open, "client {client} is connected");
        let made = self.socket(source).and_then(|socket| {
            calls::epoll_ctl(&self.epoll, libc::EPOLL_CTL_ADD, socket.as_raw_fd(), OUT, u64::from(client))?;
            Ok(socket)
        });
        let slot = self.slot(client);
        *slot = Slot { open: true, armed: OUT, connecting: true, ..Slot::default() };
        match made {
            Ok(socket) => slot.fd = Some(socket.into()),
            Err(error) => self.end(client, Some(error.raw_os_error().unwrap_or(libc::EIO))),
        }
    }

    fn send(&mut self, client: u32, bytes: Vec<u8>) {
        let Some(fd) = self.raw(client) else { return };
        let slot = self.slot(client);
        if slot.ended {
            return;
        }
        assert!(slot.rest.is_none(), "a second send of {client} while one is in flight");
        slot.rest = Some(Box::new((bytes, 0)));
        self.write(client, fd);
    }

    fn favour(&mut self, _: u32) {}

    fn close(&mut self, client: u32, abort: bool) {
        let Slot { open, fd, .. } = std::mem::take(self.slot(client));
        if abort && let Some(fd) = &fd {
            calls::set_abort(fd.as_raw_fd());
        }
        if open {
            self.notices.push(Event::Closed(client));
        }
    }

    fn pause(&mut self, client: u32) {
        self.slot(client).paused = true;
        self.arm(client);
    }

    fn resume(&mut self, client: u32) {
        self.slot(client).paused = false;
        self.arm(client);
    }

    fn wait(&mut self, timeout: Duration, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        let busy = !self.notices.is_empty();
        self.tell(on_event);
        // Rounded up: waking early would make the caller spin until the time has come.
        let timeout_ms = if busy { 0 } else { timeout.as_nanos().div_ceil(1_000_000).min(10_000) as i32 };
        let mut events = std::mem::take(&mut self.events);
        let waited = calls::epoll_wait(&self.epoll, &mut events, timeout_ms);
        for event in &events {
            self.ready(event.u64 as u32, event.events, on_event);
        }
        self.events = events;
        self.tell(on_event);
        waited
    }
}
