//! Leave to create an account. The actor that gave leave is informed of the outcome.

use crate::accounts::Accounts;
use crate::letters::{Answer, ConnRef, Leave, Question, Settle};
use crate::streams::Streams;

impl Accounts {
    /// Seconds since the Unix epoch, for stamps.
    pub(super) fn wall_s(&self, cx: &Streams) -> u64 {
        cx.kernel.now.wall_us / 1_000_000
    }

    /// Seconds since the Unix epoch, for expiry.
    pub(super) fn expiry_s(&self, cx: &Streams) -> u64 {
        cx.kernel.now.expiry_us / 1_000_000
    }

    /// Informs the actor that gave leave for an account, which then answers the connection. Without
    /// leave the connection is answered now.
    pub(super) fn outcome(
        &mut self,
        cx: &mut Streams,
        conn: ConnRef,
        leave: Option<Box<Leave>>,
        account: &str,
        made: bool,
        answer: Answer,
    ) {
        match leave {
            None => cx.kernel.reply_to(conn, answer),
            Some(leave) => {
                let by = leave.by.clone();
                let settle = Settle { leave: *leave, account: account.into(), made, answer };
                cx.kernel.ask_home(conn, &by, Question::Settle(Box::new(settle)));
            }
        }
    }

    /// The sender of a question whose answer is for no connection.
    pub(super) fn nobody(&self, cx: &Streams) -> ConnRef {
        ConnRef::nobody(cx.kernel.id)
    }
}
