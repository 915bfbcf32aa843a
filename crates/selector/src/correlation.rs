//! Correlation-ID filters: which IDs a subscriber wants, as a list of IDs and ranges.
//!
//! ```text
//! filter := item { "," item }
//! item   := id | "[" id ";" id "]"
//! id     := characters other than , ; [ ] ' and blanks, or any characters in single quotes, '' for one quote
//! ```
//!
//! A range includes its ends. Ends that are the same text followed by a number, such as `[#7;#13]`, take in
//! the IDs that are this text followed by a number in between (leading zeros do not count); ends that both
//! have no number at their end take in the IDs that lie between them in the order of their bytes. One kind of
//! range never matches the IDs of the other, and ends of different kinds are refused. Blanks around IDs do
//! not count.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::bytes::{Reader, put_count, put_text};
use crate::error::{DecodeError, SelectorError};

/// The longest correlation ID, in bytes.
pub const CORRELATION_ID_BYTES_MAX: usize = 128;
/// The most IDs and ranges a filter can have.
pub const CORRELATION_ITEMS_MAX: usize = 4096;
/// The longest filter, in bytes.
const FILTER_BYTES_MAX: usize = CORRELATION_ITEMS_MAX * 16;

const VERSION: u8 = 1;

/// A range of IDs with a text in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NumberRange {
    /// What stands before the number.
    pub prefix: Arc<str>,
    /// Digits without leading zeros: IDs are too long for machine integers.
    pub low: Digits,
    pub high: Digits,
}

/// A number of any length.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Digits(Arc<str>);

impl Digits {
    fn compare(&self, digits: &str) -> Ordering {
        (self.0.len(), &*self.0).cmp(&(digits.len(), digits))
    }

    pub(crate) fn is_up_to(&self, digits: &str) -> bool {
        self.compare(digits).is_le()
    }

    pub(crate) fn is_from(&self, digits: &str) -> bool {
        self.compare(digits).is_ge()
    }
}

impl PartialOrd for Digits {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Digits {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(&other.0)
    }
}

/// Which correlation IDs are wanted. Parse it from text, or build it from IDs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelationFilter {
    ids: Vec<Arc<str>>,
    numbers: Vec<NumberRange>,
    texts: Vec<(Arc<str>, Arc<str>)>,
}

/// An ID's text and the number at its end, without leading zeros.
pub(crate) fn split_number(id: &str) -> Option<(&str, &str)> {
    let prefix = id.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &id[prefix.len()..];
    if digits.is_empty() {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    Some((prefix, if significant.is_empty() { "0" } else { significant }))
}

impl CorrelationFilter {
    /// Parses a filter such as `#7`, `#1, #5` or `[#7;#13], other`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > FILTER_BYTES_MAX {
            let expected = format!("a correlation filter of at most {FILTER_BYTES_MAX} bytes");
            return Err(SelectorError::new(
                text,
                FILTER_BYTES_MAX,
                format!("{} bytes", text.len()),
                expected,
            ));
        }
        let mut parser = Parser { text, at: 0 };
        let mut filter = Self { ids: Vec::new(), numbers: Vec::new(), texts: Vec::new() };
        let mut items = 0;
        loop {
            items += 1;
            if items > CORRELATION_ITEMS_MAX {
                return Err(parser.unexpected(&format!("at most {CORRELATION_ITEMS_MAX} IDs and ranges")));
            }
            parser.item(&mut filter)?;
            if !parser.take(',') {
                break;
            }
        }
        if parser.at < text.len() {
            return Err(parser.unexpected("',' or the end"));
        }
        Ok(filter.sorted())
    }

    /// The filter for one ID.
    pub fn equal_to(id: &str) -> Option<Self> {
        let fits = (1..=CORRELATION_ID_BYTES_MAX).contains(&id.len());
        fits.then(|| Self { ids: vec![id.into()], numbers: Vec::new(), texts: Vec::new() })
    }

    fn sorted(mut self) -> Self {
        self.ids.sort_unstable();
        self.ids.dedup();
        self.numbers.sort_unstable();
        self.numbers.dedup();
        self.texts.sort_unstable();
        self.texts.dedup();
        self
    }

    pub(crate) fn ids(&self) -> &[Arc<str>] {
        &self.ids
    }

    pub(crate) fn numbers(&self) -> &[NumberRange] {
        &self.numbers
    }

    pub(crate) fn texts(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.texts
    }

    /// Whether the ID is wanted.
    pub fn matches(&self, id: &str) -> bool {
        if self.ids.binary_search_by(|known| (**known).cmp(id)).is_ok() {
            return true;
        }
        match split_number(id) {
            Some((prefix, digits)) => self.numbers.iter().any(|range| range.contains(prefix, digits)),
            None => self.texts.iter().any(|(low, high)| (&**low..=&**high).contains(&id)),
        }
    }

    /// Appends the wire form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_count(out, self.ids.len());
        self.ids.iter().for_each(|id| put_text(out, id));
        put_count(out, self.numbers.len());
        for range in &self.numbers {
            put_text(out, &range.prefix);
            put_text(out, &range.low.0);
            put_text(out, &range.high.0);
        }
        put_count(out, self.texts.len());
        for (low, high) in &self.texts {
            put_text(out, low);
            put_text(out, high);
        }
    }

    /// Reads the wire form; all of `bytes` must belong to it.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.byte()? {
            VERSION => {}
            version => return Err(DecodeError::UnknownVersion(version)),
        }
        let mut filter = Self { ids: Vec::new(), numbers: Vec::new(), texts: Vec::new() };
        for _ in 0..reader.count()? {
            filter.ids.push(decoded_id(reader.text()?)?.into());
        }
        for _ in 0..reader.count()? {
            let (prefix, low, high) = (reader.text()?, reader.text()?, reader.text()?);
            filter.add_range(&decoded_id_of(prefix, low)?, &decoded_id_of(prefix, high)?)?;
        }
        for _ in 0..reader.count()? {
            let (low, high) = (decoded_id(reader.text()?)?, decoded_id(reader.text()?)?);
            filter.add_range(low, high)?;
        }
        reader.finish()?;
        match filter.ids.len() + filter.numbers.len() + filter.texts.len() {
            0 => Err(DecodeError::InvalidOperand),
            items if items > CORRELATION_ITEMS_MAX => Err(DecodeError::TooLarge),
            _ => Ok(filter.sorted()),
        }
    }

    /// Adds a range, unless its ends are of different kinds or the wrong way round.
    fn add_range(&mut self, low: &str, high: &str) -> Result<(), DecodeError> {
        match (split_number(low), split_number(high)) {
            (Some((prefix, low)), Some((same, high))) if prefix == same => {
                let range =
                    NumberRange { prefix: prefix.into(), low: Digits(low.into()), high: Digits(high.into()) };
                if range.low > range.high {
                    return Err(DecodeError::InvalidOperand);
                }
                self.numbers.push(range);
            }
            (None, None) if low <= high => self.texts.push((low.into(), high.into())),
            _ => return Err(DecodeError::InvalidOperand),
        }
        Ok(())
    }
}

