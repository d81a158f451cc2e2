//! The proxy as a program: prints where it listens, and at its end what it has done, as JSON.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use throng_faulty::{Fault, Proxy};

/// Stand between `throng load` and an XMPP server, and do now and then what a bad server would.
#[derive(Parser)]
struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:5299")]
    listen: SocketAddr,
    /// The server, for streams in the clear.
    #[arg(long, default_value = "127.0.0.1:5222")]
    to: SocketAddr,
    /// What to do: nothing, drop, double, swap, corrupt, delay (by 3 s) or cut.
    #[arg(long, default_value = "drop", value_parser = |name: &str| Fault::named(name).ok_or("no such fault"))]
    fault: Fault,
    /// To every so manieth message.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let ran = Proxy::start(options.listen, options.to, options.fault, options.every).and_then(|proxy| {
        println!("{}", proxy.address);
        let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
        signal_hook::iterator::Signals::new(signals)?.forever().next();
        let counts = &proxy.counts;
        println!(
            "{}",
            serde_json::json!({
                "messages_from_clients": counts.sent(), "messages_from_the_server": counts.came(),
                "faults_planted": counts.planted(), "delayed_and_overtaken": counts.overtaken(),
            })
        );
        Ok(())
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("faulty: {error}");
            ExitCode::FAILURE
        }
    }
}
