//! Export from a store at rest to files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use throng_engine::id::{Domains, PARTITIONS};
use throng_engine::portable::{self, Keys, NS, Portion};
use throng_engine::store::{Found, Query, Table, key};

use super::write::{Out, file_name, folder, uri_part};
use super::{Summary, Wrong};
use crate::disk::{Engine, Visit};

const HEAD: &[u8] = b"<?xml version='1.0' encoding='UTF-8'?>\n";

/// The layout of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// One file with everything.
    File,
    /// A folder with a main file, one for each host, and one for each user (XEP-0227 5.1).
    Folder,
    /// A folder with a main file and a complete file for each host, with keys in base64 twice: the
    /// layout of ejabberd, which does not read keys of users in separate files.
    Hosts,
    /// A folder with a complete file for each user, named by the JID: the layout of Prosody.
    Users,
}

/// The settings of an export.
pub struct Export<'a> {
    /// The store.
    pub engine: &'a (dyn Engine + 'static),
    /// The layout of the files.
    pub layout: Layout,
    /// The domains served.
    pub served: &'a Domains,
    /// Domains whose users are exported; all if empty.
    pub domains: &'a BTreeSet<String>,
    /// The only user that is exported, a normalised bare JID, without the keys of the password; all
    /// if `None`.
    pub user: Option<&'a str>,
    /// Whether to include archives.
    pub archive: bool,
    /// The current time, microseconds since the Unix epoch.
    pub now_us: u64,
}

/// The destination of the users of a host.
struct Place {
    to: PathBuf,
    layout: Layout,
    /// With [`Layout::File`] the main file, with [`Layout::Folder`] and [`Layout::Hosts`] the file
    /// of the host.
    whole: Option<Out>,
    host: String,
    /// A folder for users, once created.
    folder: Option<PathBuf>,
    /// Number of users whose names cannot be file names.
    odd: u64,
}

/// Exports the accounts; `step` receives the progress.
///
/// # Errors
/// Those of reading the store, and of writing the files. Written files stay: without its main file,
/// the folder does not count as an export.
pub fn export(to: &Path, plan: &Export<'_>, step: &mut dyn FnMut(&Summary)) -> Result<Summary, Wrong> {
    let mut summary = Summary::default();
    let hosts = hosts(plan)?;
    for wanted in plan.domains.iter().filter(|domain| !hosts.contains_key(*domain)) {
        summary.one("host", format!("this store has no accounts at {wanted}"), &|| wanted.clone());
    }
    let mut main = match plan.layout {
        Layout::File => Some(Out::create(to.to_owned())?),
        Layout::Folder | Layout::Hosts | Layout::Users => {
            folder(to)?;
            None
        }
    };
    if let Some(main) = &mut main {
        main.write(HEAD)?;
        main.write(format!("<server-data xmlns='{NS}'>\n").as_bytes())?;
    }
    let mut written = Vec::new();
    for (host, partitions) in &hosts {
        let mut place = Place {
            to: to.to_owned(),
            layout: plan.layout,
            whole: main.take(),
            host: host.clone(),
            folder: None,
            odd: 0,
        };
        place.begin()?;
        for partition in partitions {
            // Few enough to be in memory: a 4,096th of all accounts.
            for (user, record) in accounts(plan.engine, *partition)? {
                let is_other = plan.user.is_some_and(|only| only != user);
                if is_other || user.split_once('@').is_none_or(|(_, domain)| domain != host) {
                    continue;
                }
                place.user(&user, &record, plan, &mut summary)?;
                summary.users += 1;
                step(&summary);
            }
        }
        main = place.end(&mut written, &mut summary)?;
    }
    match plan.layout {
        Layout::File => {
            let mut main = main.expect("it goes from host to host");
            main.write(b"</server-data>\n")?;
            summary.bytes += main.finish(true)?;
        }
        Layout::Folder | Layout::Hosts => {
            let mut main = Out::create(to.join("main.xml"))?;
            main.write(HEAD)?;
            main.write(format!("<server-data xmlns='{NS}' xmlns:xi='http://www.w3.org/2001/XInclude'>\n").as_bytes())?;
            for file in written {
                main.write(format!("  <xi:include href='{}'/>\n", uri_part(&file)).as_bytes())?;
            }
            main.write(b"</server-data>\n")?;
            summary.bytes += main.finish(true)?;
        }
        Layout::Users => {}
    }
    Ok(summary)
}

/// The requested domains that have accounts, with the partitions of these.
fn hosts(plan: &Export<'_>) -> Result<BTreeMap<String, BTreeSet<u16>>, Wrong> {
    let mut hosts: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    if let Some((user, (_, domain))) = plan.user.and_then(|user| Some((user, user.split_once('@')?))) {
        hosts.insert(domain.to_owned(), BTreeSet::from([throng_engine::id::partition(user.as_bytes())]));
        return Ok(hosts);
    }
    plan.engine.for_each_actor(Table::Accounts, None, &mut |actor| {
        let user = String::from_utf8_lossy(actor);
        if let Some((_, domain)) =
            user.split_once('@').filter(|(_, domain)| plan.domains.is_empty() || plan.domains.contains(*domain))
        {
            if !hosts.contains_key(domain) {
                hosts.insert(domain.to_owned(), BTreeSet::new());
            }
            hosts.get_mut(domain).expect("just there").insert(throng_engine::id::partition(actor));
        }
        Visit::Continue(())
    })?;
    debug_assert!(hosts.values().flatten().all(|partition| *partition < PARTITIONS));
    Ok(hosts)
}

