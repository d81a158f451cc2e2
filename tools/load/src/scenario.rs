//! What a run does: one table of keys, each a flag of the command line and a key of a TOML file.
//!
//! This module reads, checks and writes scenarios. It must never carry one out.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::keys::{DriverChoice, table, words};

/// Connections that a session over BOSH may have at once.
pub(crate) const BOSH_CONNECTIONS: u32 = 2;

words! {
    /// When streams are secured.
    Tls {
        /// Never.
        Off = "off",
        /// RFC 6120 5.
        Upgrade = "starttls",
        /// XEP-0368.
        Direct = "direct",
    }
}

words! {
    /// What carries the streams.
    Transport {
        /// RFC 6120 3.
        Tcp = "tcp",
        /// RFC 7395.
        WebSocket = "websocket",
        /// XEP-0124 and XEP-0206.
        Bosh = "bosh",
    }
}

words! {
    /// How to authenticate.
    Auth {
        /// The first offered of PLAIN, SCRAM-SHA-256, SCRAM-SHA-1.
        Auto = "auto",
        /// RFC 4616.
        Plain = "plain",
        /// RFC 5802.
        ScramSha1 = "scram-sha-1",
        /// RFC 7677.
        ScramSha256 = "scram-sha-256",
        /// The same with SHA-512.
        ScramSha512 = "scram-sha-512",
    }
}

words! {
    /// How clients come to a session.
    Login {
        /// RFC 6120 6, 7.
        Sasl = "sasl",
        /// XEP-0388 with XEP-0386.
        Sasl2 = "sasl2",
        /// And XEP-0484.
        Fast = "fast",
    }
}

