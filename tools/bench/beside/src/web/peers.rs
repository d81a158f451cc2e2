//! Who is measured on the web side: a row a server, with its command, its configuration, and the ways in which it tells.
//!
//! Each has as many threads or processes as Throng has shards where that can be said, no access log, and no limit that the load
//! would meet. What stays is as it is shipped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::centrifugo::Centrifugo;
use super::events::Events;
use super::http::Post;
use super::mqtt::Mqtt;
use super::nats::Nats;
use super::poll::Poll;
use super::websocket::{Kind, WebSocket};
use super::{Publish, Talk};
use crate::place::Place;

/// How a subscriber is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// The server's own: events, or its protocol over TCP, or WebSocket if it has nothing else.
    Own,
    /// WebSocket.
    WebSocket,
    /// Long poll.
    Poll,
}

/// Which of a server's two listeners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Port {
    /// [`Place::plain`].
    First,
    /// [`Place::tls`].
    Second,
}

/// How a server gets onto this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Install {
    /// It is what is measured.
    Built,
    /// Debian packages; the first is the server's.
    Debian(&'static [&'static str]),
    /// `go install` of this, which makes a program of this name.
    Go(&'static str, &'static str),
    /// `npm install` of this package in this version, which Node.js runs.
    Npm(&'static str, &'static str),
}

/// A file of a configuration: its name and its text.
pub(crate) type Configuration = (&'static str, fn(&Place) -> String);

/// A server.
pub(crate) struct Peer {
    /// Throng, rather than a peer.
    pub(crate) own: bool,
    /// Its key among versions.
    pub(crate) server: &'static str,
    pub(crate) install: Install,
    /// What is promised about an item that was published.
    pub(crate) promise: &'static str,
    /// What subscribers speak, and where.
    pub(crate) ways: &'static [(Way, &'static dyn Talk, Port)],
    /// What publishers speak, and where.
    pub(crate) publish: (&'static dyn Publish, Port),
    /// It is another set-up's server, which keeps items in memory: those who wait are the same.
    pub(crate) waits_alike: bool,
    /// Listeners that it has: one or two.
    pub(crate) listeners: usize,
    /// Its configuration, if it has a file of it.
    pub(crate) configuration: Option<Configuration>,
    /// Program and arguments. The second argument is Throng's own program.
    pub(crate) command: fn(&Place, &Path) -> (PathBuf, Vec<String>),
}

impl PartialEq for Peer {
    fn eq(&self, other: &Peer) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Peer {}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.server)
    }
}

impl Peer {
    /// What subscribers of this way speak, and where.
    pub(crate) fn way(&self, way: Way) -> Option<(&'static dyn Talk, Port)> {
        self.ways.iter().find(|row| row.0 == way).map(|(_, talk, port)| (*talk, *port))
    }
}

const SLASH_N: fn(&str) -> String = |channel| format!("/n/{channel}");
const SUB: fn(&str) -> String = |channel| format!("/sub/{channel}");

const THRONG_WAYS: &[(Way, &dyn Talk, Port)] = &[
    (Way::Own, &Events { path: SLASH_N }, Port::First),
    (Way::WebSocket, &WebSocket { path: SLASH_N, fields: "", within: None }, Port::First),
    (Way::Poll, &Poll { path: |channel| format!("/n/{channel}?wait=300") }, Port::First),
];

const THRONG_POST: Post = Post {
    target: |channel, content| (format!("/n/{channel}"), content.to_owned()),
    fields: "Content-Type: text/plain\r\n",
};

/// Flags of every Throng of the web side: no bound on how much one address may do.
pub(crate) const THRONG: &[&str] = &[
    "--domain=localhost",
    "--plain-auth",
    "--c2s-tls=off",
    "--notify=load.",
    "--notify-publish-open",
    "--notify-items-max=150",
    "--notify-publications-per-second=0",
    "--notify-waiting-per-address-max=1000000",
    "--unauthenticated-per-address-max=0",
];

fn throng(driver: &str, shards: u8, place: &Place, program: &Path) -> (PathBuf, Vec<String>) {
    let mut args = vec![
        "serve".into(),
        format!("--data={}", place.data.display()),
        format!("--http={}", place.plain),
        format!("--c2s={}", place.tls),
        format!("--driver={driver}"),
        format!("--shards={shards}"),
    ];
    args.extend(THRONG.iter().map(|flag| (*flag).to_owned()));
    (program.to_owned(), args)
}

