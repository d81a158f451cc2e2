//! Properties of the scanner over generated streams: the split into reads never matters, accepted
//! input means the same to an independent parser, input refused by that parser is refused, and a
//! spliced stanza scans again.

use proptest::prelude::*;
use throng_engine::limits::wire::MAX_STANZA_BYTES_DEFAULT as MAX;

use super::reference::{self, scan};

/// A name, with or without a prefix that may be declared.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zé_][a-z0-9.é-]{0,5}",
        1 => "(stream|p|q|xml):[a-z]{1,3}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -%'-;=?-\\[^-~\n]{0,40}",
        "[а-яé日本語\u{1f600}]{0,20}",
        Just("&lt;&amp;&#233;&#x1F600;]]".to_owned()),
        Just("<![CDATA[<raw>&]]]]>".to_owned()),
        Just("\r\n\r".to_owned()),
    ]
}

fn attribute() -> impl Strategy<Value = String> {
    let ordinary = (name(), "[ -%(-;=?-~é]{0,12}").prop_map(|(name, value)| format!("{name}='{value}'"));
    prop_oneof![
        4 => ordinary,
        1 => Just("xmlns='urn:d'".to_owned()),
        1 => Just("xmlns:p=\"urn:p'\"".to_owned()),
        1 => Just("xmlns:q = 'urn:p&apos;'".to_owned()),
        1 => Just("to='juliet@example.com'".to_owned()),
        1 => Just("xml:lang='en'".to_owned()),
    ]
}

fn element() -> impl Strategy<Value = String> {
    let tag = || {
        (name(), prop::collection::vec(attribute(), 0..4)).prop_map(|(name, attributes)| (name, attributes.join(" ")))
    };
    let leaf = (tag(), text()).prop_map(|((name, attributes), text)| match text.len() % 3 {
        0 => format!("<{name} {attributes}/>"),
        _ => format!("<{name} {attributes}>{text}</{name}>"),
    });
    leaf.prop_recursive(3, 12, 4, move |inner| {
        (tag(), prop::collection::vec(prop_oneof![inner, text()], 0..4))
            .prop_map(|((name, attributes), content)| format!("<{name} {attributes}>{}</{name} >", content.concat()))
    })
}

/// Bytes with a role in the grammar, for mutations.
const TELLING: &[u8] = b"<>/='\"&;:!?-[] \n\x00\x0b\xc3\xef\xbf\xbe\xffaxmlns0";

#[derive(Clone, Debug)]
enum Mutation {
    Put(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Cut(prop::sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let byte = || prop::sample::select(TELLING);
    prop_oneof![
        (any::<prop::sample::Index>(), byte()).prop_map(|(at, byte)| Mutation::Put(at, byte)),
        (any::<prop::sample::Index>(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        any::<prop::sample::Index>().prop_map(Mutation::Remove),
        any::<prop::sample::Index>().prop_map(Mutation::Cut),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutations: &[Mutation]) {
    for mutation in mutations {
        let length = bytes.len();
        if length == 0 {
            return;
        }
        match mutation {
            Mutation::Put(at, byte) => bytes[at.index(length)] = *byte,
            Mutation::Insert(at, byte) => bytes.insert(at.index(length), *byte),
            Mutation::Remove(at) => drop(bytes.remove(at.index(length))),
            Mutation::Cut(at) => bytes.truncate(at.index(length) + 1),
        }
    }
}

/// A stream from its first byte: declaration, header, stanzas, keep-alives, and possibly its end.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![Just("<?xml version='1.0' encoding='UTF-8'?>\n"), Just("")];
    let header = prop_oneof![
        3 => Just(reference::HEADER),
        1 => Just("<s:stream xmlns:s='http://etherx.jabber.org/streams' xmlns='jabber:client' xmlns:p='urn:p' to='h'>"),
    ];
    let end = prop_oneof![Just(""), Just("</stream:stream>"), Just("\n</s:stream >")];
    (start, header, prop::collection::vec(element(), 0..4), end)
        .prop_map(|(start, header, stanzas, end)| format!("{start}{header}{}{end}", stanzas.join(" \n")).into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_split_changes_the_outcome(
        mut bytes in stream(),
        mutations in prop::collection::vec(mutation(), 0..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        max in prop_oneof![3 => Just(MAX), 1 => 1..400usize],
    ) {
        mutate(&mut bytes, &mutations);
        let whole = scan(&bytes, true, max, []);
        prop_assert_eq!(&whole, &scan(&bytes, true, max, 0..bytes.len()), "byte by byte");
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(&whole, &scan(&bytes, true, max, cuts));
    }

    #[test]
    fn a_prefix_of_a_stream_never_says_more_than_the_stream(bytes in stream(), cut in any::<prop::sample::Index>()) {
        let (items, fault) = scan(&bytes, true, MAX, []);
        let (before, fault_before) = scan(&bytes[..cut.index(bytes.len())], true, MAX, []);
        prop_assert!(fault_before.is_none() || fault_before == fault);
        let whole = before.len().saturating_sub(1);
        prop_assert_eq!(&before[..whole], &items[..whole]);
    }

    #[test]
    fn an_independent_parser_agrees(stanza in element(), mutations in prop::collection::vec(mutation(), 0..3)) {
        let mut bytes = stanza.into_bytes();
        mutate(&mut bytes, &mutations);
        prop_assert_eq!(reference::disagreement(&bytes), None);
    }

    #[test]
    fn a_spliced_stanza_scans_again_and_means_the_same(
        header in prop_oneof![
            Just(reference::HEADER),
            Just("<s:stream xmlns:s='http://etherx.jabber.org/streams' xmlns='urn:d&amp;d' xmlns:p='urn:p'>"),
        ],
        stanza in element(),
        from in "[a-z&<'\"é\t]{0,10}",
    ) {
        reference::check_splices(header, stanza.as_bytes(), &from);
    }
}
