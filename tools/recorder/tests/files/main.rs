//! What the recorder leaves in files: kept to its bound, made thin, and read back past any damage.

mod damage;
mod ring;
mod rot;
mod thin;
mod thinning;
