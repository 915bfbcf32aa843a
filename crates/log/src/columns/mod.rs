//! Stored messages as Arrow columns, rows in and plain buffers out; and Arrow columns as messages, the other way.
//!
//! Only the columns that were asked for are built. A buffer is what Arrow's columnar format says it is (validity
//! bits, 32-bit offsets, data), so whoever gets it needs no copy to make an array of it.

mod builders;
mod incoming;
mod json;
mod json_reader;
mod properties;
mod selection;
mod text;

pub use builders::{Buffer, ColumnBuffers};
pub use incoming::{Incoming, IncomingError, MapIn, NumbersIn, PropertyIn, TextsIn};
pub use selection::{Column, PropertyType, Selection, UnknownColumn};

use shoal_wire::{BodyKind, DecodeError, HeaderFields, MessageView};

use crate::Row;
use builders::{Bits, Int32s, Int64s, Texts};
use json::write_json;
use properties::{PropertyColumn, PropertyMap};
use text::MessageIds;

/// Columns being filled, row by row.
#[derive(Debug)]
pub struct Columns {
    columns: Vec<Filling>,
    needs_fields: bool,
    rows: usize,
    bytes: usize,
}

#[derive(Debug)]
enum Filling {
    Offset(Int64s),
    Topic(Texts),
    Timestamp(Int64s),
    Stored(Int64s),
    MessageId(Texts, MessageIds),
    Publisher(Texts),
    Chain(Int32s),
    Number(Int64s),
    Type(Texts),
    Priority(Int32s),
    CorrelationId(Texts),
    ReplyTo(Texts),
    Redelivered(Bits),
    BodyKind(Texts),
    Body(Texts),
    BodyDetail(Texts),
    Properties(Box<PropertyMap>),
    Property(PropertyColumn),
}

impl Filling {
    fn new(column: &Column) -> Self {
        match column {
            Column::Offset => Self::Offset(Int64s::default()),
            Column::Topic => Self::Topic(Texts::default()),
            Column::Timestamp => Self::Timestamp(Int64s::default()),
            Column::Stored => Self::Stored(Int64s::default()),
            Column::MessageId => Self::MessageId(Texts::default(), MessageIds::default()),
            Column::Publisher => Self::Publisher(Texts::default()),
            Column::Chain => Self::Chain(Int32s::default()),
            Column::Number => Self::Number(Int64s::default()),
            Column::Type => Self::Type(Texts::default()),
            Column::Priority => Self::Priority(Int32s::default()),
            Column::CorrelationId => Self::CorrelationId(Texts::default()),
            Column::ReplyTo => Self::ReplyTo(Texts::default()),
            Column::Redelivered => Self::Redelivered(Bits::default()),
            Column::BodyKind => Self::BodyKind(Texts::default()),
            Column::Body => Self::Body(Texts::default()),
            Column::BodyDetail => Self::BodyDetail(Texts::default()),
            Column::Properties => Self::Properties(Box::default()),
            Column::Property { name, kind } => Self::Property(PropertyColumn::new(name, *kind)),
        }
    }

    /// Adds the row's value; says how many bytes it took.
    #[inline]
    fn push(&mut self, row: &Row<'_>, view: &MessageView<'_>, fields: &HeaderFields<'_>) -> usize {
        match self {
            Self::Offset(column) => column.push(Some(signed(row.offset))),
            Self::Topic(column) => column.push_text(view.name_bytes()),
            Self::Timestamp(column) => {
                column.push((row.timestamp_us != 0).then(|| signed(row.timestamp_us)));
            }
            Self::Stored(column) => column.push(Some(signed(row.stored_us))),
            Self::MessageId(column, ids) => ids.push(row, column),
            Self::Publisher(column) => column.push(Some(&text::hex16(row.publisher))),
            Self::Chain(column) => column.push(i32::try_from(row.chain).ok()),
            Self::Number(column) => column.push(row.number.map(signed)),
            Self::Type(column) => column.push(fields.message_type.map(str::as_bytes)),
            Self::Priority(column) => column.push(Some(view.priority().get().into())),
            Self::CorrelationId(column) => match fields.correlation_id {
                Some(id) => column.push_text(id),
                None => column.push(None),
            },
            Self::ReplyTo(column) => {
                column.push(fields.reply_to.map(|reply_to| reply_to.name.as_str().as_bytes()));
            }
            Self::Redelivered(column) => column.push(Some(view.is_redelivered())),
            Self::BodyKind(column) => column.push(Some(kind_name(view).as_bytes())),
            Self::Body(column) => push_body(column, view),
            Self::BodyDetail(column) => column.push(fields.body_detail),
            Self::Properties(column) => return column.push(view.properties()),
            Self::Property(column) => return column.push(view.properties()),
        }
        self.last_bytes()
    }

