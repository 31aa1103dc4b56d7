//! Proof of the cluster's secret by both ends of a fresh TLS session, before any other data.
//!
//! The dialling end sends the connection's lane (one byte) and its proof. The listening end checks
//! the proof and answers with its own. An end reads no other bytes from a peer that has not proven
//! the secret.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::identity::{Identity, PROOF_BYTES, Side};
use crate::pool::Lane;

/// The keying material of a session.
pub(crate) type Keying = [u8; PROOF_BYTES];

const STRANGER: &str = "it does not know the cluster's secret";
const REFUSED: &str = "it refuses; fix: check that both nodes have the same cluster.secret_file";

/// Proves the secret as the dialling end and checks the listening end's proof.
pub(crate) async fn introduce(
    identity: &Identity,
    keying: &Keying,
    lane: Lane,
    send: &mut (impl AsyncWrite + Unpin),
    receive: &mut (impl AsyncRead + Unpin),
) -> Result<(), String> {
    let proof = identity.prove(Side::Dialling, keying);
    let hello = [&[lane.0][..], &proof].concat();
    let mut theirs = [0; PROOF_BYTES];
    let exchanged = async {
        send.write_all(&hello).await?;
        send.flush().await?;
        receive.read_exact(&mut theirs).await
    };
    exchanged.await.map_err(|_| REFUSED)?;
    if identity.verify(Side::Listening, keying, &theirs) {
        Ok(())
    } else {
        Err(STRANGER.into())
    }
}

/// Checks the dialling end's proof as the listening end. Returns the requested lane.
pub(crate) async fn check(
    identity: &Identity,
    keying: &Keying,
    receive: &mut (impl AsyncRead + Unpin),
) -> Result<Lane, String> {
    let mut hello = [0; PROOF_BYTES + 1];
    let read = receive.read_exact(&mut hello).await;
    read.map_err(|error| error.to_string())?;
    if identity.verify(Side::Dialling, keying, &hello[1..]) {
        Ok(Lane(hello[0]))
    } else {
        Err(STRANGER.into())
    }
}

/// Sends the listening end's proof to a peer whose own proof was right.
pub(crate) async fn answer(
    identity: &Identity,
    keying: &Keying,
    send: &mut (impl AsyncWrite + Unpin),
) -> Result<(), String> {
    let proof = identity.prove(Side::Listening, keying);
    let sent = async {
        send.write_all(&proof).await?;
        send.flush().await
    };
    sent.await
        .map_err(|error: std::io::Error| error.to_string())
}
