//! The configuration of a room as a form (XEP-0045 10.2, 15.5.3), and what a change of it means for
//! the occupants.

use crate::limits::{
    ROOM_DESCRIPTION_BYTES_MAX, ROOM_HISTORY_MAX, ROOM_NAME_BYTES_MAX, ROOM_OCCUPANTS_MAX, ROOM_PASSWORD_BYTES_MAX,
    ROOM_SLOW_MODE_S_MAX,
};
use crate::rooms::form::{self, Field, Submitted};
use crate::store::room::{AllowPm, Config, Roles};
use crate::wire::error::StanzaCondition;

/// The `FORM_TYPE` of the form.
pub(super) const NS_CONFIG: &str = "http://jabber.org/protocol/muc#roomconfig";

const ALLOW_PM: [(AllowPm, &str, &str); 4] = [
    (AllowPm::Anyone, "anyone", "Anyone"),
    (AllowPm::Participants, "participants", "Anyone with voice"),
    (AllowPm::Moderators, "moderators", "Moderators only"),
    (AllowPm::None, "none", "Nobody"),
];

const ROLES: [(&str, &str); 3] = [("moderator", "Moderator"), ("participant", "Participant"), ("visitor", "Visitor")];

/// Choices for the maximum number of occupants.
const OCCUPANTS: [(&str, &str); 8] = [
    ("10", "10"),
    ("20", "20"),
    ("50", "50"),
    ("100", "100"),
    ("1000", "1000"),
    ("10000", "10000"),
    ("100000", "100000"),
    ("none", "None"),
];

