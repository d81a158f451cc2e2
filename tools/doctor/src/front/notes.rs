//! The comment at the head of a configuration: the matching options of the server, and how to check
//! it.

use std::net::SocketAddr;
use std::path::Path;

use super::{Front, Proxy};

/// The comment for nginx, HAProxy and Caddy alike: lines that begin with `#`.
pub(super) fn write(proxy: Proxy, front: &Front, file: Option<&Path>) -> String {
    let file = file.map_or_else(|| "FILE".to_owned(), |file| file.display().to_string());
    // Text after a line end in a name would be read as configuration.
    let file = file.replace(|c: char| c.is_control(), "?");
    let (name, check, start) = match proxy {
        Proxy::Nginx => ("nginx", format!("nginx -t -c {file}"), format!("nginx -c {file}")),
        Proxy::Haproxy => ("haproxy", format!("haproxy -c -f {file}"), format!("haproxy -f {file}")),
        Proxy::Caddy => {
            let with = format!("--adapter caddyfile --config {file}");
            ("caddy", format!("caddy validate {with}"), format!("caddy run {with}"))
        }
    };
    let mut text = format!(
        "# Written by `throng doctor front {name}`, for {connections} clients at once.\n\
         # Check:  {check}\n\
         # Start:  {start}\n\
         # The server that belongs to it:\n\
         #   throng serve{options}\n",
        connections = front.connections,
        options = options(front).join(" \\\n#     "),
    );
    if front.web.is_some() {
        text += "# Channels of notifications (/n/) are open as soon as the server has --notify as well.\n";
    }
    text + "\n"
}

/// The server's options, one per line.
fn options(front: &Front) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut public = false;
    let mut listeners = |option: &str, to: &[SocketAddr]| {
        public |= to.iter().any(|to| !to.ip().to_canonical().is_loopback());
        to.iter().map(|to| format!("--{option} {to}")).collect::<Vec<_>>().join(" ")
    };
    if let Some(web) = &front.web {
        lines[0] = format!(" --domain {}", web.domain);
        lines.push(format!("{} --http-forwarded", listeners("http", &web.to)));
        lines.push(format!("--websocket-url {}", web.url("wss", "/xmpp-websocket")));
        lines.push(format!("--bosh-url {}", web.url("https", "/http-bind")));
    }
    for stream in &front.streams {
        lines.push(if front.proxy_protocol {
            // The proxy now uses its own port.
            format!("--{0} off {1}", stream.option, listeners(&format!("{}-proxied", stream.option), &stream.to))
        } else {
            listeners(stream.option, &stream.to)
        });
    }
    if public && (front.web.is_some() || front.proxy_protocol) {
        // Listeners for proxies must be loopback otherwise.
        lines.push("--i-know".to_owned());
    }
    lines
}
