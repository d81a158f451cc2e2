//! HAProxy. XMPP is forwarded in TCP mode as bytes; HTTP has a frontend of its own.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::{Front, PATHS, PATHS_BELOW, Stream, Web};

pub(super) fn write(front: &Front) -> String {
    let mut text = format!(
        "global\n    maxconn {connections}\n    nbthread {workers}\n    \
         # Both ends of each connection are descriptors of HAProxy.\n    ulimit-n {descriptors}\n",
        connections = front.connections,
        workers = front.workers,
        descriptors = 2 * front.connections + 2 * super::ASIDE,
    );
    text += if front.web.is_some() {
        "    ssl-default-bind-options ssl-min-ver TLSv1.2\n"
    } else {
        "    # Two for each connection, while bytes pass.\n    tune.bufsize 4096\n    tune.maxrewrite 1024\n"
    };
    if !front.streams.is_empty() {
        let _ = write!(
            text,
            "{}    # Longer than the server lets a client be silent.\n    timeout client {silence}s\n    timeout server {silence}s\n",
            defaults(front),
            silence = front.silence_s,
        );
    }
    front.streams.iter().for_each(|stream| pass(&mut text, front, stream));
    if let Some(web) = &front.web {
        // Frontends inherit this option from `defaults` only: HAProxy ignores one in the section of
        // a frontend. Without it, HAProxy does not read from an HTTP/1.1 client while its request
        // waits.
        let _ = write!(
            text,
            "{}    # Requests whose clients are gone end. A frontend has this option from here only.\n    option abortonclose\n",
            defaults(front),
        );
        site(&mut text, front, web);
    }
    text
}

/// Defaults for the following sections.
fn defaults(front: &Front) -> String {
    format!(
        "\ndefaults\n    maxconn {}\n    timeout connect 10s\n    option clitcpka\n    option srvtcpka\n",
        front.connections
    )
}

/// Additional parameters of `bind`: an IPv6 wildcard would otherwise accept IPv4, which has its
/// own.
fn only(listen: &SocketAddr) -> &'static str {
    if listen.is_ipv6() && listen.ip().is_unspecified() { " v6only" } else { "" }
}

/// A port for XMPP.
fn pass(text: &mut String, front: &Front, Stream { name, option, listen, to }: &Stream) {
    let _ = write!(text, "\nfrontend {name}\n    mode tcp\n    backlog 65535\n");
    for listen in listen {
        let _ = writeln!(text, "    bind {listen}{}", only(listen));
    }
    let _ = write!(
        text,
        "    default_backend throng_{name}\n\nbackend throng_{name}\n    mode tcp\n    balance leastconn\n"
    );
    let told = if front.proxy_protocol {
        let _ =
            writeln!(text, "    # The client's address, which the server expects on listeners of --{option}-proxied.");
        " send-proxy-v2"
    } else {
        ""
    };
    for (at, to) in to.iter().enumerate() {
        let _ = writeln!(text, "    server {name}{} {to}{told}", at + 1);
    }
}

/// The frontend for HTTP.
fn site(text: &mut String, front: &Front, web: &Web) {
    *text += "\nfrontend web\n    mode http\n    backlog 65535\n    \
              # The certificates and their key are in one file, or the key is in FILE.key beside it.\n";
    for listen in &web.listen {
        let certificate = web.certificate.as_deref().unwrap_or_default();
        let _ = writeln!(text, "    bind {listen}{} ssl crt {certificate} alpn h2,http/1.1", only(listen));
    }
    let _ = write!(
        text,
        "    timeout http-request 10s\n    timeout http-keep-alive 75s\n    timeout client {silence}s\n    \
         acl throng path {paths}\n    acl throng path_beg {below}\n    \
         http-request return status 404 unless throng\n    \
         # What HAProxy has seen replaces what the client claims. The server reads it with --http-forwarded.\n    \
         http-request set-header X-Forwarded-For %[src]\n    \
         default_backend throng_web\n\n\
         backend throng_web\n    mode http\n    balance leastconn\n    \
         # Longer than a long poll waits, than signs of life are apart, and than the server lets a client be silent.\n    \
         timeout server {silence}s\n    timeout tunnel {silence}s\n    \
         # Nothing waits for more to come: events leave when they happen.\n    option http-no-delay\n    \
         # A request has a connection of its own, so that none meets one that is being closed.\n    option http-server-close\n",
        silence = front.web_silence_s(),
        paths = PATHS.join(" "),
        below = PATHS_BELOW.join(" "),
    );
    for (at, to) in web.to.iter().enumerate() {
        let _ = writeln!(text, "    server web{} {to}", at + 1);
    }
}
