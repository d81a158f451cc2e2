//! The configuration of a room as named fields: what operators see and set. Names, values and checks
//! are those of the owner's form (XEP-0045 10.2), which this module writes and reads.

use minidom::Element as Tree;

use crate::extension::xml;
use crate::rooms::config::{NS_CONFIG, apply, write};
use crate::rooms::form::{self, Field, Submitted};
use crate::store::room::Config;

/// Prefixes of the names in the form that operators leave out.
const PREFIXES: [&str; 2] = ["muc#roomconfig_", "muc#"];

/// Stands for a secret that is set.
pub const HIDDEN: &str = "(hidden)";

/// A field of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its name without prefix: `membersonly`.
    pub name: String,
    /// Its meaning, in words.
    pub label: String,
    /// Its values; a secret is [`HIDDEN`].
    pub values: Vec<String>,
    /// The values that it can have, if these are a few; empty otherwise.
    pub options: Vec<String>,
    var: String,
}

fn texts(field: &Tree, name: &str) -> Vec<String> {
    field.children().filter(|child| child.is(name, form::NS)).map(Tree::text).collect()
}

/// A configuration as a submitted form, with its password.
pub(super) fn submitted(config: &Config) -> Vec<u8> {
    let settings = all(config, false);
    let mut fields = Vec::with_capacity(settings.len());
    // An empty password is none; an empty set of roles is one.
    for setting in settings.iter().filter(|setting| !setting.values.is_empty() || !setting.options.is_empty()) {
        let field = Field::new(&setting.var, "text-multi", "");
        fields.push(setting.values.iter().fold(field, |field, value| field.value(&**value)));
    }
    let mut out = Vec::new();
    form::write(&mut out, "submit", "", NS_CONFIG, &fields);
    out
}

/// All fields of a configuration, in the order of the form.
pub fn settings(config: &Config) -> Vec<Setting> {
    all(config, true)
}

fn all(config: &Config, hides: bool) -> Vec<Setting> {
    let mut out = Vec::new();
    write(&mut out, "", config);
    let Some(tree) = xml::parse(&out) else { return Vec::new() };
    let fields = tree.children().filter(|child| child.is("field", form::NS) && child.attr("type") != Some("hidden"));
    let setting = |field: &Tree| {
        let (var, kind) = (field.attr("var")?, field.attr("type")?);
        let mut values = texts(field, "value");
        values.retain(|value| !value.is_empty());
        if hides && kind == "text-private" {
            values.iter_mut().for_each(|value| HIDDEN.clone_into(value));
        }
        let options = field.children().filter(|child| child.is("option", form::NS));
        let options = match kind {
            "boolean" => vec!["1".to_owned(), "0".to_owned()],
            _ => options.flat_map(|option| texts(option, "value")).collect(),
        };
        let name = PREFIXES.iter().find_map(|prefix| var.strip_prefix(prefix)).unwrap_or(var).to_owned();
        Some(Setting { name, label: field.attr("label")?.to_owned(), values, options, var: var.to_owned() })
    };
    fields.filter_map(setting).collect()
}

/// A submitted form with these fields (XEP-0004), for the owner's request.
///
/// # Errors
/// A field is unknown, named twice, or has characters that XML does not permit.
pub fn form_of(fields: &[(String, Vec<String>)]) -> Result<Vec<u8>, String> {
    let known = settings(&Config::default());
    let mut written = Vec::with_capacity(fields.len());
    for (at, (name, values)) in fields.iter().enumerate() {
        let Some(setting) = known.iter().find(|known| known.name == *name || known.var == *name) else {
            let names: Vec<&str> = known.iter().map(|known| &*known.name).collect();
            return Err(format!("there is no field `{name}`; the fields are {}", names.join(", ")));
        };
        if fields[..at].iter().any(|(earlier, _)| *earlier == setting.name || *earlier == setting.var) {
            return Err(format!("the field `{name}` is given twice"));
        }
        // XML 1.0 2.2.
        if values.iter().flat_map(|value| value.chars()).any(is_not_xml) {
            return Err(format!("the field `{name}` has characters that XML does not permit"));
        }
        let field = Field::new(&setting.var, "text-multi", "");
        written.push(values.iter().fold(field, |field, value| field.value(&**value)));
    }
    let mut out = Vec::new();
    form::write(&mut out, "submit", "", NS_CONFIG, &written);
    Ok(out)
}