fn flag(field: Field<'_>, value: bool) -> Field<'_> {
    field.value(if value { "1" } else { "0" })
}

fn roles(field: Field<'_>, roles: Roles) -> Field<'_> {
    let names = [(roles.moderator, "moderator"), (roles.participant, "participant"), (roles.visitor, "visitor")];
    names.into_iter().filter(|(holds, _)| *holds).fold(field, |field, (_, name)| field.value(name))
}

/// Writes the form as an owner gets it.
pub(super) fn write(out: &mut Vec<u8>, room: &str, config: &Config) {
    let boolean = |var, label, value| flag(Field::new(var, "boolean", label), value);
    let allow_pm = ALLOW_PM.map(|(_, name, label)| (name, label));
    let pm = ALLOW_PM.iter().find(|(which, ..)| *which == config.allow_pm).map_or("", |(_, name, _)| name);
    let most = match config.occupants_max {
        0 => "none".to_owned(),
        most => most.to_string(),
    };
    let fields = [
        Field::new("muc#roomconfig_roomname", "text-single", "Name").value(&*config.name),
        Field::new("muc#roomconfig_roomdesc", "text-single", "Description").value(&*config.description),
        Field::new("muc#roomconfig_lang", "text-single", "Natural language").value(&*config.language),
        boolean("muc#roomconfig_persistentroom", "Keep the room when nobody is in it", config.persistent),
        boolean("muc#roomconfig_publicroom", "List the room in the directory", config.public),
        boolean("muc#roomconfig_membersonly", "Only members may enter", config.members_only),
        boolean("muc#roomconfig_moderatedroom", "Newcomers may not speak until they get voice", config.moderated),
        boolean("muc#roomconfig_passwordprotectedroom", "A password is needed to enter", config.password.is_some()),
        Field::new("muc#roomconfig_roomsecret", "text-private", "Password")
            .value(config.password.as_deref().unwrap_or_default()),
        Field::new("muc#roomconfig_whois", "list-single", "Who sees the real addresses of occupants")
            .value(if config.shows_jids { "anyone" } else { "moderators" })
            .options(&[("moderators", "Moderators only"), ("anyone", "Anyone")]),
        boolean("muc#roomconfig_enablelogging", "Keep messages in the archive", config.archive),
        boolean("muc#roomconfig_changesubject", "Participants may change the subject", config.change_subject),
        boolean("muc#roomconfig_allowinvites", "Occupants may invite to a members-only room", config.allow_invites),
        Field::new("muc#roomconfig_allowpm", "list-single", "Who may send private messages")
            .value(pm)
            .options(&allow_pm),
        Field::new("muc#roomconfig_maxusers", "list-single", "Maximum number of occupants")
            .value(most)
            .options(&OCCUPANTS),
        Field::new("muc#maxhistoryfetch", "text-single", "Messages of history sent to newcomers")
            .value(config.history.to_string())
            .range(0, ROOM_HISTORY_MAX as u32),
        roles(
            Field::new("muc#roomconfig_presencebroadcast", "list-multi", "Roles whose presence is shown to all"),
            config.presence,
        )
        .options(&ROLES),
        roles(
            Field::new("muc#roomconfig_getmemberlist", "list-multi", "Roles that may see the list of members"),
            config.member_list,
        )
        .options(&ROLES),
        Field::new("muc#roomconfig_slow_mode_duration", "text-single", "Seconds between two messages of an occupant")
            .value(config.slow_mode_s.to_string())
            .range(0, u32::from(ROOM_SLOW_MODE_S_MAX)),
        boolean(
            "muc#roomconfig_forwardmentions",
            "Forward messages with mentions to absent members with a registered nick",
            config.forward_mentions,
        ),
        boolean("x-roomconfig_registration", "Users may register a nick and become members", config.registration),
    ];
    form::write(out, "form", &format!("Configuration of {room}"), NS_CONFIG, &fields);
}

/// Reads a set of roles.
fn roles_of(values: &[String]) -> Result<Roles, StanzaCondition> {
    let mut roles = Roles { moderator: false, participant: false, visitor: false };
    for value in values {
        match value.as_str() {
            "moderator" => roles.moderator = true,
            "participant" => roles.participant = true,
            "visitor" => roles.visitor = true,
            // `none` is registered for the list of members.
            "none" | "" => {}
            _ => return Err(StanzaCondition::NotAcceptable),
        }
    }
    Ok(roles)
}

fn number<T: std::str::FromStr + PartialOrd>(value: &str, most: T) -> Result<T, StanzaCondition> {
    value.parse().ok().filter(|value| *value <= most).ok_or(StanzaCondition::NotAcceptable)
}

fn text(value: &str, bytes_max: usize) -> Result<Box<str>, StanzaCondition> {
    if value.len() > bytes_max { Err(StanzaCondition::NotAcceptable) } else { Ok(value.into()) }
}

/// The configuration after a submitted form. Fields that are absent stay as they are, unknown ones
/// are ignored.
///
/// # Errors
/// `not-acceptable` for a value that a field cannot have (XEP-0045 10.2).
pub(super) fn apply(form: &Submitted, config: &Config) -> Result<Config, StanzaCondition> {
    let mut new = config.clone();
    let flags = [
        ("muc#roomconfig_persistentroom", &mut new.persistent),
        ("muc#roomconfig_publicroom", &mut new.public),
        ("muc#roomconfig_membersonly", &mut new.members_only),
        ("muc#roomconfig_moderatedroom", &mut new.moderated),
        ("muc#roomconfig_enablelogging", &mut new.archive),
        ("muc#roomconfig_changesubject", &mut new.change_subject),
        ("muc#roomconfig_allowinvites", &mut new.allow_invites),
        ("muc#roomconfig_forwardmentions", &mut new.forward_mentions),
        ("x-roomconfig_registration", &mut new.registration),
    ];
    for (var, field) in flags {
        if form.one(var).is_some() {
            *field = form.flag(var).ok_or(StanzaCondition::NotAcceptable)?;
        }
    }
    if let Some(name) = form.one("muc#roomconfig_roomname") {
        new.name = text(name, ROOM_NAME_BYTES_MAX)?;
    }
    if let Some(description) = form.one("muc#roomconfig_roomdesc") {
        new.description = text(description, ROOM_DESCRIPTION_BYTES_MAX)?;
    }
    if let Some(language) = form.one("muc#roomconfig_lang") {
        new.language = text(language, 35)?;
    }
    let secret =
        form.one("muc#roomconfig_roomsecret").map(|secret| text(secret, ROOM_PASSWORD_BYTES_MAX)).transpose()?;
    let is_protected = match form.one("muc#roomconfig_passwordprotectedroom") {
        Some(_) => form.flag("muc#roomconfig_passwordprotectedroom").ok_or(StanzaCondition::NotAcceptable)?,
        None => config.password.is_some(),
    };
    new.password = match (is_protected, secret) {
        (false, _) => None,
        (true, Some(secret)) if !secret.is_empty() => Some(secret),
        // XEP-0045 10.2: a protected room needs a password.
        (true, Some(_)) => return Err(StanzaCondition::NotAcceptable),
        (true, None) => Some(config.password.clone().ok_or(StanzaCondition::NotAcceptable)?),
    };
    match form.one("muc#roomconfig_whois") {
        None => {}
        Some("anyone") => new.shows_jids = true,
        Some("moderators") => new.shows_jids = false,
        Some(_) => return Err(StanzaCondition::NotAcceptable),
    }
    if let Some(value) = form.one("muc#roomconfig_allowpm") {
        let known = ALLOW_PM.iter().find(|(_, name, _)| *name == value);
        new.allow_pm = known.map(|(which, ..)| *which).ok_or(StanzaCondition::NotAcceptable)?;
    }
    match form.one("muc#roomconfig_maxusers") {
        None => {}
        Some("none" | "" | "0") => new.occupants_max = 0,
        Some(most) => new.occupants_max = number(most, ROOM_OCCUPANTS_MAX as u32)?,
    }
    if let Some(history) = form.one("muc#maxhistoryfetch") {
        new.history = number(history, ROOM_HISTORY_MAX as u8)?;
    }
    if let Some(values) = form.all("muc#roomconfig_presencebroadcast") {
        new.presence = roles_of(values)?;
    }
    if let Some(values) = form.all("muc#roomconfig_getmemberlist") {
        new.member_list = roles_of(values)?;
    }
    if let Some(seconds) = form.one("muc#roomconfig_slow_mode_duration") {
        new.slow_mode_s = number(seconds, ROOM_SLOW_MODE_S_MAX)?;
    }
    Ok(new)
}

/// The status codes that announce a change to the occupants (XEP-0045 10.2.1).
pub(super) fn statuses(old: &Config, new: &Config) -> Vec<u16> {
    let mut all = Vec::new();
    if old.archive != new.archive {
        all.push(if new.archive { 170 } else { 171 });
    }
    if old.shows_jids != new.shows_jids {
        all.push(if new.shows_jids { 172 } else { 173 });
    }
    let others = Config { archive: new.archive, shows_jids: new.shows_jids, ..old.clone() };
    if others != *new {
        all.push(104);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::xml;

    fn submitted(fields: &[(&str, &[&str])]) -> Submitted {
        let mut form =
            format!("<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{NS_CONFIG}</value></field>");
        for (var, values) in fields {
            form.push_str(&format!("<field var='{var}'>"));
            values.iter().for_each(|value| form.push_str(&format!("<value>{value}</value>")));
            form.push_str("</field>");
        }
        form.push_str("</x>");
        Submitted::of(&xml::parse(form.as_bytes()).expect("a form"), NS_CONFIG).expect("submitted")
    }

    #[test]
    fn what_is_written_and_submitted_unchanged_changes_nothing() {
        let config = Config {
            name: "The <cave>".into(),
            password: Some("cauldron & newt".into()),
            persistent: true,
            moderated: true,
            allow_pm: AllowPm::Moderators,
            occupants_max: 20,
            presence: Roles { visitor: false, ..Roles::ALL },
            slow_mode_s: 5,
            forward_mentions: true,
            registration: false,
            ..Config::default()
        };
        let mut form = Vec::new();
        write(&mut form, "cave", &config);
        let form = String::from_utf8(form).unwrap().replace("type='form'", "type='submit'");
        let form = Submitted::of(&xml::parse(form.as_bytes()).expect("a form"), NS_CONFIG).expect("submitted");
        assert_eq!(apply(&form, &config), Ok(config.clone()));
        assert_eq!(apply(&form, &Config::default()), Ok(config), "each field is in the form");
    }

    #[test]
    fn values_that_a_field_cannot_have_are_refused_xep_0045_10_2() {
        for (var, value) in [
            ("muc#roomconfig_membersonly", "perhaps"),
            ("muc#roomconfig_whois", "nobody"),
            ("muc#roomconfig_allowpm", "some"),
            ("muc#roomconfig_maxusers", "-1"),
            ("muc#maxhistoryfetch", "255"),
            ("muc#roomconfig_presencebroadcast", "owner"),
            ("muc#roomconfig_slow_mode_duration", "100000"),
            ("muc#roomconfig_passwordprotectedroom", "1"),
        ] {
            let changed = apply(&submitted(&[(var, &[value])]), &Config::default());
            assert_eq!(changed, Err(StanzaCondition::NotAcceptable), "{var}: {value}");
        }
        assert_eq!(apply(&submitted(&[("of another service", &["x"])]), &Config::default()), Ok(Config::default()));
    }

    #[test]
    fn occupants_learn_of_a_change_by_xep_0045_10_2_1() {
        let old = Config::default();
        for (new, expected) in [
            (old.clone(), vec![]),
            (Config { shows_jids: true, ..old.clone() }, vec![172]),
            (Config { archive: false, ..old.clone() }, vec![171]),
            (Config { name: "x".into(), ..old.clone() }, vec![104]),
        ] {
            assert_eq!(statuses(&old, &new), expected);
        }
    }
}