const fn own(waits_alike: bool, promise: &'static str, command: fn(&Place, &Path) -> (PathBuf, Vec<String>)) -> Peer {
    Peer {
        own: true,
        server: "throng",
        install: Install::Built,
        promise,
        ways: THRONG_WAYS,
        publish: (&THRONG_POST, Port::First),
        waits_alike,
        listeners: 2,
        configuration: None,
        command,
    }
}

const DURABLE: &str = "on disk by a sync before the answer, 150 items kept; each subscriber continues where it was";

const MEMORY: &str = "in memory, 150 items kept; each subscriber continues where it was";

/// Throng on io_uring.
pub(crate) const THRONG_URING: Peer = own(false, DURABLE, |place, program| throng("uring", 2, place, program));
/// Throng on epoll.
pub(crate) const THRONG_EPOLL: Peer = own(false, DURABLE, |place, program| throng("epoll", 2, place, program));
/// Throng on io_uring with channels that keep their items in memory, as most peers do.
pub(crate) const THRONG_MEMORY: Peer = own(true, MEMORY, |place, program| in_memory(2, place, program));
/// The same on one thread, as Mosquitto is.
pub(crate) const THRONG_ONE_SHARD: Peer = own(true, MEMORY, |place, program| in_memory(1, place, program));

fn in_memory(shards: u8, place: &Place, program: &Path) -> (PathBuf, Vec<String>) {
    let (program, mut args) = throng("uring", shards, place, program);
    args.push("--notify-memory=load.".into());
    (program, args)
}

/// Nchan in nginx.
pub(crate) const NCHAN: Peer = Peer {
    own: false,
    server: "nchan",
    install: Install::Debian(&["libnginx-mod-nchan", "nginx"]),
    promise: MEMORY,
    ways: &[
        (Way::Own, &Events { path: SUB }, Port::First),
        (Way::WebSocket, &WebSocket { path: SUB, fields: "", within: None }, Port::First),
        (Way::Poll, &Poll { path: SUB }, Port::First),
    ],
    publish: (
        &Post {
            target: |channel, content| (format!("/pub/{channel}"), content.to_owned()),
            fields: "Content-Type: text/plain\r\nAccept: text/json\r\n",
        },
        Port::First,
    ),
    waits_alike: false,
    listeners: 1,
    configuration: Some(("nginx.conf", nginx)),
    command: |place, _| {
        let conf = place.folder.join("nginx.conf").display().to_string();
        let own = place.folder.display().to_string();
        ("nginx".into(), vec!["-p".into(), own, "-e".into(), "stderr".into(), "-c".into(), conf])
    },
};

fn nginx(place: &Place) -> String {
    let module = "/usr/lib/nginx/modules/ngx_nchan_module.so";
    let user = if rustix::process::getuid().is_root() { "user root;\n" } else { "" };
    let folder = place.folder.display();
    format!(
        "load_module {module};\n{user}daemon off;\nworker_processes 2;\npid {folder}/nginx.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 16000; }}\nhttp {{\n  access_log off;\n  tcp_nodelay on;\n  keepalive_requests 1000000;\n  \
         client_body_temp_path {folder}/nginx-body;\n  proxy_temp_path {folder}/nginx-proxy;\n  \
         fastcgi_temp_path {folder}/nginx-fastcgi;\n  uwsgi_temp_path {folder}/nginx-uwsgi;\n  \
         scgi_temp_path {folder}/nginx-scgi;\n  nchan_shared_memory_size 256M;\n  server {{\n    \
         listen {at} reuseport backlog=4096;\n    \
         location ~ ^/pub/(.+)$ {{ nchan_publisher; nchan_channel_id $1; nchan_message_buffer_length 150; \
         nchan_message_timeout 1h; }}\n    \
         location ~ ^/sub/(.+)$ {{ nchan_subscriber; nchan_channel_id $1; nchan_subscriber_first_message newest; }}\n  }}\n}}\n",
        at = place.plain
    )
}

/// Mosquitto.
pub(crate) const MOSQUITTO: Peer = Peer {
    own: false,
    server: "mosquitto",
    install: Install::Debian(&["mosquitto"]),
    promise: "QoS 0: to those who are connected; nothing is kept",
    ways: &[
        (Way::Own, &Mqtt, Port::First),
        (
            Way::WebSocket,
            &WebSocket {
                path: |_| "/mqtt".into(),
                fields: "Sec-WebSocket-Protocol: mqtt\r\n",
                within: Some((&Mqtt, Kind::Binary)),
            },
            Port::Second,
        ),
    ],
    publish: (&Mqtt, Port::First),
    waits_alike: false,
    listeners: 2,
    configuration: Some(("mosquitto.conf", mosquitto)),
    command: |place, _| {
        ("mosquitto".into(), vec!["-c".into(), place.folder.join("mosquitto.conf").display().to_string()])
    },
};

