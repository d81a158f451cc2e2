//! Templates as RFC 6570 expands them, and that nothing makes a match costly.

use proptest::prelude::*;

use super::*;
use crate::web::access::topic::channel;

fn matches(template: &str, topic: &str) -> bool {
    Template::read(template).unwrap_or_else(|text| panic!("{template}: {text}")).matches(topic)
}

/// RFC 6570 1.2 and 3.2.2 to 3.2.9: a template of each level, and what it expands to with the values that the text has.
#[test]
fn what_a_template_expands_to_matches_it() {
    for (template, topics) in [
        // 3.2.2
        ("{var}", &["value", "", "50%25", "Hello%20World%21", "red,green,blue"][..]),
        ("O{empty}X", &["OX"]),
        ("O{undef}X", &["OX"]),
        ("{x,y}", &["1024,768", "1024", ""]),
        ("{x,hello,y}", &["1024,Hello%20World%21,768"]),
        ("?{x,empty}", &["?1024,", "?1024"]),
        ("map?{x,y}", &["map?1024,768"]),
        // 3.2.3
        ("{+var}", &["value", "Hello%20World!"]),
        ("{+half}", &["50%25"]),
        ("{base}index", &["http%3A%2F%2Fexample.com%2Fhome%2Findex"]),
        ("{+base}index", &["http://example.com/home/index"]),
        ("O{+empty}X", &["OX"]),
        ("{+path}/here", &["/foo/bar/here"]),
        ("here?ref={+path}", &["here?ref=/foo/bar"]),
        ("up{+path}{var}/here", &["up/foo/barvalue/here"]),
        ("{+x,hello,y}", &["1024,Hello%20World!,768"]),
        ("{+path,x}/here", &["/foo/bar,1024/here"]),
        // 3.2.4
        ("{#var}", &["#value", ""]),
        ("{#half}", &["#50%25"]),
        ("foo{#empty}", &["foo#"]),
        ("foo{#undef}", &["foo"]),
        ("{#path,x}/here", &["#/foo/bar,1024/here"]),
        // 3.2.5
        ("{.who}", &[".fred", ""]),
        ("{.half,who}", &[".50%25.fred"]),
        ("www{.dom}", &["www.example.com", "www.example,com"]),
        ("X{.empty}", &["X."]),
        ("X{.undef}", &["X"]),
        // 3.2.6
        ("{/who}", &["/fred"]),
        ("{/who,who}", &["/fred/fred", "/fred", ""]),
        ("{/half,who}", &["/50%25/fred"]),
        ("{/var,empty}", &["/value/"]),
        ("{/var,undef}", &["/value"]),
        ("{/var,x}/here", &["/value/1024/here"]),
        ("{/list}", &["/red,green,blue"]),
        // 3.2.7
        (";x", &[";x"]),
        ("{;who}", &[";who=fred", ""]),
        ("{;empty}", &[";empty"]),
        ("{;v,empty,who}", &[";v=6;empty;who=fred", ";v=6;who=fred", ";who=fred"]),
        ("{;x,y,undef}", &[";x=1024;y=768"]),
        // 3.2.8
        ("{?who}", &["?who=fred", ""]),
        ("{?half}", &["?half=50%25"]),
        ("{?x,y}", &["?x=1024&y=768", "?x=1024", "?y=768", ""]),
        ("{?x,y,empty}", &["?x=1024&y=768&empty="]),
        ("{?list}", &["?list=red,green,blue"]),
        // 3.2.9
        ("{&who}", &["&who=fred"]),
        ("?fixed=yes{&x}", &["?fixed=yes&x=1024", "?fixed=yes"]),
        ("{&x,y,empty}", &["&x=1024&y=768&empty="]),
        // As topics have them.
        ("https://example.com/books/{id}", &["https://example.com/books/1", "https://example.com/books/"]),
        ("/users/{user}/{?page}", &["/users/romeo/?page=2", "/users/romeo/"]),
        ("urn:uuid:{id}", &["urn:uuid:5e94c686-2c0b"]),
        ("/caf\u{e9}/{x}", &["/caf\u{e9}/1"]),
    ] {
        for topic in topics {
            assert!(matches(template, topic), "{template} and {topic}");
        }
        assert!(matches(template, template), "draft 07 of Mercure, 4.1: a selector matches itself");
    }
}

