//! Applies the changes that take effect immediately.

use serde::Serialize;

use crate::finding::{Change, Finding};
use crate::host::Host;

/// The outcome of a change.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Applied {
    /// The change.
    pub(crate) change: Change,
    /// Why it failed, if it did.
    pub(crate) failed: Option<String>,
    /// The command that reverts it.
    pub(crate) undo: String,
}

/// Applies the changes of findings that fall short.
pub(crate) fn apply(host: &Host, findings: &[Finding]) -> Vec<Applied> {
    let set = |change: &Change| {
        let failed = host.write(&change.path, &change.value).err().map(|error| error.to_string());
        let undo = format!("echo '{}' > {}", change.before, change.path.display());
        Applied { change: change.clone(), failed, undo }
    };
    findings.iter().filter_map(|finding| finding.change.as_ref()).map(set).collect()
}
