//! The floor: one epoll, one read and one write a message, nothing else. What cannot be written at once ends the pair:
//! a window that fits into the socket's buffer never comes to that.

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

const LISTENER: u64 = u64::MAX;

/// Relays until killed.
pub(crate) fn serve(listen: SocketAddr) -> io::Result<()> {
    let listener = throng::driver::shared_listener(listen, 4096)?;
    println!("{}", listener.local_addr()?);
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut conns: Vec<Option<TcpStream>> = Vec::new();
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match epoll::wait(&poll, spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        for event in events.drain(..) {
            match event.data.u64() {
                LISTENER => accept(&listener, &poll, &mut conns)?,
                index => relay(index as usize, &mut conns, &mut buffer),
            }
        }
    }
}

fn accept(listener: &TcpListener, poll: &impl std::os::fd::AsFd, conns: &mut Vec<Option<TcpStream>>) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((conn, _)) => {
                conn.set_nonblocking(true)?;
                let data = epoll::EventData::new_u64(conns.len() as u64);
                epoll::add(poll, &conn, data, epoll::EventFlags::IN)?;
                conns.push(Some(conn));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn relay(index: usize, conns: &mut [Option<TcpStream>], buffer: &mut [u8]) {
    let Some(from) = conns[index].as_mut() else {
        return;
    };
    let count = match from.read(buffer) {
        Ok(0) => 0,
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return,
        Err(_) => 0,
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
