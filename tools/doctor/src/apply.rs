//! Sets what can be set now.

use serde::Serialize;

use crate::finding::{Change, Finding};
use crate::host::Host;

/// What became of a change.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Applied {
    /// What was set.
    pub(crate) change: Change,
    /// Why it was not, if so.
    pub(crate) failed: Option<String>,
    /// The command that takes it back.
    pub(crate) undo: String,
}

/// Carries out the changes of findings that fall short.
pub(crate) fn apply(host: &Host, findings: &[Finding]) -> Vec<Applied> {
    let set = |change: &Change| {
        let failed = host.write(&change.path, &change.value).err().map(|error| error.to_string());
        let undo = format!("echo '{}' > {}", change.before, change.path.display());
        Applied { change: change.clone(), failed, undo }
    };
    findings.iter().filter_map(|finding| finding.change.as_ref()).map(set).collect()
}
