//! What a server without a state asks and is asked, and the answers.

use bytes::{BufMut as _, BytesMut};
use jute::DecodeError;

use super::FrameError;
use super::bytes::{Input, put_bytes, put_list};
use super::message::put_members;
use crate::ensemble::founding::{
    Applicant, Founding, FoundingAnswer, HandedSecret, LastRecord, Question, Seat,
};
use crate::ensemble::standing::{Base, Begins, Busy, Holding, Left, OfLine, Servers, Standing};

pub(super) fn put_question(out: &mut BytesMut, question: &Question) {
    match question {
        Question::Standing => out.put_u8(1),
        Question::Founded(founding, secret) => {
            let Founding { ensemble, line, generation, term, founded_in, base, .. } = founding;
            let Founding { index, members, configured_at, .. } = founding;
            out.put_u8(2);
            for number in [ensemble, line, generation, term, founded_in] {
                out.put_u64(*number);
            }
            put_base(out, *base);
            out.put_u64(*index);
            put_members(out, members);
            out.put_u64(*configured_at);
            put_secret(out, secret.as_deref());
        }
        Question::Seat(Applicant { server, was, ends_with }) => {
            out.put_u8(3);
            out.put_u8(*server);
            out.put_u64(was.unwrap_or(0));
            out.put_u8(ends_with.is_some().into());
            if let Some(LastRecord { zxid, time, checksum }) = ends_with {
                out.put_i64(*zxid);
                out.put_i64(*time);
                out.put_i64((*checksum).into());
            }
        }
    }
}

pub(super) fn put_answer(out: &mut BytesMut, answer: &FoundingAnswer) {
    match answer {
        FoundingAnswer::Standing(Standing::Before(holding)) => {
            let Holding { base, begins, names, left, detached } = holding;
            out.put_u8(1);
            put_base(out, *base);
            out.put_u8(match begins {
                Begins::Never => 0,
                Begins::WithAll => 1,
                Begins::Marked => 2,
            });
            put_bytes(out, names.as_slice());
            out.put_u8(left.is_some().into());
            if let Some(Left { ensemble, of }) = left {
                out.put_u64(*ensemble);
                put_line(out, of);
            }
            out.put_u64(detached.unwrap_or(0));
        }
        FoundingAnswer::Standing(Standing::Member {
            id,
            ensemble,
            asks,
            has_begun,
            configured_at,
            of,
        }) => {
            out.put_u8(2);
            out.put_u64(*id);
            out.put_u64(*ensemble);
            put_bytes(out, asks);
            out.put_u8((*has_begun).into());
            out.put_u64(*configured_at);
            put_line(out, of);
        }
        FoundingAnswer::Standing(Standing::Removed { ensemble }) => {
            out.put_u8(10);
            out.put_u64(*ensemble);
        }
        FoundingAnswer::Standing(Standing::Busy(Busy::Reads)) => out.put_u8(7),
        FoundingAnswer::Standing(Standing::Busy(Busy::Joins)) => out.put_u8(8),
        FoundingAnswer::Founded => out.put_u8(3),
        FoundingAnswer::Seat(seat, secret) => {
            let Seat { id, ensemble, line, generation, term, members, configured_at } = seat;
            out.put_u8(4);
            for number in [id, ensemble, line, generation, term, configured_at] {
                out.put_u64(*number);
            }
            put_members(out, members);
            put_secret(out, secret.as_deref());
        }
        FoundingAnswer::Elsewhere => out.put_u8(5),
        FoundingAnswer::OfAnother(ensemble) => {
            out.put_u8(9);
            out.put_u64(*ensemble);
        }
        FoundingAnswer::Lacking => out.put_u8(12),
        FoundingAnswer::Refused(reason) => {
            out.put_u8(6);
            put_bytes(out, reason.as_bytes());
        }
        FoundingAnswer::NotYet(reason) => {
            out.put_u8(11);
            put_bytes(out, reason.as_bytes());
        }
    }
}

fn put_base(out: &mut BytesMut, Base { epoch, zxid, accepted }: Base) {
    [epoch, zxid, accepted].into_iter().for_each(|number| out.put_i64(number));
}

fn put_line(out: &mut BytesMut, of: &OfLine) {
    let OfLine { line, generation, term, last, lacks_base, held, lacks_vote, voters, outgoing } =
        of;
    for number in [line, generation, term] {
        out.put_u64(*number);
    }
    out.put_i64(*last);
    out.put_u8((*lacks_base).into());
    out.put_u8((*held).into());
    out.put_u8((*lacks_vote).into());
    voters.0.into_iter().chain(outgoing.0).for_each(|word| out.put_u64(word));
}

