//! Leave to make an account: who has given it hears what came of it.

use crate::accounts::Accounts;
use crate::letters::{Answer, ConnRef, Leave, Question, Settle};
use crate::streams::Streams;

impl Accounts {
    /// Seconds since the Unix epoch, for stamps.
    pub(super) fn wall_s(&self, cx: &Streams) -> u64 {
        cx.kernel.now.wall_us / 1_000_000
    }

    /// Seconds since the Unix epoch, for what goes by age.
    pub(super) fn expiry_s(&self, cx: &Streams) -> u64 {
        cx.kernel.now.expiry_us / 1_000_000
    }

    /// Whoever has given leave for an account hears what came of it, and answers the connection; without leave it is answered now.
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

    /// A question whose answer is for no connection.
    pub(super) fn nobody(&self, cx: &Streams) -> ConnRef {
        ConnRef::nobody(cx.kernel.id)
    }
}
