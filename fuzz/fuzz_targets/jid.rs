//! Any text as an address: a normal form is its own normal form, and its parts make it again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_engine::wire::jid::{self, Jid};

fuzz_target!(|input: &str| {
    let Ok(text) = jid::normalise(input) else {
        assert!(Jid::parse(input).is_err());
        return;
    };
    assert_eq!(jid::normalise(&text).as_deref(), Ok(&*text));
    let jid = Jid::parse(input).expect("what has a normal form is an address");
    assert_eq!(jid.as_str(), &*text);
    assert_eq!(Jid::from_parts(jid.local(), jid.domain(), jid.resource()), Ok(jid));
});
