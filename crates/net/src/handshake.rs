//! The cluster's secret, proven by both ends of a fresh TLS session, before anything else is said.
//!
//! The dialling end says which lane the connection is for (one byte), and its proof; the listening end checks it and
//! answers with its own proof. All that an end reads of one that has not proven itself are these bytes.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::identity::{Identity, PROOF_BYTES, Side};
use crate::pool::Lane;

/// Keying material of the session.
pub(crate) type Keying = [u8; PROOF_BYTES];

const STRANGER: &str = "it does not know the cluster's secret";
const REFUSED: &str = "it refuses; fix: check that both nodes have the same cluster.secret_file";

/// The dialling end: proves the secret and checks the other's proof.
pub(crate) async fn introduce(
    identity: &Identity,
    keying: &Keying,
    lane: Lane,
    send: &mut (impl AsyncWrite + Unpin),
    receive: &mut (impl AsyncRead + Unpin),
) -> Result<(), String> {
    let proof = identity.prove(Side::Dialling, keying);
    let told = [&[lane.0][..], &proof].concat();
    let mut theirs = [0; PROOF_BYTES];
    let exchanged = async {
        send.write_all(&told).await?;
        send.flush().await?;
        receive.read_exact(&mut theirs).await
    };
    exchanged.await.map_err(|_| REFUSED)?;
    match identity.verify(Side::Listening, keying, &theirs) {
        true => Ok(()),
        false => Err(STRANGER.into()),
    }
}

/// The listening end: checks the other's proof; which lane it wants.
pub(crate) async fn check(
    identity: &Identity,
    keying: &Keying,
    receive: &mut (impl AsyncRead + Unpin),
) -> Result<Lane, String> {
    let mut told = [0; PROOF_BYTES + 1];
    let read = receive.read_exact(&mut told).await;
    read.map_err(|error| error.to_string())?;
    match identity.verify(Side::Dialling, keying, &told[1..]) {
        true => Ok(Lane(told[0])),
        false => Err(STRANGER.into()),
    }
}

/// The listening end: proves itself to one that was checked.
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
