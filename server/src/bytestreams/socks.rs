//! The server side of SOCKS5 (RFC 1928), as far as bytestreams use it (XEP-0065 10.2): no
//! authentication, CONNECT, and as address the hash of a stream in hexadecimal digits.

use throng_engine::extension::bytestreams::StreamHash;

const VERSION: u8 = 5;
/// RFC 1928 3: no authentication required, and no acceptable method.
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const DOMAIN_NAME: u8 = 3;
/// Digits of a hash.
const DIGITS: usize = 40;
/// Bytes of a request up to its address.
const HEAD: usize = 5;

/// Replies (RFC 1928 6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    Succeeded = 0,
    NotAllowed = 2,
    NoSuchCommand = 7,
    NoSuchAddressType = 8,
}

/// A stream that a client requests, by an address that the reply repeats (XEP-0065 6.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub stream: StreamHash,
    digits: [u8; DIGITS],
    port: [u8; 2],
}

impl Asked {
    /// The reply to the client.
    pub(super) fn reply(&self, reply: Reply) -> Vec<u8> {
        let mut out = vec![VERSION, reply as u8, 0, DOMAIN_NAME, DIGITS as u8];
        out.extend_from_slice(&self.digits);
        out.extend_from_slice(&self.port);
        out
    }
}

/// The next step of a handshake.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// More bytes are needed.
    More,
    /// Send this, and continue.
    Send(&'static [u8]),
    /// The client requests a stream.
    Asked(Asked),
    /// Send this, which may be empty, and end the connection.
    Refused(Vec<u8>),
}

/// A handshake: the received bytes that have not been parsed.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    greeted: bool,
    came: Vec<u8>,
}

impl Handshake {
    /// Adds received bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.came.extend_from_slice(bytes);
    }

    /// The next step. May be called again until it returns that more bytes are needed.
    pub(super) fn next(&mut self) -> Said {
        match self.came.first() {
            None => return Said::More,
            Some(&VERSION) => {}
            Some(_) => return Said::Refused(Vec::new()),
        }
        if self.greeted { self.request() } else { self.greeting() }
    }

    /// RFC 1928 3.
    fn greeting(&mut self) -> Said {
        let Some(&count) = self.came.get(1) else { return Said::More };
        let end = 2 + usize::from(count);
        let Some(methods) = self.came.get(2..end) else { return Said::More };
        if !methods.contains(&NO_AUTHENTICATION) {
            return Said::Refused(vec![VERSION, NO_METHOD]);
        }
        self.came.drain(..end);
        self.greeted = true;
        Said::Send(&[VERSION, NO_AUTHENTICATION])
    }

    /// RFC 1928 4.
    fn request(&self) -> Said {
        let Some(head) = self.came.get(..HEAD) else { return Said::More };
        let refused = |reply: Reply| Said::Refused(vec![VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]);
        if head[1] != CONNECT {
            return refused(Reply::NoSuchCommand);
        }
        if head[3] != DOMAIN_NAME {
            return refused(Reply::NoSuchAddressType);
        }
        if usize::from(head[4]) != DIGITS {
            return refused(Reply::NotAllowed);
        }
        let Some(rest) = self.came.get(HEAD..HEAD + DIGITS + 2) else { return Said::More };
        let (digits, port) = rest.split_at(DIGITS);
        let digits: [u8; DIGITS] = digits.try_into().expect("as many");
        // XEP-0065 10.1: the port is 0, and irrelevant.
        let port = [port[0], port[1]];
        match hash(&digits) {
            Some(stream) => Said::Asked(Asked { stream, digits, port }),
            None => refused(Reply::NotAllowed),
        }
    }
}

