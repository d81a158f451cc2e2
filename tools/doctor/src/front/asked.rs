//! `throng doctor front`: what is asked for, and whether it fits together.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{Front, Proxy, Stream, Web};

pub(crate) const AFTER: &str = "\
What passes is what has an address of its own:
  --domain       WebSocket, BOSH, notifications (/n/) and their discovery, on --listen-web. TLS \
and HTTP/2 end in the proxy.
                 The server gets each client's address by X-Forwarded-For (its option \
http_forwarded).
  --listen       XMPP over TCP with STARTTLS, and --listen-tls with direct TLS: nginx and \
HAProxy. TLS ends in the server, which
                 gets each client's address by the PROXY protocol (its options c2s_proxied and \
c2s_tls_proxied).
The head of the file says with which options the server is started, and how the file is checked.

Examples:
  throng doctor front caddy --domain example.org
  throng doctor front nginx --domain example.org --out throng-nginx.conf
  throng doctor front haproxy --domain example.org --certificate /etc/haproxy/both.pem \\
      --listen 0.0.0.0:5222 --listen-tls 0.0.0.0:5223 --out throng-haproxy.cfg
  throng doctor front nginx --connections 50000 --listen 0.0.0.0:5222 --to 127.0.0.1:5322";

#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct Asked {
    /// For which program.
    #[arg(value_enum)]
    pub(crate) proxy: Proxy,
    /// Clients at once.
    #[arg(long, short = 'n', default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    connections: u64,
    /// Processes of nginx, threads of HAProxy; as many as cores when not given. Caddy uses all
    /// cores.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    workers: Option<u64>,
    /// Pass WebSocket, BOSH and notifications of the server with this name.
    #[arg(long)]
    domain: Option<String>,
    /// Where clients come in by HTTPS; may be repeated.
    #[arg(long, default_values = ["0.0.0.0:443", "[::]:443"], requires = "domain")]
    listen_web: Vec<SocketAddr>,
    /// Where the server listens for them (http); may be repeated: a proxy has one port for each
    /// connection to an address.
    #[arg(long, default_value = "127.0.0.1:5280", requires = "domain")]
    to_web: Vec<SocketAddr>,
    /// PEM file with the domain's certificates [default for nginx:
    /// /etc/letsencrypt/live/DOMAIN/fullchain.pem; for HAProxy, with the key:
    /// /etc/haproxy/DOMAIN.pem; Caddy gets one by itself].
    #[arg(long, requires = "domain")]
    certificate: Option<PathBuf>,
    /// PEM file with their key, for nginx and Caddy [default for nginx:
    /// /etc/letsencrypt/live/DOMAIN/privkey.pem].
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
    /// Where clients come in by XMPP over TCP; may be repeated.
    #[arg(long)]
    listen: Vec<SocketAddr>,
    /// Where the server listens for them (c2s_proxied); may be repeated.
    #[arg(long, default_value = "127.0.0.1:5322", requires = "listen")]
    to: Vec<SocketAddr>,
    /// Where clients come in by XMPP over direct TLS; may be repeated.
    #[arg(long)]
    listen_tls: Vec<SocketAddr>,
    /// Where the server listens for them (c2s_tls_proxied); may be repeated.
    #[arg(long, default_value = "127.0.0.1:5323", requires = "listen_tls")]
    to_tls: Vec<SocketAddr>,
    /// Do not tell the server the addresses of clients by TCP (PROXY protocol).
    #[arg(long)]
    no_proxy_protocol: bool,
    /// Silence after which a connection is given up, seconds.
    #[arg(long, default_value_t = 7_200, value_parser = clap::value_parser!(u64).range(60..=86_400))]
    silence: u64,
    /// Write it here instead of to standard output, and have it checked if the program is
    /// installed. There must be no such file yet, unless --force is given.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite the file of --out.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
}

