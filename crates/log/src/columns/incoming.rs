//! Arrow columns written in from outside, made into message records.
//!
//! Nothing that a column claims is believed: offsets are checked against the data before they are followed. A
//! mistake names the row and what was wrong with it, and no record of the batch is kept.

use shoal_wire::{
    BodyKind, Destination, EncodeError, HeaderFields, Outgoing, Priority, PropertiesWriter, Scalar, Topic,
    TopicError,
};
use thiserror::Error;

use super::json_reader::read_json;

/// Why a row cannot be a message.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the text says it")]
pub enum IncomingError {
    #[error("the column {column} is shorter than the batch says, or its offsets lead nowhere")]
    Malformed { column: &'static str },
    #[error("row {row}: {column} is not UTF-8 text")]
    NotText { row: usize, column: &'static str },
    #[error("row {row}: there is no topic: give a column topic, or a topic for all rows")]
    NoTopic { row: usize },
    #[error("row {row}: topic: {error}")]
    Topic { row: usize, error: TopicError },
    #[error("row {row}: reply_to: {error}")]
    ReplyTo { row: usize, error: TopicError },
    #[error("row {row}: priority is {found}, and must be 0 to 9")]
    Priority { row: usize, found: i32 },
    #[error("row {row}: ttl_ms is {found}, and must be above 0, or null for no end")]
    Ttl { row: usize, found: i64 },
    #[error("row {row}: body_kind is {found:?}, and must be empty, bytes, text, mapping, list or scalar")]
    Kind { row: usize, found: String },
    #[error("row {row}: the body is to be {wanted}, and {error}")]
    Json { row: usize, wanted: &'static str, error: String },
    #[error("row {row}: {error}")]
    Encode { row: usize, error: EncodeError },
}

/// A column of texts or bytes: validity bits, 32-bit offsets, data, and where in them the batch begins.
#[derive(Debug, Clone, Copy)]
pub struct TextsIn<'a> {
    /// No buffer: every value is there.
    pub validity: Option<&'a [u8]>,
    /// One more than values, each of four bytes.
    pub offsets: &'a [u8],
    /// The values, one after the other.
    pub data: &'a [u8],
    /// The index of the batch's first value.
    pub first: usize,
}

/// A column of numbers or flags, and where in it the batch begins.
#[derive(Debug, Clone, Copy)]
pub struct NumbersIn<'a> {
    /// No buffer: every value is there.
    pub validity: Option<&'a [u8]>,
    /// The values; flags are bits.
    pub data: &'a [u8],
    /// The index of the batch's first value.
    pub first: usize,
}

/// A map of texts to texts.
#[derive(Debug, Clone, Copy)]
pub struct MapIn<'a> {
    /// No buffer: every value is there.
    pub validity: Option<&'a [u8]>,
    /// One more than values, each of four bytes.
    pub offsets: &'a [u8],
    /// The index of the batch's first value.
    pub first: usize,
    /// Names of all properties of all rows.
    pub keys: TextsIn<'a>,
    /// Their values.
    pub values: TextsIn<'a>,
}