fn hash(digits: &[u8; DIGITS]) -> Option<StreamHash> {
    let mut hash = StreamHash::default();
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HASH: &str = "98b8d688d0f5d895fd41c5e7309a2e9e33ba32ff";

    fn request(command: u8, kind: u8, address: &str, port: u16) -> Vec<u8> {
        let head = [VERSION, command, 0, kind, address.len() as u8];
        [&head[..], address.as_bytes(), &port.to_be_bytes()].concat()
    }

    fn greeted() -> Handshake {
        let mut handshake = Handshake::default();
        handshake.take(&[5, 1, 0]);
        assert_eq!(handshake.next(), Said::Send(&[5, 0]));
        assert_eq!(handshake.next(), Said::More);
        handshake
    }

    #[test]
    fn a_client_that_needs_no_authentication_is_let_in_rfc1928_3() {
        for (greeting, answer) in [
            (&[5, 1, 0][..], Said::Send(&[5, 0])),
            (&[5, 3, 2, 1, 0], Said::Send(&[5, 0])),
            (&[5, 2, 1, 2], Said::Refused(vec![5, 0xff])),
            (&[5, 0], Said::Refused(vec![5, 0xff])),
            (&[4, 1, 0, 80], Said::Refused(vec![])),
            (b"GET / HTTP/1.1\r\n", Said::Refused(vec![])),
            (&[5, 2, 0], Said::More),
            (&[], Said::More),
        ] {
            let mut handshake = Handshake::default();
            handshake.take(greeting);
            assert_eq!(handshake.next(), answer, "{greeting:?}");
        }
    }

    #[test]
    fn a_request_names_a_stream_and_the_reply_repeats_it_xep0065_6_3_2() {
        let mut handshake = greeted();
        handshake.take(&request(1, 3, &HASH.to_uppercase(), 0));
        let Said::Asked(asked) = handshake.next() else { panic!("a stream") };
        assert_eq!((asked.stream[0], asked.stream[19]), (0x98, 0xff));
        let reply = asked.reply(Reply::Succeeded);
        assert_eq!(reply, [&[5, 0, 0, 3, 40][..], HASH.to_uppercase().as_bytes(), &[0, 0]].concat());
        assert_eq!(asked.reply(Reply::NotAllowed)[1], 2);
    }

    #[test]
    fn anything_else_is_refused_with_its_reply_rfc1928_6() {
        for (request, reply) in [
            (request(2, 3, HASH, 0), 7),
            (request(3, 3, HASH, 0), 7),
            (request(1, 1, HASH, 0), 8),
            (request(1, 4, HASH, 0), 8),
            (request(1, 3, "example.org", 80), 2),
            (request(1, 3, &HASH.replace('f', "g"), 0), 2),
            (request(1, 3, "", 0), 2),
        ] {
            let mut handshake = greeted();
            handshake.take(&request);
            let Said::Refused(said) = handshake.next() else { panic!("{request:?}") };
            assert_eq!((said.len(), said[0], said[1]), (10, 5, reply), "{request:?}");
        }
    }

    proptest! {
        /// A handshake has the same meaning however it is split.
        #[test]
        fn pieces_mean_what_the_whole_does(cuts in prop::collection::vec(1..8_usize, 1..60), port in any::<u16>()) {
            let whole = [vec![5, 2, 1, 0], request(1, 3, HASH, port), b"early".to_vec()].concat();
            let (mut handshake, mut sizes, mut at) = (Handshake::default(), cuts.iter().cycle(), 0);
            let (mut greeted, mut asked) = (0, None);
            while at < whole.len() && asked.is_none() {
                let end = (at + sizes.next().expect("a size")).min(whole.len());
                handshake.take(&whole[at..end]);
                at = end;
                loop {
                    match handshake.next() {
                        Said::More => break,
                        Said::Send(_) => greeted += 1,
                        Said::Asked(stream) => { asked = Some(stream); break }
                        Said::Refused(why) => prop_assert!(false, "{:?}", why),
                    }
                }
            }
            prop_assert_eq!(greeted, 1);
            prop_assert_eq!(asked.expect("a stream").port, port.to_be_bytes());
        }

        #[test]
        fn no_bytes_break_it_and_none_are_kept_for_long(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..20)) {
            let mut handshake = Handshake::default();
            for piece in pieces {
                handshake.take(&piece);
                loop {
                    match handshake.next() {
                        Said::Send(_) => {}
                        Said::More => break,
                        Said::Asked(_) | Said::Refused(_) => return Ok(()),
                    }
                }
                prop_assert!(handshake.came.len() <= 2 + 255);
            }
        }
    }
}
