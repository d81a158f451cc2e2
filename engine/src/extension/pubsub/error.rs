//! Errors of nodes (XEP-0060 11): a condition of RFC 6120, and possibly one of their own.

use super::super::{Condition, Refusal};
use super::node::Denied;
use crate::wire::error::Detail;
use crate::wire::error::ErrorType::{self, Auth, Cancel, Modify};
use crate::wire::limit::AppError;

const NS: &str = "http://jabber.org/protocol/pubsub#errors";

/// An error as it is sent.
pub type Error = Refusal;

const fn plain(condition: Condition) -> Error {
    Refusal { condition, held: None, app: None }
}

const fn own(condition: Condition, kind: ErrorType, name: &'static str) -> Error {
    Refusal { condition, held: None, app: Some(AppError { name, xmlns: NS, kind, detail: Detail::Nothing }) }
}

/// An invalid request.
pub const BAD_REQUEST: Error = plain(Condition::BadRequest);
/// A value that a form's field cannot have.
pub const NOT_ACCEPTABLE: Error = plain(Condition::NotAcceptable);
/// XEP-0060 8.1.2.
pub const ACCESS_MODEL: Error = own(Condition::NotAcceptable, Modify, "unsupported-access-model");
/// XEP-0060 7.1.5.
pub const PRECONDITION: Error = own(Condition::Conflict, Cancel, "precondition-not-met");
/// The node or item does not exist.
pub const NOT_FOUND: Error = plain(Condition::ItemNotFound);
/// The node exists already.
pub const CONFLICT: Error = plain(Condition::Conflict);
/// Only for the owner.
pub const FORBIDDEN: Error = plain(Condition::Forbidden);
/// A row is unreadable.
pub const UNREADABLE: Error = plain(Condition::InternalServerError);
/// The answer for an account that does not exist (RFC 6121 8.5.1), also to requesters who may not
/// know whether it does.
pub const UNSEEN: Error = plain(Condition::ServiceUnavailable);
/// XEP-0060 7.2.3.3.
pub const NODE_REQUIRED: Error = own(Condition::BadRequest, Modify, "nodeid-required");
/// XEP-0060 8.1.1: nodes without a name are not created.
pub const NO_INSTANT_NODES: Error = own(Condition::NotAcceptable, Modify, "nodeid-required");
/// XEP-0060 7.1.3.6.
pub const ITEM_REQUIRED: Error = own(Condition::BadRequest, Modify, "item-required");
/// XEP-0060 7.1.3.6.
pub const PAYLOAD_REQUIRED: Error = own(Condition::BadRequest, Modify, "payload-required");
/// XEP-0060 7.1.3.6.
pub const ITEM_FORBIDDEN: Error = own(Condition::BadRequest, Modify, "item-forbidden");
/// XEP-0060 7.1.3.5.
pub const INVALID_PAYLOAD: Error = own(Condition::BadRequest, Modify, "invalid-payload");
/// XEP-0060 7.1.3.4.
pub const PAYLOAD_TOO_BIG: Error = own(Condition::NotAcceptable, Modify, "payload-too-big");
/// More than one item in a publication, which is not supported.
pub const ONE_ITEM: Error = own(Condition::NotAllowed, Cancel, "max-items-exceeded");
/// XEP-0060 6.1.3.1.
pub const INVALID_JID: Error = own(Condition::BadRequest, Modify, "invalid-jid");
/// XEP-0060 6.2.3.2.
pub const NOT_SUBSCRIBED: Error = own(Condition::UnexpectedRequest, Cancel, "not-subscribed");
/// XEP-0060 6.1.3.7.
pub const PENDING: Error = own(Condition::NotAuthorized, Auth, "pending-subscription");
/// XEP-0060 6.5.9.3.
const UNSUBSCRIBED: Error = own(Condition::NotAuthorized, Auth, "not-subscribed");
/// XEP-0060 6.1.3.4.
const NOT_IN_GROUP: Error = own(Condition::NotAuthorized, Auth, "not-in-roster-group");
/// XEP-0060 6.1.3.5.
const CLOSED: Error = own(Condition::NotAllowed, Cancel, "closed-node");

/// An unsupported feature (XEP-0060 11).
macro_rules! unsupported {
    ($(#[$doc:meta] $case:ident = $feature:literal;)*) => {
        $(#[$doc] pub const $case: Error =
            own(Condition::FeatureNotImplemented, Cancel, concat!("unsupported feature='", $feature, "'"));)*
    };
}

unsupported! {
    /// XEP-0060 6.3.
    NO_OPTIONS = "subscription-options";
    /// XEP-0060 5.7.
    NO_AFFILIATIONS = "retrieve-affiliations";
    /// XEP-0060 7.2.3.5.
    NO_ITEMS = "persistent-items";
    /// XEP-0060 8.9.2.3.
    NO_PUBLISH_ONLY = "publish-only-affiliation";
    /// XEP-0060 8.9.2.3.
    NO_PUBLISHERS = "publisher-affiliation";
    /// XEP-0248 6.1.3.
    NO_COLLECTIONS = "collections";
}

/// Why an entity may not see a node (XEP-0060 6.5.9).
impl From<Denied> for Error {
    fn from(denied: Denied) -> Error {
        match denied {
            // XEP-0060 6.1.3.3 defines an error, which would reveal that the account exists.
            Denied::Presence => UNSEEN,
            Denied::Group => NOT_IN_GROUP,
            Denied::Closed => CLOSED,
            Denied::Outcast => FORBIDDEN,
            Denied::Unsubscribed => UNSUBSCRIBED,
        }
    }
}
