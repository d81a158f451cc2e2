//! Polls a server once per second. One thread reads the growing recording and the state, and passes
//! them on at once; another one reads the busiest sessions, for which the server waits for its
//! shards.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use serde::Deserialize;
use throng_engine::observers::busiest::FIRST_WINDOW_MS;
use throng_recorder::clock::{Pace, Stop, wall_ms};
use throng_recorder::sar::{Failure, Feed, Files, Http, Remote, Said, Selection, between};
use throng_recorder::table::Sample;

use super::view::{HISTORY_MAX, News, PICK, Second, Wrong};
use crate::admin::{Busiest, Status};

/// Most pending news; the source waits when there are more.
const NEWS_MAX: usize = 1_024;
/// Number of sessions requested.
const SESSIONS: usize = 200;
/// Interval of requests for the busiest sessions, and of attempts to reconnect.
const EVERY: Duration = Duration::from_secs(1);

/// The first request begins the counting; there are figures after this time.
const COUNTED_AFTER: Duration = Duration::from_millis(FIRST_WINDOW_MS + 20);

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct Address {
    /// `http://host:port`.
    pub url: String,
    /// The file with the token, if one is needed.
    pub token_file: Option<std::path::PathBuf>,
}

/// A running source; dropping it ends it.
#[derive(Debug)]
pub struct Source {
    stop: Arc<Stop>,
    news: Receiver<News>,
}

impl Source {
    /// Starts the source.
    ///
    /// # Errors
    /// The address has another form, or the threads cannot be created.
    pub fn start(address: Address) -> Result<Source, Failure> {
        http(&address)?;
        let (news_in, news) = sync_channel(NEWS_MAX);
        let stop = Arc::new(Stop::default());
        let asked: [(&str, Ask, Lost); 2] = [("top", follow, News::Lost), ("top-busiest", busiest, News::Uncounted)];
        for (name, ask, lost) in asked {
            let (address, wished, news_in) = (address.clone(), stop.clone(), news_in.clone());
            let ask = move || {
                while !wished.is_set() {
                    match ask(&address, &wished, &news_in) {
                        Ok(()) | Err(Failure::Closed) => return,
                        Err(Failure::Usage(why) | Failure::Failed(why) | Failure::InUse(why)) => {
                            if news_in.send(lost(why)).is_err() || wished.wait(EVERY) {
                                return;
                            }
                        }
                    }
                }
            };
            std::thread::Builder::new().name(name.into()).spawn(ask)?;
        }
        Ok(Source { stop, news })
    }

    /// The received news.
    pub fn news(&self) -> &Receiver<News> {
        &self.news
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // It may wait long for an answer: it ends by itself, at the latest with the process.
        self.stop.set();
    }
}

/// Polls until the end is requested, or a request fails.
type Ask = fn(&Address, &Arc<Stop>, &SyncSender<News>) -> Result<(), Failure>;

/// Turns a failure into news.
type Lost = fn(String) -> News;

fn http(address: &Address) -> Result<Http, Failure> {
    Http::new(&address.url, address.token_file.as_deref())
}

#[derive(Deserialize)]
struct Now {
    status: Box<Status>,
    wrong: Vec<Wrong>,
}

/// The receiver is gone.
fn tell(news: &SyncSender<News>, what: News) -> Result<(), Failure> {
    news.send(what).map_err(|_| Failure::Closed)
}

fn state(http: &Http, news: &SyncSender<News>) -> Result<(), Failure> {
    let now: Now = http.json("/api/now")?;
    tell(news, News::State(now.status, now.wrong))
}

/// Sends the busiest sessions once per second, or as soon as the shards have answered.
fn busiest(address: &Address, stop: &Arc<Stop>, news: &SyncSender<News>) -> Result<(), Failure> {
    let asks = http(address)?;
    let ask = || {
        let busiest: Busiest = asks.json(&format!("/api/busiest?most={SESSIONS}"))?;
        tell(news, News::Busiest(busiest.counted.then_some(busiest.sessions))).map(|()| busiest.counted)
    };
    if !ask()? && stop.wait(COUNTED_AFTER) {
        return Ok(());
    }
    let mut pace = Pace::at_once(EVERY);
    while pace.wait(stop) {
        ask()?;
    }
    Ok(())
}

/// Sends the last minutes and new data, until the end is requested.
fn follow(address: &Address, stop: &Arc<Stop>, news: &SyncSender<News>) -> Result<(), Failure> {
    let asks = http(address)?;
    state(&asks, news)?;
    let since_ms = wall_ms().saturating_sub(HISTORY_MAX as u64 * 1_000);
    let mut feed = Files::at(Rc::new(Remote::recent(http(address)?, since_ms)), 0, Some(stop.clone()))?;
    let selection = Selection::of(PICK, &*feed.schema()?)?;
    let mut last: Option<Sample> = None;
    while let Some(said) = feed.next()? {
        match said {
            Said::Sample(sample) => {
                let schema = sample.shape.schema();
                let before = last.take().filter(|last| last.shape.schema() == schema);
                if let Some(before) = before {
                    let moment = between(&selection.picks(schema), &before, &sample);
                    tell(news, News::Second(Box::new(Second::of(&moment))))?;
                }
                last = Some(sample);
            }
            Said::Waiting => state(&asks, news)?,
            Said::Mark(_) | Said::Damage(..) => {}
        }
    }
    Ok(())
}
