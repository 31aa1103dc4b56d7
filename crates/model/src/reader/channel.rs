//! The channel from a feeder to the stream of its client.
//!
//! It counts what the client asks for. A client may take all that it is sent, and never ask for
//! more: over HTTP/2 a connection takes the second piece of an answer before it has sent the first.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use super::AHEAD;
use super::feeder::Stop;
use crate::error::Error;

type Piece = Result<Bytes, Error>;

/// The end of the feeder.
pub(super) struct PieceSender {
    sender: mpsc::Sender<Piece>,
    /// The pieces that the client has asked for so far, with the one that it waits for.
    asked: watch::Receiver<u64>,
    sent: u64,
}

/// The end of the client's stream.
pub(super) struct PieceReceiver {
    receiver: mpsc::Receiver<Piece>,
    ask: watch::Sender<u64>,
}

/// Makes a channel with room for [`AHEAD`] pieces.
pub(super) fn channel() -> (PieceSender, PieceReceiver) {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let (ask, asked) = watch::channel(0);
    let sender = PieceSender {
        sender,
        asked,
        sent: 0,
    };
    (sender, PieceReceiver { receiver, ask })
}

impl PieceSender {
    /// Sends a piece. Waits while there is no room for it.
    pub(super) async fn send(&mut self, piece: Bytes) -> Result<(), Stop> {
        self.sent += 1;
        self.sender.send(Ok(piece)).await.map_err(|_| Stop)
    }

    /// Sends the reason why nothing follows.
    pub(super) async fn fail(&self, error: Error) {
        // An error means that the client has gone, so it needs no reason.
        let _ = self.sender.send(Err(error)).await;
    }

    /// Waits until there is room for so many pieces.
    pub(super) async fn room(&self, pieces: usize) -> Result<(), Stop> {
        let room = self.sender.reserve_many(pieces).await;
        room.map(|_| ()).map_err(|_| Stop)
    }

    /// Returns true once a piece was sent.
    pub(super) fn has_sent(&self) -> bool {
        self.sent > 0
    }

    /// Returns true if the client waits for a piece that was not sent.
    pub(super) fn is_asked(&self) -> bool {
        *self.asked.borrow() > self.sent
    }

    /// Waits until the client has taken all pieces and waits for another one.
    pub(super) async fn asked(&mut self) -> Result<(), Stop> {
        let sent = self.sent;
        let asked = self.asked.wait_for(|asked| *asked > sent).await;
        asked.map(|_| ()).map_err(|_| Stop)
    }
}

impl PieceReceiver {
    /// Returns the next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        self.ask.send_modify(|asked| *asked += 1);
        self.receiver.recv().await
    }
}
