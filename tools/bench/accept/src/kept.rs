//! What a server has kept, as its users find it: archives by queries (XEP-0313), and items of nodes (XEP-0060). Who asks pages
//! through all of it.

use std::io;
use std::time::{Duration, Instant};

use crate::client::{Login, Said};
use crate::server::Server;
use crate::swarm::{News, Swarm};

/// Items of a page: fewer than the server answers at once.
const ITEMS: usize = 200;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// The archive behind the message of this id, or all of it.
    Archive(Option<String>),
    /// The last items of a node.
    Items(String),
}

impl Ask {
    fn request(&self) -> String {
        match self {
            Ask::Archive(after) => {
                let after = after.as_ref().map_or(String::new(), |id| format!("<after>{id}</after>"));
                format!(
                    "<iq type='set' id='page'><query xmlns='urn:xmpp:mam:2'><set xmlns='http://jabber.org/protocol/rsm'>\
                     <max>100</max>{after}</set></query></iq>"
                )
            }
            Ask::Items(node) => format!(
                "<iq type='get' id='items'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
                 <items node='{node}' max_items='{ITEMS}'/></pubsub></iq>"
            ),
        }
    }
}

/// What a user has found: messages by id and body, or items by id, in the order of the answer.
pub(crate) type Found = Vec<(String, String)>;

/// Each of these users logs in and asks. The answers in their order.
///
/// # Errors
/// Somebody could not log in, or was not answered.
pub(crate) fn ask(server: &Server, resource: &str, asks: Vec<(String, Ask)>) -> io::Result<Vec<Found>> {
    let mut swarm = Swarm::new()?;
    let login = |(name, _): &(String, Ask)| Login {
        name: name.clone(),
        resource: resource.into(),
        managed: false,
        available: false,
        ..Login::default()
    };
    let order = swarm.log_in(server.plain, asks.iter().map(login).collect(), asks.len())?;
    let mut all: Vec<(Ask, Found, bool)> = asks.into_iter().map(|(_, ask)| (ask, Found::new(), false)).collect();
    for (&index, (ask, ..)) in order.iter().zip(&all) {
        swarm.say(index, &ask.request());
    }
    let mut since = Instant::now();
    while all.iter().any(|(.., done)| !done) {
        let (mut next, mut failed) = (Vec::new(), None);
        let count = swarm.turn(Duration::from_millis(200), &mut |index, news| {
            let Some((ask, found, done)) = order.iter().position(|&of| of == index).and_then(|at| all.get_mut(at))
            else {
                return;
            };
            match news {
                News::Said(Said::Found { id, body }) => found.push((id, body)),
                News::Said(Said::Items(ids)) => {
                    found.extend(ids.into_iter().map(|id| (id, String::new())));
                    *done = true;
                }
                News::Said(Said::Page(true)) => *done = true,
                News::Said(Said::Page(false)) => {
                    *ask = Ask::Archive(found.last().map(|(id, _)| id.clone()));
                    next.push((index, ask.request()));
                }
                // A node to which nothing was published is not there.
                News::Said(Said::Result { done: false, .. }) if matches!(ask, Ask::Items(_)) => *done = true,
                News::Said(Said::Result { .. } | Said::StreamError(_)) | News::Closed => {
                    failed = Some(format!("{ask:?} is not answered: {news:?}"));
                }
                News::Said(_) => {}
            }
        })?;
        next.into_iter().for_each(|(index, request)| swarm.say(index, &request));
        if count > 0 {
            since = Instant::now();
        } else if since.elapsed() > Duration::from_secs(30) {
            failed = Some("archives and nodes are not answered".into());
        }
        if let Some(why) = failed {
            return Err(io::Error::other(why));
        }
    }
    Ok(all.into_iter().map(|(_, found, _)| found).collect())
}
