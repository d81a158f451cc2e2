//! One stored file: its metadata, followed by its bytes.
//!
//! ```text
//! "THRNGUP1"  length of the JSON (u32, big-endian)  About as JSON  the uploaded bytes
//! ```

use std::fs::File;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use throng_engine::store::account::Incarnation;

/// The magic number of the file format.
const MAGIC: &[u8; 8] = b"THRNGUP1";
/// Maximum bytes of [`About`]: a JID, a name and a type with all their characters escaped fit.
const ABOUT_BYTES_MAX: usize = 32 << 10;

/// The metadata of a stored file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct About {
    /// Its owner: a bare JID.
    pub owner: String,
    /// The incarnation of that account, in hexadecimal.
    pub account: String,
    /// Its name.
    pub name: String,
    /// Its content type.
    pub content_type: String,
    /// Its length, bytes.
    pub size: u64,
    /// When it was uploaded, seconds since the Unix epoch.
    pub came_s: u64,
    /// When it expires, seconds since the Unix epoch.
    pub expires_s: u64,
}

impl About {
    /// The encoding of an account's incarnation.
    pub fn account_of(incarnation: Incarnation) -> String {
        format!("{:016x}", u64::from_be_bytes(incarnation.to_bytes()))
    }

    /// The incarnation of the owner's account.
    pub fn incarnation(&self) -> Option<Incarnation> {
        u64::from_str_radix(&self.account, 16).ok().map(|number| Incarnation::from_bytes(number.to_be_bytes()))
    }

    /// The head of a file with this metadata.
    pub(super) fn head(&self) -> io::Result<Vec<u8>> {
        let about = serde_json::to_vec(self).map_err(io::Error::other)?;
        if about.len() > ABOUT_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&(about.len() as u32).to_be_bytes());
        head.extend_from_slice(&about);
        Ok(head)
    }

    /// Reads a file's metadata, and the offset of its bytes. The file must be complete.
    ///
    /// # Errors
    /// The system's, or `InvalidData` if it is not such a file.
    pub(super) fn read(file: &File) -> io::Result<(About, u64)> {
        let none = || io::Error::from(io::ErrorKind::InvalidData);
        let mut begins = [0; 12];
        (&mut &*file).read_exact(&mut begins)?;
        let length = begins.strip_prefix(MAGIC).and_then(|length| length.try_into().ok()).ok_or_else(none)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > ABOUT_BYTES_MAX {
            return Err(none());
        }
        let mut about = vec![0; length];
        (&mut &*file).read_exact(&mut about)?;
        let about: About = serde_json::from_slice(&about).map_err(|_| none())?;
        let begins = (begins.len() + length) as u64;
        if file.metadata()?.len() != begins + about.size {
            return Err(none());
        }
        Ok((about, begins))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn about(name: &str, size: u64) -> About {
        About {
            owner: "romeo@montague.lit".into(),
            account: About::account_of(Incarnation::drawn(7)),
            name: name.into(),
            content_type: "image/jpeg".into(),
            size,
            came_s: 1,
            expires_s: 2,
        }
    }

    fn stored(bytes: &[u8]) -> File {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        File::create(&path).and_then(|mut file| file.write_all(bytes)).expect("written");
        File::open(&path).expect("there")
    }

    proptest! {
        #[test]
        fn what_is_known_reads_back_and_a_cut_file_is_none(name in "\\PC{1,80}", bytes in prop::collection::vec(any::<u8>(), 0..50), cut in 1..40_usize) {
            let about = about(&name, bytes.len() as u64);
            let mut whole = about.head().expect("it fits");
            let begins = whole.len() as u64;
            whole.extend_from_slice(&bytes);
            prop_assert_eq!(About::read(&stored(&whole)).expect("whole"), (about, begins));
            prop_assert!(About::read(&stored(&whole[..whole.len() - cut.min(whole.len())])).is_err());
        }

        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(About::read(&stored(&bytes)).is_err());
            prop_assert!(About::read(&stored(&[&MAGIC[..], &bytes].concat())).is_err());
        }
    }

    #[test]
    fn an_account_is_known_by_its_number() {
        assert_eq!(about("a", 1).incarnation(), Some(Incarnation::drawn(7)));
        let other = About { account: "x".into(), ..about("a", 1) };
        assert_eq!(other.incarnation(), None);
    }
}
