//! Asks a server, once a second: on one thread what it records as it grows and its state, which it tells at once; on another one its
//! busiest sessions, for which it waits for its shards.

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

/// News that wait to be shown at most; the source waits for room then.
const NEWS_MAX: usize = 1_024;
/// Sessions that are asked for.
const SESSIONS: usize = 200;
/// How often the busiest sessions are asked for, and a server that was lost.
const EVERY: Duration = Duration::from_secs(1);

/// The first question begins the counting; so much later there are figures.
const COUNTED_AFTER: Duration = Duration::from_millis(FIRST_WINDOW_MS + 20);

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct Address {
    /// `http://host:port`.
    pub url: String,
    /// Where the token stands, if one is needed.
    pub token_file: Option<std::path::PathBuf>,
}

/// A source at work; it ends when this is dropped.
#[derive(Debug)]
pub struct Source {
    stop: Arc<Stop>,
    news: Receiver<News>,
}

impl Source {
    /// Begins.
    ///
    /// # Errors
    /// The address is of another form, or there can be no thread.
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

    /// What it tells.
    pub fn news(&self) -> &Receiver<News> {
        &self.news
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // It may wait for an answer for long: it ends by itself, at the latest with the process.
        self.stop.set();
    }
}

/// Asks until the end is wished, or something fails.
type Ask = fn(&Address, &Arc<Stop>, &SyncSender<News>) -> Result<(), Failure>;

/// What is told of its failure.
type Lost = fn(String) -> News;

fn http(address: &Address) -> Result<Http, Failure> {
    Http::new(&address.url, address.token_file.as_deref())
}

#[derive(Deserialize)]
struct Now {
    status: Box<Status>,
    wrong: Vec<Wrong>,
}

/// Nobody listens any more.
fn tell(news: &SyncSender<News>, what: News) -> Result<(), Failure> {
    news.send(what).map_err(|_| Failure::Closed)
}

fn state(http: &Http, news: &SyncSender<News>) -> Result<(), Failure> {
    let now: Now = http.json("/api/now")?;
    tell(news, News::State(now.status, now.wrong))
}

/// Tells the busiest sessions once a second, or as soon as the shards have answered.
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

/// Tells the last minutes and what comes, until the end is wished.
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
