//! Keys of scenarios: one table of them, each a flag of the command line and a key of a TOML file.
//!
//! [`table!`] makes a struct of a table, with what reads, sets and writes it. This module must never know what the keys say.

use std::net::SocketAddr;
use std::path::PathBuf;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// The TOML key; the flag has `-` in place of `_`.
    pub(crate) name: &'static str,
    /// What its value is, for the help.
    pub(crate) word: &'static str,
    /// A heading of the help.
    pub(crate) section: &'static str,
    /// A sentence.
    pub(crate) help: &'static str,
    /// As in TOML.
    pub(crate) default: fn() -> String,
    /// A flag without a value is `true`.
    pub(crate) switch: bool,
}

/// A kind of value.
pub(crate) trait Value: Sized {
    /// Reads what a flag or a TOML value says.
    fn read(text: &str) -> Result<Self, String>;
    /// As in TOML.
    fn toml(&self) -> String;
}

macro_rules! numbers {
    ($($kind:ty, $what:literal;)*) => {$(
        impl Value for $kind {
            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("{text} is not {}", $what))
            }
            fn toml(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers! {
    u32, "a whole number";
    u64, "a whole number";
    bool, "true or false";
}

impl Value for f64 {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0).ok_or(format!("{text} is not a positive number"))
    }

    fn toml(&self) -> String {
        format!("{self:?}")
    }
}

impl Value for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn toml(&self) -> String {
        toml::Value::String(self.clone()).to_string()
    }
}

impl Value for SocketAddr {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("{text} is not an address with a port, such as 127.0.0.1:5222"))
    }

    fn toml(&self) -> String {
        self.to_string().toml()
    }
}

impl Value for PathBuf {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }

    fn toml(&self) -> String {
        self.to_string_lossy().into_owned().toml()
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $name {
            $($(#[$case_doc])* $case,)*
        }

        impl $crate::keys::Value for $name {
            fn read(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok($name::$case),)*
                    _ => Err(format!("{text} is none of {}", [$($word),*].join(", "))),
                }
            }

            fn toml(&self) -> String {
                match self {
                    $($name::$case => format!("\"{}\"", $word),)*
                }
            }
        }
    };
}

words! {
    /// What carries the connections.
    DriverChoice {
        /// io_uring where the kernel has what is needed, else epoll.
        Auto = "auto",
        /// io_uring or nothing.
        Uring = "uring",
        /// epoll.
        Epoll = "epoll",
    }
}

/// A table of keys under headings: the struct, what it is when nothing is said, and what reads and writes it.
macro_rules! table {
    ($(#[$doc:meta])* $of:ident { $($section:literal { $($name:ident: $kind:ty = $default:expr, $word:literal, $help:literal;)* })* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub(crate) struct $of {
            $($(#[doc = $help] pub(crate) $name: $kind,)*)*
        }

        impl Default for $of {
            fn default() -> $of {
                $of { $($($name: $default,)*)* }
            }
        }

        /// The table.
        pub(crate) const TABLE: &[$crate::keys::Key] = &[$($($crate::keys::Key {
            name: stringify!($name),
            word: $word,
            section: $section,
            help: $help,
            default: || { let value: $kind = $default; $crate::keys::Value::toml(&value) },
            switch: $word.is_empty(),
        },)*)*];

        impl $of {
            /// Sets one key. The error does not name it.
            fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
                match name {
                    $($(stringify!($name) => self.$name = $crate::keys::Value::read(text)?,)*)*
                    _ => return Err("no such key".into()),
                }
                Ok(())
            }

            fn get(&self, name: &str) -> String {
                match name {
                    $($(stringify!($name) => $crate::keys::Value::toml(&self.$name),)*)*
                    _ => String::new(),
                }
            }

            /// Sets a key from the text of a flag.
            ///
            /// # Errors
            /// A sentence that names the key.
            pub(crate) fn set_flag(&mut self, name: &str, text: &str) -> Result<(), String> {
                self.set(name, text).map_err(|why| format!("--{}: {why}", name.replace('_', "-")))
            }

            /// Sets the keys of a TOML text.
            ///
            /// # Errors
            /// It is no TOML, or a sentence that names the key.
            pub(crate) fn set_toml(&mut self, text: &str) -> Result<(), String> {
                let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
                for (name, value) in table {
                    let text = match value {
                        toml::Value::String(text) => text,
                        other => other.to_string(),
                    };
                    self.set(&name, &text).map_err(|why| format!("{name}: {why}"))?;
                }
                Ok(())
            }

            /// All keys with their help, as TOML.
            pub(crate) fn toml(&self) -> String {
                use std::fmt::Write as _;
                let mut out = String::new();
                let mut section = "";
                for key in TABLE {
                    if key.section != section {
                        section = key.section;
                        let _ = writeln!(out, "{}# {section}", if out.is_empty() { "" } else { "\n" });
                    }
                    let _ = writeln!(out, "{} = {}  # {}", key.name, self.get(key.name), key.help);
                }
                out
            }
        }
    };
}

pub(crate) use {table, words};