/// A column that is one property of every row where it is not null.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the variants are the types a property may have")]
pub enum PropertyIn<'a> {
    String(TextsIn<'a>),
    Int64(NumbersIn<'a>),
    Float64(NumbersIn<'a>),
    Bool(NumbersIn<'a>),
}

/// A batch of rows to become messages. What is absent has its default in every row.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "docs/reference/history.md says what each column means")]
pub struct Incoming<'a> {
    pub rows: usize,
    /// For rows whose own topic is null.
    pub default_topic: Option<&'a str>,
    pub topic: Option<TextsIn<'a>>,
    pub body: Option<TextsIn<'a>>,
    /// Whether bodies without a kind are text.
    pub body_is_text: bool,
    pub body_kind: Option<TextsIn<'a>>,
    pub priority: Option<NumbersIn<'a>>,
    pub ttl_ms: Option<NumbersIn<'a>>,
    pub correlation_id: Option<TextsIn<'a>>,
    pub message_type: Option<TextsIn<'a>>,
    pub reply_to: Option<TextsIn<'a>>,
    pub properties: Option<MapIn<'a>>,
    pub typed: Vec<(&'a str, PropertyIn<'a>)>,
}

/// Whether a bit is set; a buffer that is too short is the caller's to notice.
fn bit(bits: &[u8], index: usize) -> Option<bool> {
    bits.get(index / 8).map(|byte| byte >> (index % 8) & 1 == 1)
}

/// Whether value `index` is there; `None` if the buffer does not reach so far.
fn is_valid(validity: Option<&[u8]>, index: usize) -> Option<bool> {
    validity.map_or(Some(true), |bits| bit(bits, index))
}

fn fixed<const N: usize>(data: &[u8], index: usize) -> Option<[u8; N]> {
    let start = index.checked_mul(N)?;
    data.get(start..)?.first_chunk().copied()
}

/// Where the value at `index` begins and ends.
fn ends(offsets: &[u8], index: usize) -> Option<(usize, usize)> {
    let [start, end] = [index, index.checked_add(1)?]
        .map(|at| fixed(offsets, at).and_then(|bytes| usize::try_from(i32::from_le_bytes(bytes)).ok()));
    Some((start?, end?))
}

impl<'a> TextsIn<'a> {
    /// `None`: malformed. `Some(None)`: null.
    fn get(&self, row: usize) -> Option<Option<&'a [u8]>> {
        let index = self.first.checked_add(row)?;
        if !is_valid(self.validity, index)? {
            return Some(None);
        }
        let (start, end) = ends(self.offsets, index)?;
        self.data.get(start..end).map(Some)
    }
}

impl NumbersIn<'_> {
    fn get<const N: usize>(&self, row: usize) -> Option<Option<[u8; N]>> {
        let index = self.first.checked_add(row)?;
        if !is_valid(self.validity, index)? {
            return Some(None);
        }
        fixed(self.data, index).map(Some)
    }

    fn flag(&self, row: usize) -> Option<Option<bool>> {
        let index = self.first.checked_add(row)?;
        if !is_valid(self.validity, index)? {
            return Some(None);
        }
        bit(self.data, index).map(Some)
    }
}

fn bytes_at<'a>(
    column: Option<&TextsIn<'a>>,
    row: usize,
    name: &'static str,
) -> Result<Option<&'a [u8]>, IncomingError> {
    let Some(column) = column else { return Ok(None) };
    column.get(row).ok_or(IncomingError::Malformed { column: name })
}

fn text_at<'a>(
    column: Option<&TextsIn<'a>>,
    row: usize,
    name: &'static str,
) -> Result<Option<&'a str>, IncomingError> {
    let bytes = bytes_at(column, row, name)?;
    bytes.map(std::str::from_utf8).transpose().map_err(|_| IncomingError::NotText { row, column: name })
}

impl<'a> Incoming<'a> {
    /// Hands each row's record to `take`, in order.
    pub fn encode(&self, mut take: impl FnMut(&[u8])) -> Result<(), IncomingError> {
        let mut record = Vec::new();
        let mut properties = PropertiesWriter::new();
        let mut value = Vec::new();
        for row in 0..self.rows {
            record.clear();
            properties.clear();
            value.clear();
            self.write_properties(row, &mut properties)?;
            let (kind, body) = self.body(row, &mut value)?;
            let message = Outgoing {
                priority: self.priority(row)?,
                fields: self.fields(row)?,
                properties: properties.properties(),
                ..Outgoing::new(self.destination(row)?, kind, body)
            };
            message.encode_into(&mut record).map_err(|error| IncomingError::Encode { row, error })?;
            take(&record);
        }
        Ok(())
    }

