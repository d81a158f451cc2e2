//! The report for people and for scripts.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::apply::Applied;
use crate::finding::{Finding, State, grouped};
use crate::plan::Plan;

/// Number of findings that fall short.
pub(crate) fn short(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| finding.state == State::Short).count()
}

/// The report as text. `paint` puts a word in a colour (an SGR code), or does not.
pub(crate) fn text(plan: &Plan, findings: &[Finding], paint: &dyn Fn(&str, &str) -> String) -> String {
    let mut text = format!(
        "This host, for {} connections{}:\n\n",
        grouped(plan.connections),
        if plan.tls { " over TLS" } else { "" }
    );
    let wide = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    for finding in findings {
        let (word, code) = match finding.state {
            State::Good => ("ok   ", "32"),
            State::Note => ("note ", "33"),
            State::Short => ("SHORT", "31"),
            State::Unknown => ("?    ", "33"),
        };
        let _ =
            writeln!(text, "{} {:wide$}  {}; needed: {}", paint(code, word), finding.name, finding.is, finding.needed);
        if finding.state == State::Good {
            continue;
        }
        let mut line = |what: &str, told: &str| {
            let _ = writeln!(text, "      {what}{told}");
        };
        if !finding.why.is_empty() {
            line("", finding.why);
        }
        if let Some(now) = &finding.now {
            line("now:      ", now);
        }
        if let Some(lasting) = &finding.lasting {
            line("for good: ", lasting);
        }
    }
    let all = findings.len();
    let _ = match short(findings) {
        0 => writeln!(text, "\nNothing of {all} falls short."),
        1 => writeln!(text, "\n1 of {all} falls short."),
        short => writeln!(text, "\n{short} of {all} fall short."),
    };
    if findings.iter().any(|finding| finding.change.is_some()) {
        let _ = writeln!(text, "--apply sets what can be set now, as root, and says how to undo it.");
    }
    text
}

/// The applied changes as text.
pub(crate) fn applied_text(applied: &[Applied]) -> String {
    let mut text = String::new();
    for one in applied {
        let (path, value, before) = (one.change.path.display(), &one.change.value, &one.change.before);
        let _ = match &one.failed {
            None => writeln!(text, "set      {path} = {value} (was {before})"),
            Some(error) => writeln!(text, "NOT set  {path} = {value} (is {before}): {error}"),
        };
    }
    let undo: Vec<_> = applied.iter().filter(|one| one.failed.is_none()).map(|one| &*one.undo).collect();
    if !undo.is_empty() {
        let _ = writeln!(text, "\nUntil the next start of the host. To undo it now:\n  {}", undo.join("\n  "));
    }
    text
}

/// Both as JSON.
pub(crate) fn json(plan: &Plan, findings: &[Finding], applied: Option<&[Applied]>) -> Value {
    let mut told = json!({ "connections": plan.connections, "short": short(findings), "findings": findings });
    if let Some(applied) = applied {
        told["applied"] = json!(applied);
    }
    told
}
