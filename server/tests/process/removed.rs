//! A removed account on a real server: connections that were about to log in are refused, and every
//! answer outlives the process.

use crate::support::{Client, PASSWORD, Server, good, has_uring};

const BIND: &str = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
const REMOVE: &str = "<iq type='set' id='gone'><query xmlns='jabber:iq:register'><remove/></query></iq>";

fn drivers() -> Vec<&'static str> {
    if has_uring() { vec!["epoll", "uring"] } else { vec!["epoll"] }
}

fn is_listed(server: &Server, user: &str) -> bool {
    let listed = server.command(&["user", "list"]).output().expect("throng runs");
    good(&listed);
    String::from_utf8_lossy(&listed.stdout).lines().any(|line| line.split('@').next() == Some(user))
}

#[test]
fn nobody_binds_into_an_account_that_was_removed_since_and_made_anew() {
    for driver in drivers() {
        let server = Server::start_with(&["--driver", driver]);
        server.add(&["romeo"]);
        // So many that both shards have some: connections stay where they are, or move, depending
        // on where they were accepted.
        let ghost = |_| Client::connect(&server.plain).authenticated("romeo", PASSWORD);
        let mut ghosts: Vec<Client> = (0..8).map(ghost).collect();
        good(&server.command(&["user", "del", "romeo", "--yes"]).output().expect("throng runs"));
        assert!(!is_listed(&server, "romeo"));
        let mut again = ghosts.split_off(4);
        for ghost in &mut ghosts {
            ghost.send(BIND);
            assert!(ghost.rest().contains("<not-authorized"), "{driver}");
        }
        let add = ["user", "add", "romeo", "--password", "another"];
        good(&server.command(&add).output().expect("throng runs"));
        for ghost in &mut again {
            ghost.send(BIND);
            assert!(ghost.rest().contains("<not-authorized"), "{driver}");
        }
        let mut owner = Client::connect(&server.plain).log_in("romeo", "another", "own");
        owner.ask("<presence/>", "<presence");
    }
}

#[test]
fn a_removal_that_was_answered_outlives_the_process() {
    for driver in drivers() {
        let mut server = Server::start_with(&["--driver", driver]);
        server.add(&["romeo", "juliet", "nurse"]);
        for user in ["romeo", "juliet"] {
            let mut client = server.client(user, "last");
            let said = client.ask(REMOVE, "id='gone'");
            assert!(said.contains("type='result'"), "{said}");
        }
        // Without warning.
        server.child.kill().expect("it runs");
        server.child.wait().expect("it ends");
        assert!(!is_listed(&server, "romeo") && !is_listed(&server, "juliet"), "{driver}");
        assert!(is_listed(&server, "nurse"), "{driver}");
    }
}
