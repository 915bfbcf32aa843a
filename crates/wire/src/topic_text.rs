//! The two ways to write a topic, and the levels both stand for.
//!
//! `Courses/CPS616/Session/HPJava` is levels separated by slashes. `Courses=CPS616,Session=HPJava` is the same
//! four levels as pairs of a tag and its value. Matching sees levels only, so one way of writing reaches
//! subscriptions written the other way, and nobody rewrites the text itself.

use crate::error::TopicError;
use crate::limits::TOPIC_BYTES_MAX;

/// How a topic or pattern is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopicForm {
    /// `a/b/c`.
    Slashes,
    /// `a=b,c=d`; the last tag may be without a value. Recognised by having `=` and no `/`.
    Tags,
}

/// What holds for topics and patterns alike: length, characters, no empty level, pairs well formed.
pub(crate) fn check_text(text: &str) -> Result<TopicForm, TopicError> {
    if text.is_empty() {
        return Err(TopicError::Empty);
    }
    if text.len() > TOPIC_BYTES_MAX {
        return Err(TopicError::TooLong { bytes: text.len() });
    }
    if let Some(position) = text.bytes().position(|byte| byte.is_ascii_control()) {
        return Err(TopicError::ControlCharacter { position });
    }
    let form = form_of(text);
    if form == TopicForm::Tags {
        check_pairs(text)?;
    }
    match (Levels { rest: Some(text), form }).find(|level| level.is_empty()) {
        Some(level) => Err(TopicError::EmptyLevel { position: position_in(text, level) }),
        None => Ok(form),
    }
}

fn form_of(text: &str) -> TopicForm {
    if text.contains('=') && !text.contains('/') { TopicForm::Tags } else { TopicForm::Slashes }
}

/// Every pair has one `=`; only the last may have none.
fn check_pairs(text: &str) -> Result<(), TopicError> {
    let mut pairs = text.split(',').peekable();
    while let Some(pair) = pairs.next() {
        let start = position_in(text, pair);
        let mut equals = pair.match_indices('=');
        if equals.next().is_none() && pairs.peek().is_some() {
            return Err(TopicError::TagWithoutValue { position: start });
        }
        if let Some((offset, _)) = equals.next() {
            return Err(TopicError::SecondEquals { position: start + offset });
        }
    }
    Ok(())
}

/// Where `part`, which must be a piece of `text`, starts in it.
pub(crate) fn position_in(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// The levels of a topic or pattern, first to last.
#[derive(Debug, Clone)]
pub struct Levels<'a> {
    rest: Option<&'a str>,
    form: TopicForm,
}

impl<'a> Levels<'a> {
    /// The levels of a text that was checked to have this form.
    pub(crate) fn new(text: &'a str, form: TopicForm) -> Self {
        Self { rest: Some(text), form }
    }
}

impl<'a> Iterator for Levels<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        let end = match self.form {
            TopicForm::Slashes => rest.bytes().position(|byte| byte == b'/'),
            TopicForm::Tags => rest.bytes().position(|byte| byte == b'=' || byte == b','),
        };
        let level = match end {
            Some(end) => {
                self.rest = Some(&rest[end + 1..]);
                &rest[..end]
            }
            None => {
                self.rest = None;
                rest
            }
        };
        Some(match self.form {
            TopicForm::Slashes => level,
            TopicForm::Tags => level.trim_matches(' '),
        })
    }
}

/// The levels written with slashes.
pub(crate) fn with_slashes(text: &str, form: TopicForm) -> String {
    match form {
        TopicForm::Slashes => text.to_owned(),
        TopicForm::Tags => Levels::new(text, form).collect::<Vec<_>>().join("/"),
    }
}

/// The levels written as pairs: first and second, third and fourth, and so on; a last one without a partner stays
/// a tag without a value.
pub(crate) fn with_tags(text: &str, form: TopicForm) -> Result<String, TopicError> {
    let mut tags = String::with_capacity(text.len());
    for (index, level) in Levels::new(text, form).enumerate() {
        if level.contains(['=', ',']) || level.trim_matches(' ').len() != level.len() {
            return Err(TopicError::NotATag { position: position_in(text, level) });
        }
        match index {
            0 => {}
            odd if odd % 2 == 1 => tags.push('='),
            _ => tags.push(','),
        }
        tags.push_str(level);
    }
    Ok(tags)
}
