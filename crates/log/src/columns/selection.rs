//! Which columns a reader asks for.

use thiserror::Error;

/// A column of the row schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "docs/reference/history.md says what each column holds")]
pub enum Column {
    Offset,
    Topic,
    Timestamp,
    Stored,
    MessageId,
    Publisher,
    Chain,
    Number,
    Type,
    Priority,
    CorrelationId,
    ReplyTo,
    Redelivered,
    BodyKind,
    Body,
    BodyDetail,
    Properties,
    /// One property as a column of its own.
    Property {
        name: Box<str>,
        kind: PropertyType,
    },
}

/// The type of a property's own column. A value that is not of the type is null there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertyType {
    /// The text of any value.
    String,
    /// Texts, as selectors know them.
    Text,
    /// Whole numbers of 64 bits.
    Int64,
    /// Any number.
    Float64,
    /// True and false.
    Bool,
}

/// A name that no column, or no type, has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no {what} {name:?}")]
pub struct UnknownColumn {
    /// Column, or type of a property.
    pub what: &'static str,
    /// What was asked for.
    pub name: String,
}

impl Column {
    /// The column of this name.
    pub fn named(name: &str) -> Result<Self, UnknownColumn> {
        Ok(match name {
            "offset" => Self::Offset,
            "topic" => Self::Topic,
            "timestamp" => Self::Timestamp,
            "stored" => Self::Stored,
            "message_id" => Self::MessageId,
            "publisher" => Self::Publisher,
            "chain" => Self::Chain,
            "number" => Self::Number,
            "type" => Self::Type,
            "priority" => Self::Priority,
            "correlation_id" => Self::CorrelationId,
            "reply_to" => Self::ReplyTo,
            "redelivered" => Self::Redelivered,
            "body_kind" => Self::BodyKind,
            "body" => Self::Body,
            "body_detail" => Self::BodyDetail,
            "properties" => Self::Properties,
            _ => return Err(UnknownColumn { what: "column", name: name.to_owned() }),
        })
    }

    /// Whether its value is one of the optional header fields.
    pub(super) fn is_header_field(&self) -> bool {
        matches!(self, Self::Type | Self::CorrelationId | Self::ReplyTo | Self::BodyDetail)
    }
}

impl PropertyType {
    /// The type of this name.
    pub fn named(name: &str) -> Result<Self, UnknownColumn> {
        Ok(match name {
            "string" => Self::String,
            "text" => Self::Text,
            "int64" => Self::Int64,
            "float64" => Self::Float64,
            "bool" => Self::Bool,
            _ => return Err(UnknownColumn { what: "type of a property", name: name.to_owned() }),
        })
    }
}

/// The columns asked for, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    columns: Vec<Column>,
}

impl Selection {
    /// These columns.
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns }
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}
