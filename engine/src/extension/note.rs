//! What extensions keep in memory for sessions and users.

use std::any::Any;
use std::fmt::Debug;

/// What an extension keeps in memory for one session or one user. Only its own hooks know the
/// content.
pub trait Note: Any + Debug + Send {
    /// Memory used, in bytes.
    fn memory_bytes(&self) -> usize;

    /// Stanzas in it that its session is still to be sent, in order.
    fn held(&self) -> Vec<&[u8]> {
        Vec::new()
    }
}

/// Notes of extensions, by their place in the table.
#[derive(Debug, Default)]
pub struct Notes(Vec<(u8, Box<dyn Note>)>);

impl Notes {
    /// The note of an extension.
    pub fn get(&self, extension: usize) -> Option<&dyn Note> {
        self.0.iter().find(|(of, _)| usize::from(*of) == extension).map(|(_, note)| &**note)
    }

    /// Takes out the note of an extension.
    pub fn take(&mut self, extension: usize) -> Option<Box<dyn Note>> {
        let at = self.0.iter().position(|(of, _)| usize::from(*of) == extension)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Stores the note of an extension in place of the previous one.
    pub fn put(&mut self, extension: usize, note: Option<Box<dyn Note>>) {
        self.take(extension);
        self.0.extend(note.map(|note| (extension as u8, note)));
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All notes with the places of their extensions.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &dyn Note)> {
        self.0.iter().map(|(of, note)| (usize::from(*of), &**note))
    }

    /// Memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let own = self.0.capacity() * size_of::<(u8, Box<dyn Note>)>();
        own + self.0.iter().map(|(_, note)| note.memory_bytes()).sum::<usize>()
    }
}
