//! The floors of a shard. Each is a struct with state and methods of its own, and owns the floor below it:
//!
//! [`Turn`](crate::turn) ← [`Streams`](crate::streams) ← [`Channels`](crate::channels) ← [`Actors`](crate::actors) ←
//! [`Logs`](crate::logs) ← [`Contacts`](crate::contacts) ← [`Accounts`](crate::accounts) ← [`Requests`](crate::requests) ←
//! [`Components`](crate::components) ← [`Shard`](crate::shard::Shard)
//!
//! A method reaches everything below it by its plain name, and nothing above it at all: the compiler refuses the call. What has
//! to go up is data that a higher floor takes out: an ending, a stream that may go on, a decision.

/// Lets one floor use the floor that it stands on by its plain names. It costs nothing at run time.
macro_rules! stands_on {
    ($upper:ty, $field:ident: $lower:ty) => {
        impl std::ops::Deref for $upper {
            type Target = $lower;

            fn deref(&self) -> &$lower {
                &self.$field
            }
        }

        impl std::ops::DerefMut for $upper {
            fn deref_mut(&mut self) -> &mut $lower {
                &mut self.$field
            }
        }
    };
}

pub(crate) use stands_on;
