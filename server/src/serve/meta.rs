//! Rows of a store that the server itself reads and writes: rows without a user, and whether there
//! are rows of a kind.

use std::ops::ControlFlow;

use throng_engine::store::{Batch, Found, Query, Table};

use super::Rows;
use crate::cli::Failure;
use crate::disk::DiskError;

/// Reads a row without a user.
pub(super) fn meta(engine: &Rows, sort: &[u8]) -> Result<Option<Box<[u8]>>, Failure> {
    let query = Query::Get { table: Table::Meta, actor: Box::default(), sort: sort.into() };
    match engine.read(&query).map_err(super::disk_failure)? {
        Found::Value(value) => Ok(value),
        Found::Rows { .. } | Found::Damaged => unreachable!("an engine answers a get with a value or an error"),
    }
}

/// Writes a row without a user, durably.
pub(super) fn put_meta(engine: &Rows, sort: &[u8], value: &[u8]) -> Result<(), Failure> {
    let mut batch = Batch::new();
    batch.put(Table::Meta, b"", sort, &[value]);
    engine.commit(&[batch]).map_err(super::disk_failure)
}

/// Whether the store has sessions.
pub(super) fn has_sessions(engine: &Rows) -> Result<bool, Failure> {
    let mut any = false;
    let mut visit = |_: &[u8]| {
        any = true;
        ControlFlow::Break(())
    };
    match engine.for_each_actor(Table::Sessions, None, &mut visit) {
        // A lost session cannot be resumed.
        Ok(_) | Err(DiskError::Unreadable(_)) => Ok(any),
        Err(error) => Err(super::disk_failure(error)),
    }
}