    /// Bytes that the value added last takes.
    fn last_bytes(&self) -> usize {
        match self {
            Self::Offset(_) | Self::Timestamp(_) | Self::Stored(_) | Self::Number(_) => 8,
            Self::Chain(_) | Self::Priority(_) => 4,
            Self::Redelivered(_) => 1,
            Self::Topic(texts)
            | Self::MessageId(texts, _)
            | Self::Publisher(texts)
            | Self::Type(texts)
            | Self::CorrelationId(texts)
            | Self::ReplyTo(texts)
            | Self::BodyKind(texts)
            | Self::Body(texts)
            | Self::BodyDetail(texts) => texts.last_bytes(),
            // They say so themselves.
            Self::Properties(_) | Self::Property(_) => 0,
        }
    }

    fn finish(self) -> ColumnBuffers {
        match self {
            Self::Offset(column) | Self::Timestamp(column) | Self::Stored(column) | Self::Number(column) => {
                column.finish()
            }
            Self::Chain(column) | Self::Priority(column) => column.finish(),
            Self::Redelivered(column) => column.finish(),
            Self::Topic(column)
            | Self::MessageId(column, _)
            | Self::Publisher(column)
            | Self::Type(column)
            | Self::CorrelationId(column)
            | Self::ReplyTo(column)
            | Self::BodyKind(column)
            | Self::Body(column)
            | Self::BodyDetail(column) => column.finish(),
            Self::Properties(column) => column.finish(),
            Self::Property(column) => column.finish(),
        }
    }
}

impl Columns {
    /// Empty columns.
    pub fn new(selection: &Selection) -> Self {
        let columns = selection.columns();
        Self {
            columns: columns.iter().map(Filling::new).collect(),
            needs_fields: columns.iter().any(Column::is_header_field),
            rows: 0,
            bytes: 0,
        }
    }

    /// Adds a message. Header fields, properties and bodies that cannot be read count as absent; a record that is
    /// no message of this version is an error, and nothing is added.
    #[inline]
    pub fn push(&mut self, row: &Row<'_>) -> Result<(), DecodeError> {
        let view = MessageView::parse(row.record)?;
        let fields =
            if self.needs_fields { view.fields().unwrap_or_default() } else { HeaderFields::default() };
        for column in &mut self.columns {
            self.bytes += column.push(row, &view, &fields);
        }
        self.rows += 1;
        Ok(())
    }

    /// Rows added.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// About what the columns take in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The buffers, one entry for each column asked for, in that order.
    pub fn finish(self) -> Vec<ColumnBuffers> {
        self.columns.into_iter().map(Filling::finish).collect()
    }
}

/// Numbers beyond what Arrow's signed ones hold do not occur; should one, it stays at the end of the range.
#[inline]
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The names that `body_kind` has.
fn kind_name(view: &MessageView<'_>) -> &'static str {
    match view.body_kind() {
        Ok(BodyKind::Empty) => "empty",
        Ok(BodyKind::Bytes) => "bytes",
        Ok(BodyKind::Text) => "text",
        Ok(BodyKind::Map) => "mapping",
        Ok(BodyKind::List) => "list",
        Ok(BodyKind::Value) => "scalar",
        Ok(BodyKind::Arrow) => "arrow",
        Ok(BodyKind::Array) => "array",
        Ok(BodyKind::Object) => "object",
        Err(_) => "unknown",
    }
}

/// Mappings, lists and scalars as JSON, null if they cannot be read; no body at all is null; the rest as it is.
#[inline]
fn push_body(column: &mut Texts, view: &MessageView<'_>) {
    match view.body_kind() {
        Ok(BodyKind::Empty) => column.push(None),
        Ok(BodyKind::Map | BodyKind::List | BodyKind::Value) => {
            column.push_with(|data| write_json(view.body(), data).is_ok());
        }
        _ => column.push(Some(view.body())),
    }
}