    fn destination(&self, row: usize) -> Result<Destination<'a>, IncomingError> {
        let name = text_at(self.topic.as_ref(), row, "topic")?
            .or(self.default_topic)
            .ok_or(IncomingError::NoTopic { row })?;
        let topic = Topic::new(name).map_err(|error| IncomingError::Topic { row, error })?;
        Ok(Destination::topic(topic))
    }

    fn priority(&self, row: usize) -> Result<Priority, IncomingError> {
        let Some(column) = &self.priority else { return Ok(Priority::default()) };
        let found = column.get(row).ok_or(IncomingError::Malformed { column: "priority" })?;
        let Some(found) = found.map(i32::from_le_bytes) else { return Ok(Priority::default()) };
        let priority = u8::try_from(found).ok().and_then(|priority| Priority::new(priority).ok());
        priority.ok_or(IncomingError::Priority { row, found })
    }

    fn fields(&self, row: usize) -> Result<HeaderFields<'a>, IncomingError> {
        let reply_to = text_at(self.reply_to.as_ref(), row, "reply_to")?
            .map(Topic::new)
            .transpose()
            .map_err(|error| IncomingError::ReplyTo { row, error })?;
        Ok(HeaderFields {
            ttl_us: self.ttl_us(row)?,
            correlation_id: bytes_at(self.correlation_id.as_ref(), row, "correlation_id")?,
            reply_to: reply_to.map(Destination::topic),
            message_type: text_at(self.message_type.as_ref(), row, "type")?,
            ..HeaderFields::default()
        })
    }

    fn ttl_us(&self, row: usize) -> Result<Option<u64>, IncomingError> {
        let Some(column) = &self.ttl_ms else { return Ok(None) };
        let found = column.get(row).ok_or(IncomingError::Malformed { column: "ttl_ms" })?;
        let Some(found) = found.map(i64::from_le_bytes) else { return Ok(None) };
        match u64::try_from(found) {
            Ok(ttl_ms) if ttl_ms > 0 => Ok(Some(ttl_ms.saturating_mul(1000))),
            _ => Err(IncomingError::Ttl { row, found }),
        }
    }

    fn write_properties(&self, row: usize, writer: &mut PropertiesWriter) -> Result<(), IncomingError> {
        let encode = |error| IncomingError::Encode { row, error };
        if let Some(map) = &self.properties {
            const MALFORMED: IncomingError = IncomingError::Malformed { column: "properties" };
            let index = map.first.checked_add(row).ok_or(MALFORMED)?;
            if is_valid(map.validity, index).ok_or(MALFORMED)? {
                let (start, end) = ends(map.offsets, index).ok_or(MALFORMED)?;
                for entry in start..end {
                    let name = text_at(Some(&map.keys), entry, "properties")?.ok_or(MALFORMED)?;
                    let value = text_at(Some(&map.values), entry, "properties")?;
                    writer.push(name, value.map_or(Scalar::Null, Scalar::Str)).map_err(encode)?;
                }
            }
        }
        for (name, column) in &self.typed {
            const MALFORMED: IncomingError = IncomingError::Malformed { column: "properties" };
            let value = match column {
                PropertyIn::String(texts) => text_at(Some(texts), row, "properties")?.map(Scalar::Str),
                PropertyIn::Int64(numbers) => {
                    numbers.get(row).ok_or(MALFORMED)?.map(|bytes| Scalar::Int(i64::from_le_bytes(bytes)))
                }
                PropertyIn::Float64(numbers) => {
                    numbers.get(row).ok_or(MALFORMED)?.map(|bytes| Scalar::F64(f64::from_le_bytes(bytes)))
                }
                PropertyIn::Bool(flags) => flags.flag(row).ok_or(MALFORMED)?.map(Scalar::Bool),
            };
            if let Some(value) = value {
                writer.push(name, value).map_err(encode)?;
            }
        }
        Ok(())
    }

    /// The body's kind and bytes; JSON is encoded into `scratch`.
    fn body<'b>(&self, row: usize, scratch: &'b mut Vec<u8>) -> Result<(BodyKind, &'b [u8]), IncomingError>
    where
        'a: 'b,
    {
        let body = bytes_at(self.body.as_ref(), row, "body")?;
        let kind = text_at(self.body_kind.as_ref(), row, "body_kind")?;
        let kind = kind.unwrap_or(match body {
            None => "empty",
            Some(_) if self.body_is_text => "text",
            Some(_) => "bytes",
        });
        let body = body.unwrap_or_default();
        match kind {
            "empty" => Ok((BodyKind::Empty, &[])),
            "bytes" => Ok((BodyKind::Bytes, body)),
            "text" if std::str::from_utf8(body).is_ok() => Ok((BodyKind::Text, body)),
            "text" => Err(IncomingError::NotText { row, column: "body" }),
            "mapping" | "list" | "scalar" => {
                let (kind, wanted) = match kind {
                    "mapping" => (BodyKind::Map, "a mapping"),
                    "list" => (BodyKind::List, "a list"),
                    _ => (BodyKind::Value, "null, a boolean or a number"),
                };
                read_json(body, kind, scratch).map_err(|error| IncomingError::Json {
                    row,
                    wanted,
                    error: error.to_string(),
                })?;
                Ok((kind, scratch))
            }
            found => Err(IncomingError::Kind { row, found: found.to_owned() }),
        }
    }
}
