//! Frames of a WebSocket: reading any never panics, what comes out does not depend on how they came, and no more is kept than one message
//! and one control frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_engine::web::frame::{Assembly, CONTROL_BYTES_MAX, Event, FrameFault, HEAD_BYTES_MAX, read_control};
use throng_engine::web::framed::framed;

const MESSAGE_BYTES_MAX: usize = 1_000;

fn events(bytes: &[u8], pieces: usize) -> (Vec<(Event, Vec<u8>)>, Option<FrameFault>) {
    let (mut message, mut all) = (Assembly::default(), Vec::new());
    let (mut at, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end + pieces);
        loop {
            let (used, event) = match message.read(&bytes[at..end], MESSAGE_BYTES_MAX) {
                Ok(read) => read,
                Err(fault) => return (all, Some(fault)),
            };
            at += used;
            assert!(message.bytes().len() <= MESSAGE_BYTES_MAX);
            match event {
                Event::More => break,
                Event::Message => {
                    all.push((Event::Message, message.bytes().to_vec()));
                    message.clear();
                }
                event => all.push((event, Vec::new())),
            }
        }
        assert!(end - at < HEAD_BYTES_MAX + CONTROL_BYTES_MAX);
    }
    (all, None)
}

/// Where only control frames are taken, they are read as elsewhere, and nothing else comes out.
fn controls(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok((used @ 1.., event)) = read_control(rest) {
        assert!(!matches!(event, Event::More | Event::Message));
        assert_eq!(Assembly::default().read(rest, 0), Ok((used, event)));
        rest = &rest[used..];
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    assert_eq!(events(bytes, bytes.len().max(1)), events(bytes, usize::from(*first) + 1));
    controls(bytes);
    // What a stream sends is framed whatever it is. Elements have at least three bytes, and gain a head and two declarations at most.
    assert!(framed(bytes).len() <= 32 * bytes.len() + 64);
});