impl Asked {
    /// The configuration to write.
    ///
    /// # Errors
    /// The contradiction, and its remedy.
    pub(crate) fn front(&self) -> Result<Front, String> {
        if self.domain.is_none() && self.listen.is_empty() && self.listen_tls.is_empty() {
            return Err(
                "nothing is to pass: give --domain example.org for WebSocket, BOSH and notifications, or --listen \
                        0.0.0.0:5222 for XMPP over TCP"
                    .into(),
            );
        }
        if self.proxy == Proxy::Caddy && !(self.listen.is_empty() && self.listen_tls.is_empty()) {
            return Err("Caddy supports HTTP only: leave out --listen and --listen-tls, or use nginx or haproxy".into());
        }
        let web = self.domain.as_ref().map(|domain| self.web(domain)).transpose()?;
        let mut streams = Vec::new();
        for (name, option, listen, to) in
            [("xmpp", "c2s", &self.listen, &self.to), ("xmpps", "c2s-tls", &self.listen_tls, &self.to_tls)]
        {
            if !listen.is_empty() {
                streams.push(Stream { name, option, listen: listen.clone(), to: to.clone() });
            }
        }
        let listens = || {
            streams.iter().flat_map(|stream| &stream.listen).chain(web.iter().flat_map(|web| &web.listen)).enumerate()
        };
        let to = || streams.iter().flat_map(|stream| &stream.to).chain(web.iter().flat_map(|web| &web.to));
        if let Some((_, both)) = listens().find(|(_, listen)| to().any(|to| overlap(listen, to))) {
            return Err(format!(
                "the proxy and the server cannot both listen on {both}: choose other addresses or ports"
            ));
        }
        if let Some((_, twice)) =
            listens().find(|(at, one)| listens().any(|(other, two)| other > *at && overlap(one, two)))
        {
            return Err(format!("the proxy is to listen on {twice} twice: choose other addresses or ports"));
        }
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        Ok(Front {
            connections: self.connections,
            workers: self.workers.unwrap_or(cores),
            streams,
            proxy_protocol: !self.no_proxy_protocol,
            web,
            silence_s: self.silence,
        })
    }

    fn web(&self, domain: &str) -> Result<Web, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if domain.is_empty() || domain.len() > 253 || !domain.chars().all(fits) || domain.starts_with(['-', '.']) {
            return Err(format!("{domain:?} is not a host name: use its ASCII form, such as chat.example.org"));
        }
        let domain = domain.to_ascii_lowercase();
        let or = |given: &Option<PathBuf>, usual: String| given.as_ref().map_or(Ok(usual), plain);
        let live = format!("/etc/letsencrypt/live/{domain}");
        let (certificate, key) = match self.proxy {
            Proxy::Nginx if self.certificate.is_some() && self.key.is_none() => {
                return Err("nginx has the key in a file of its own: give --key".into());
            }
            Proxy::Nginx => (
                Some(or(&self.certificate, format!("{live}/fullchain.pem"))?),
                Some(or(&self.key, format!("{live}/privkey.pem"))?),
            ),
            Proxy::Haproxy if self.key.is_some() => {
                return Err("HAProxy needs certificates and key in one file: create it with `cat \
                            CERTIFICATE KEY`, and pass it as --certificate"
                    .into());
            }
            Proxy::Haproxy => (Some(or(&self.certificate, format!("/etc/haproxy/{domain}.pem"))?), None),
            Proxy::Caddy if self.certificate.is_some() != self.key.is_some() => {
                return Err("Caddy has the key in a file of its own: give --key, or neither of both".into());
            }
            Proxy::Caddy => {
                (self.certificate.as_deref().map(plain).transpose()?, self.key.as_deref().map(plain).transpose()?)
            }
        };
        Ok(Web { domain, listen: self.listen_web.clone(), to: self.to_web.clone(), certificate, key })
    }
}

/// Whether listening on one of these addresses occupies the port of the other.
fn overlap(one: &SocketAddr, two: &SocketAddr) -> bool {
    let all =
        |of: &SocketAddr| of.ip().is_unspecified() && of.is_ipv4() == two.is_ipv4() && two.is_ipv4() == one.is_ipv4();
    one == two || one.port() == two.port() && (all(one) || all(two))
}

/// A path that needs no quoting in any of the programs.
fn plain(path: impl AsRef<std::path::Path>) -> Result<String, String> {
    let path = path.as_ref();
    let text = path.to_str().unwrap_or_default();
    let fits = |c: char| c.is_alphanumeric() || "/._-+@=,".contains(c);
    if text.is_empty() || !text.chars().all(fits) {
        return Err(format!("{path:?} has characters that configurations take for their own: choose another name"));
    }
    // A proxy starts in another directory.
    std::path::absolute(text).map(|path| path.display().to_string()).map_err(|error| format!("{text}: {error}"))
}
