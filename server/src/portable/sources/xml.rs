//! Elements from XML in the fields of other servers' data.

use std::io::Read as _;

use minidom::Element;
use rxml::{Event, GenericReader, Options, Parser};

use crate::portable::parts::{DEPTH_MAX, TOKEN_BYTES_MAX};
use crate::portable::read::element as start;

/// Reads one element, with the default namespace that surrounds it. The text is of a bounded size.
///
/// # Errors
/// It is not one well-formed element, or is nested too deeply.
pub(super) fn element(text: &[u8], namespace: &str) -> Result<Element, String> {
    let head = format!("<x xmlns='{namespace}'>");
    let options = Options {
        max_token_length: TOKEN_BYTES_MAX,
        comments: rxml::parser::CommentMode::Discard,
        ..Options::default()
    };
    let whole = head.as_bytes().chain(text).chain(&b"</x>"[..]);
    let mut reader: GenericReader<_, Parser> = GenericReader::with_options(whole, options);
    let (mut open, mut found): (Vec<Element>, Option<Element>) = (Vec::new(), None);
    loop {
        match reader.read().map_err(|error| format!("it is not well-formed XML: {error}"))? {
            Some(Event::StartElement(_, (namespace, name), attributes)) => {
                if open.len() > DEPTH_MAX {
                    return Err(format!("elements are nested more than {DEPTH_MAX} deep"));
                }
                open.push(start(&namespace, &name, attributes));
            }
            Some(Event::EndElement(_)) => {
                let ended = open.pop().ok_or("it is not one element")?;
                match (open.len(), open.last_mut()) {
                    (0, _) => {}
                    (1, _) if found.is_some() => return Err("it is more than one element".into()),
                    (1, _) => found = Some(ended),
                    (_, Some(parent)) => drop(parent.append_child(ended)),
                    (_, None) => {}
                }
            }
            Some(Event::Text(_, text)) => match (open.len(), open.last_mut()) {
                (2.., Some(parent)) => parent.append_text(text),
                _ if text.trim().is_empty() => {}
                _ => return Err("it is text, not an element".into()),
            },
            Some(Event::XmlDeclaration(..)) => return Err("it has an XML declaration".into()),
            None => return found.ok_or_else(|| "it is empty".into()),
        }
    }
}