#[test]
fn what_no_template_expands_to_does_not_match_it() {
    for (template, topics) in [
        ("{var}", &["a/b", "a b", "a?", "caf\u{e9}", "50%", "%2", "%zz", "{x}"][..]),
        ("O{x}X", &["O", "X", "OX ", "ox", ""]),
        ("{+path}", &["a b", "a%", "\"", "caf\u{e9}"]),
        ("foo{#x}", &["foo?", "foox", "#x"]),
        ("X{.x}", &["Xa", "X/a"]),
        ("{/a,b}", &["/a/b/c", "a", "//x/", "/a?"]),
        ("{;a,b}", &[";b=1;a=1", ";a=", ";c", "a=1", ";a=1;a=2", ";ab"]),
        ("{?x,y}", &["?", "?x", "?y=1&x=2", "?x=1&x=2", "?x=1?y=2", "&x=1", "?x=1&"]),
        ("{&x}", &["?x=1", "&x", "&y=1"]),
        ("https://example.com/books/{id}", &["https://example.com/books/1/2", "https://example.com/books", ""]),
        ("/{id}/x", &["/a/b/x", "/a/y"]),
    ] {
        for topic in topics {
            assert!(!matches(template, topic), "{template} and {topic}");
        }
    }
    assert!(!matches("{+x}", &"a".repeat(TOPIC_BYTES_MAX + 1)));
    assert!(matches("{+x}", &"a".repeat(TOPIC_BYTES_MAX)));
}

#[test]
fn what_is_not_matched_here_is_refused() {
    for (text, why) in [
        ("{", "without its }"),
        ("a{id", "without its }"),
        ("a}", "without its {"),
        ("{a}}", "without its {"),
        ("{}", "without a variable"),
        ("{a,}", "without a variable"),
        ("{a b}", "without a variable"),
        ("{{a}}", "without a variable"),
        ("{?}", "without a variable"),
        ("{a..b}", "without a variable"),
        ("{%zz}", "without a variable"),
        ("{\u{e9}}", "without a variable"),
        ("{id:3}", "level 4"),
        ("{list*}", "level 4"),
        ("{?list*}", "level 4"),
        ("{=x}", "reserved operator"),
        ("{!x}", "reserved operator"),
        ("{@x}", "reserved operator"),
        ("{|x}", "reserved operator"),
        ("a b{x}", "escaped"),
        ("100%{x}", "escaped"),
        ("<{x}>", "escaped"),
        ("\n{x}", "escaped"),
        ("{a,b,c,d,e}{f,g,h}{i}", "the limit is 8"),
        (&format!("{{x}}{}", "a".repeat(MERCURE_TEMPLATE_BYTES_MAX)), "128 bytes"),
        (&format!("{}{{x}}", "/".repeat(60)), "128"),
    ] {
        let refused = Template::read(text).expect_err(text);
        assert!(refused.contains(why), "{text}: {refused}");
    }
    for good in ["{a.b_c%20}", "{a,b,c,d,e}{f,g,h}", "it's/{x}", "%2F{x}"] {
        assert!(Template::read(good).is_ok(), "{good}");
    }
}