impl NumberRange {
    fn contains(&self, prefix: &str, digits: &str) -> bool {
        *self.prefix == *prefix && self.low.is_up_to(digits) && self.high.is_from(digits)
    }
}

fn decoded_id(id: &str) -> Result<&str, DecodeError> {
    match id.len() {
        0 => Err(DecodeError::InvalidOperand),
        1..=CORRELATION_ID_BYTES_MAX => Ok(id),
        _ => Err(DecodeError::TooLarge),
    }
}

fn decoded_id_of(prefix: &str, digits: &str) -> Result<String, DecodeError> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(DecodeError::InvalidOperand);
    }
    let id = format!("{prefix}{digits}");
    decoded_id(&id)?;
    Ok(id)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, wanted: char) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len_utf8();
            self.skip_blanks();
        }
        found
    }

    fn unexpected(&self, expected: &str) -> SelectorError {
        let found = match self.rest().chars().next() {
            None => "the end of the filter".to_owned(),
            Some(c) => format!("{c:?}"),
        };
        SelectorError::new(self.text, self.at, found, expected)
    }

    fn item(&mut self, filter: &mut CorrelationFilter) -> Result<(), SelectorError> {
        if !self.take('[') {
            let id = self.id()?;
            filter.ids.push(id.into());
            return Ok(());
        }
        let start = self.at;
        let low = self.id()?;
        if !self.take(';') {
            return Err(self.unexpected("';' and the upper end of the range"));
        }
        let high = self.id()?;
        if !self.take(']') {
            return Err(self.unexpected("']'"));
        }
        filter.add_range(&low, &high).map_err(|_| {
            let found = format!("the range from {low} to {high}");
            let expected =
                "a lower and an upper end that are the same text with a number, or both without number";
            SelectorError::new(self.text, start, found, expected)
        })
    }

    fn id(&mut self) -> Result<String, SelectorError> {
        self.skip_blanks();
        let start = self.at;
        let id = if self.rest().starts_with('\'') { self.quoted()? } else { self.bare() };
        if id.is_empty() {
            self.at = start;
            return Err(self.unexpected("a correlation ID"));
        }
        if id.len() > CORRELATION_ID_BYTES_MAX {
            let expected = format!("a correlation ID of at most {CORRELATION_ID_BYTES_MAX} bytes");
            return Err(SelectorError::new(self.text, start, format!("{} bytes", id.len()), expected));
        }
        Ok(id)
    }

    fn bare(&mut self) -> String {
        let special = |c: char| is_special(c) || c.is_whitespace();
        let end = self.rest().find(special).unwrap_or(self.rest().len());
        let id = self.rest()[..end].to_owned();
        self.at += end;
        id
    }

    fn quoted(&mut self) -> Result<String, SelectorError> {
        let start = self.at;
        let mut id = String::new();
        self.at += 1;
        loop {
            let Some(quote) = self.rest().find('\'') else {
                let expected = "a closing quote '";
                return Err(SelectorError::new(self.text, start, "a quoted ID without end", expected));
            };
            id.push_str(&self.text[self.at..self.at + quote]);
            self.at += quote + 1;
            if !self.rest().starts_with('\'') {
                return Ok(id);
            }
            id.push('\'');
            self.at += 1;
        }
    }
}

fn is_special(c: char) -> bool {
    matches!(c, ',' | ';' | '[' | ']' | '\'')
}

impl FromStr for CorrelationFilter {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text)
    }
}

/// The canonical text: sorted, without repetitions.
impl fmt::Display for CorrelationFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |id: &str| {
            if id.contains(|c: char| is_special(c) || c.is_whitespace()) {
                format!("'{}'", id.replace('\'', "''"))
            } else {
                id.to_owned()
            }
        };
        let ids = self.ids.iter().map(|id| quoted(id));
        let numbers = self.numbers.iter().map(|range| {
            let end = |digits: &Digits| quoted(&format!("{}{}", range.prefix, digits.0));
            format!("[{};{}]", end(&range.low), end(&range.high))
        });
        let texts = self.texts.iter().map(|(low, high)| format!("[{};{}]", quoted(low), quoted(high)));
        let items: Vec<_> = ids.chain(numbers).chain(texts).collect();
        f.write_str(&items.join(", "))
    }
}
