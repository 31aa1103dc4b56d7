//! The transport between nodes.

/// The transport between nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// QUIC over UDP. TCP is used to and from nodes that have only TCP.
    Quic,
    /// Only TCP.
    Tcp,
}

impl Transport {
    pub(super) const NAMES: [(&str, Transport); 2] =
        [("quic", Transport::Quic), ("tcp", Transport::Tcp)];

    /// Returns its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Quic => "quic",
            Transport::Tcp => "tcp",
        }
    }
}
