//! Why a selector, a correlation filter or an encoded filter was refused.

use std::fmt;

/// How many characters of the text are shown on either side of the mistake.
const EXCERPT_RADIUS: usize = 36;

/// A text that is not a valid selector (or correlation filter).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectorError {
    /// Where the mistake is: an index into the text, counted in characters.
    pub position: usize,
    /// What stands there.
    pub found: String,
    /// What would have been accepted.
    pub expected: String,
    excerpt: String,
    caret_column: usize,
}

impl SelectorError {
    /// Describes a mistake at byte `offset` of `text`.
    pub(crate) fn new(
        text: &str,
        offset: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let (before, after) = text.split_at(offset);
        let mut excerpt: Vec<char> = before.chars().rev().take(EXCERPT_RADIUS).collect();
        excerpt.reverse();
        let cut_left = before.chars().nth(EXCERPT_RADIUS).is_some();
        let caret_column = excerpt.len() + usize::from(cut_left);
        excerpt.extend(after.chars().take(EXCERPT_RADIUS));
        // A line break in the excerpt would put the caret under the wrong line.
        let breaks_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        let shown = excerpt.into_iter().map(|c| if breaks_line(c) { ' ' } else { c });
        let mut line: String = if cut_left { "…".into() } else { String::new() };
        line.extend(shown);
        if after.chars().nth(EXCERPT_RADIUS).is_some() {
            line.push('…');
        }
        Self {
            position: before.chars().count(),
            found: found.into(),
            expected: expected.into(),
            excerpt: line,
            caret_column,
        }
    }

    /// The text around the mistake, and under it a line with a caret pointing at the mistake.
    pub fn caret(&self) -> String {
        format!("{}\n{:width$}^", self.excerpt, "", width = self.caret_column)
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at position {}: found {}, expected {}", self.position, self.found, self.expected)?;
        for (number, line) in self.caret().lines().enumerate() {
            let end = if number == 0 { "\n" } else { "" };
            write!(f, "    {line}{end}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SelectorError {}

/// Bytes that are not an encoded filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end inside a value.
    Truncated,
    /// Bytes are left over after the filter.
    TrailingBytes,
    /// The version byte is one this program does not know.
    UnknownVersion(u8),
    /// A tag byte that means nothing where it stands.
    UnknownTag(u8),
    /// A text is not UTF-8.
    NotUtf8,
    /// A name that may not be used in a selector.
    InvalidName,
    /// A literal, pattern or range that no selector can contain.
    InvalidOperand,
    /// Larger or nested deeper than the bounds of the language allow.
    TooLarge,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the encoded filter ends too early"),
            Self::TrailingBytes => f.write_str("bytes follow the encoded filter"),
            Self::UnknownVersion(version) => {
                write!(f, "filter encoding version {version} is not known")
            }
            Self::UnknownTag(tag) => write!(f, "tag {tag:#04x} has no meaning here"),
            Self::NotUtf8 => f.write_str("a text in the encoded filter is not UTF-8"),
            Self::InvalidName => f.write_str("a name in the encoded filter may not be used in a selector"),
            Self::InvalidOperand => f.write_str("an operand in the encoded filter is not possible there"),
            Self::TooLarge => f.write_str("the encoded filter is too large or nested too deeply"),
        }
    }
}

impl std::error::Error for DecodeError {}
