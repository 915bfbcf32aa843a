//! Topics: the names messages are sent to.

use std::fmt;
use std::sync::Arc;

use crate::error::TopicError;
use crate::topic_text::{Levels, TopicForm, check_text, with_slashes, with_tags};

/// A valid topic or queue name: levels with no wildcard, none empty, no control character, not too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Topic<'a> {
    text: &'a str,
    form: TopicForm,
}

impl<'a> Topic<'a> {
    /// Checks `text`.
    pub fn new(text: &'a str) -> Result<Self, TopicError> {
        if let Some((position, wildcard)) = text.char_indices().find(|(_, c)| matches!(c, '*' | '>')) {
            return Err(TopicError::WildcardInTopic { wildcard, position });
        }
        Ok(Self { text, form: check_text(text)? })
    }

    /// Checks a name that came from outside.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, TopicError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::new(text),
            Err(error) => Err(TopicError::NotText { position: error.valid_up_to() }),
        }
    }

    /// The name as it was written.
    #[inline]
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// How it is written.
    pub fn form(&self) -> TopicForm {
        self.form
    }

    /// Its levels; for `a=b,c=d` they are a, b, c, d.
    #[inline]
    pub fn levels(&self) -> Levels<'a> {
        Levels::new(self.text, self.form)
    }

    /// The same levels written `a/b/c/d`.
    pub fn with_slashes(&self) -> String {
        with_slashes(self.text, self.form)
    }

    /// The same levels written `a=b,c=d`; an error if a level has a character that means something there.
    pub fn with_tags(&self) -> Result<String, TopicError> {
        with_tags(self.text, self.form)
    }
}

/// Whether a name's first level starts with `_`: such topics are for Shoal's own use, such as answers to
/// requests, and only a pattern that names the first level matches them.
pub fn is_reserved(name: &[u8]) -> bool {
    // Spaces around a tag do not count.
    name.trim_ascii_start().first() == Some(&b'_')
}

impl fmt::Display for Topic<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text)
    }
}

/// A topic that owns its text, cheap to copy: for those who send to one again and again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopicBuf {
    text: Arc<str>,
    form: TopicForm,
}

impl TopicBuf {
    /// Checks `text` and keeps a copy.
    pub fn new(text: &str) -> Result<Self, TopicError> {
        Topic::new(text).map(Self::from)
    }

    /// The topic, borrowed.
    #[inline]
    pub fn as_topic(&self) -> Topic<'_> {
        Topic { text: &self.text, form: self.form }
    }
}

impl From<Topic<'_>> for TopicBuf {
    fn from(topic: Topic<'_>) -> Self {
        Self { text: topic.text.into(), form: topic.form }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TOPIC_BYTES_MAX;
    use proptest::prelude::*;

    fn levels(text: &str) -> Vec<&str> {
        Topic::new(text).unwrap().levels().collect()
    }

    fn error(text: &str) -> String {
        Topic::new(text).unwrap_err().to_string()
    }

    #[test]
    fn slashes_separate_levels() {
        assert_eq!(levels("prices"), ["prices"]);
        assert_eq!(levels("prices/New York/ACME"), ["prices", "New York", "ACME"]);
    }

    #[test]
    fn tags_and_values_are_levels_too() {
        assert_eq!(levels("Courses=CPS616, Session=HPJava"), levels("Courses/CPS616/Session/HPJava"));
        assert_eq!(levels("Courses=CPS616,Session"), levels("Courses/CPS616/Session"));
    }

    #[test]
    fn a_name_with_a_slash_is_never_read_as_tags() {
        assert_eq!(levels("host=web1/cpu,load"), ["host=web1", "cpu,load"]);
        assert_eq!(levels("a,b"), ["a,b"]);
    }

    #[test]
    fn a_bad_topic_is_refused_with_the_position() {
        assert_eq!(error(""), "a topic must have at least one level");
        assert_eq!(error("a//b"), "the level at position 2 is empty");
        assert_eq!(error("/a"), "it must not start with '/'");
        assert_eq!(error("a/"), "the level at position 2 is empty");
        assert_eq!(error("a/b*/c"), "'*' at position 3: a wildcard may be subscribed to, not published to");
        assert_eq!(error("ä/>"), "'>' at position 3: a wildcard may be subscribed to, not published to");
        assert_eq!(error("a/b\n"), "control character at position 3");
        assert_eq!(error("a=b,c,d=e"), "the tag at position 4 has no value: write tag=value");
        assert_eq!(error("a=b=c"), "second '=' at position 3 in one tag=value pair");
        assert_eq!(error("a= ,b=c"), "the level at position 2 is empty");
        assert_eq!(Topic::from_bytes(b"a/\xff"), Err(TopicError::NotText { position: 2 }));
    }

    #[test]
    fn the_longest_topic_is_accepted_and_one_byte_more_is_not() {
        assert!(Topic::new(&"x".repeat(TOPIC_BYTES_MAX)).is_ok());
        assert_eq!(
            error(&"x".repeat(TOPIC_BYTES_MAX + 1)),
            "a topic has at most 255 bytes; this one has 256"
        );
    }

    #[test]
    fn a_topic_maps_to_tags_and_back() {
        let slashes = "Courses/CPS616/Session/HPJava";
        let tags = "Courses=CPS616,Session=HPJava";
        assert_eq!(Topic::new(slashes).unwrap().with_tags().unwrap(), tags);
        assert_eq!(Topic::new(tags).unwrap().with_slashes(), slashes);
        assert_eq!(Topic::new(tags).unwrap().with_tags().unwrap(), tags);
        assert_eq!(Topic::new("a/b/c").unwrap().with_tags().unwrap(), "a=b,c");
    }

    #[test]
    fn a_level_that_cannot_be_a_tag_is_named() {
        let refused = |text: &str| Topic::new(text).unwrap().with_tags().unwrap_err();
        assert_eq!(refused("a/b=c"), TopicError::NotATag { position: 2 });
        assert_eq!(refused("a/b/c,d"), TopicError::NotATag { position: 4 });
        assert_eq!(refused("a/ b"), TopicError::NotATag { position: 2 });
    }

    proptest! {
        #[test]
        fn mapping_to_tags_and_back_keeps_the_levels(levels in prop::collection::vec("[a-zA-Zä.0-9_-]{1,5}", 2..9)) {
            let slashes = levels.join("/");
            let tags = Topic::new(&slashes).unwrap().with_tags().unwrap();
            let tagged = Topic::new(&tags).unwrap();
            prop_assert_eq!(tagged.form(), TopicForm::Tags);
            prop_assert_eq!(tagged.levels().collect::<Vec<_>>(), levels);
            prop_assert_eq!(tagged.with_slashes(), slashes);
        }

        #[test]
        fn any_text_is_a_topic_or_an_error(text in "[ab/=,*> \n\u{80}]{0,12}") {
            if let Ok(topic) = Topic::new(&text) {
                prop_assert_eq!(topic.as_str(), &text);
                prop_assert!(topic.levels().all(|level| !level.is_empty() && !level.contains(['*', '>', '/', '\n'])));
            }
        }
    }
}
