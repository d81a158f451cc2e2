//! The queue for processors is limited: passwords of disconnected clients, and new passwords of
//! connected ones.

use base64::Engine as _;
use throng_engine::limits::{JOBS_UNDER_WAY_MAX, JOBS_WAITING_SPARE};
use throng_engine::settings::Settings;
use throng_sim::script::{Heard, Patience, Player, Script};
use throng_sim::stage::Stage;
use throng_sim::world::{PASSWORD, Pace};

const HEADER: &[u8] =
    b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";

/// A world of one shard in which a job takes up to this long.
fn stage(script: &str, job_us: u64) -> (Stage, Script) {
    let script = Script::parse(script).expect("a script");
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.throttle.account_burst = 0;
    settings.throttle.address_burst = 0;
    settings.facts.registration = true;
    let pace = Pace { job_us, ..Pace::default() };
    (Stage::new(7, settings, pace, &script), script)
}

fn waiting(stage: &Stage) -> usize {
    stage.world.shards().map(|id| stage.world.shard(id).counters().jobs_pending.get() as usize).sum()
}

/// RFC 6120 6.5.11 lets a client retry any number of times: each attempt leaves a password that
/// nobody waits for.
#[test]
fn passwords_of_those_who_have_gone_are_bounded() {
    const AT_ONCE: usize = 100;
    let (mut stage, _) = stage("clients: romeo=romeo/orchard\n", u64::MAX / 4);
    let most = JOBS_UNDER_WAY_MAX + 2 * AT_ONCE + JOBS_WAITING_SPARE;
    let (mut gone, mut peak) = (0, 0);
    while gone < 2 * most {
        let names: Vec<String> = (gone..gone + AT_ONCE).map(|number| format!("gone{number}")).collect();
        for name in &names {
            stage.open(name).expect("a connection");
            let plain = base64::engine::general_purpose::STANDARD.encode(format!("\0{name}\0wrong"));
            let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>");
            stage.send(name, &[HEADER, auth.as_bytes()].concat()).expect("a connection");
        }
        stage.pass(100);
        peak = peak.max(waiting(&stage));
        names.iter().for_each(|name| stage.abort(name));
        stage.pass(100);
        gone += AT_ONCE;
    }
    assert!(peak > most / 2, "the bound has been near: {peak} of {most}");
    assert!(peak <= most, "{peak} wait, {most} may");
}

/// XEP-0077 3.3, repeated by a connected client: beyond the limit of pending jobs it is refused
/// (RFC 6120 8.3.3.18).
#[test]
fn changes_of_password_that_wait_are_bounded() {
    let (mut stage, script) = stage("clients: romeo=romeo/orchard\nromeo connects\n", 1_000_000);
    script.play(&mut stage, "localhost", PASSWORD).expect("romeo comes in");
    let count = 2 * JOBS_WAITING_SPARE;
    let ask = |number: usize| {
        format!(
            "<iq type='set' id='p{number}'><query xmlns='jabber:iq:register'><username>romeo</username>\
             <password>new{number}</password></query></iq>"
        )
    };
    let all: String = (0..count).map(ask).collect();
    stage.send("romeo", all.as_bytes()).expect("romeo is connected");
    stage.pass(1);
    let (waiting, most) = (waiting(&stage), JOBS_UNDER_WAY_MAX + JOBS_WAITING_SPARE);
    assert!(waiting <= most, "{waiting} wait, {most} may");
    let mut answers = String::new();
    while !answers.contains(&format!("id='p{}'", count - 1)) {
        match stage.hear("romeo", Patience::Long) {
            Ok(Heard::Bytes(bytes)) => answers += &String::from_utf8_lossy(&bytes),
            other => panic!("{other:?}"),
        }
    }
    let refused = answers.matches("<resource-constraint").count();
    assert!(refused >= count - most, "{refused} of {count} were refused");
}
