//! Many clients on one thread: one epoll, sockets that never block.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use throng_tls::client::{Terms, TlsClient};

use crate::client::{Client, Login, Said};

/// One connection.
pub(crate) struct Conn {
    stream: Option<TcpStream>,
    /// The stream's state.
    pub(crate) client: Client,
    tls: Option<Box<TlsClient>>,
    /// Bytes for the socket.
    output: Vec<u8>,
    blocked: bool,
}

impl Conn {
    /// Whether the connection is open.
    pub(crate) fn is_open(&self) -> bool {
        self.stream.is_some()
    }
}

/// What happened to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It read this.
    Said(Said),
    /// The connection has ended.
    Closed,
}

/// The clients.
pub(crate) struct Swarm {
    poll: std::os::fd::OwnedFd,
    /// By index.
    pub(crate) conns: Vec<Conn>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    /// Of those who connect over TLS: the server's certificate is its own business here.
    terms: Terms,
}

impl Swarm {
    /// Nobody yet.
    pub(crate) fn new() -> io::Result<Swarm> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let terms = Terms::trusting_anyone("localhost").map_err(io::Error::other)?;
        Ok(Swarm { poll, conns: Vec::new(), events: Vec::with_capacity(256), buffer: vec![0; 64 << 10], terms })
    }

    /// A further client connects, with direct TLS or without; returns its index.
    pub(crate) fn add(&mut self, to: SocketAddr, tls: bool, login: Login) -> io::Result<usize> {
        let client = Client::new(login);
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let index = self.conns.len();
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.poll, &stream, data, epoll::EventFlags::IN)?;
        let tls = match tls {
            true => Some(Box::new(TlsClient::new(&self.terms).map_err(io::Error::other)?)),
            false => None,
        };
        self.conns.push(Conn { stream: Some(stream), client, tls, output: Vec::new(), blocked: false });
        self.flush(index);
        Ok(index)
    }

    /// Logs clients in without TLS, at most `at_once` under way.
    pub(crate) fn log_in(&mut self, to: SocketAddr, logins: Vec<Login>, at_once: usize) -> io::Result<Vec<usize>> {
        self.log_in_by(to, false, logins, at_once)
    }

    /// Logs clients in, with direct TLS or without, at most `at_once` under way.
    pub(crate) fn log_in_by(
        &mut self,
        to: SocketAddr,
        tls: bool,
        logins: Vec<Login>,
        at_once: usize,
    ) -> io::Result<Vec<usize>> {
        let (mut indices, mut ready) = (Vec::with_capacity(logins.len()), 0);
        let mut logins = logins.into_iter();
        let mut stalled = Instant::now();
        loop {
            while indices.len() - ready < at_once
                && let Some(login) = logins.next()
            {
                indices.push(self.add(to, tls, login)?);
            }
            if indices.len() == ready {
                return Ok(indices);
            }
            let mut failed = None;
            self.turn(Duration::from_millis(100), &mut |_, news| match news {
                News::Said(Said::Ready) => {
                    ready += 1;
                    stalled = Instant::now();
                }
                News::Said(Said::Refused(why)) => failed = Some(format!("a login was refused: {why}")),
                News::Said(Said::StreamError(why)) => failed = Some(format!("a stream ended: {why}")),
                News::Closed => failed = Some("a connection was closed".into()),
                _ => {}
            })?;
            if stalled.elapsed() > Duration::from_secs(30) {
                let stuck = indices.iter().map(|&index| &self.conns[index].client).filter(|client| !client.is_ready());
                let stuck: Vec<String> = stuck.map(Client::standing).collect();
                failed = Some(format!("logins are not answered: {stuck:?}"));
            }
            if let Some(why) = failed {
                return Err(io::Error::other(why));
            }
        }
    }

    /// Says something as one client.
    pub(crate) fn say(&mut self, index: usize, text: &str) {
        self.conns[index].client.say(text);
        self.flush(index);
    }

    /// Sends what waits, as far as the socket takes it.
    pub(crate) fn flush(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        let Some(stream) = conn.stream.as_mut() else { return };
        match conn.tls.as_mut() {
            Some(tls) => {
                if tls.send(&mut conn.client.output, &mut conn.output).is_err() {
                    conn.client.output.clear();
                }
            }
            None => conn.output.append(&mut conn.client.output),
        }
        let mut sent = 0;
        while sent < conn.output.len() {
            match stream.write(&conn.output[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The reading side tells that it has ended.
                Err(_) => sent = conn.output.len(),
            }
        }
        conn.output.drain(..sent);
        let blocked = !conn.output.is_empty();
        if blocked != conn.blocked {
            conn.blocked = blocked;
            self.listen(index);
        }
    }

    fn listen(&self, index: usize) {
        let conn = &self.conns[index];
        let Some(stream) = conn.stream.as_ref() else { return };
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, conn.blocked);
        let _ = epoll::modify(&self.poll, stream, epoll::EventData::new_u64(index as u64), flags);
    }

    /// Waits at most `timeout` and hands over what has come. Answers are sent at the end.
    pub(crate) fn turn(&mut self, timeout: Duration, on: &mut dyn FnMut(usize, News)) -> io::Result<usize> {
        let limit = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        match epoll::wait(&self.poll, spare_capacity(&mut self.events), Some(&limit)) {
            Err(rustix::io::Errno::INTR) => return Ok(0),
            other => other?,
        };
        let events = std::mem::take(&mut self.events);
        for event in &events {
            self.read(event.data.u64() as usize, on);
        }
        let count = events.len();
        self.events = events;
        self.events.clear();
        Ok(count)
    }

    fn read(&mut self, index: usize, on: &mut dyn FnMut(usize, News)) {
        let conn = &mut self.conns[index];
        let Some(stream) = conn.stream.as_mut() else { return };
        match stream.read(&mut self.buffer) {
            Ok(0) => self.close(index, on),
            Ok(count) => {
                let mut said = |said| on(index, News::Said(said));
                match conn.tls.as_mut() {
                    None => conn.client.receive(&self.buffer[..count], &mut said),
                    Some(tls) => {
                        let mut plaintext = Vec::new();
                        // An alert comes as an error; the end of the connection follows.
                        let _ = tls.receive(&mut self.buffer[..count], &mut plaintext);
                        conn.client.receive(&plaintext, &mut said);
                    }
                }
                self.flush(index);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.flush(index),
            Err(_) => self.close(index, on),
        }
    }

    fn close(&mut self, index: usize, on: &mut dyn FnMut(usize, News)) {
        if self.conns[index].stream.take().is_some() {
            on(index, News::Closed);
        }
    }

    /// Drops a connection without a word.
    pub(crate) fn cut(&mut self, index: usize) {
        self.conns[index].stream = None;
    }

    /// Takes the sockets out, in the order of the clients.
    pub(crate) fn into_streams(self) -> Vec<TcpStream> {
        self.conns.into_iter().filter_map(|conn| conn.stream).collect()
    }
}
