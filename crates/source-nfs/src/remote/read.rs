//! READ: from the server straight into pages.

use std::sync::Arc;

use pagewell_device::{Operation, Request};
use pagewell_fs::Error;
use pagewell_sunrpc::client::{CallError, Outcome, Outgoing, Sink};
use pagewell_sunrpc::nfs3::{self, Procedure, ReadArguments, ReadHead, ReadHeadReply, Status};
use pagewell_sunrpc::xdr::Decode;

use super::{Remote, pieces, rest_of, split};
use crate::attributes::Moment;
use crate::calls::Patience;
use crate::convert;
use crate::node::Node;

/// A read of at most one READ's bytes.
struct Reading {
    node: Arc<Node>,
    /// Of its first byte in the file.
    offset: u64,
    request: Request,
    /// Bytes that have come.
    done: usize,
    patience: Patience,
}

impl Remote {
    pub(super) fn read(self: &Arc<Self>, request: Request) {
        debug_assert_eq!(request.operation(), Operation::Read);
        let address = request.offset();
        let Some((node, offset)) = self.files.at(address, request.len()) else {
            // Of a file that was thrown away meanwhile nobody will look at them.
            let error = Error::Io("no file has these bytes".to_owned());
            return request.fail(0, self.failed(address, &error));
        };
        let known = node.lock().length.at_server().saturating_sub(offset);
        let length = request.len();
        let inside = usize::try_from(known).unwrap_or(usize::MAX).min(length);
        let mut lengths = pieces(inside, self.read_bytes);
        if inside < length {
            lengths.push(length - inside);
        }
        let outside = address + inside as u64;
        for request in split(request, &lengths) {
            if request.offset() >= outside {
                fill_with_zeros(request, 0);
                continue;
            }
            self.send_read(Reading {
                node: node.clone(),
                offset: offset + (request.offset() - address),
                request,
                done: 0,
                patience: self.calls.patience(),
            });
        }
    }

    fn send_read(self: &Arc<Self>, reading: Reading) {
        let Ok(file) = convert::handle(&reading.node.id) else {
            return;
        };
        let rest = reading.request.len() - reading.done;
        let arguments = ReadArguments {
            file,
            offset: reading.offset + reading.done as u64,
            count: u32::try_from(rest).unwrap_or(u32::MAX),
        };
        let reader = reading.node.lock().reader.clone();
        let credential = reader.as_ref().map_or(&self.nobody, |user| &user.encoded);
        // SAFETY: the memory is the request's, which is kept by the completion: valid, initialised
        // and nobody else's until the request is completed, which the completion does or what it
        // sends next.
        let sink = unsafe {
            Sink::new(
                rest_of(&reading.request, reading.done),
                nfs3::locate_read_data,
            )
        };
        let call = Outgoing::new(Procedure::Read.number(), credential, &arguments).with_sink(sink);
        let (this, sent) = (self.clone(), self.calls.now());
        self.calls
            .client
            .submit(call, move |outcome| this.end_read(reading, sent, outcome));
    }

    fn end_read(self: Arc<Self>, mut reading: Reading, sent: Moment, outcome: Outcome<'_>) {
        let address = reading.request.offset();
        let answer = outcome.and_then(|reply| {
            let answer = ReadHeadReply::decode(&mut reply.decoder());
            let answer = answer.map_err(|error| reply.garbage(error))?;
            match &answer {
                Ok(head) if head.count as usize != reply.data_bytes() => {
                    Err(reply.garbage("READ counts other bytes than it brings"))
                }
                _ => Ok(answer),
            }
        });
        match answer {
            Ok(Ok(head)) => {
                // That it is another object now is told to whoever asks for it next.
                let _ = self.look(&reading.node, head.file_attributes.as_ref(), sent);
                let rest = reading.request.len() - reading.done;
                reading.done += rest.min(head.count as usize);
                let is_short = head.end_of_file && reading.done < reading.request.len();
                if is_short && head.file_attributes.is_none() {
                    let mut state = reading.node.lock();
                    state.unexpected_ends += 1;
                    state.doubt();
                }
                self.go_on_reading(reading, &head);
            }
            Ok(Err(failure)) if failure.status == Status::Jukebox => self.read_later(reading),
            Ok(Err(failure)) => {
                let _ = self.look(&reading.node, failure.body.as_ref(), sent);
                reading.node.lock().doubt();
                let error = self.failed(address, &convert::error(failure.status));
                reading.request.fail(reading.done, error);
            }
            Err(CallError::QueueFull) => self.read_later(reading),
            Err(error) => {
                let error = self.unanswered(address, &error);
                reading.request.fail(reading.done, error);
            }
        }
    }

    fn go_on_reading(self: &Arc<Self>, reading: Reading, head: &ReadHead) {
        if reading.done == reading.request.len() {
            reading.request.succeed();
        } else if head.end_of_file {
            // Another client made it shorter: what is behind the end is nothing.
            fill_with_zeros(reading.request, reading.done);
        } else if head.count > 0 {
            self.send_read(reading);
        } else {
            let error = Error::Io("READ brings nothing".to_owned());
            let error = self.failed(reading.request.offset(), &error);
            reading.request.fail(reading.done, error);
        }
    }

    fn read_later(self: &Arc<Self>, mut reading: Reading) {
        let Some(pause) = reading.patience.next() else {
            let error = self.failed(reading.request.offset(), &Error::TryLater);
            return reading.request.fail(reading.done, error);
        };
        let this = self.clone();
        self.after(pause, move || this.send_read(reading));
    }
}

/// Ends a read with zeros behind its first `done` bytes.
fn fill_with_zeros(mut request: Request, done: usize) {
    let mut skip = done;
    for slice in request.slices_mut() {
        let skipped = skip.min(slice.len());
        skip -= skipped;
        slice[skipped..].fill(0);
    }
    request.succeed();
}
