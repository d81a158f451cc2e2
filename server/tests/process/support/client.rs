//! A client that writes each stanza itself, over a socket or TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Limit of a wait, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const HEADER: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams'>";

trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// A connection, and its unread input.
pub(crate) struct Client {
    /// The underlying socket.
    pub(crate) socket: TcpStream,
    wire: Box<dyn Wire>,
    said: String,
}

impl Client {
    /// In the clear.
    pub(crate) fn connect(to: &str) -> Client {
        let socket = TcpStream::connect(to).expect("a connection");
        let wire = socket.try_clone().expect("a copy");
        Client::over(socket, wire)
    }

    /// From this address.
    pub(crate) fn connect_from(from: [u8; 4], to: &str) -> Client {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.bind(&std::net::SocketAddr::from((from, 0)).into()).expect("an address");
        socket.connect(&to.parse::<std::net::SocketAddr>().expect("an address").into()).expect("a connection");
        let socket = TcpStream::from(socket);
        let wire = socket.try_clone().expect("a copy");
        Client::over(socket, wire)
    }

    /// With small kernel buffers when it does not read.
    pub(crate) fn connect_with_little_room(to: &str) -> Client {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4_096).expect("a size");
        socket.connect(&to.parse::<std::net::SocketAddr>().expect("an address").into()).expect("a connection");
        let socket = TcpStream::from(socket);
        let wire = socket.try_clone().expect("a copy");
        Client::over(socket, wire)
    }

    /// Over TLS 1.3, to a server with this certificate.
    pub(crate) fn connect_tls(to: &str, certificate: &Path) -> Client {
        Client::connect_tls_as(to, certificate, "localhost")
    }

    /// The same with a host name (SNI).
    pub(crate) fn connect_tls_as(to: &str, certificate: &Path, host: &str) -> Client {
        let socket = TcpStream::connect(to).expect("a connection");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate).expect("a file")).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("a version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
        let wire = StreamOwned::new(connection, socket.try_clone().expect("a copy"));
        Client::over(socket, wire)
    }

    fn over(socket: TcpStream, wire: impl Wire + 'static) -> Client {
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Client { socket, wire: Box::new(wire), said: String::new() }
    }

    /// Logs in with PLAIN and binds a resource.
    pub(crate) fn log_in(self, user: &str, password: &str, resource: &str) -> Client {
        let mut client = self.authenticated(user, password);
        let resource = format!("<resource>{resource}</resource>");
        let bind =
            format!("<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>{resource}</bind></iq>");
        client.ask(&bind, "</iq>");
        client
    }

    /// Logs in with PLAIN and binds nothing yet. A user without a domain is at `localhost`.
    pub(crate) fn authenticated(mut self, user: &str, password: &str) -> Client {
        let (user, domain) = user.split_once('@').unwrap_or((user, "localhost"));
        let header = HEADER.replace("localhost", domain);
        self.ask(&header, "</stream:features>");
        let plain = STANDARD.encode(format!("\0{user}\0{password}"));
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>");
        self.ask(&auth, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'");
        self.ask(&header, "</stream:features>");
        self
    }

    /// Its own address.
    pub(crate) fn address(&self) -> String {
        self.socket.local_addr().expect("an address").to_string()
    }

    pub(crate) fn send(&mut self, xml: &str) {
        self.wire.write_all(xml.as_bytes()).expect("sent");
        self.wire.flush().expect("sent");
    }

    /// Sends, and reads up to this text; returns everything read.
    pub(crate) fn ask(&mut self, xml: &str, until: &str) -> String {
        self.send(xml);
        self.hear(until)
    }

    /// Reads up to this text; returns everything read.
    pub(crate) fn hear(&mut self, until: &str) -> String {
        loop {
            if let Some(at) = self.said.find(until) {
                return self.said.drain(..at + until.len()).collect();
            }
            let more = self.read().unwrap_or_else(|error| panic!("{error}; no {until} in {}", self.said));
            assert!(more, "the connection ended before {until}: {}", self.said);
        }
    }

    /// All input until the connection ends.
    pub(crate) fn rest(&mut self) -> String {
        loop {
            match self.read() {
                Ok(true) => {}
                Err(error) if !matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => {
                    panic!("{error}");
                }
                Ok(false) | Err(_) => return std::mem::take(&mut self.said),
            }
        }
    }

    /// False at the end.
    fn read(&mut self) -> std::io::Result<bool> {
        let mut buffer = [0; 65_536];
        let count = self.wire.read(&mut buffer)?;
        self.said += &String::from_utf8_lossy(&buffer[..count]);
        Ok(count > 0)
    }
}
