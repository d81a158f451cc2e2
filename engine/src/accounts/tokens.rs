//! Tokens of accounts (XEP-0484) at the accounts' home: verified, created and revoked.
//!
//! Two logins may read an account's tokens at once, and both change them. What is written is
//! therefore remembered while an answer of the store is outstanding, so that each login builds on
//! the other's result.

use rand_core::RngCore;

use crate::accounts::Accounts;
use crate::actors::Actors;
use crate::id::ConnId;
use crate::io::StorageState;
use crate::kernel::pending::{AccountRead, LoginRead, Pending, Why};
use crate::letters::{Answer, ConnRef};
use crate::store::Found;
use crate::store::account::Credentials;
use crate::store::token::{self, TOKEN_NONCE_BYTES, TokenShown, Tokens};
use crate::streams::Streams;
use crate::streams::half::Up;

/// The tokens of an account that are being read.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Number of outstanding answers.
    reads: u32,
    /// What has been written since.
    written: Option<Tokens>,
}

impl Accounts {
    /// Reads an account's record with its tokens. The caller must pass the answer to
    /// [`Accounts::tokens_read`].
    pub(crate) fn read_tokens(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str, why: Why) {
        self.tokens_asked.entry(account.into()).or_default().reads += 1;
        actors.look(
            cx,
            Pending::Login(LoginRead::Account(AccountRead { account: account.into(), why })),
            account,
            Some(token::get(account)),
        );
    }

    /// An answer has arrived, with or without a result. Returns the account's tokens, from what was
    /// found and what has been written since.
    pub(crate) fn tokens_read(&mut self, account: &str, found: Vec<Found>) -> Tokens {
        let row = found.into_iter().next().and_then(Found::value);
        let Some(asked) = self.tokens_asked.get_mut(account) else { return Tokens::of_row(row.as_deref()) };
        let tokens = asked.written.clone().unwrap_or_else(|| Tokens::of_row(row.as_deref()));
        asked.reads -= 1;
        if asked.reads == 0 {
            self.tokens_asked.remove(account);
        }
        tokens
    }

    fn write_tokens(&mut self, cx: &mut Streams, account: &str, tokens: Tokens) {
        tokens.write(&mut cx.kernel.writes, account);
        self.know_tokens(account, tokens);
    }

    /// Sets the account's tokens, overriding any read in progress.
    fn know_tokens(&mut self, account: &str, tokens: Tokens) {
        if let Some(asked) = self.tokens_asked.get_mut(account) {
            asked.written = Some(tokens);
        }
    }

    /// Revokes all tokens of an account, because its password was changed.
    pub(crate) fn end_tokens(&mut self, cx: &mut Streams, account: &str) {
        self.write_tokens(cx, account, Tokens::default());
    }

    /// All rows of an account are deleted.
    pub(crate) fn tokens_erased(&mut self, account: &str) {
        self.know_tokens(account, Tokens::default());
    }

    /// A client presents a token; the connection is told the result. A valid token increments its
    /// count and revokes its predecessors.
    pub(crate) fn token_shown(
        &mut self,
        cx: &mut Streams,
        conn: ConnRef,
        account: &str,
        record: Option<&[u8]>,
        mut tokens: Tokens,
        shown: &TokenShown,
    ) {
        let credentials = record.and_then(|record| Credentials::decode(record).ok());
        // A client drops a token that it is told has expired, even if the clock turns out to have
        // been wrong.
        let now_s = self.expiry_s(cx);
        let (answer, changed) = self.tokens.check(account, credentials.as_ref(), &mut tokens, shown, now_s);
        // With a full store, only the revocation of a token is written, which makes the row
        // smaller.
        if changed && (shown.invalidate || cx.kernel.storage == StorageState::Ok) {
            self.write_tokens(cx, account, tokens);
        }
        cx.kernel.reply_to(conn, Answer::Token(Box::new(answer)));
    }

    /// Creates a token for a connection that has authenticated.
    pub(crate) fn make_token(&mut self, cx: &mut Streams, actors: &mut Actors, conn: ConnId, account: &str) {
        cx.block(conn);
        self.read_tokens(cx, actors, account, Why::Token { conn });
    }

    /// The account's tokens have been read. Another one is created if the account and its password
    /// are those that the client has authenticated with. The connection continues, with or without
    /// a token.
    pub(crate) fn token_wanted(
        &mut self,
        cx: &mut Streams,
        conn: ConnId,
        account: &str,
        record: Option<&[u8]>,
        mut tokens: Tokens,
    ) {
        let credentials = record.and_then(|record| Credentials::decode(record).ok());
        let now_s = self.wall_s(cx);
        let mut nonce = [0; TOKEN_NONCE_BYTES];
        cx.kernel.entropy.fill_bytes(&mut nonce);
        let room = cx.kernel.storage == StorageState::Ok;
        let Some(opening) = cx.opening(conn) else { return };
        let owner = opening.stage().owner();
        let same = credentials.filter(|found| owner.is_some_and(|owner| owner.is_of(found)));
        let Some(inline) = opening.inline.as_mut() else { return };
        let wanted = inline.wants_token();
        inline.token = None;
        if let (Some((agent, kind)), Some(credentials), true) = (wanted, same, room) {
            let made = self.tokens.make(account, &credentials, &mut tokens, (&agent, kind), nonce, now_s);
            self.write_tokens(cx, account, tokens);
            if let Some(inline) = cx.opening(conn).and_then(|opening| opening.inline.as_mut()) {
                inline.made = Some(made);
            }
        }
        cx.up.push_back(Up::Inline(conn));
    }

    /// The tokens cannot be read: the connection continues without one.
    pub(crate) fn token_unreadable(&mut self, cx: &mut Streams, conn: ConnId) {
        if let Some(inline) = cx.opening(conn).and_then(|opening| opening.inline.as_mut()) {
            inline.token = None;
            cx.up.push_back(Up::Inline(conn));
        }
    }
}
