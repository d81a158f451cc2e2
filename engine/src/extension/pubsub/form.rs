//! The configuration of a node as a data form (XEP-0004, XEP-0060 16.4.4), and the preconditions of
//! a publication (7.1.5).

use minidom::Element;

use super::super::xml;
use super::error::{self, Error};
use super::node::{Access, Config, Node, PublishModel, SendLast};
use crate::limits::{NODE_GROUPS_MAX, NODE_ITEMS_MAX, NODE_TEXT_BYTES_MAX, beginning};

const NS: &str = "jabber:x:data";
const NODE_CONFIG: &str = "http://jabber.org/protocol/pubsub#node_config";
const PUBLISH_OPTIONS: &str = "http://jabber.org/protocol/pubsub#publish-options";
const META_DATA: &str = "http://jabber.org/protocol/pubsub#meta-data";

/// The submitted fields of a configuration form.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Submitted(Vec<(String, Vec<String>)>);

impl Submitted {
    /// Reads the form in an element, if it has one: `<x/>` of type `submit`. The result is empty
    /// for a form of type `cancel`.
    ///
    /// # Errors
    /// [`error::BAD_REQUEST`] for a form of another type.
    fn of(parent: &Element, form_type: &str) -> Result<Option<Submitted>, Error> {
        let Some(form) = parent.get_child("x", NS) else { return Ok(None) };
        match form.attr("type") {
            Some("submit") => {}
            Some("cancel") => return Ok(None),
            _ => return Err(error::BAD_REQUEST),
        }
        let mut fields = Vec::new();
        for field in form.children().filter(|child| child.is("field", NS)) {
            let Some(var) = field.attr("var") else { return Err(error::BAD_REQUEST) };
            let values: Vec<String> =
                field.children().filter(|child| child.is("value", NS)).map(|value| value.text()).collect();
            match var {
                "FORM_TYPE" if values.iter().map(String::as_str).eq([form_type]) => {}
                "FORM_TYPE" => return Err(error::BAD_REQUEST),
                _ => fields.push((var.to_owned(), values)),
            }
        }
        Ok(Some(Submitted(fields)))
    }

    /// Reads the configuration in an element.
    ///
    /// # Errors
    /// [`error::BAD_REQUEST`] for another form.
    pub fn configuration(parent: &Element) -> Result<Option<Submitted>, Error> {
        Submitted::of(parent, NODE_CONFIG)
    }

    /// Reads the preconditions of a publication.
    ///
    /// # Errors
    /// [`error::BAD_REQUEST`] for another form, or none.
    pub fn options(parent: &Element) -> Result<Submitted, Error> {
        Submitted::of(parent, PUBLISH_OPTIONS)?.ok_or(error::BAD_REQUEST)
    }

    /// Changes a configuration. Unsupported fields are ignored.
    ///
    /// # Errors
    /// A value that a field cannot have.
    pub fn apply(&self, config: &Config, service: bool) -> Result<Config, Error> {
        let mut config = config.clone();
        for (var, values) in &self.0 {
            set(&mut config, var, values)?;
        }
        fits(&config, service)?;
        Ok(config)
    }

    /// The configuration of a node that is created by a publication with these preconditions
    /// (XEP-0060 7.1.5).
    ///
    /// # Errors
    /// [`error::PRECONDITION`] for an unsupported field or value.
    pub fn made(&self) -> Result<Config, Error> {
        let mut config = Config::default();
        for (var, values) in &self.0 {
            match set(&mut config, var, values) {
                Ok(true) => {}
                Ok(false) => return Err(error::PRECONDITION),
                Err(wrong) if [error::ACCESS_MODEL, error::NO_COLLECTIONS].contains(&wrong) => return Err(wrong),
                Err(_) => return Err(error::PRECONDITION),
            }
        }
        fits(&config, false).map_err(|_| error::PRECONDITION)?;
        Ok(config)
    }

