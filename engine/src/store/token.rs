//! The record of the tokens that an account's clients may use to log in instead of its password
//! (XEP-0484): one row beside the account's private XML, under a key that no client can name.
//!
//! A token itself is in no row. It is derived from the row's random part and its purpose, under a
//! secret of the store (see `session::sasl::token`): the row alone does not yield it.
//!
//! Each client has two places (XEP-0484 5.1): one for the token that it used last, and one for a
//! newer token that it may not have received.

use super::account::{Incarnation, Standing};
use super::hash::Tag;
use super::{Batch, Query, private};
use crate::limits::{TOKEN_CLIENTS_MAX, TOKEN_USED_S};

/// Version of the encoding; the first byte of the record.
const VERSION: u8 = 1;

/// Bytes of a token's random part.
pub const TOKEN_NONCE_BYTES: usize = 16;

/// A client's installation, by the UUID that it sends (XEP-0388 2.4).
pub type Agent = [u8; 16];

/// What a token is bound to besides its account and its client (XEP-0484 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum TokenKind {
    /// The TLS channel (`tls-exporter`).
    Exporter = 1,
    /// The server's certificate (`tls-server-end-point`).
    EndPoint = 2,
    /// Nothing.
    Unbound = 3,
}

impl TokenKind {
    const ALL: [TokenKind; 3] = [TokenKind::Exporter, TokenKind::EndPoint, TokenKind::Unbound];
}

/// A token as a client presents it.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct TokenShown {
    /// What the mechanism binds it to.
    pub kind: TokenKind,
    /// The client.
    pub agent: Agent,
    /// The client's proof that it has the token: an HMAC, from which the token cannot be derived.
    pub proof: Tag,
    /// The channel data that the proof is bound to; empty for none.
    pub binding: Box<[u8]>,
    /// The client's count of attempts with this token (XEP-0484 3.4).
    pub count: Option<u32>,
    /// Whether the token is to be invalidated (XEP-0484 3.6).
    pub invalidate: bool,
}

/// The response of the account's home to a [`TokenShown`].
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum TokenAnswer {
    /// The token is valid.
    Fits {
        /// The incarnation of the account, and a number derived from its keys.
        identity: (Incarnation, u64),
        /// The server's proof that it also has the token.
        answer: Tag,
        /// Whether a new token is due (XEP-0484 3.5).
        due: bool,
    },
    /// The token is valid, but the account is out of use.
    OutOfUse(Standing),
    /// The token is invalid: the account, client or token does not exist or no longer exists, the
    /// token has expired, or the count was used before.
    Wrong,
}

/// A token of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// What it is bound to.
    pub kind: TokenKind,
    /// The random part.
    pub nonce: [u8; TOKEN_NONCE_BYTES],
    /// When it expires, seconds since the Unix epoch.
    pub expires_s: u64,
    /// The highest count that was presented with it; 0 for none.
    pub count: u32,
}

/// The tokens of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Client {
    agent: Agent,
    /// When it last received or used one, seconds since the Unix epoch, to within [`TOKEN_USED_S`].
    used_s: u64,
    /// The token that it may not have received, and the one that it has used.
    places: [Option<Token>; 2],
}

/// One of a client's two places for a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The newer token, which has not been used yet.
    New = 0,
    /// The token used last.
    Current = 1,
}

/// The tokens of an account.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Tokens {
    /// At most [`TOKEN_CLIENTS_MAX`].
    clients: Vec<Client>,
}

/// The row's key.
fn key() -> Box<[u8]> {
    private::own_key("fast")
}

/// The query for an account's tokens.
pub fn get(account: &str) -> Query {
    private::get(account, &key())
}

impl Tokens {
    /// Reads the tokens of a row. A row that cannot be read counts as empty: no login by token
    /// succeeds, and the next token begins a new row.
    pub fn of_row(row: Option<&[u8]>) -> Tokens {
        row.and_then(Tokens::decode).unwrap_or_default()
    }

    /// Writes the row, or removes it if no tokens are left.
    pub fn write(&self, batch: &mut Batch, account: &str) {
        if self.clients.is_empty() {
            return private::delete(batch, account, &key());
        }
        private::put(batch, account, &key(), &self.encode());
    }