table! {
    /// A scenario.
    Scenario {
        "Server" {
            to: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 5222)), "ADDRESS:PORT",
                "Where the server listens";
            domain: String = "localhost".into(), "NAME",
                "The server's domain";
            transport: Transport = Transport::Tcp, "WORD",
                "The transport of streams: tcp, websocket (RFC 7395) or bosh (XEP-0124); with the latter two, to is the address of HTTP";
            path: String = String::new(), "PATH",
                "Path of WebSocket or BOSH at the server; empty: /xmpp-websocket or /http-bind";
            wait_s: u32 = 60, "SECONDS",
                "Over BOSH: how long a request may wait for an answer, if the server agrees";
            tls: Tls = Tls::Off, "WORD",
                "How streams are encrypted: off, starttls or direct; takes 248 bytes more memory per client";
            tls_insecure: bool = false, "",
                "Accept any certificate; TLS requires this flag, since the generator verifies none";
            auth: Auth = Auth::Auto, "WORD",
                "How to authenticate: plain, scram-sha-1, scram-sha-256, scram-sha-512 or auto, the first offered of plain, scram-sha-256, scram-sha-1";
            login: Login = Login::Sasl, "WORD",
                "How to log in: sasl (RFC 6120), sasl2 (XEP-0388 with XEP-0386), or fast: sasl2 with a token when returning \
                 (XEP-0484), which is sent with the header";
            resume: bool = false, "",
                "With sasl2 or fast: enable stream management (XEP-0198), and resume the session after a reset";
            pipelined: bool = false, "",
                "Do not wait for answers that are not needed (XEP-0305): authentication begins with the header, \
                 if auth names a mechanism; the new header, bind and presence follow success at once";
            server_pid: u32 = 0, "PID",
                "Process whose CPU and memory are measured; 0: the one that owns the listening socket, if it is on this machine";
        }
        "Accounts" {
            user_prefix: String = "u".into(), "TEXT",
                "Account names are this and a number: u0, u1, ..";
            user_first: u32 = 0, "N",
                "Number of the first account";
            password: String = "secret".into(), "TEXT",
                "Password of all accounts";
            accounts: PathBuf = PathBuf::new(), "FILE.csv",
                "Read accounts from this file instead; each line is localpart,password";
            register: bool = false, "",
                "Register each account before its first login (XEP-0077), unless it exists";
        }
        "Sessions" {
            sessions: u32 = 1000, "N",
                "Number of sessions, each with its own account";
            available: bool = true, "BOOL",
                "Send available presence";
            presence_bytes: u32 = 0, "BYTES",
                "Size of that presence, which differs per session; 0: the shortest one, the same for all";
            contacts: u32 = 0, "N",
                "Contacts per roster: on its first login each user subscribes to the next N, and all approve";
            subscribe: bool = true, "BOOL",
                "Subscribe to these contacts; false: an earlier run did, and the roster is only fetched";
            short_share: f64 = 0.0, "SHARE",
                "Share of the sessions, 0 to 1, that repeatedly stay for a short time";
            short_up_s: f64 = 10.0, "SECONDS",
                "How long these stay, on average";
            short_away_s: f64 = 30.0, "SECONDS",
                "How long these stay away, on average";
        }
        "Messages" {
            pairs: u32 = 0, "N",
                "Pairs of sessions; one sends and the other receives";
            in_flight: u32 = 1, "N",
                "Closed loop: messages in transit per pair; each arrival sends the next. 0: open loop only";
            rate: f64 = 0.0, "PER_SECOND",
                "Open loop: messages per second in total, at random times; latency counts from each message's scheduled time";
            message_bytes: u32 = 180, "BYTES",
                "Size of a message as its sender writes it; at least the size of its address and number";
            late_ms: f64 = 0.0, "MILLISECONDS",
                "A message that takes longer counts as a fault of the server; 0: none does";
            messages_max: u64 = 0, "N",
                "Limit of messages in total; 0: none";
            spike_at_s: f64 = 0.0, "SECONDS",
                "When in the hold a spike of the open loop begins";
            spike_s: f64 = 0.0, "SECONDS",
                "How long it lasts; 0: no spike";
            spike_factor: f64 = 10.0, "FACTOR",
                "Factor by which the pairs in the spike exceed the rate, reached within its first second";
            spike_share: f64 = 0.2, "SHARE",
                "Share of the pairs in the spike";
            stall_share: f64 = 0.0, "SHARE",
                "Share of the receivers that stop reading when the hold begins";
            stall_s: f64 = 0.0, "SECONDS",
                "When these read again; 0: after sending has ended";
        }
        "Rooms (XEP-0045)" {
            rooms: u32 = 0, "N",
                "Rooms, which sessions enter in the ramp; the first occupant of each makes it and is the one that speaks";
            room_occupants: u32 = 20, "N",
                "Occupants of each; sessions take turns, so each is in rooms * room_occupants / sessions rooms";
            room_rate: f64 = 0.0, "PER_SECOND",
                "Messages per second to all rooms together, at random times; each arrives at every occupant";
            room_moves_per_s: f64 = 0.0, "PER_SECOND",
                "Occupants per second that leave a room and enter it again; what is lost to them is not counted";
            room_service: String = String::new(), "NAME",
                "Domain of the rooms; empty: conference. and the server's domain";
            room_prefix: String = "room".into(), "TEXT",
                "Room names are this and a number";
        }
        "Disturbances" {
            presence_per_s: f64 = 0.0, "PER_SECOND",
                "Presence changes per second in total";
            offline_per_s: f64 = 0.0, "PER_SECOND",
                "Sessions per second that close their stream and return";
            offline_s: f64 = 5.0, "SECONDS",
                "How long these stay away";
            flap_per_s: f64 = 0.0, "PER_SECOND",
                "Sessions per second whose connection is reset, as by a network, and that return";
            flap_s: f64 = 1.0, "SECONDS",
                "How long these stay away";
            storm_at_s: f64 = 0.0, "SECONDS",
                "When in the hold a storm begins: many connections are reset at once and return";
            storm_share: f64 = 0.0, "SHARE",
                "Share of the sessions in the storm; 0: no storm";
            storm_spread_s: f64 = 0.0, "SECONDS",
                "Sessions in the storm return at random within this time (RFC 6120 3.3: 0 to 60 seconds); 0: all at once";
        }
        "Phases" {
            ramp_per_s: f64 = 1000.0, "PER_SECOND",
                "Logins started per second until all sessions are up; also the limit of returning ones per second, except in a storm";
            under_way_max: u32 = 0, "N",
                "Limit of logins in progress, except in a storm, so that the ramp is as fast as the server; 0: none";
            ramp_s_max: f64 = 300.0, "SECONDS",
                "Begin the hold after this time, even if sessions are missing";
            hold_s: f64 = 10.0, "SECONDS",
                "How long to hold the sessions and send";
            drain_s: f64 = 5.0, "SECONDS",
                "How long to wait for messages in transit before they count as lost";
            total_s_max: f64 = 3600.0, "SECONDS",
                "Stop after this time, whatever the phase";
            login_s_max: f64 = 30.0, "SECONDS",
                "How long a login may take before it is abandoned and repeated";
            seed: u64 = 1, "N",
                "Seed of all random choices";
        }
        "Generator" {
            driver: DriverChoice = DriverChoice::Auto, "WORD",
                "The driver of connections: auto, uring or epoll";
            threads: u32 = 1, "N",
                "Worker threads per process; each has as many descriptor tables as its sessions need";
            processes: u32 = 1, "N",
                "Processes that share the work, controlled by this one";
            sources: u32 = 0, "N",
                "Addresses in 127.0.0.0/8 to connect from, if the server is local; 0: one per 10,000 sessions";
        }
    }
}

impl Scenario {
    /// The path that is asked for.
    pub(crate) fn path_asked(&self) -> &str {
        match self.transport {
            _ if !self.path.is_empty() => &self.path,
            Transport::Bosh => "/http-bind",
            _ => "/xmpp-websocket",
        }
    }

