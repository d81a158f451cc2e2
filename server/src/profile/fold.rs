//! Stacks as text and as a flame graph.

use std::io::{self, Write};

use inferno::flamegraph;

/// A stack with symbol names.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Named {
    /// Name of the thread.
    pub thread: String,
    /// Functions, outermost first.
    pub frames: Vec<String>,
    /// Samples, or bytes.
    pub count: u64,
    /// Allocated bytes that were not freed.
    #[serde(skip_serializing_if = "is_none")]
    pub kept: u64,
}

fn is_none(kept: &u64) -> bool {
    *kept == 0
}

/// One line per stack, `thread;outer;inner count`: the common input of flame graph tools. Equal
/// stacks are combined.
pub fn folded(stacks: &[Named]) -> Vec<String> {
    let mut sums = std::collections::BTreeMap::<String, u64>::new();
    for stack in stacks {
        let words = std::iter::once(&stack.thread).chain(&stack.frames);
        let words: Vec<String> = words.map(|word| word.replace([';', '\n'], ":")).collect();
        *sums.entry(words.join(";")).or_default() += stack.count;
    }
    sums.into_iter().map(|(stack, count)| format!("{stack} {count}")).collect()
}

/// Draws a flame graph: widths are counts of the unit, threads are at the bottom.
///
/// # Errors
/// There is nothing to draw, or `into` cannot be written.
pub fn draw(stacks: &[Named], unit: &str, title: &str, subtitle: &str, into: impl Write) -> io::Result<()> {
    let mut options = flamegraph::Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle.to_owned());
    options.count_name = unit.to_owned();
    options.deterministic = true;
    let lines = folded(stacks);
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), into)
}