    /// Number of clients that have tokens.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// A client's token in this place.
    pub fn find(&self, agent: &Agent, place: Place) -> Option<&Token> {
        self.clients.iter().find(|client| client.agent == *agent)?.places[place as usize].as_ref()
    }

    /// Records that the token in this place was presented and is valid: it becomes the current one,
    /// and older ones are void. Returns whether anything has changed.
    pub fn used(&mut self, agent: &Agent, place: Place, count: Option<u32>, now_s: u64) -> bool {
        let Some(client) = self.clients.iter_mut().find(|client| client.agent == *agent) else { return false };
        let before = client.clone();
        if place == Place::New {
            client.places[Place::Current as usize] = client.places[Place::New as usize].take();
        }
        if let (Some(token), Some(count)) = (&mut client.places[Place::Current as usize], count) {
            token.count = token.count.max(count);
        }
        if now_s.abs_diff(client.used_s) >= TOKEN_USED_S {
            client.used_s = now_s;
        }
        before != *client
    }

    /// Invalidates a client's tokens (XEP-0484 3.6). Returns whether there were any.
    pub fn forget(&mut self, agent: &Agent) -> bool {
        let before = self.clients.len();
        self.clients.retain(|client| client.agent != *agent);
        before != self.clients.len()
    }

    /// Gives a client a new token. An earlier token that it has not used becomes void; the one that
    /// it uses does not (XEP-0484 3.5). If too many clients have tokens, the least recently used
    /// clients lose theirs.
    pub fn add(&mut self, agent: &Agent, token: Token, now_s: u64) {
        let mut client = match self.clients.iter().position(|client| client.agent == *agent) {
            Some(at) => self.clients.swap_remove(at),
            None => Client { agent: *agent, used_s: now_s, places: [None; 2] },
        };
        while self.clients.len() >= TOKEN_CLIENTS_MAX {
            let oldest = (0..self.clients.len()).min_by_key(|&at| self.clients[at].used_s).expect("there are some");
            self.clients.swap_remove(oldest);
        }
        client.used_s = now_s;
        client.places[Place::New as usize] = Some(token);
        self.clients.push(client);
    }

