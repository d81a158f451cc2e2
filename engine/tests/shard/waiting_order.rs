//! Messages that sessions return come before those sent after them (RFC 6120 10.1), also if nothing
//! is archived.

use throng_sim::stage;
use throng_sim::world::Pace;

fn play(archive: bool, text: &str) {
    for (seed, shards) in [(1, 1), (2, 2), (3, 5)] {
        let result = stage::play(text, seed, shards, Pace::default(), |settings| {
            settings.archive = archive;
            // With one unacknowledged message a session is behind: later messages wait in the log.
            settings.unacked_max = 1;
        });
        if let Err(error) = result {
            panic!("archive={archive}, {shards} shards: {error}");
        }
    }
}

/// What Juliet's next session receives, in this order.
const NEXT: &str = "
juliet connects
juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'/>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>1</body>
    <delay xmlns='urn:xmpp:delay' from='{any}' stamp='{any}'/></message>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>2</body>
    <delay xmlns='urn:xmpp:delay' from='{any}' stamp='{any}'/></message>
juliet receives nothing
";

const ONE: &str = "
clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
juliet connects
juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'/>
juliet sends: <enable xmlns='urn:xmpp:sm:3'/>
juliet receives: <enabled xmlns='urn:xmpp:sm:3'/>
romeo sends: <message to='juliet@localhost' type='chat'><body>1</body></message>
romeo sends: <message to='juliet@localhost' type='chat'><body>2</body></message>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>1</body></message>
juliet receives nothing
juliet disconnects
time passes: 1500 ms";

#[test]
fn what_the_only_session_gave_back_goes_first() {
    for archive in [true, false] {
        play(archive, &format!("{ONE}{NEXT}"));
    }
}

const TWO: &str = "
clients: romeo=romeo/orchard juliet=juliet/balcony nurse=juliet/chamber
romeo connects
juliet connects
juliet sends: <presence/>
juliet ignores what comes
nurse connects
nurse sends: <presence/>
nurse ignores what comes
juliet ignores what comes
juliet sends: <enable xmlns='urn:xmpp:sm:3'/>
juliet receives: <enabled xmlns='urn:xmpp:sm:3'/>
nurse sends: <enable xmlns='urn:xmpp:sm:3'/>
nurse receives: <enabled xmlns='urn:xmpp:sm:3'/>
romeo sends: <message to='juliet@localhost' type='chat'><body>1</body></message>
romeo sends: <message to='juliet@localhost' type='chat'><body>2</body></message>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>1</body></message>
nurse receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>1</body></message>
juliet disconnects
nurse disconnects
time passes: 1500 ms";

#[test]
fn what_both_sessions_gave_back_goes_first_and_once() {
    for archive in [true, false] {
        play(archive, &format!("{TWO}{NEXT}"));
    }
}
