//! How fast the scanner reads stanzas, on one core: MB/s (10^6 bytes) and stanzas/s.
//!
//! `cargo run --profile dist -p throng-engine --example scanner > tools/bench/results/scanner.json`
//!
//! Each case is a buffer of 1 MB of whole stanzas, scanned one after the other, as from reads that hold many; the
//! best of nine runs of at least 100 ms counts. `splice` adds copying each stanza with another `from`, and `pieces`
//! gives the scanner each stanza in reads of 1,448 bytes, a full TCP segment.

#![allow(clippy::disallowed_methods, reason = "a measuring program has a clock; the engine has none")]

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;
use throng_engine::wire::{Expect, Progress, Scanner, Splice, StreamScope, splice};

const MAX: usize = 262_144;
const RUNS: usize = 9;
const RUN_MS_MIN: u128 = 100;

fn message(length: usize, fill: &str) -> String {
    let head = "<message to='juliet@example.com' type='chat' id='ktx72v49'><body>";
    let tail = "</body><active xmlns='http://jabber.org/protocol/chatstates'/></message>";
    let room = length - head.len() - tail.len();
    let mut body = fill.repeat(room / fill.len() + 1);
    let mut cut = room;
    while !body.is_char_boundary(cut) {
        cut -= 1;
    }
    body.truncate(cut);
    format!("{head}{body}{tail}")
}

fn presence() -> String {
    "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='https://example.org/client' \
     ver='QgayPKawpkPSDYmwT/WM94uAlu0='/><show>away</show><priority>5</priority></presence>"
        .to_owned()
}

/// Scans the whole buffer and gives the stanzas found.
fn scan_all(scanner: &mut Scanner, bytes: &[u8], out: Option<&mut Vec<u8>>, piece: usize) -> u64 {
    let scope = StreamScope::Usual;
    let stamp = Splice { from: Some("romeo@example.net/orchard"), ..Splice::default() };
    let (mut at, mut there, mut stanzas) = (0, bytes.len().min(piece), 0);
    let mut out = out;
    while at < bytes.len() {
        match scanner.scan(&scope, Expect::Content, MAX, &bytes[at..there]) {
            Ok(Progress::Element { consumed }) => {
                let element = scanner.element(&scope, &bytes[at..there]);
                black_box(element.to());
                if let Some(out) = out.as_deref_mut() {
                    splice(out, &element, &stamp);
                    if out.len() > 1 << 20 {
                        black_box(&out);
                        out.clear();
                    }
                }
                at += consumed;
                stanzas += 1;
            }
            Ok(Progress::Incomplete) => there = there.saturating_add(piece).min(bytes.len()),
            other => panic!("not a stanza: {other:?}"),
        }
    }
    stanzas
}

/// Bytes and stanzas a second, in the best run.
fn measure(stanza: &str, with_splice: bool, piece: usize) -> (f64, f64) {
    let bytes = stanza.repeat((1 << 20) / stanza.len()).into_bytes();
    let mut scanner = Scanner::new();
    let mut out = Vec::new();
    let (mut best_bytes, mut best_stanzas) = (0.0, 0.0);
    for _ in 0..RUNS {
        let start = Instant::now();
        let (mut scanned, mut stanzas) = (0u64, 0);
        while start.elapsed().as_millis() < RUN_MS_MIN {
            stanzas += scan_all(&mut scanner, black_box(&bytes), with_splice.then_some(&mut out), piece);
            scanned += bytes.len() as u64;
        }
        let seconds = start.elapsed().as_secs_f64();
        if scanned as f64 / seconds > best_bytes {
            (best_bytes, best_stanzas) = (scanned as f64 / seconds, stanzas as f64 / seconds);
        }
    }
    (best_bytes, best_stanzas)
}

fn main() {
    let ascii = "Wherefore art thou, Romeo? Deny thy father and refuse thy name. ";
    let cyrillic = "О, Ромео! Зачем же ты Ромео! Покинь отца и отрекись навеки. ";
    let cases = [
        ("message 180 B", message(180, ascii)),
        ("message 2 KB", message(2_048, ascii)),
        ("message 64 KB", message(65_536, ascii)),
        ("message 180 B, Cyrillic", message(180, cyrillic)),
        ("message 64 KB, Cyrillic", message(65_536, cyrillic)),
        ("message 64 KB, escaped", message(65_536, "&lt;p&gt;x&amp;y&lt;/p&gt; ")),
        ("presence with caps", presence()),
    ];
    let mut json = String::from("{\n  \"command\": \"cargo run --profile dist -p throng-engine --example scanner\",\n");
    json.push_str(
        "  \"unit\": \"10^6 bytes a second and stanzas a second, one core, best of nine\",\n  \"cases\": [\n",
    );
    for (index, (name, stanza)) in cases.iter().enumerate() {
        let (bytes, stanzas) = measure(stanza, false, usize::MAX);
        let (bytes_splice, stanzas_splice) = measure(stanza, true, usize::MAX);
        let (bytes_pieces, _) = measure(stanza, false, 1_448);
        let comma = if index + 1 == cases.len() { "" } else { "," };
        writeln!(
            json,
            "    {{\"case\": \"{name}\", \"stanza_bytes\": {}, \"mb_s\": {:.0}, \"stanzas_s\": {stanzas:.0}, \
             \"splice_mb_s\": {:.0}, \"splice_stanzas_s\": {stanzas_splice:.0}, \"pieces_mb_s\": {:.0}}}{comma}",
            stanza.len(),
            bytes / 1e6,
            bytes_splice / 1e6,
            bytes_pieces / 1e6,
        )
        .expect("writing to a string");
    }
    json.push_str("  ]\n}\n");
    print!("{json}");
}
