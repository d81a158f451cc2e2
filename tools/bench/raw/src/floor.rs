//! The floors: one epoll and nothing else. The relay reads once and writes once a message, the fan-out reads once and
//! writes once to every other connection, the door only accepts. What cannot be written at once ends the receiver: a window
//! that fits into the socket's buffer never comes to that.

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

const LISTENER: u64 = u64::MAX;

/// What is done with what comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// One's bytes go to its partner: the connection before or after it.
    Relay,
    /// One's bytes go to all others of a channel. There are so many channels, which take turns; connections are dealt out to them.
    FanOut(usize),
    /// Connections are accepted and kept; nothing is read.
    Accept,
}

/// Works until killed.
pub(crate) fn serve(listen: SocketAddr, work: Work) -> io::Result<()> {
    let listener = throng::driver::shared_listener(listen, 4096)?;
    println!("{}", listener.local_addr()?);
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut conns: Vec<Option<TcpStream>> = Vec::new();
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; 64 << 10];
    let mut turn = 0;
    loop {
        match epoll::wait(&poll, spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        for event in events.drain(..) {
            match event.data.u64() {
                LISTENER => accept(&listener, (work != Work::Accept).then_some(&poll), &mut conns)?,
                index => match work {
                    Work::FanOut(channels) => {
                        fan_out(index as usize, &mut conns, &mut buffer, (turn % channels, channels));
                        turn += 1;
                    }
                    Work::Relay | Work::Accept => relay(index as usize, &mut conns, &mut buffer),
                },
            }
        }
    }
}

fn accept(listener: &TcpListener, poll: Option<&OwnedFd>, conns: &mut Vec<Option<TcpStream>>) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((conn, _)) => {
                if let Some(poll) = poll {
                    conn.set_nonblocking(true)?;
                    let data = epoll::EventData::new_u64(conns.len() as u64);
                    epoll::add(poll, &conn, data, epoll::EventFlags::IN)?;
                }
                conns.push(Some(conn));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Bytes read; none if there is nothing to do.
fn read(index: usize, conns: &mut [Option<TcpStream>], buffer: &mut [u8]) -> Option<usize> {
    match conns[index].as_mut()?.read(buffer) {
        Ok(count) => Some(count),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(_) => Some(0),
    }
}

fn fan_out(index: usize, conns: &mut [Option<TcpStream>], buffer: &mut [u8], (first, step): (usize, usize)) {
    match read(index, conns, buffer) {
        None => {}
        Some(0) => conns[index] = None,
        Some(count) => {
            // The first connection sends.
            for (_, to) in
                conns.iter_mut().enumerate().skip(1 + first).step_by(step).filter(|(other, _)| *other != index)
            {
                let sent = to.as_mut().is_some_and(|to| to.write(&buffer[..count]).is_ok_and(|done| done == count));
                if !sent {
                    *to = None;
                }
            }
        }
    }
}

fn relay(index: usize, conns: &mut [Option<TcpStream>], buffer: &mut [u8]) {
    let Some(count) = read(index, conns, buffer) else {
        return;
    };
    let partner = conns.get_mut(index ^ 1).and_then(Option::as_mut);
    let sent = count > 0 && partner.is_some_and(|to| to.write(&buffer[..count]).is_ok_and(|written| written == count));
    if !sent {
        conns[index] = None;
        if let Some(partner) = conns.get_mut(index ^ 1) {
            *partner = None;
        }
    }
}
