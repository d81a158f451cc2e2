//! Announcements: sent to every shard, which passes them to its sessions at a limited rate, and
//! stored for later logins.

use std::sync::Arc;
use std::time::Duration;

use throng_engine::io::{AnnouncementCommand, Command, Reply};
use throng_engine::store::announcement::Kept;

use super::announced;
use super::control::{Running, done, internal};
use crate::admin::{ANNOUNCED_FOR, Announced, Fault, FaultKind};

impl Running {
    pub(super) fn begin_announcement(&self, text: &str, online: bool, later: Option<Duration>) -> Result<(), Fault> {
        if text.trim().is_empty() {
            return Err(Fault::new(FaultKind::Invalid, "an announcement says something"));
        }
        let now_us = self.links.clock.now().wall_us;
        let number = self.announcing.next(now_us);
        if let Some(later) = later {
            let until_us = now_us.saturating_add(u64::try_from(later.as_micros()).unwrap_or(u64::MAX));
            self.keep(Some(Arc::new(Kept { number, at_us: now_us, until_us, text: text.into() })))?;
        }
        if online {
            let number = if later.is_some() { number } else { 0 };
            let text: Arc<str> = text.into();
            for shard in 0..self.shards() {
                let command = Command::Announcement(AnnouncementCommand::Begin { text: text.clone(), number });
                if self.ask(shard, command)? == Reply::Busy {
                    return Err(Fault::new(
                        FaultKind::Busy,
                        "too many announcements are under way: try again when one is over",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Replaces the text of the stored announcement, keeping its number: users that have received
    /// it do not receive the new text.
    pub(super) fn change_announcement(&self, text: &str) -> Result<(), Fault> {
        let kept = announced::stored(&*self.links.engine).map_err(|failure| internal(failure.text))?;
        match kept.filter(|kept| kept.until_us > self.links.clock.now().wall_us) {
            Some(_) if text.trim().is_empty() => Err(Fault::new(FaultKind::Invalid, "an announcement says something")),
            Some(kept) => self.keep(Some(Arc::new(Kept { text: text.into(), ..kept }))),
            None => self.begin_announcement(text, false, Some(ANNOUNCED_FOR)),
        }
    }

    pub(super) fn announcements_told(&self) -> Result<Announced, Fault> {
        let mut all = Announced { told: 0, done: true };
        for shard in 0..self.shards() {
            let Reply::Announced { told, under_way } =
                self.ask(shard, Command::Announcement(AnnouncementCommand::Progress))?
            else {
                return Err(internal("an answer to another question"));
            };
            all.told += told;
            all.done &= under_way == 0;
        }
        Ok(all)
    }

    /// Stores an announcement for later logins, or removes it: one shard writes it, and the others
    /// receive it once it is durable.
    pub(super) fn keep(&self, kept: Option<Arc<Kept>>) -> Result<(), Fault> {
        for shard in 0..self.shards() {
            let command = Command::Announcement(AnnouncementCommand::Keep { kept: kept.clone(), write: shard == 0 });
            done(self.ask(shard, command)?, "announcement")?;
        }
        Ok(())
    }
}
