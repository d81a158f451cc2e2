//! HAProxy in TCP mode: bytes pass as they are, TLS ends in the server.

use std::fmt::Write as _;

use super::Front;

pub(super) fn write(front: &Front) -> String {
    let mut text = format!(
        "# {connections} clients: both ends of each are descriptors of HAProxy.\n\
         global\n    maxconn {connections}\n    nbthread {workers}\n    ulimit-n {descriptors}\n    \
         # Two for each connection, while bytes pass.\n    tune.bufsize 4096\n    tune.maxrewrite 1024\n\n\
         defaults\n    mode tcp\n    maxconn {connections}\n    timeout connect 10s\n    \
         # Longer than the server lets a client be silent.\n    timeout client {silence}s\n    timeout server {silence}s\n    \
         option clitcpka\n    option srvtcpka\n\n\
         frontend clients\n    backlog 65535\n",
        connections = front.connections,
        workers = front.workers,
        descriptors = 2 * front.connections + 2 * super::ASIDE,
        silence = front.silence_s,
    );
    for listen in &front.listen {
        let _ = writeln!(text, "    bind {listen}");
    }
    text += "    default_backend throng\n\nbackend throng\n    balance leastconn\n";
    for (at, to) in front.to.iter().enumerate() {
        let told = if front.proxy_protocol { " send-proxy-v2" } else { "" };
        let _ = writeln!(text, "    server throng{} {to}{told}", at + 1);
    }
    if front.proxy_protocol {
        text += "    # The server listens for this: throng serve --c2s-proxied ADDRESS\n";
    }
    text
}