    /// Version, and for each client: UUID, time of last use (u64), and a byte for each place. The
    /// byte is 0 for an empty place, otherwise the kind, followed by random part, expiry (u64) and
    /// count (u32). Numbers are big endian.
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for client in &self.clients {
            out.extend_from_slice(&client.agent);
            out.extend_from_slice(&client.used_s.to_be_bytes());
            for place in &client.places {
                out.push(place.as_ref().map_or(0, |token| token.kind as u8));
                if let Some(token) = place {
                    out.extend_from_slice(&token.nonce);
                    out.extend_from_slice(&token.expires_s.to_be_bytes());
                    out.extend_from_slice(&token.count.to_be_bytes());
                }
            }
        }
        out
    }

    fn decode(row: &[u8]) -> Option<Tokens> {
        let (&VERSION, mut rest) = row.split_first()? else { return None };
        let mut clients = Vec::new();
        while !rest.is_empty() {
            let mut client =
                Client { agent: take(&mut rest)?, used_s: u64::from_be_bytes(take(&mut rest)?), places: [None; 2] };
            for place in &mut client.places {
                let [kind] = take(&mut rest)?;
                if kind == 0 {
                    continue;
                }
                *place = Some(Token {
                    kind: TokenKind::ALL.into_iter().find(|known| *known as u8 == kind)?,
                    nonce: take(&mut rest)?,
                    expires_s: u64::from_be_bytes(take(&mut rest)?),
                    count: u32::from_be_bytes(take(&mut rest)?),
                });
            }
            clients.push(client);
        }
        (clients.len() <= TOKEN_CLIENTS_MAX).then_some(Tokens { clients })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(n: u8) -> Token {
        Token { kind: TokenKind::EndPoint, nonce: [n; TOKEN_NONCE_BYTES], expires_s: 1_000 + u64::from(n), count: 0 }
    }

    #[test]
    fn a_row_reads_back_as_written() {
        let mut tokens = Tokens::default();
        tokens.add(&[1; 16], token(1), 10);
        tokens.add(&[2; 16], token(2), 20);
        assert!(tokens.used(&[1; 16], Place::New, Some(7), 10));
        tokens.add(&[1; 16], token(3), 30);
        let row = tokens.encode();
        assert_eq!(Tokens::of_row(Some(&row)), tokens);
        for end in 1..row.len() {
            assert_ne!(Tokens::of_row(Some(&row[..end])), tokens, "cut at {end}");
        }
        let newer = [&[2], &row[1..]].concat();
        assert_eq!(Tokens::of_row(Some(&newer)), Tokens::default(), "of a version that is not known");
    }

    /// The stored form is fixed: rows must stay readable for ever.
    #[test]
    fn the_first_version_stays_as_it_is() {
        let client = [&[9; 16][..], &[0, 0, 0, 0, 0, 0, 0, 5]].concat();
        let token = [&[3][..], &[8; 16], &[0, 0, 0, 0, 0, 0, 1, 0], &[0, 0, 0, 2]].concat();
        let row = [&[1][..], &client, &[0], &token].concat();
        let tokens = Tokens::of_row(Some(&row));
        let wanted = Token { kind: TokenKind::Unbound, nonce: [8; 16], expires_s: 256, count: 2 };
        assert_eq!(tokens.find(&[9; 16], Place::Current), Some(&wanted));
        assert_eq!(tokens.find(&[9; 16], Place::New), None);
        assert_eq!(tokens.encode(), row);
    }

    /// XEP-0484 3.5, 5.1: a newer token does not invalidate the one in use until it is used itself.
    #[test]
    fn xep0484_3_5_a_token_stays_until_the_next_is_used() {
        let (mut tokens, agent) = (Tokens::default(), [1; 16]);
        tokens.add(&agent, token(1), 0);
        assert!(tokens.used(&agent, Place::New, None, 0));
        tokens.add(&agent, token(2), 0);
        tokens.add(&agent, token(3), 0);
        assert_eq!(tokens.find(&agent, Place::New), Some(&token(3)), "an unused one gives way");
        assert_eq!(tokens.find(&agent, Place::Current), Some(&token(1)));
        assert!(!tokens.used(&agent, Place::Current, None, TOKEN_USED_S - 1), "nothing to write");
        assert!(tokens.used(&agent, Place::Current, None, TOKEN_USED_S));
        assert!(tokens.used(&agent, Place::New, Some(4), 0));
        assert_eq!(tokens.find(&agent, Place::Current), Some(&Token { count: 4, ..token(3) }));
        assert_eq!(tokens.find(&agent, Place::New), None);
        assert!(!tokens.used(&agent, Place::Current, Some(3), 0), "counts do not go back");
        assert!(tokens.forget(&agent) && !tokens.forget(&agent));
        assert_eq!(tokens.encode(), [VERSION]);
    }

    #[test]
    fn the_client_that_was_not_used_for_longest_gives_way() {
        let mut tokens = Tokens::default();
        for n in 0..TOKEN_CLIENTS_MAX as u8 {
            tokens.add(&[n; 16], token(n), u64::from(n) * TOKEN_USED_S);
        }
        tokens.used(&[0; 16], Place::New, None, 1_000 * TOKEN_USED_S);
        tokens.add(&[200; 16], token(200), 1_000 * TOKEN_USED_S);
        assert_eq!(tokens.clients(), TOKEN_CLIENTS_MAX);
        assert!(tokens.find(&[0; 16], Place::Current).is_some(), "it was used");
        assert!(tokens.find(&[1; 16], Place::New).is_none() && tokens.find(&[2; 16], Place::New).is_some());
        assert!(tokens.encode().len() <= 2_048);
    }

    proptest! {
        #[test]
        fn no_row_panics(row in proptest::collection::vec(any::<u8>(), 0..200), valid in any::<bool>()) {
            let mut row = row;
            if valid && !row.is_empty() {
                row[0] = VERSION;
            }
            if let Some(tokens) = Tokens::decode(&row) {
                prop_assert_eq!(tokens.encode(), row);
            }
        }
    }
}
