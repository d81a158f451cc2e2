//! Messages of the server to administrators: collected into one message, and limited in frequency.

use crate::accounts::Accounts;
use crate::extension::offline::Keep;
use crate::letters::{Kind, MessageClass};
use crate::limits::beginning;
use crate::streams::Streams;
use crate::wire::text::Writer;

/// Lines that one message has.
const LINES_MAX: usize = 20;
/// Longest line, bytes; longer lines are truncated.
const LINE_BYTES_MAX: usize = 256;

/// News that administrators have not received yet.
#[derive(Debug, Default)]
pub(super) struct Untold {
    domain: Box<str>,
    /// The first lines.
    lines: Vec<Box<str>>,
    count: u32,
    /// Earliest time of the next message, seconds of the monotonic clock.
    from_s: u32,
}

/// News for the next message.
pub(super) struct News {
    /// The domain that sends it.
    pub(super) domain: Box<str>,
    lines: Vec<Box<str>>,
    count: u32,
}

impl Untold {
    /// Adds a line of news about this domain.
    pub(super) fn note(&mut self, domain: &str, line: &str) {
        if self.count == 0 {
            self.domain = domain.into();
        }
        self.count += 1;
        if self.lines.len() < LINES_MAX {
            self.lines.push(beginning(line, LINE_BYTES_MAX).into());
        }
    }

    /// Takes the collected news, if there is any and the last message is longer ago than `every_s`.
    pub(super) fn due(&mut self, now_s: u32, every_s: u32) -> Option<News> {
        if self.count == 0 || self.from_s > now_s {
            return None;
        }
        let Untold { domain, lines, count, .. } = std::mem::take(self);
        self.from_s = now_s.saturating_add(every_s);
        Some(News { domain, lines, count })
    }
}

impl News {
    /// The text of the message: the number of events, the first of them, and advice.
    pub(super) fn text(&self, what: &str, advice: &str) -> String {
        let mut text = format!("{} {what}:", self.count);
        self.lines.iter().for_each(|line| text.extend(["\n", line]));
        let more = self.count as usize - self.lines.len();
        if more > 0 {
            text += &format!("\nand {more} more");
        }
        text.extend(["\n", advice]);
        text
    }
}

impl Accounts {
    /// Sends a new account a message of its domain, which waits for the first login (XEP-0133
    /// 4.27).
    pub(super) fn welcome(&mut self, cx: &mut Streams, account: &str) {
        let text = cx.kernel.settings.welcome.clone();
        if text.is_empty() {
            return;
        }
        let domain = account.split_once('@').map_or("", |(_, domain)| domain);
        let kind = Kind::Message { class: MessageClass::Normal, keep: Keep::Archive };
        let home = cx.kernel.home(account);
        cx.kernel.post(home, kind, None, domain, account, |out| {
            let mut w = Writer::new(out);
            w.open("message").attribute("from", domain).attribute("to", account).leaf("body", &text).close();
        });
    }

    /// Sends each administrator a message of the domain, which waits for those who are offline.
    pub(super) fn message_administrators(&mut self, cx: &mut Streams, domain: &str, subject: &str, text: &str) {
        let admins = cx.kernel.settings.admins.clone();
        for admin in admins.iter() {
            let home = cx.kernel.home(admin);
            let kind = Kind::Message { class: MessageClass::Normal, keep: Keep::Archive };
            cx.kernel.post(home, kind, None, domain, admin, |out| {
                let mut w = Writer::new(out);
                w.open("message").attribute("from", domain).attribute("to", admin);
                w.leaf("subject", subject).leaf("body", text).close();
            });
        }
    }
}