fn is_not_xml(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// The configuration after fields were set.
///
/// # Errors
/// A field is unknown, or cannot have its value: which one, and what it can have.
pub fn changed(config: &Config, fields: &[(String, Vec<String>)]) -> Result<Config, String> {
    let applied = |fields: &[(String, Vec<String>)]| {
        let tree = xml::parse(&form_of(fields)?).ok_or("a value has characters that XML does not permit")?;
        let form = Submitted::of(&tree, NS_CONFIG).ok_or("a value has characters that XML does not permit")?;
        apply(&form, config).map_err(|_| "these values do not go together".to_owned())
    };
    let whole = applied(fields);
    if whole.is_ok() {
        return whole;
    }
    // The first field that is wrong alone; its name is known.
    for field in fields {
        let Err(why) = applied(std::slice::from_ref(field)) else { continue };
        form_of(std::slice::from_ref(field))?;
        let (name, values) = field;
        let known = settings(config);
        let setting = known.iter().find(|known| known.name == *name || known.var == *name);
        let options = setting.map_or_else(String::new, |setting| match &*setting.options {
            [] => String::new(),
            options => format!("; it can be {}", options.join(", ")),
        });
        return Err(match (setting.map_or("", |setting| &setting.name), &**values) {
            ("passwordprotectedroom", _) => "passwordprotectedroom needs a password: set roomsecret, too".to_owned(),
            ("roomsecret", _) => "roomsecret cannot be empty or longer than 256 bytes; to remove the password, set \
                                  passwordprotectedroom=0"
                .to_owned(),
            (name, [value]) => format!("{name} cannot be `{value}`{options}"),
            (name, _) => format!("{name} cannot have these values{options}: {why}"),
        });
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(fields: &[(&str, &str)]) -> Result<Config, String> {
        let fields: Vec<(String, Vec<String>)> =
            fields.iter().map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()])).collect();
        changed(&Config::default(), &fields)
    }

    #[test]
    fn fields_are_named_as_in_the_form_and_secrets_are_hidden() {
        let config = Config { members_only: true, password: Some("newt".into()), ..Config::default() };
        let all = settings(&config);
        let of = |name: &str| all.iter().find(|setting| setting.name == name).expect(name).values.join(" ");
        assert_eq!((of("membersonly"), of("roomsecret"), of("roomname")), ("1".into(), HIDDEN.into(), String::new()));
        assert_eq!(
            (of("maxhistoryfetch"), of("presencebroadcast")),
            ("20".into(), "moderator participant visitor".into())
        );
        assert!(all.iter().all(|setting| !setting.label.is_empty()));
    }

    #[test]
    fn what_cannot_be_is_named_with_what_can_xep_0045_10_2() {
        let both = set(&[("membersonly", "1"), ("muc#roomconfig_roomname", "The <cave>")]).expect("a configuration");
        assert!(both.members_only && *both.name == *"The <cave>");
        let expected = "passwordprotectedroom needs a password: set roomsecret, too";
        assert_eq!(set(&[("passwordprotectedroom", "1")]), Err(expected.into()));
        assert!(
            set(&[("passwordprotectedroom", "1"), ("roomsecret", "x")]).is_ok_and(|config| config.password.is_some())
        );
        assert_eq!(set(&[("whois", "nobody")]), Err("whois cannot be `nobody`; it can be moderators, anyone".into()));
        assert_eq!(
            set(&[("roomname", "x"), ("membersonly", "yes")]),
            Err("membersonly cannot be `yes`; it can be 1, 0".into())
        );
        assert!(
            set(&[("memberonly", "1")]).is_err_and(|why| why.starts_with("there is no field `memberonly`; the fields"))
        );
        assert!(set(&[("lang", "en"), ("muc#roomconfig_lang", "de")]).is_err_and(|why| why.ends_with("given twice")));
        assert!(set(&[("roomname", "\u{1}")]).is_err());
    }
}