    /// Checks that a node has this configuration in all named fields.
    ///
    /// # Errors
    /// [`error::PRECONDITION`] if it does not.
    pub fn demand(&self, config: &Config) -> Result<(), Error> {
        let mut wanted = config.clone();
        let known = self.0.iter().all(|(var, values)| set(&mut wanted, var, values) == Ok(true));
        if known && wanted == *config { Ok(()) } else { Err(error::PRECONDITION) }
    }
}

/// Checks that a configuration is possible: on an account only the owner publishes; a service knows
/// no presence and no rosters.
fn fits(config: &Config, service: bool) -> Result<(), Error> {
    match (service, config.access) {
        (true, Access::Presence | Access::Roster) => Err(error::ACCESS_MODEL),
        (true, _) if config.send_last == SendLast::OnSubAndPresence => Err(error::NOT_ACCEPTABLE),
        (false, _) if config.publish != PublishModel::Publishers || config.available_only => Err(error::NOT_ACCEPTABLE),
        _ => Ok(()),
    }
}

/// The configuration in an element written by another server (XEP-0227 4.10.1), and a description
/// of its unsupported parts. A field without a value has the default; an unknown access model lets
/// nobody in, because its meaning is unknown.
pub fn lenient(parent: &Element) -> (Config, Vec<String>) {
    let (mut config, mut passed) = (Config::default(), Vec::new());
    let fields = parent.get_child("x", NS).into_iter().flat_map(Element::children);
    for field in fields.filter(|child| child.is("field", NS)) {
        let Some(var) = field.attr("var").filter(|var| *var != "FORM_TYPE") else { continue };
        let values: Vec<String> =
            field.children().filter(|child| child.is("value", NS)).map(|value| value.text()).collect();
        if values.iter().all(String::is_empty) {
            continue;
        }
        match set(&mut config, var, &values) {
            Ok(true) => {}
            Err(wrong) if wrong == error::ACCESS_MODEL => {
                config.access = Access::Whitelist;
                passed.push("its access model is not supported: only members can see it".to_owned());
            }
            Ok(false) | Err(_) => passed.push(format!("{} is not supported", beginning(var, NODE_TEXT_BYTES_MAX))),
        }
    }
    config.available_only = false;
    if config.publish != PublishModel::Publishers {
        config.publish = PublishModel::Publishers;
        passed.push("others could publish at it: here only its owner can".to_owned());
    }
    (config, passed)
}

fn boolean(value: &str) -> Result<bool, Error> {
    match value {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(error::NOT_ACCEPTABLE),
    }
}

