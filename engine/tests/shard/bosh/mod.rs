//! BOSH (XEP-0124, XEP-0206): each test names the clause whose requirement it shows. One shard is looked at straight, several in a
//! world with delays.

mod abuse;
mod across;
mod desk;
mod requests;
mod session;
mod stream;
