//! Every script of `tests/scripts`, played in the simulated world: on an idle machine, and on slow
//! ones that split and delay, with several numbers of shards. The server's tests play the same
//! files over sockets.

use std::path::{Path, PathBuf};

use throng_engine::settings::BareDelivery;
use throng_sim::stage;
use throng_sim::world::{Crossing, Pace};

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scripts");
    let files = std::fs::read_dir(folder).expect("the scripts are there");
    let mut all: Vec<PathBuf> =
        files.map(|f| f.expect("readable").path()).filter(|p| p.extension().is_some_and(|e| e == "scs")).collect();
    all.sort();
    all
}

fn rough() -> Pace {
    Pace {
        turn_us: 2_000,
        net_us: 3_000,
        read_bytes: 7,
        letters_us: 2_000,
        commit_us: 8_000,
        read_us: 5_000,
        ..Pace::default()
    }
}

#[test]
fn every_script_holds_on_every_world() {
    let mut failures = Vec::new();
    let paths = scripts();
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("readable");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for (seed, shards, pace, crossing) in [
            (1, 1, Pace::default(), Crossing::Direct),
            (2, 2, Pace::default(), Crossing::Encoded),
            (3, 3, rough(), Crossing::Direct),
            (4, 5, rough(), Crossing::Lossy),
        ] {
            if let Err(error) = stage::play_across(&text, seed, shards, pace, crossing, |_| {}) {
                failures.push(format!("{name} with seed {seed} on {shards} shards: {error}"));
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_headline_goes_to_every_resource_whatever_the_policy_for_others() {
    // RFC 6121 8.5.2.1.1: "normal" and "chat" may be delivered to the most available resource only,
    // "headline" may not.
    let script = "
clients: romeo=romeo/orchard high=juliet/high low=juliet/low negative=juliet/negative
romeo connects
high connects
low connects
negative connects
high sends: <presence><priority>5</priority></presence>
low sends: <presence/>
negative sends: <presence><priority>-1</priority></presence>
high ignores what comes
low ignores what comes
negative ignores what comes
romeo sends: <message to='juliet@localhost' type='chat' id='1'><body>1</body></message>
high receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat' id='1'><body>1</body></message>
romeo sends: <message to='juliet@localhost' type='headline' id='2'><body>2</body></message>
high receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='headline' id='2'><body>2</body></message>
low receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='headline' id='2'><body>2</body></message>
negative receives nothing
";
    stage::play(script, 1, 2, Pace::default(), |s| s.bare_delivery = BareDelivery::MostAvailable).expect("it holds");
}
