//! Proof of the cluster's secret by both ends of a fresh TLS session, before any other data.
//!
//! The dialling end sends the connection's lane (one byte) and a proof of each of its secrets: it
//! has two while the secret is being changed, and else proves the one twice. The listening end
//! looks for a proof of one of its own, and answers with its proof of that. An end reads no other
//! bytes from a peer that has proven none.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::identity::{Identity, PROOF_BYTES, SECRETS, Side};
use crate::pool::{Lane, NotAdmitted};

/// The keying material of a session.
pub(crate) type Keying = [u8; PROOF_BYTES];

/// The number of the secret that the dialling end has proven, among those of the listening end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Proven(usize);

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
    let proofs = identity.prove(Side::Dialling, keying);
    let hello = [&[lane.0][..], proofs.as_flattened()].concat();
    let mut theirs = [0; PROOF_BYTES];
    let exchanged = async {
        send.write_all(&hello).await?;
        send.flush().await?;
        receive.read_exact(&mut theirs).await
    };
    exchanged.await.map_err(|_| REFUSED)?;
    match identity.verify(Side::Listening, keying, &theirs) {
        Some(_) => Ok(()),
        None => Err(STRANGER.into()),
    }
}

/// Checks the dialling end's proofs as the listening end. Returns the requested lane.
pub(crate) async fn check(
    identity: &Identity,
    keying: &Keying,
    receive: &mut (impl AsyncRead + Unpin),
) -> Result<(Lane, Proven), NotAdmitted> {
    let mut hello = [0; PROOF_BYTES * SECRETS + 1];
    receive.read_exact(&mut hello).await?;
    let mut proofs = hello[1..].chunks_exact(PROOF_BYTES);
    let proven = proofs.find_map(|proof| identity.verify(Side::Dialling, keying, proof));
    match proven {
        Some(number) => Ok((Lane(hello[0]), Proven(number))),
        None => Err(STRANGER.into()),
    }
}

/// Sends the listening end's proof of the secret that its peer has proven.
pub(crate) async fn answer(
    identity: &Identity,
    keying: &Keying,
    Proven(number): Proven,
    send: &mut (impl AsyncWrite + Unpin),
) -> Result<(), NotAdmitted> {
    let proofs = identity.prove(Side::Listening, keying);
    let proof = proofs.get(number).ok_or("no such secret")?;
    send.write_all(proof).await?;
    send.flush().await?;
    Ok(())
}