/// Channels are asked by their names, of which all that match begin alike.
#[test]
fn a_template_covers_channels() {
    for (text, begins) in [
        ("https://example.com/books/{id}", "https:~2F~2Fexample.com~2Fbooks~2F"),
        ("news.{x}", "news."),
        ("a~b{+x}", "a"),
        ("/~b{+x}", "~2F~7Eb"),
        ("{x}", ""),
    ] {
        let template = Template::read(text).unwrap();
        assert_eq!(template.begins(), begins);
        assert!(template.covers(&channel(text).unwrap()), "{text} covers the channel that it is itself");
    }
    let covers = |template: &str, topic: &str| Template::read(template).unwrap().covers(&channel(topic).unwrap());
    assert!(covers("https://example.com/books/{id}", "https://example.com/books/1"));
    assert!(covers("a~b{+x}", "a~bc") && covers("a~b{+x}", "a~b/c") && covers("{x}", "~romeo"));
    assert!(!covers("{x}", "/romeo") && !covers("https://example.com/{x}", "https://example.com/a/b"));
    // A name that is no escape means itself.
    let any = Template::read("{x}").unwrap();
    assert!(any.covers("a~2f") && !any.covers("a~2F"));
}

/// A text of the characters that mean something, and of others.
fn texts() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(b"{}{}ab,+#./;?&%2=*:~\xe9 ".to_vec()), 0..160)
        .prop_map(|bytes| bytes.into_iter().map(char::from).collect())
}

/// Templates that can be read.
fn templates() -> impl Strategy<Value = String> {
    let expression = prop::sample::select(vec!["", "+", "#", ".", "/", ";", "?", "&"]);
    let names = prop::collection::vec(prop::sample::select(vec!["a", "aa", "b"]), 1..4);
    let piece = prop_oneof![
        (expression, names).prop_map(|(sign, names)| format!("{{{sign}{}}}", names.join(","))),
        "[a/=?&;,%2]{0,3}".prop_map(|text| text.replace('%', "%2a")),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// What a match may cost at the most: each variable looks at each place so often, and each text is compared there.
const STEPS_MAX: usize = (9 * MERCURE_TEMPLATE_VARIABLES_MAX + 64) * (TOPIC_BYTES_MAX + 1)
    + (TOPIC_BYTES_MAX + 1) * (MERCURE_TEMPLATE_BYTES_MAX + 4 * MERCURE_TEMPLATE_VARIABLES_MAX);

proptest! {
    #[test]
    fn no_text_does_harm(template in texts(), topic in texts()) {
        if let Ok(read) = Template::read(&template) {
            let (_, steps) = read.steps(&topic);
            prop_assert!(steps <= STEPS_MAX && read.memory_bytes() < 4_096);
            prop_assert!(read.matches(&template));
        }
    }

    /// Whoever writes both against this.
    #[test]
    fn no_match_is_costly(template in templates(), topic in "[a/=?&;,.#]{0,128}|a{0,128}|(%2a){0,42}") {
        if let Ok(read) = Template::read(&template) {
            prop_assert!(read.steps(&topic).1 <= STEPS_MAX);
        }
    }

    /// RFC 6570 3.2.1, written the other way round: values are chosen, and the template is expanded.
    #[test]
    fn expansions_match(
        sign in prop::sample::select(vec!["", "+", "#", ".", "/", ";", "?", "&"]),
        values in prop::collection::vec(prop::option::of("([a-z.]|%2F|,){0,4}"), 1..4),
        around in "[a-z/]{0,5}",
    ) {
        let names: Vec<_> = (0..values.len()).map(|at| format!("v{at}")).collect();
        let (first, between) = match sign {
            "" => ("", ","), "+" => ("", ","), "#" => ("#", ","), "." => (".", "."), "/" => ("/", "/"),
            ";" => (";", ";"), "?" => ("?", "&"), _ => ("&", "&"),
        };
        let told: Vec<_> = names.iter().zip(&values).filter_map(|(name, value)| {
            let value = value.as_ref()?;
            Some(match sign {
                ";" if value.is_empty() => name.clone(),
                ";" | "?" | "&" => format!("{name}={value}"),
                _ => value.clone(),
            })
        }).collect();
        let first = if told.is_empty() { "" } else { first };
        let topic = format!("{around}{first}{}{around}", told.join(between));
        let template = format!("{around}{{{sign}{}}}{around}", names.join(","));
        prop_assert!(matches(&template, &topic), "{} and {}", template, topic);
        if let Ok(name) = channel(&topic) {
            prop_assert!(Template::read(&template).unwrap().covers(&name));
        }
    }
}
