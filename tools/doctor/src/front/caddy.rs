//! Caddy, which forwards HTTP only.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use super::{Front, PATHS, PATHS_BELOW, Web};

pub(super) fn write(front: &Front) -> String {
    let mut text = format!(
        "# Both ends of each connection are descriptors of Caddy, which takes as many as it may have: LimitNOFILE={}.\n\
         {{\n\tservers {{\n\t\ttimeouts {{\n\t\t\tread_header 10s\n\t\t}}\n\t}}\n\t\
         # After a reload or a stop, those who wait do not hold it up for ever.\n\tgrace_period 30s\n",
        2 * front.connections + super::ASIDE
    );
    let Some(web) = &front.web else { return text + "}\n" };
    if web.certificate.is_some() {
        text += "\t# The certificate is there; nothing listens on port 80.\n\tauto_https disable_redirects\n";
    }
    text += "}\n\n";
    proxied(&mut text, web);
    let mut ports = BTreeMap::<u16, Vec<IpAddr>>::new();
    for listen in &web.listen {
        ports.entry(listen.port()).or_default().push(listen.ip());
    }
    for (port, addresses) in ports {
        let _ = write!(text, "\nhttps://{}:{port} {{\n", web.domain);
        // Without an address it listens for both families.
        if !addresses.iter().any(IpAddr::is_unspecified) {
            let addresses: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
            let _ = writeln!(text, "\tbind {}", addresses.join(" "));
        }
        if let (Some(certificate), Some(key)) = (&web.certificate, &web.key) {
            let _ = writeln!(text, "\ttls {certificate} {key}");
        }
        text += "\timport throng\n}\n";
    }
    text
}

/// Settings of all sites.
fn proxied(text: &mut String, web: &Web) {
    let to: Vec<_> = web.to.iter().map(ToString::to_string).collect();
    let _ = write!(
        text,
        "(throng) {{\n\t@throng path {paths} {below}\n\thandle @throng {{\n\t\treverse_proxy {to} {{\n\t\t\t\
         lb_policy least_conn\n\t\t\t\
         # What Caddy has seen replaces what the client claims. The server reads it with --http-forwarded.\n\t\t\t\
         header_up X-Forwarded-For {{remote_host}}\n\t\t\t\
         # Events leave when they happen: Caddy buffers no text/event-stream. flush_interval is left alone, because with -1\n\t\t\t\
         # requests whose clients are gone would go on. Caddy has no time-out for answers and WebSockets unless it is given one.\n\t\t\t\
         transport http {{\n\t\t\t\tdial_timeout 10s\n\t\t\t\tversions 1.1\n\t\t\t\tcompression off\n\t\t\t\t\
         # A request has a connection of its own, so that none meets one that is being closed.\n\t\t\t\t\
         keepalive off\n\t\t\t}}\n\t\t}}\n\t}}\n\thandle {{\n\t\trespond 404\n\t}}\n}}\n",
        paths = PATHS.join(" "),
        below = PATHS_BELOW.map(|path| format!("{path}*")).join(" "),
        to = to.join(" "),
    );
}
