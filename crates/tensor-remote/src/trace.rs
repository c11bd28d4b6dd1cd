//! What is known of a request, for the sentence that says what went wrong with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::Error;

use crate::Problem;
use crate::address::shown;

tokio::task_local! {
    /// That of the work on its way, for the requests that stores make without one: of parts, of their end,
    /// of what is deleted.
    static CURRENT: Trace;
}

/// Travels with a request to what carries it out and back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The status of the last answer.
    pub(crate) status: Option<u16>,
    /// The code of an error in XML, such as `NoSuchBucket`.
    pub(crate) code: Option<String>,
    /// What the last answer says which bytes it has.
    pub(crate) content_range: Option<String>,
    /// Why there was no answer, the last time.
    pub(crate) problem: Option<Problem>,
    /// How often it was asked.
    pub(crate) tries: u32,
    /// Whether the last answer says when the object was changed.
    pub(crate) has_modified: bool,
    /// Whether a try had no answer, or one that leaves open what came of it.
    pub(crate) is_in_doubt: bool,
    /// Whether it takes away what was sent, which no limit keeps from being done.
    clears: bool,
}

impl Trace {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of work that takes away what was sent.
    pub(crate) fn clearing() -> Self {
        let trace = Self::default();
        trace.seen().clears = true;
        trace
    }

    pub(crate) fn clears(&self) -> bool {
        self.seen().clears
    }

    /// Work whose requests all have this one.
    pub(crate) fn of<T>(self, work: impl Future<Output = T>) -> impl Future<Output = T> {
        CURRENT.scope(self, work)
    }

    /// Whether it may have been carried out although it failed.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.seen().is_in_doubt
    }

    /// That of the work on its way.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.seen().status
    }

    /// What the failure of this request was.
    pub(crate) fn problem(&self, error: &Error) -> Problem {
        let seen = self.seen();
        let times = match seen.tries {
            0 | 1 => String::new(),
            tries => format!(", asked {tries} times"),
        };
        match &seen.problem {
            Some(Problem::Failed(text)) => return Problem::Failed(format!("{text}{times}")),
            Some(problem) => return problem.clone(),
            None => {}
        }
        let code = seen
            .code
            .as_ref()
            .map_or(String::new(), |code| format!(" ({code})"));
        match (error, seen.status) {
            (Error::NotFound { .. }, _) | (_, Some(404 | 410)) => Problem::NotFound,
            (Error::AlreadyExists { .. }, _) => Problem::Exists,
            (Error::Precondition { .. }, _) | (_, Some(412)) => {
                Problem::Changed("the server no longer has what was opened".into())
            }
            (_, Some(status @ (401 | 403))) => {
                Problem::Denied(format!("the server answered {status}{code}"))
            }
            (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }, _) => {
                Problem::Denied("no right to read it".into())
            }
            (Error::NotImplemented { .. }, _) => {
                Problem::Unsupported("the store can't do that".into())
            }
            (_, Some(206)) => Problem::WrongRange(match &seen.content_range {
                Some(range) => format!("{range:?}"),
                None => "it doesn't say which".into(),
            }),
            (_, Some(200)) => Problem::NoRanges,
            (_, Some(status @ 300..=399)) => {
                Problem::Redirect(format!("with status {status}, which is not followed here"))
            }
            (_, Some(status)) => {
                Problem::Failed(format!("the server answered {status}{code}{times}"))
            }
            (error, None) => Problem::Failed(format!(
                "no request could be made: {}",
                safe(&error.to_string())
            )),
        }
    }

    /// What the failure of a request was that writes: what reads as a good answer has told of an error.
    pub(crate) fn problem_of_write(&self, error: &Error) -> Problem {
        let is_good = {
            let seen = self.seen();
            seen.problem.is_none() && matches!(seen.status, Some(200..=299))
        };
        match is_good && !matches!(error, Error::AlreadyExists { .. }) {
            true => Problem::Failed(format!(
                "the store took it and then failed: {}",
                safe(&error.to_string())
            )),
            false => self.problem(error),
        }
    }

    /// Whether nothing but the answer's own form was wrong, as with an empty object.
    pub(crate) fn is_of_range(&self) -> bool {
        let seen = self.seen();
        seen.problem.is_none() && matches!(seen.status, None | Some(200 | 206 | 416))
    }
}

/// A message of the store without what it may have been answered, and without the queries of addresses.
fn safe(text: &str) -> String {
    let text = text.split(['<', '{']).next().unwrap_or_default();
    let words: Vec<String> = text.split_whitespace().map(shown).collect();
    let text: String = words.join(" ").chars().take(300).collect();
    text.trim_end_matches([':', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_store_lose_queries_users_and_bodies() {
        let text = "Error performing GET https://me:secret@host/a?token=secret in 1s - <Error>secret</Error>";
        assert_eq!(
            safe(text),
            "Error performing GET https://host/a?... in 1s -"
        );
        assert_eq!(safe("failed: {\"key\": \"secret\"}"), "failed");
    }
}
