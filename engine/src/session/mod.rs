//! One connection.

pub mod sasl;