fn mosquitto(place: &Place) -> String {
    let user = if rustix::process::getuid().is_root() { "user root\n" } else { "" };
    format!(
        "{user}per_listener_settings false\nallow_anonymous true\npersistence false\nlog_dest stderr\nlog_type error\n\
         set_tcp_nodelay true\nlistener {} {}\nprotocol mqtt\nlistener {} {}\nprotocol websockets\n",
        place.plain.port(),
        place.plain.ip(),
        place.tls.port(),
        place.tls.ip()
    )
}

/// NATS.
pub(crate) const NATS: Peer = Peer {
    own: false,
    server: "nats-server",
    install: Install::Debian(&["nats-server"]),
    promise: "core NATS: to those who are connected; nothing is kept",
    ways: &[
        (Way::Own, &Nats, Port::First),
        (
            Way::WebSocket,
            &WebSocket { path: |_| "/".into(), fields: "", within: Some((&Nats, Kind::Binary)) },
            Port::Second,
        ),
    ],
    publish: (&Nats, Port::First),
    waits_alike: false,
    listeners: 2,
    configuration: Some(("nats.conf", nats)),
    command: |place, _| ("nats-server".into(), vec!["-c".into(), place.folder.join("nats.conf").display().to_string()]),
};

fn nats(place: &Place) -> String {
    format!(
        "listen: \"{}\"\nmax_connections: 64000\nwebsocket {{\n  listen: \"{}\"\n  no_tls: true\n}}\n",
        place.plain, place.tls
    )
}

/// Centrifugo.
pub(crate) const CENTRIFUGO: Peer = Peer {
    own: false,
    server: "centrifugo",
    install: Install::Go("github.com/centrifugal/centrifugo/v6@latest", "centrifugo"),
    promise: "in memory, 150 items kept, clients may continue where they were",
    ways: CENTRIFUGO_WAYS,
    publish: (
        &Post {
            target: |channel, content| {
                let body = format!("{{\"channel\":\"{channel}\",\"data\":\"{content}\"}}");
                ("/api/publish".into(), body)
            },
            fields: "Content-Type: application/json\r\n",
        },
        Port::First,
    ),
    waits_alike: false,
    listeners: 1,
    configuration: Some(("centrifugo.json", centrifugo)),
    command: |place, _| {
        let conf = place.folder.join("centrifugo.json").display().to_string();
        (go_program("centrifugo").unwrap_or_else(|| "centrifugo".into()), vec!["--config".into(), conf])
    },
};

const CENTRIFUGO_SOCKET: WebSocket =
    WebSocket { path: |_| "/connection/websocket".into(), fields: "", within: Some((&Centrifugo, Kind::Text)) };

const CENTRIFUGO_WAYS: &[(Way, &dyn Talk, Port)] =
    &[(Way::Own, &CENTRIFUGO_SOCKET, Port::First), (Way::WebSocket, &CENTRIFUGO_SOCKET, Port::First)];

fn centrifugo(place: &Place) -> String {
    format!(
        "{{\"http_server\":{{\"address\":\"{}\",\"port\":{}}},\n\"log\":{{\"level\":\"error\"}},\n\
         \"client\":{{\"insecure\":true,\"allowed_origins\":[\"*\"]}},\n\"http_api\":{{\"insecure\":true}},\n\
         \"channel\":{{\"without_namespace\":{{\"history_size\":150,\"history_ttl\":\"3600s\",\
         \"allow_subscribe_for_client\":true,\"allow_subscribe_for_anonymous\":true}}}}}}\n",
        place.plain.ip(),
        place.plain.port()
    )
}