/// Sets a field; false if there is no such field.
fn set(config: &mut Config, var: &str, values: &[String]) -> Result<bool, Error> {
    let Some(name) = var.strip_prefix("pubsub#") else { return Ok(false) };
    if name == "roster_groups_allowed" {
        let fits = |group: &String| !group.is_empty() && group.len() <= NODE_TEXT_BYTES_MAX;
        if values.len() > NODE_GROUPS_MAX || !values.iter().all(fits) {
            return Err(error::NOT_ACCEPTABLE);
        }
        config.groups = values.iter().map(|group| group.as_str().into()).collect();
        config.groups.sort_unstable();
        config.groups.dedup();
        return Ok(true);
    }
    let value = values.first().map_or("", String::as_str);
    let text = || if value.len() <= NODE_TEXT_BYTES_MAX { Ok(value.into()) } else { Err(error::NOT_ACCEPTABLE) };
    // For fields with one supported value.
    let only = |fixed: bool| if fixed { Ok(true) } else { Err(error::NOT_ACCEPTABLE) };
    match name {
        "access_model" => {
            config.access = match value {
                "open" => Access::Open,
                "presence" => Access::Presence,
                "roster" => Access::Roster,
                "whitelist" => Access::Whitelist,
                "authorize" => Access::Authorize,
                _ => return Err(error::ACCESS_MODEL),
            }
        }
        "send_last_published_item" => {
            config.send_last = match value {
                "never" => SendLast::Never,
                "on_sub" => SendLast::OnSub,
                "on_sub_and_presence" => SendLast::OnSubAndPresence,
                _ => return Err(error::NOT_ACCEPTABLE),
            }
        }
        "max_items" => {
            config.items_max = match value {
                "max" => u32::MAX,
                number => match number.parse::<u32>() {
                    Ok(number) if number >= NODE_ITEMS_MAX => u32::MAX,
                    Ok(number) if number > 0 => number,
                    _ => return Err(error::NOT_ACCEPTABLE),
                },
            }
        }
        "item_expire" => {
            config.expire_s = match value {
                "max" => 0,
                seconds => seconds.parse().ok().filter(|seconds| *seconds > 0).ok_or(error::NOT_ACCEPTABLE)?,
            }
        }
        "persist_items" => config.persist = boolean(value)?,
        "deliver_notifications" => config.notifications = boolean(value)?,
        "presence_based_delivery" => config.available_only = boolean(value)?,
        "deliver_payloads" => config.payloads = boolean(value)?,
        "notify_config" => config.notify_config = boolean(value)?,
        "notify_delete" => config.notify_delete = boolean(value)?,
        "notify_retract" => config.notify_retract = boolean(value)?,
        "title" => config.title = text()?,
        "type" => config.kind = text()?,
        "description" => config.description = text()?,
        "publish_model" => {
            config.publish = match value {
                "publishers" => PublishModel::Publishers,
                "subscribers" => PublishModel::Subscribers,
                "open" => PublishModel::Open,
                _ => return Err(error::NOT_ACCEPTABLE),
            }
        }
        "node_type" => return if value == "collection" { Err(error::NO_COLLECTIONS) } else { only(value == "leaf") },
        // XEP-0248 6.2, 6.5: a node inside a collection, or a collection itself.
        "collection" | "children" if values.iter().any(|value| !value.is_empty()) => return Err(error::NO_COLLECTIONS),
        "notification_type" => return only(value == "headline"),
        "subscribe" => return only(boolean(value)?),
        "notify_sub" | "purge_offline" | "tempsub" => return only(!boolean(value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// The limit of items of a node, as written in its configuration.
fn items_max(config: &Config) -> String {
    if config.items_max == u32::MAX { "max".into() } else { config.items_max.to_string() }
}

/// The lifetime of its items, likewise.
fn item_expire(config: &Config) -> String {
    if config.expire_s == 0 { "max".into() } else { config.expire_s.to_string() }
}

fn access(config: &Config) -> &'static str {
    match config.access {
        Access::Open => "open",
        Access::Presence => "presence",
        Access::Roster => "roster",
        Access::Whitelist => "whitelist",
        Access::Authorize => "authorize",
    }
}

fn publish_model(config: &Config) -> &'static str {
    match config.publish {
        PublishModel::Publishers => "publishers",
        PublishModel::Subscribers => "subscribers",
        PublishModel::Open => "open",
    }
}

fn open(out: &mut Vec<u8>, kind: &str, form_type: &str) {
    out.extend_from_slice(format!("<x xmlns='{NS}' type='{kind}'><field var='FORM_TYPE' type='hidden'>").as_bytes());
    xml::text_element(out, "value", form_type);
    out.extend_from_slice(b"</field>");
}

fn field(out: &mut Vec<u8>, var: &str, kind: &str, label: &str, options: &[&str], values: &[&str]) {
    out.extend_from_slice(format!("<field var='pubsub#{var}' type='{kind}'").as_bytes());
    if !label.is_empty() {
        xml::attribute(out, "label", label);
    }
    out.push(b'>');
    for option in options {
        out.extend_from_slice(b"<option>");
        xml::text_element(out, "value", option);
        out.extend_from_slice(b"</option>");
    }
    for value in values {
        xml::text_element(out, "value", value);
    }
    out.extend_from_slice(b"</field>");
}

/// Appends the form of a node's configuration (XEP-0060 8.2.2), of type `form` or `result`.
pub fn write(out: &mut Vec<u8>, config: &Config, kind: &str, service: bool) {
    open(out, kind, NODE_CONFIG);
    let flag = |on: bool| if on { "1" } else { "0" };
    let text = |out: &mut Vec<u8>, var, label, text: &str| {
        field(out, var, "text-single", label, &[], if text.is_empty() { &[] } else { std::slice::from_ref(&text) });
    };
    text(out, "title", "A name for the node", &config.title);
    text(out, "description", "A description of the node", &config.description);
    text(out, "type", "Type of the payload, usually its namespace", &config.kind);
    let models: &[&str] = match service {
        true => &["open", "authorize", "whitelist"],
        false => &["open", "presence", "roster", "authorize", "whitelist"],
    };
    field(out, "access_model", "list-single", "Who may subscribe and retrieve items", models, &[access(config)]);
    if !service {
        let groups: Vec<&str> = config.groups.iter().map(|group| &**group).collect();
        field(out, "roster_groups_allowed", "list-multi", "Groups of the roster that may subscribe", &groups, &groups);
    }
    let last = match config.send_last {
        SendLast::Never => "never",
        SendLast::OnSub => "on_sub",
        SendLast::OnSubAndPresence => "on_sub_and_presence",
    };
    let when = ["never", "on_sub", "on_sub_and_presence"];
    let when = &when[..if service { 2 } else { 3 }];
    field(out, "send_last_published_item", "list-single", "When to send the last item", when, &[last]);
    for (var, label, on) in [
        ("persist_items", "Store items", config.persist),
        ("deliver_notifications", "Notify subscribers", config.notifications),
        ("deliver_payloads", "Notify with payloads", config.payloads),
        ("notify_config", "Notify when the configuration changes", config.notify_config),
        ("notify_delete", "Notify when the node is deleted", config.notify_delete),
        ("notify_retract", "Notify when items are removed", config.notify_retract),
    ] {
        field(out, var, "boolean", label, &[], &[flag(on)]);
    }
    if service {
        let label = "Notify only subscribers that are available";
        field(out, "presence_based_delivery", "boolean", label, &[], &[flag(config.available_only)]);
    }
    text(out, "max_items", "Max. items to store, or max", &items_max(config));
    text(out, "item_expire", "Seconds after which items are removed, or max", &item_expire(config));
    let models = ["publishers", "subscribers", "open"];
    let models = &models[..if service { 3 } else { 1 }];
    field(out, "publish_model", "list-single", "Who may publish", models, &[publish_model(config)]);
    field(out, "notification_type", "list-single", "Type of notifications", &["headline"], &["headline"]);
    out.extend_from_slice(b"</x>");
}

/// Appends the form that describes a node to those who may see it (XEP-0060 5.4). At a service it
/// includes the number of subscribers.
pub fn write_metadata(out: &mut Vec<u8>, node: &Node, account: Option<&str>) {
    open(out, "result", META_DATA);
    let config = &node.config;
    let owners: Vec<&str> = account.into_iter().chain(node.owners.iter().map(|owner| &**owner)).collect();
    let subscribers = if account.is_none() { node.subscribers.to_string() } else { String::new() };
    let model = if account.is_none() { publish_model(config) } else { "" };
    for (var, kind, value) in [
        ("title", "text-single", &*config.title),
        ("description", "text-single", &config.description),
        ("type", "text-single", &config.kind),
    ] {
        if !value.is_empty() {
            field(out, var, kind, "", &[], &[value]);
        }
    }
    field(out, "owner", "jid-multi", "", &[], &owners);
    for (var, kind, value) in [
        ("access_model", "list-single", access(config)),
        ("publish_model", "list-single", model),
        ("max_items", "text-single", &items_max(config)),
        ("num_subscribers", "text-single", &subscribers),
    ] {
        if !value.is_empty() {
            field(out, var, kind, "", &[], &[value]);
        }
    }
    out.extend_from_slice(b"</x>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(form_type: &str, fields: &[(&str, &str)]) -> Element {
        let mut out =
            format!("<configure xmlns='p'><x xmlns='{NS}' type='submit'><field var='FORM_TYPE'>").into_bytes();
        xml::text_element(&mut out, "value", form_type);
        out.extend_from_slice(b"</field>");
        for (var, value) in fields {
            field(&mut out, var, "text-single", "", &[], &[value]);
        }
        out.extend_from_slice(b"</x></configure>");
        xml::parse(&out).expect("a form")
    }

    #[test]
    fn what_is_written_is_read_back() {
        let config = Config {
            access: Access::Roster,
            publish: PublishModel::Publishers,
            send_last: SendLast::Never,
            persist: false,
            notifications: false,
            available_only: false,
            payloads: false,
            notify_config: true,
            notify_delete: false,
            notify_retract: false,
            items_max: 17,
            expire_s: 604_800,
            title: "a <title>".into(),
            kind: "urn:x".into(),
            description: "d".into(),
            groups: vec!["a".into(), "b&c".into()],
        };
        for config in [Config::default(), config] {
            let mut out = b"<configure xmlns='p'>".to_vec();
            write(&mut out, &config, "form", false);
            out.extend_from_slice(b"</configure>");
            let out = String::from_utf8(out).unwrap().replace("type='form'", "type='submit'");
            let submitted = Submitted::configuration(&xml::parse(out.as_bytes()).unwrap()).unwrap().unwrap();
            // A form with all fields set.
            let other = Config { title: "other".into(), items_max: 9, expire_s: 5, ..Config::default() };
            let read = submitted.apply(&other, false).unwrap();
            assert_eq!(Config { title: config.title.clone(), ..read }, config);
        }
    }

    #[test]
    fn options_are_preconditions_xep_0060_7_1_5() {
        let options = |fields: &[(&str, &str)]| Submitted::options(&form(PUBLISH_OPTIONS, fields)).unwrap();
        let bookmarks = options(&[
            ("persist_items", "true"),
            ("max_items", "max"),
            ("send_last_published_item", "never"),
            ("access_model", "whitelist"),
        ]);
        let made = bookmarks.made().unwrap();
        assert_eq!((made.access, made.items_max, made.send_last), (Access::Whitelist, u32::MAX, SendLast::Never));
        assert_eq!(bookmarks.demand(&made), Ok(()));
        assert_eq!(bookmarks.demand(&Config::default()), Err(error::PRECONDITION));
        assert_eq!(options(&[]).demand(&Config::default()), Ok(()));
        assert_eq!(options(&[("unheard_of", "1")]).demand(&made), Err(error::PRECONDITION));
        assert_eq!(options(&[("unheard_of", "1")]).made(), Err(error::PRECONDITION));
        assert_eq!(options(&[("access_model", "secret")]).made(), Err(error::ACCESS_MODEL));
        assert_eq!(Submitted::options(&form(NODE_CONFIG, &[])), Err(error::BAD_REQUEST));
    }

    #[test]
    fn values_that_a_field_cannot_have_are_refused() {
        let apply = |var: &str, value: &str| {
            Submitted::configuration(&form(NODE_CONFIG, &[(var, value)]))
                .unwrap()
                .unwrap()
                .apply(&Config::default(), false)
        };
        assert_eq!(apply("access_model", "secret"), Err(error::ACCESS_MODEL));
        for (var, value) in [
            ("max_items", "0"),
            ("max_items", "-1"),
            ("item_expire", "0"),
            ("item_expire", "soon"),
            ("item_expire", "99999999999"),
            ("persist_items", "maybe"),
            ("send_last_published_item", "always"),
            ("publish_model", "open"),
            ("notification_type", "normal"),
            ("title", &"x".repeat(NODE_TEXT_BYTES_MAX + 1)),
            ("roster_groups_allowed", ""),
            ("node_type", "tree"),
        ] {
            assert_eq!(apply(var, value), Err(error::NOT_ACCEPTABLE), "{var} {value}");
        }
        // XEP-0248 6.1.3.
        for (var, value) in [("node_type", "collection"), ("collection", "a"), ("children", "a")] {
            assert_eq!(apply(var, value), Err(error::NO_COLLECTIONS), "{var} {value}");
        }
        assert_eq!(apply("node_type", "leaf").as_ref(), Ok(&Config::default()));
        assert_eq!(apply("collection", "").as_ref(), Ok(&Config::default()), "in none");
        assert_eq!(apply("max_items", "99999").unwrap().items_max, u32::MAX);
        assert_eq!(apply("body_xslt", "x"), Ok(Config::default()), "XEP-0060 8.2.4: what is not there is passed over");
    }
}
