//! nginx's stream module: bytes pass as they are, TLS ends in the server.

use std::fmt::Write as _;

use super::Front;

pub(super) fn write(front: &Front) -> String {
    let mut text = format!(
        "# {connections} clients: both ends of each are descriptors of nginx.\n\
         worker_processes {workers};\n\
         worker_rlimit_nofile {descriptors};\n\
         pid /run/nginx-throng.pid;\n\
         # Where Debian has the stream module.\n\
         include /etc/nginx/modules-enabled/*.conf;\n\
         error_log stderr warn;\n\n\
         events {{\n    # Both ends of a worker's share, and as many again for workers that get more.\n    \
         worker_connections {entries};\n    multi_accept on;\n}}\n\n\
         stream {{\n    upstream throng {{\n",
        connections = front.connections,
        workers = front.workers,
        descriptors = front.descriptors(),
        entries = front.entries(),
    );
    for to in &front.to {
        // One that refuses once is not left out for ten seconds: all clients would go to the others.
        let _ = writeln!(text, "        server {to} max_fails=0;");
    }
    text += "    }\n\n    server {\n";
    for listen in &front.listen {
        let _ = writeln!(text, "        listen {listen} reuseport backlog=65535 so_keepalive=10m:1m:5;");
    }
    let _ = write!(
        text,
        "        proxy_pass throng;\n        proxy_connect_timeout 10s;\n        \
         # Longer than the server lets a client be silent.\n        proxy_timeout {silence}s;\n        \
         # Two for each connection; nothing waits in them longer than it must.\n        proxy_buffer_size 4k;\n        \
         tcp_nodelay on;\n",
        silence = front.silence_s,
    );
    if front.proxy_protocol {
        text +=
            "        # The server listens for this: throng serve --c2s-proxied ADDRESS\n        proxy_protocol on;\n";
    }
    text + "    }\n}\n"
}
