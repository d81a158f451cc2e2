//! BOSH (XEP-0124, XEP-0206): each test names the clause of its requirement. Some run on one shard
//! directly, some on several in a world with delays.

mod abuse;
mod across;
mod desk;
mod requests;
mod session;
mod stream;