fn put_secret(out: &mut BytesMut, secret: Option<&HandedSecret>) {
    out.put_u8(secret.is_some().into());
    if let Some(HandedSecret { nonce, veiled, before }) = secret {
        out.put_slice(nonce);
        out.put_slice(veiled);
        put_list(out, before, |out, session| out.put_i64(*session));
    }
}

impl Input<'_> {
    pub(super) fn question(&mut self) -> Result<Question, FrameError> {
        Ok(match self.take::<u8>()? {
            1 => Question::Standing,
            2 => Question::Founded(
                Founding {
                    ensemble: self.number()?,
                    line: self.number()?,
                    generation: self.number()?,
                    term: self.number()?,
                    founded_in: self.number()?,
                    base: self.base()?,
                    index: self.number()?,
                    members: self.members()?,
                    configured_at: self.number()?,
                },
                self.secret()?,
            ),
            3 => Question::Seat(Applicant {
                server: self.take()?,
                was: Some(self.number()?).filter(|id| *id > 0),
                ends_with: self.last_record()?,
            }),
            kind => return Err(FrameError::Kind(kind.into())),
        })
    }

    pub(super) fn answer(&mut self) -> Result<FoundingAnswer, FrameError> {
        Ok(match self.take::<u8>()? {
            1 => FoundingAnswer::Standing(Standing::Before(self.holding()?)),
            2 => FoundingAnswer::Standing(Standing::Member {
                id: self.number()?,
                ensemble: self.number()?,
                asks: self.bytes()?.to_vec(),
                has_begun: self.take::<u8>()? != 0,
                configured_at: self.number()?,
                of: self.line()?,
            }),
            3 => FoundingAnswer::Founded,
            4 => FoundingAnswer::Seat(
                Seat {
                    id: self.number()?,
                    ensemble: self.number()?,
                    line: self.number()?,
                    generation: self.number()?,
                    term: self.number()?,
                    configured_at: self.number()?,
                    members: self.members()?,
                },
                self.secret()?,
            ),
            5 => FoundingAnswer::Elsewhere,
            6 => FoundingAnswer::Refused(self.text()?),
            7 => FoundingAnswer::Standing(Standing::Busy(Busy::Reads)),
            8 => FoundingAnswer::Standing(Standing::Busy(Busy::Joins)),
            9 => FoundingAnswer::OfAnother(self.number()?),
            10 => FoundingAnswer::Standing(Standing::Removed { ensemble: self.number()? }),
            11 => FoundingAnswer::NotYet(self.text()?),
            12 => FoundingAnswer::Lacking,
            kind => return Err(FrameError::Kind(kind.into())),
        })
    }

    fn base(&mut self) -> Result<Base, FrameError> {
        Ok(Base { epoch: self.take()?, zxid: self.take()?, accepted: self.take()? })
    }

    fn holding(&mut self) -> Result<Holding, FrameError> {
        let base = self.base()?;
        let begins = match self.take::<u8>()? {
            0 => Begins::Never,
            1 => Begins::WithAll,
            2 => Begins::Marked,
            kind => return Err(FrameError::Kind(kind.into())),
        };
        let names = self.bytes()?.first().copied();
        let left = match self.take::<bool>()? {
            true => Some(Left { ensemble: self.number()?, of: self.line()? }),
            false => None,
        };
        let detached = Some(self.number()?).filter(|ensemble| *ensemble > 0);
        Ok(Holding { base, begins, names, left, detached })
    }

    fn line(&mut self) -> Result<OfLine, FrameError> {
        let (line, generation, term) = (self.number()?, self.number()?, self.number()?);
        let last = self.take()?;
        let lacks_base = self.take::<u8>()? != 0;
        let held = self.take::<u8>()? != 0;
        let lacks_vote = self.take::<u8>()? != 0;
        let mut servers = || -> Result<Servers, FrameError> {
            let mut words = [0; 4];
            for word in &mut words {
                *word = self.number()?;
            }
            Ok(Servers(words))
        };
        let (voters, outgoing) = (servers()?, servers()?);
        Ok(OfLine { line, generation, term, last, lacks_base, held, lacks_vote, voters, outgoing })
    }

    fn secret(&mut self) -> Result<Option<Box<HandedSecret>>, FrameError> {
        if !self.take::<bool>()? {
            return Ok(None);
        }
        Ok(Some(Box::new(HandedSecret {
            nonce: self.array()?,
            veiled: self.array()?,
            before: self.list(Self::take)?,
        })))
    }

    fn last_record(&mut self) -> Result<Option<LastRecord>, FrameError> {
        if !self.take::<bool>()? {
            return Ok(None);
        }
        let (zxid, time, checksum) = (self.take()?, self.take()?, self.take::<i64>()?);
        let checksum = u32::try_from(checksum).map_err(|_| DecodeError::Truncated)?;
        Ok(Some(LastRecord { zxid, time, checksum }))
    }
}
