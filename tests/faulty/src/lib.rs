//! A proxy between clients and an XMPP server that plants one fault in every so many messages and counts what it planted: so
//! that it can be seen whether `throng load` finds just that.
//!
//! Everything passes as it is but what a server sends as `<message>` with a body, in the clear. Two threads a connection,
//! for some hundred connections.
#![forbid(unsafe_code)]

mod stream;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::stream::{Items, Sender};

/// What is done to a chosen message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing: all comes as it should.
    Nothing,
    /// It does not come.
    Drop,
    /// It comes twice.
    Double,
    /// It comes behind the next to the same receiver.
    Swap,
    /// A letter of its body is another.
    Corrupt,
    /// It comes after so long, the ones behind it in time.
    Delay(Duration),
    /// The stream of its receiver ends without a word, and it with it.
    Cut,
}

impl Fault {
    /// The fault of a name; a delay is three seconds long.
    pub fn named(name: &str) -> Option<Fault> {
        Some(match name {
            "nothing" => Fault::Nothing,
            "drop" => Fault::Drop,
            "double" => Fault::Double,
            "swap" => Fault::Swap,
            "corrupt" => Fault::Corrupt,
            "delay" => Fault::Delay(Duration::from_secs(3)),
            "cut" => Fault::Cut,
            _ => return None,
        })
    }
}

/// What has passed and what has been planted.
#[derive(Debug, Default)]
pub struct Counts {
    sent: AtomicU64,
    came: AtomicU64,
    planted: AtomicU64,
    overtaken: AtomicU64,
}

impl Counts {
    /// Messages from clients.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Messages from the server, before anything was done to them.
    pub fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }

    /// Faults planted.
    pub fn planted(&self) -> u64 {
        self.planted.load(Ordering::Relaxed)
    }

    /// Of the delayed, those that another message has overtaken.
    pub fn overtaken(&self) -> u64 {
        self.overtaken.load(Ordering::Relaxed)
    }
}

/// A proxy that runs until the process ends.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it has done so far.
    pub counts: Arc<Counts>,
}

impl Proxy {
    /// Listens at `listen` for clients of the server at `to`, and plants a fault in every `every`-th message.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn start(listen: SocketAddr, to: SocketAddr, fault: Fault, every: u64) -> io::Result<Proxy> {
        let listener = TcpListener::bind(listen)?;
        let (address, counts) = (listener.local_addr()?, Arc::new(Counts::default()));
        let told = counts.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A server that refuses shows at the client as one that closes.
                let Ok(server) = TcpStream::connect(to) else { continue };
                let counts = told.clone();
                // The end of a connection, however it comes, is no failure of the proxy.
                std::thread::spawn(move || drop(connection(client, server, fault, every, counts)));
            }
        });
        Ok(Proxy { address, counts })
    }
}

fn connection(client: TcpStream, server: TcpStream, fault: Fault, every: u64, counts: Arc<Counts>) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_server, told) = (client.try_clone()?, server.try_clone()?, counts.clone());
    std::thread::spawn(move || {
        let mut items = Items::default();
        let _ = pass(&mut from_client, &mut to_server, &mut items, &told.sent);
        to_server.shutdown(Shutdown::Write)
    });
    let mut sender = Sender::new(client.try_clone()?, fault, every, counts);
    let done = serve(&server, &mut sender);
    // The server is to have noticed before the client does: what it sends meanwhile goes with the stream.
    let _ = server.shutdown(Shutdown::Write);
    server.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut rest = [0; 16 << 10];
    while matches!((&server).read(&mut rest), Ok(1..)) {}
    let _ = client.shutdown(Shutdown::Both);
    done
}

/// Passes on what a client says, and counts its messages.
fn pass(from: &mut TcpStream, to: &mut TcpStream, items: &mut Items, sent: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        items.put(&buffer[..count]);
        while let Some(item) = items.next() {
            sent.fetch_add(u64::from(stream::is_message(&item)), Ordering::Relaxed);
        }
        to.write_all(&buffer[..count])?;
    }
}

/// Passes on what the server says, with faults in it, until it ends or the stream is to be cut.
fn serve(mut server: &TcpStream, sender: &mut Sender<TcpStream>) -> io::Result<()> {
    // Messages that are held back have their time.
    server.set_read_timeout(Some(Duration::from_millis(50)))?;
    let (mut items, mut buffer) = (Items::default(), vec![0; 64 << 10]);
    loop {
        match server.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => items.put(&buffer[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        sender.due(std::time::Instant::now())?;
        while let Some(item) = items.next() {
            if !sender.item(item, std::time::Instant::now())? {
                return Ok(());
            }
        }
        sender.flush()?;
    }
}
