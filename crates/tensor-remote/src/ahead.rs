//! Which reads follow each other, and how far it pays to ask ahead of them.

use std::ops::Range;

/// How many walks over one object are told apart.
const MOST: usize = 16;
/// How far from its end a read may be to belong to a walk, at the least.
const SLACK: u64 = 64 << 10;
/// How far is asked ahead at the most.
const AHEAD: u64 = 32 << 20;

/// The walks over an object, the one that was continued last at the end.
#[derive(Debug, Default)]
pub(crate) struct Streams(Vec<Stream>);

#[derive(Debug)]
struct Stream {
    end: u64,
    /// How many bytes of it were read.
    run: u64,
}

impl Streams {
    /// Takes a read into account: how many bytes the walk has read with it, and how many behind it should
    /// be on their way. That is half of what was read, so that who stops has not paid for much more than
    /// what was wanted. The longer a walk, the more out of order it may be, since several threads may
    /// share it.
    pub(crate) fn note(&mut self, read: Range<u64>) -> (u64, u64) {
        let len = read.end - read.start;
        let follows = |stream: &Stream| {
            let slack = stream.run.clamp(SLACK, AHEAD);
            read.start >= stream.end.saturating_sub(slack)
                && read.start <= stream.end.saturating_add(slack)
        };
        let known = self.0.iter().rposition(follows);
        let Some(known) = known else {
            if self.0.len() >= MOST {
                self.0.remove(0);
            }
            self.0.push(Stream {
                end: read.end,
                run: len,
            });
            return (len, 0);
        };
        let mut stream = self.0.remove(known);
        // One large read behind a small one is a tensor behind its header, and no walk.
        let is_walk = stream.run >= 4 * SLACK;
        let is_new = read.end > stream.end;
        if is_new {
            stream.run = stream.run.saturating_add(len);
            stream.end = read.end;
        }
        let run = stream.run;
        self.0.push(stream);
        let ahead = match is_walk && is_new {
            true => (run / 2).min(AHEAD),
            false => 0,
        };
        (run, ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_walk_is_followed_faster_the_longer_it_gets() {
        let mut streams = Streams::default();
        let ahead: Vec<u64> = (0..6)
            .map(|at| streams.note(at * 4 * MIB..(at + 1) * 4 * MIB).1 / MIB)
            .collect();
        assert_eq!(ahead, [0, 4, 6, 8, 10, 12]);
        let (run, ahead) = (0..100)
            .map(|at| streams.note((6 + at) * 4 * MIB..(7 + at) * 4 * MIB))
            .last()
            .unwrap();
        assert_eq!((run / MIB, ahead), (106 * 4, AHEAD));
    }

    #[test]
    fn reads_here_and_there_are_no_walk() {
        let mut streams = Streams::default();
        for at in 0..100u64 {
            let start = at * 7919 % 100 * 64 * MIB;
            assert_eq!(streams.note(start..start + 1000), (1000, 0));
        }
    }

    #[test]
    fn a_tensor_behind_its_header_is_no_walk() {
        let mut streams = Streams::default();
        streams.note(0..4096);
        assert_eq!(streams.note(4096..9 * MIB).1, 0);
        assert!(streams.note(9 * MIB..10 * MIB).1 > 0);
    }

    #[test]
    fn two_threads_may_share_a_walk() {
        let mut streams = Streams::default();
        let order = [0, 2, 1, 3, 5, 4, 7, 6, 8];
        let mut last = 0;
        for at in order {
            last = streams.note(at * MIB..(at + 1) * MIB).1;
        }
        assert!(last >= 2 * MIB, "{last}");
    }
}
