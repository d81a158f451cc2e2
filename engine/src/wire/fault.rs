//! Why input was rejected, and the one mapping to the stream error that the peer receives.

use std::fmt;

/// Why the scanner rejected its input. Every fault ends the stream (RFC 6120 4.9.1.1: stream errors
/// are unrecoverable); [`Fault::condition`] is the condition to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Something other than white space, an XML declaration or a tag in place of the stream header:
    /// TLS records, HTTP requests, noise.
    NotXml,
    /// Text between stanzas that is not white space.
    StrayText,
    /// A tag, declaration or CDATA section that XML's grammar does not allow.
    Syntax,
    /// A name that XML or Namespaces in XML does not allow.
    Name,
    /// An end tag that does not match its start tag (XML 3, "Element Type Match").
    MismatchedTag,
    /// An undeclared prefix (Namespaces in XML 5, "Prefix Declared").
    UnboundPrefix,
    /// A declaration that Namespaces in XML 3 forbids: of `xmlns`, of `xml` with another name, of
    /// another prefix with their names, or of a prefix with an empty name.
    ReservedNamespace,
    /// A duplicate attribute of one element, by its name or by its expanded name (Namespaces in XML
    /// 6.3).
    DuplicateAttribute,
    /// `<` in an attribute's value (XML 3.1).
    LessThanInValue,
    /// `]]>` in text (XML 2.4).
    CdataEndInText,
    /// A character that XML 2.2 excludes, either literally or as a character reference.
    IllegalCharacter,
    /// An `&` that begins neither an entity nor a character reference.
    MalformedReference,
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// A declared encoding other than UTF-8, or a byte order mark of UTF-16.
    UnsupportedEncoding,
    /// A comment (RFC 6120 11.1).
    Comment,
    /// A processing instruction (RFC 6120 11.1).
    ProcessingInstruction,
    /// A document type declaration or a part of one (RFC 6120 11.1).
    DocumentType,
    /// A reference to an entity other than the five predefined ones (RFC 6120 11.1).
    EntityReference,
    /// A stream header that is an empty element.
    ClosedHeader,
    /// An item larger than the caller allows.
    TooLarge,
    /// More than `MAX_DEPTH` open elements.
    TooDeep,
    /// More than `MAX_ATTRIBUTES` attributes in one element.
    TooManyAttributes,
    /// More than `MAX_DECLARATIONS` namespace declarations in scope.
    TooManyDeclarations,
    /// More than `MAX_CHILDREN` direct children of one stanza.
    TooManyChildren,
    /// A name longer than `MAX_NAME_BYTES`.
    NameTooLong,
    /// A namespace name longer than `MAX_NAMESPACE_BYTES`.
    NamespaceTooLong,
}

impl Fault {
    /// Every fault, for tables and tests.
    pub const ALL: [Fault; 26] = [
        Fault::NotXml,
        Fault::StrayText,
        Fault::Syntax,
        Fault::Name,
        Fault::MismatchedTag,
        Fault::UnboundPrefix,
        Fault::ReservedNamespace,
        Fault::DuplicateAttribute,
        Fault::LessThanInValue,
        Fault::CdataEndInText,
        Fault::IllegalCharacter,
        Fault::MalformedReference,
        Fault::InvalidUtf8,
        Fault::UnsupportedEncoding,
        Fault::Comment,
        Fault::ProcessingInstruction,
        Fault::DocumentType,
        Fault::EntityReference,
        Fault::ClosedHeader,
        Fault::TooLarge,
        Fault::TooDeep,
        Fault::TooManyAttributes,
        Fault::TooManyDeclarations,
        Fault::TooManyChildren,
        Fault::NameTooLong,
        Fault::NamespaceTooLong,
    ];

    /// The stream error condition of RFC 6120 4.9.3 for this fault.
    ///
    /// | condition | faults |
    /// | --- | --- |
    /// | `bad-format` (4.9.3.1) | [`Fault::StrayText`], [`Fault::ClosedHeader`]: well-formed, but not a stream |
    /// | `not-well-formed` (4.9.3.13) | violations of XML or Namespaces in XML |
    /// | `policy-violation` (4.9.3.14) | input over a limit |
    /// | `restricted-xml` (4.9.3.18) | comments, processing instructions, document types, other entities |
    /// | `unsupported-encoding` (4.9.3.22) | another encoding, and bytes that are not valid UTF-8 |
    pub fn condition(self) -> &'static str {
        match self {
            Fault::StrayText | Fault::ClosedHeader => "bad-format",
            Fault::NotXml
            | Fault::Syntax
            | Fault::Name
            | Fault::MismatchedTag
            | Fault::UnboundPrefix
            | Fault::ReservedNamespace
            | Fault::DuplicateAttribute
            | Fault::LessThanInValue
            | Fault::CdataEndInText
            | Fault::IllegalCharacter
            | Fault::MalformedReference => "not-well-formed",
            Fault::InvalidUtf8 | Fault::UnsupportedEncoding => "unsupported-encoding",
            Fault::Comment | Fault::ProcessingInstruction | Fault::DocumentType | Fault::EntityReference => {
                "restricted-xml"
            }
            Fault::TooLarge
            | Fault::TooDeep
            | Fault::TooManyAttributes
            | Fault::TooManyDeclarations
            | Fault::TooManyChildren
            | Fault::NameTooLong
            | Fault::NamespaceTooLong => "policy-violation",
        }
    }

    /// A sentence for logs and for the error's `<text/>`.
    pub fn describe(self) -> &'static str {
        match self {
            Fault::NotXml => "expected an XML stream",
            Fault::StrayText => "text between stanzas",
            Fault::Syntax => "malformed markup",
            Fault::Name => "malformed name",
            Fault::MismatchedTag => "end tag does not match its start tag",
            Fault::UnboundPrefix => "undeclared namespace prefix",
            Fault::ReservedNamespace => "namespace declaration not allowed",
            Fault::DuplicateAttribute => "duplicate attribute",
            Fault::LessThanInValue => "'<' in an attribute value",
            Fault::CdataEndInText => "']]>' in text",
            Fault::IllegalCharacter => "character not allowed in XML",
            Fault::MalformedReference => "malformed reference",
            Fault::InvalidUtf8 => "invalid UTF-8",
            Fault::UnsupportedEncoding => "only UTF-8 is supported",
            Fault::Comment => "comments are not allowed",
            Fault::ProcessingInstruction => "processing instructions are not allowed",
            Fault::DocumentType => "document types are not allowed",
            Fault::EntityReference => "entity references are not allowed",
            Fault::ClosedHeader => "stream header closes itself",
            Fault::TooLarge => "stanza too large",
            Fault::TooDeep => "elements nested too deeply",
            Fault::TooManyAttributes => "too many attributes",
            Fault::TooManyDeclarations => "too many namespace declarations",
            Fault::TooManyChildren => "too many child elements",
            Fault::NameTooLong => "name too long",
            Fault::NamespaceTooLong => "namespace name too long",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}

impl std::error::Error for Fault {}