/// The accounts of a partition, with their rows.
fn accounts(engine: &dyn Engine, partition: u16) -> Result<Vec<(String, Vec<u8>)>, Wrong> {
    let mut found = Vec::new();
    engine.scan_within(&[key::partition_range(Table::Accounts, partition)], &mut |row, value| {
        if let Some((_, actor, _)) = key::decode(row).filter(|(_, _, sort)| sort.is_empty()) {
            found.push((String::from_utf8_lossy(actor).into_owned(), value.to_vec()));
        }
        Visit::Continue(())
    })?;
    Ok(found)
}

impl Place {
    fn host_tag(&self) -> Vec<u8> {
        let mut tag = b"<host".to_vec();
        if matches!(self.layout, Layout::Folder | Layout::Hosts) {
            throng_engine::extension::xml::attribute(&mut tag, "xmlns", NS);
            throng_engine::extension::xml::attribute(&mut tag, "xmlns:xi", "http://www.w3.org/2001/XInclude");
        }
        throng_engine::extension::xml::attribute(&mut tag, "jid", &self.host);
        tag.extend_from_slice(b">\n");
        tag
    }

    fn begin(&mut self) -> Result<(), Wrong> {
        if matches!(self.layout, Layout::Folder | Layout::Hosts) {
            let name = self.host_file()?;
            let mut out = Out::create(self.to.join(name))?;
            out.write(HEAD)?;
            self.whole = Some(out);
        }
        if self.layout == Layout::Folder {
            let users = self.to.join(&self.host);
            folder(&users)?;
            self.folder = Some(users);
        }
        let tag = self.host_tag();
        match &mut self.whole {
            Some(whole) => whole.write(&tag),
            None => Ok(()),
        }
    }

    fn host_file(&self) -> Result<String, Wrong> {
        file_name(&self.host).ok_or_else(|| {
            Wrong::File(format!("{} is too long for the name of a file: export it with --layout file", self.host))
        })
    }

    fn user(&mut self, user: &str, record: &[u8], plan: &Export<'_>, summary: &mut Summary) -> Result<(), Wrong> {
        let local = user.split_once('@').map_or(user, |(local, _)| local);
        let own = match self.layout {
            Layout::File | Layout::Hosts => None,
            Layout::Folder => {
                let name = file_name(local).unwrap_or_else(|| {
                    // XEP-0227 5.1: constraints may force another scheme.
                    self.odd += 1;
                    format!("=user-{}.xml", self.odd)
                });
                Some((self.folder.as_ref().expect("made with the host").join(&name), format!("{}/{name}", self.host)))
            }
            Layout::Users => match file_name(user) {
                Some(name) => Some((self.to.join(&name), name)),
                None => {
                    summary.left += 1;
                    summary.one(
                        "user",
                        "the JID is too long for the name of a file: --layout file writes it".into(),
                        &|| user.to_owned(),
                    );
                    return Ok(());
                }
            },
        };
        let mut file = own.as_ref().map(|(path, _)| Out::create(path.clone())).transpose()?;
        if let Some(file) = &mut file {
            file.write(HEAD)?;
        }
        if self.layout == Layout::Users {
            let tag = self.host_tag();
            let file = file.as_mut().expect("each user has one");
            file.write(format!("<server-data xmlns='{NS}'>\n").as_bytes())?;
            file.write(&tag)?;
        }
        let portion = Portion {
            archive: plan.archive,
            // The export of one account is for its owner: whoever has the keys could try passwords.
            keys: match plan.layout {
                _ if plan.user.is_some() => Keys::Omitted,
                Layout::Hosts => Keys::Twice,
                Layout::File | Layout::Folder | Layout::Users => Keys::Once,
            },
            begins: self.layout == Layout::Folder,
            now_us: plan.now_us,
        };
        let mut read = |query: &Query| -> Result<Found, Wrong> { Ok(plan.engine.read(query)?) };
        let departed = match &mut file {
            Some(file) => {
                portable::export(user, plan.served, record, portion, &mut read, &mut |text| file.write(text))?
            }
            None => {
                let whole = self.whole.as_mut().expect("the main file");
                portable::export(user, plan.served, record, portion, &mut read, &mut |text| whole.write(text))?
            }
        };
        summary.counts.add(&departed.counts);
        summary.note(departed.words, &|| user.to_owned());
        if let Some(mut file) = file {
            if self.layout == Layout::Users {
                file.write(b"</host>\n</server-data>\n")?;
            }
            summary.bytes += file.finish(false)?;
        }
        if let (Layout::Folder, Some(whole), Some((_, name))) = (self.layout, &mut self.whole, own) {
            whole.write(format!("  <xi:include href='{}'/>\n", uri_part(&name)).as_bytes())?;
        }
        Ok(())
    }

    /// Ends the host; returns the main file, if it continues.
    fn end(self, written: &mut Vec<String>, summary: &mut Summary) -> Result<Option<Out>, Wrong> {
        let name = match self.layout {
            Layout::Folder | Layout::Hosts => Some(self.host_file()?),
            Layout::File | Layout::Users => None,
        };
        let Some(mut whole) = self.whole else { return Ok(None) };
        whole.write(b"</host>\n")?;
        match name {
            Some(name) => {
                summary.bytes += whole.finish(true)?;
                written.push(name);
                Ok(None)
            }
            None => Ok(Some(whole)),
        }
    }
}
