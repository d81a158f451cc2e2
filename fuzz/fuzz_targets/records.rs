//! Records of an established connection, at either end: whatever a peer with the right keys seals, whatever comes in between
//! and however it is cut into reads, what comes out is what was sent, in order, up to a fault; and nothing is kept but the
//! start of a record.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_tls::testing::{APPLICATION_DATA, HANDSHAKE, joined};

/// The most that may be kept between reads: a record of any version, its header included.
const KEPT_BYTES_MAX: usize = 5 + (1 << 14) + 2048;

fuzz_target!(|input: &[u8]| {
    let [seed, cut, steps @ ..] = input else { return };
    let (client, server) = joined(seed >> 1);
    let (mut own, mut peer) = if seed & 1 == 0 { (client, server) } else { (server, client) };
    let (mut bytes, mut said, mut genuine) = (Vec::new(), Vec::new(), true);
    let mut steps = steps;
    while let [step, length, rest @ ..] = steps {
        let (content, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        steps = rest;
        match step % 8 {
            0 | 1 => {
                peer.send(content, &mut bytes).expect("it has not closed");
                if genuine {
                    said.extend_from_slice(content);
                }
            }
            2 => peer.request_update(&mut bytes),
            3 => peer.seal(HANDSHAKE, content, &mut bytes),
            4 => peer.seal(step >> 3, content, &mut bytes),
            5 => peer.seal(APPLICATION_DATA, &content.repeat(80), &mut bytes),
            6 => peer.step_sending(),
            // What nobody has sealed; it can only be the end.
            _ => bytes.extend_from_slice(content),
        }
        // Behind any of these, data may not come through any more, or other data than was said.
        genuine &= matches!(step % 8, 0..=2);
    }
    let (mut got, mut alert) = (Vec::new(), Vec::new());
    let mut fault = false;
    for mut read in bytes.chunks_mut(usize::from(*cut) + 1) {
        fault = own.receive(&mut read, &mut got, &mut alert).is_err();
        assert!(own.heap_bytes() <= 2 * KEPT_BYTES_MAX);
        if fault {
            break;
        }
    }
    let alike = said.len().min(got.len());
    assert_eq!(got[..alike], said[..alike]);
    if genuine {
        // A flood of key updates ends it, too.
        assert!(if fault { got.len() <= said.len() } else { got.len() == said.len() && alert.is_empty() });
    }
    if fault {
        return;
    }
    // Its own direction goes on, whatever came: the answer to a key update first.
    let mut answer = Vec::new();
    own.send(b"still here", &mut answer).expect("it has not closed");
    let mut heard = Vec::new();
    peer.receive(&mut &mut answer[..], &mut heard, &mut Vec::new()).expect("sealed with the keys agreed on");
    assert_eq!(heard, b"still here");
});