/// The hub of the Mercure protocol that npm has. The first one, in Go, is not where its module is looked for here.
pub(crate) const MERCURE: Peer = Peer {
    own: false,
    server: "mercure",
    install: Install::Npm("mercure", "0.1.0"),
    promise: "in memory, all items kept, clients may continue where they were",
    ways: &[(Way::Own, &Events { path: |channel| format!("/hub?topic={channel}") }, Port::First)],
    publish: (
        &Post {
            target: |channel, content| ("/hub".into(), format!("topic={channel}&data={content}")),
            // Signed with the key of the configuration: {"mercure":{"publish":["*"]}}.
            fields: "Content-Type: application/x-www-form-urlencoded\r\n\
                     Authorization: Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
                     eyJtZXJjdXJlIjp7InB1Ymxpc2giOlsiKiJdfX0.CAnmIqOvlkVjKsNCBtqnhqgyQK1nkt2H764vQX1MB_4\r\n",
        },
        Port::First,
    ),
    waits_alike: false,
    listeners: 1,
    configuration: Some(("hub.cjs", mercure)),
    command: |place, _| {
        let package = npm_package("mercure").unwrap_or_else(|| "mercure".into());
        let args = [place.folder.join("hub.cjs"), package].map(|path| path.display().to_string());
        ("node".into(), args.into())
    },
};

/// It has two faults as it is published, by which it refuses everybody: its handler of subscribers has lost its hub, and it looks for the
/// claims of publishers beside the token's payload.
fn mercure(place: &Place) -> String {
    format!(
        "const {{ Server }} = require(process.argv[2]);\n\
         const server = new Server({{ jwtKey: 'load', allowAnonymous: true }});\nconst hub = server.hub;\n\
         hub.onSseConnection = hub.onSseConnection.bind(hub);\n\
         const authorize = hub.authorizePublish.bind(hub);\n\
         hub.authorizePublish = async (request) => (await authorize(request)).payload;\n\
         server.listen({}, '{}');\n",
        place.plain.port(),
        place.plain.ip()
    )
}

/// Where `npm install` puts packages for this.
pub(crate) fn npm_folder() -> Option<PathBuf> {
    let home = std::env::var_os("HOME")?;
    Some(PathBuf::from(home).join(".cache/throng-beside"))
}

/// A package that it has put there.
fn npm_package(name: &str) -> Option<PathBuf> {
    Some(npm_folder()?.join("node_modules").join(name)).filter(|folder| folder.is_dir())
}

/// The program that `go install` has made.
pub(crate) fn go_program(name: &str) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let made =
        [variable("GOBIN"), variable("GOPATH").map(|at| at.join("bin")), variable("HOME").map(|at| at.join("go/bin"))];
    let mut folders = std::env::split_paths(&path).chain(made.into_iter().flatten());
    folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
}

impl Install {
    /// Whether it is there.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Install::Built => true,
            Install::Debian(packages) => packages.iter().all(|name| crate::peers::package_version(name).is_some()),
            Install::Go(_, program) => go_program(program).is_some(),
            Install::Npm(package, _) => npm_package(package).is_some(),
        }
    }

    /// Why it cannot be measured, if it is not there.
    pub(crate) fn why(&self) -> String {
        match self {
            Install::Built => String::new(),
            Install::Debian(packages) => {
                format!("the Debian package {} is not installed; --install does so", packages.join(" or "))
            }
            Install::Go(module, program) => {
                format!("there is no program {program}; --install makes it by `go install {module}`, if there is Go")
            }
            Install::Npm(package, version) => {
                format!(
                    "there is no {package}; --install fetches it by `npm install {package}@{version}`, if there is Node.js"
                )
            }
        }
    }

    /// Which version is there.
    pub(crate) fn version(&self) -> Option<String> {
        match self {
            Install::Built => None,
            Install::Debian(packages) => packages.first().and_then(|name| crate::peers::package_version(name)),
            Install::Npm(package, version) => Some(format!("{package} {version}")),
            Install::Go(_, program) => {
                let done = Command::new("go").args(["version", "-m"]).arg(go_program(program)?).output().ok()?;
                let text = String::from_utf8_lossy(&done.stdout).into_owned();
                let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
                lines.find_map(|words| {
                    if let ["mod", module, version, ..] = words[..] {
                        Some(format!("{module} {version}"))
                    } else {
                        None
                    }
                })
            }
        }
    }
}

/// All processes of a group, by `/proc`.
pub(crate) fn group(leader: u32) -> io::Result<Vec<u32>> {
    let member = |entry: fs::DirEntry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        // State, parent and group stand behind the name, which may have anything in it.
        let group = text.rsplit_once(')')?.1.split_whitespace().nth(2)?;
        (group.parse() == Ok(leader)).then_some(process)
    };
    Ok(fs::read_dir("/proc")?.flatten().filter_map(member).collect())
}
