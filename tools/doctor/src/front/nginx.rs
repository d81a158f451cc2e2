//! nginx. XMPP is forwarded as bytes through its stream module; HTTP is a separate site.

use std::fmt::Write as _;

use super::{BODY_BYTES_MAX, Front, PATHS, PATHS_BELOW, Stream, Web};

pub(super) fn write(front: &Front) -> String {
    let mut text = format!(
        "worker_processes {workers};\n\
         # Both ends of each connection are descriptors of nginx.\n\
         worker_rlimit_nofile {descriptors};\n\
         pid /run/nginx-throng.pid;\n\
         error_log stderr warn;\n",
        workers = front.workers,
        descriptors = front.descriptors(),
    );
    if !front.streams.is_empty() {
        text += "# Where Debian has the stream module.\ninclude /etc/nginx/modules-enabled/*.conf;\n";
    }
    let _ = write!(
        text,
        "\nevents {{\n    # Both ends of a worker's share, and as many again for workers that get more.\n    \
         worker_connections {entries};\n    multi_accept on;\n}}\n",
        entries = front.entries(),
    );
    if !front.streams.is_empty() {
        text += "\nstream {\n";
        front.streams.iter().for_each(|stream| pass(&mut text, front, stream));
        text += "}\n";
    }
    if let Some(web) = &front.web {
        site(&mut text, front, web);
    }
    text
}

/// A port for XMPP.
fn pass(text: &mut String, front: &Front, Stream { name, option, listen, to }: &Stream) {
    let _ = writeln!(text, "    upstream throng_{name} {{");
    for to in to {
        // A server that refuses once must not be left out for ten seconds: all clients would go to
        // the others.
        let _ = writeln!(text, "        server {to} max_fails=0;");
    }
    *text += "    }\n    server {\n";
    for listen in listen {
        let _ = writeln!(text, "        listen {listen} reuseport backlog=65535 so_keepalive=10m:1m:5;");
    }
    let _ = write!(
        text,
        "        proxy_pass throng_{name};\n        proxy_connect_timeout 10s;\n        \
         # Longer than the server lets a client be silent.\n        proxy_timeout {silence}s;\n        \
         # Two for each connection; nothing waits in them longer than it must.\n        proxy_buffer_size 4k;\n        \
         tcp_nodelay on;\n",
        silence = front.silence_s,
    );
    if front.proxy_protocol {
        let _ = write!(
            text,
            "        # The client's address, which the server expects on listeners of --{option}-proxied.\n        \
             proxy_protocol on;\n"
        );
    }
    *text += "    }\n";
}

/// The site for HTTP.
fn site(text: &mut String, front: &Front, web: &Web) {
    *text += "\nhttp {\n    access_log off;\n    upstream throng_web {\n        least_conn;\n";
    for to in &web.to {
        let _ = writeln!(text, "        server {to} max_fails=0;");
    }
    *text += "    }\n    \
              # An upgrade to WebSocket passes; other requests have a connection of their own, so that none meets one that is being\n    \
              # closed.\n    \
              map $http_upgrade $throng_upgrade {\n        default \"\";\n        ~*^websocket$ websocket;\n    }\n    \
              map $throng_upgrade $throng_connection {\n        default close;\n        websocket upgrade;\n    }\n    \
              server {\n";
    for listen in &web.listen {
        let _ = writeln!(text, "        listen {listen} ssl http2 reuseport backlog=65535 so_keepalive=10m:1m:5;");
    }
    let _ = write!(
        text,
        "        server_name {domain};\n        ssl_certificate {certificate};\n        ssl_certificate_key {key};\n        \
         ssl_protocols TLSv1.2 TLSv1.3;\n        ssl_session_cache shared:throng:10m;\n        ssl_buffer_size 4k;\n\n        \
         proxy_http_version 1.1;\n        proxy_set_header Upgrade $throng_upgrade;\n        \
         proxy_set_header Connection $throng_connection;\n        proxy_set_header Host $host;\n        \
         # What nginx has seen replaces what the client claims. The server reads it with --http-forwarded.\n        \
         proxy_set_header X-Forwarded-For $remote_addr;\n        \
         # Nothing waits for more to come: events leave when they happen.\n        \
         proxy_buffering off;\n        proxy_buffer_size 4k;\n        proxy_max_temp_file_size 0;\n        \
         # As long as the server takes, and in memory.\n        \
         client_max_body_size {body}k;\n        client_body_buffer_size {body}k;\n        proxy_connect_timeout 10s;\n        \
         # Longer than a long poll waits, than signs of life are apart, and than the server lets a client be silent.\n        \
         proxy_read_timeout {silence}s;\n        proxy_send_timeout {silence}s;\n\n",
        domain = web.domain,
        certificate = web.certificate.as_deref().unwrap_or_default(),
        key = web.key.as_deref().unwrap_or_default(),
        body = BODY_BYTES_MAX >> 10,
        silence = front.web_silence_s(),
    );
    for path in PATHS {
        let _ = writeln!(text, "        location = {path} {{ proxy_pass http://throng_web; }}");
    }
    for path in PATHS_BELOW {
        let _ = writeln!(text, "        location {path} {{ proxy_pass http://throng_web; }}");
    }
    text.push_str("        location / { return 404; }\n    }\n}\n");
}