    /// The domain of rooms.
    pub(crate) fn room_domain(&self) -> Cow<'_, str> {
        if self.room_service.is_empty() {
            format!("conference.{}", self.domain).into()
        } else {
            self.room_service.as_str().into()
        }
    }

    /// Connections that a session may have at once.
    pub(crate) fn connections_each(&self) -> u32 {
        if self.transport == Transport::Bosh { BOSH_CONNECTIONS } else { 1 }
    }

    /// Checks what single values cannot tell.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let shares = [
            ("short_share", self.short_share),
            ("spike_share", self.spike_share),
            ("stall_share", self.stall_share),
            ("storm_share", self.storm_share),
        ];
        let wrong = [
            (self.sessions == 0, "sessions: at least one"),
            (u64::from(self.pairs) * 2 > u64::from(self.sessions), "pairs: each takes two of the sessions"),
            (self.contacts >= self.sessions, "contacts: less than sessions"),
            (self.in_flight > 10_000, "in_flight: at most 10000"),
            (self.presence_bytes > 8_192, "presence_bytes: at most 8192"),
            (self.rate > 0.0 && self.pairs == 0, "rate: messages need pairs"),
            (self.rooms > 0 && self.pairs > 0, "rooms: sessions are in pairs or in rooms"),
            (self.rooms > 10_000_000, "rooms: at most 10000000"),
            (self.rooms > 0 && self.room_occupants == 0, "room_occupants: at least one"),
            (
                self.rooms > 0 && self.room_occupants > self.sessions,
                "room_occupants: a session is in a room once; at most the sessions",
            ),
            (self.room_rate > 0.0 && self.rooms == 0, "room_rate: messages need rooms"),
            (self.room_rate > 1e8, "room_rate: at most 100000000 per second"),
            (self.rate > 1e8, "rate: at most 100000000 per second"),
            (self.spike_s > 0.0 && self.rate == 0.0, "spike_s: a spike is on the open loop; give a rate"),
            (self.message_bytes > 100_000, "message_bytes: at most 100000"),
            (self.ramp_per_s <= 0.0, "ramp_per_s: more than 0"),
            (self.hold_s > 1e6 || self.total_s_max > 1e6, "hold_s, total_s_max: at most 1000000"),
            (
                self.tls != Tls::Off && !self.tls_insecure,
                "tls: certificates are not checked here; give tls_insecure as well",
            ),
            (
                self.transport != Transport::Tcp && self.tls == Tls::Upgrade,
                "tls: starttls is for streams over TCP (RFC 7395 3.9, XEP-0206 7); give direct with websocket and bosh",
            ),
            (
                self.transport == Transport::Tcp && !self.path.is_empty(),
                "path: a stream over TCP has none; give transport websocket or bosh as well",
            ),
            (
                !self.path.is_empty() && !self.path.starts_with('/')
                    || self.path.bytes().any(|byte| !byte.is_ascii_graphic()),
                "path: it begins with / and has neither spaces nor other characters that are not ASCII",
            ),
            (self.wait_s == 0 || self.wait_s > 3_600, "wait_s: 1 to 3600"),
            (self.resume && self.login == Login::Sasl, "resume: it goes with sasl2 or fast as login"),
            (self.threads == 0 || self.threads > 1024, "threads: 1 to 1024"),
            (self.processes == 0 || self.processes > 1024, "processes: 1 to 1024"),
        ];
        if let Some((_, why)) = wrong.iter().find(|(wrong, _)| *wrong) {
            return Err((*why).to_owned());
        }
        match shares.iter().find(|(_, share)| *share > 1.0) {
            Some((name, share)) => Err(format!("{name}: {share} is more than all")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut changed =
            Scenario { sessions: 7, tls: Tls::Direct, password: "a \"b\" \\ #".into(), ..Scenario::default() };
        changed.rate = 12.5;
        let mut read = Scenario::default();
        read.set_toml(&changed.toml()).expect("what was written");
        assert_eq!(read, changed);
        let mut defaults = Scenario::default();
        for key in TABLE {
            let text = (key.default)();
            defaults.set_flag(key.name, text.trim_matches('"')).expect("a default is allowed");
        }
        assert_eq!(defaults, Scenario::default());
        assert_eq!(defaults.check(), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mut scenario = Scenario::default();
        let told = scenario.set_toml("sessionz = 3").expect_err("no such key");
        assert!(told.contains("sessionz"), "{told}");
        assert!(scenario.set_flag("ramp_per_s", "-1").expect_err("negative").contains("--ramp-per-s"));
        assert!(scenario.set_flag("tls", "maybe").expect_err("no word").contains("starttls"));
        for (name, text) in [("pairs", "501"), ("tls", "direct"), ("stall_share", "1.5"), ("contacts", "1000")] {
            let mut scenario = Scenario::default();
            scenario.set_flag(name, text).expect("a value of its kind");
            assert!(scenario.check().expect_err("not together").contains(name));
        }
    }
}
