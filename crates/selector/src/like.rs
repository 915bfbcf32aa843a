//! `LIKE` patterns: `_` is any one character, `%` any run of them, including none.

use std::fmt;

/// The escape character that printed patterns use.
const PRINTED_ESCAPE: char = '\\';

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Item {
    /// These characters, as they are.
    Text(Box<str>),
    /// This many characters, whichever.
    Some(u32),
    /// Any characters, or none.
    Run,
}

/// A compiled pattern. Two patterns that differ only in how they are written are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    items: Box<[Item]>,
}

impl Pattern {
    /// Compiles `source`; `None` when it ends in an escape character that escapes nothing.
    pub(crate) fn compile(source: &str, escape: Option<char>) -> Option<Self> {
        let mut builder = Builder::default();
        let mut chars = source.chars();
        while let Some(c) = chars.next() {
            match c {
                c if Some(c) == escape => builder.text(chars.next()?),
                '_' => builder.some(1),
                '%' => builder.run(),
                c => builder.text(c),
            }
        }
        Some(builder.finish())
    }

    /// `%`: any text.
    pub(crate) fn anything() -> Self {
        Self { items: Box::new([Item::Run]) }
    }

    pub(crate) fn from_items(items: impl IntoIterator<Item = Item>) -> Self {
        let mut builder = Builder::default();
        for item in items {
            match item {
                Item::Text(text) => text.chars().for_each(|c| builder.text(c)),
                Item::Some(count) => builder.some(count),
                Item::Run => builder.run(),
            }
        }
        builder.finish()
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    /// The text that every match begins with.
    pub fn prefix(&self) -> &str {
        match self.items.first() {
            Some(Item::Text(text)) => text,
            _ => "",
        }
    }

    /// Whether the pattern is a prefix followed by `%` and nothing else.
    pub fn is_prefix_only(&self) -> bool {
        matches!(&*self.items, [Item::Text(_), Item::Run] | [Item::Run])
    }

    /// The one text that matches, when the pattern has no wildcard.
    pub(crate) fn exact(&self) -> Option<&str> {
        match &*self.items {
            [] => Some(""),
            [Item::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the whole of `text` fits the pattern.
    pub fn matches(&self, text: &str) -> bool {
        let mut item = 0;
        let mut rest = text;
        let mut retry: Option<(usize, &str)> = None;
        loop {
            let advanced = match self.items.get(item) {
                None if rest.is_empty() => return true,
                None => None,
                Some(Item::Run) => {
                    if item + 1 == self.items.len() {
                        return true;
                    }
                    retry = Some((item + 1, rest));
                    Some(rest)
                }
                Some(Item::Text(literal)) => rest.strip_prefix(&**literal),
                Some(Item::Some(count)) => skip_chars(rest, *count),
            };
            if let Some(after) = advanced {
                (item, rest) = (item + 1, after);
                continue;
            }
            let Some((after_run, from)) = retry else {
                return false;
            };
            let Some(next) = self.next_start(after_run, from) else {
                return false;
            };
            retry = Some((after_run, next));
            (item, rest) = (after_run, next);
        }
    }

    /// The next place after `from` where the items behind a run can begin.
    fn next_start<'t>(&self, item: usize, from: &'t str) -> Option<&'t str> {
        let next = skip_chars(from, 1)?;
        match &self.items[item] {
            Item::Text(literal) => next.find(&**literal).map(|at| &next[at..]),
            _ => Some(next),
        }
    }
}

fn skip_chars(text: &str, count: u32) -> Option<&str> {
    let mut chars = text.chars();
    for _ in 0..count {
        chars.next()?;
    }
    Some(chars.as_str())
}

/// Joins neighbouring items, and puts the `_` of a wildcard group before its `%`.
#[derive(Default)]
struct Builder {
    items: Vec<Item>,
    text: String,
    some: u32,
    run: bool,
}

impl Builder {
    fn text(&mut self, c: char) {
        self.flush_wildcards();
        self.text.push(c);
    }

    fn some(&mut self, count: u32) {
        self.flush_text();
        self.some = self.some.saturating_add(count);
    }

    fn run(&mut self) {
        self.flush_text();
        self.run = true;
    }

    fn flush_text(&mut self) {
        if !self.text.is_empty() {
            self.items.push(Item::Text(std::mem::take(&mut self.text).into()));
        }
    }

    fn flush_wildcards(&mut self) {
        if self.some > 0 {
            self.items.push(Item::Some(std::mem::take(&mut self.some)));
        }
        if std::mem::take(&mut self.run) {
            self.items.push(Item::Run);
        }
    }

    fn finish(mut self) -> Pattern {
        self.flush_text();
        self.flush_wildcards();
        Pattern { items: self.items.into() }
    }
}

/// As selector text: `'a\_b%' ESCAPE '\'`.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let special = |c: char| c == '_' || c == '%';
        let escaped =
            self.items.iter().any(|item| matches!(item, Item::Text(text) if text.contains(special)));
        let mut source = String::new();
        for item in &self.items {
            match item {
                Item::Run => source.push('%'),
                Item::Some(count) => (0..*count).for_each(|_| source.push('_')),
                Item::Text(text) => {
                    for c in text.chars() {
                        if escaped && (special(c) || c == PRINTED_ESCAPE) {
                            source.push(PRINTED_ESCAPE);
                        }
                        source.push(c);
                    }
                }
            }
        }
        write!(f, "'{}'", source.replace('\'', "''"))?;
        if escaped { write!(f, " ESCAPE '{PRINTED_ESCAPE}'") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn like(pattern: &str, text: &str) -> bool {
        Pattern::compile(pattern, Some('\\')).unwrap().matches(text)
    }

    #[test]
    fn the_examples_of_the_specification_hold() {
        assert!(like("12%3", "123") && like("12%3", "12993") && !like("12%3", "1234"));
        assert!(like("l_se", "lose") && !like("l_se", "loose"));
        assert!(like(r"\_%", "_foo") && !like(r"\_%", "bar"));
    }

    #[test]
    fn an_underscore_is_one_character_however_many_bytes_it_has() {
        assert!(like("_", "é") && like("_", "🐟") && !like("_", "") && !like("_", "ab"));
    }

    #[test]
    fn a_later_occurrence_is_tried_when_an_earlier_one_leads_nowhere() {
        assert!(like("%ab_c", "xabyabzc"));
        assert!(like("a%b%c", "a-b-b-c") && !like("a%b%c", "a-c-b"));
    }

    #[test]
    fn a_dangling_escape_is_refused() {
        assert_eq!(Pattern::compile("abc!", Some('!')), None);
    }

    /// Obviously right, and exponential.
    fn plain(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('%', rest)) => (0..=text.len()).any(|skip| plain(rest, &text[skip..])),
            Some(('_', rest)) => !text.is_empty() && plain(rest, &text[1..]),
            Some((c, rest)) => text.first() == Some(c) && plain(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_definition(pattern in "[ab_%]{0,8}", text in "[abé]{0,10}") {
            let expected = plain(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>());
            prop_assert_eq!(Pattern::compile(&pattern, None).unwrap().matches(&text), expected);
        }
    }
}
